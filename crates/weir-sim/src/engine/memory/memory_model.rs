// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What gives lines, and how they are asked for.

use crate::engine::memory::cxl_rates::GroupRates;
use crate::engine::memory::dram_mix::DramMix;
use weir_hw::memory_device::{Equilibrium, LoadedDevice, Requester};

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Class {
    pub device: u32,
    /// Index of the monitoring group, over all devices.
    pub group: u32,
    pub window_lines: f64,
    /// Time per line of a core that has no busy sibling.
    pub busy_ns: f64,
    /// Part of the device's lines that are written.
    pub write_ratio: f64,
    pub is_non_temporal: bool,
    /// The workload, where the device tells sources apart. Else 0.
    pub source: u32,
    /// In which order lines are moved, as a DRAM node feels it.
    pub access: LineAccess,
}

/// In which order lines are moved, and by what.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum LineAccess {
    Sequential,
    Random,
    /// One after the other, by a disk.
    Dma,
}

pub(crate) enum MemoryModel {
    Cxl(Box<LoadedDevice>),
    CxlRates(Box<GroupRates>),
    Dram(Box<DramMix>),
}

impl MemoryModel {
    /// Lines that a core has out at most.
    pub(crate) fn core_window(&self) -> f64 {
        match self {
            MemoryModel::Cxl(device) => device.profile().host.window_lines,
            MemoryModel::CxlRates(groups) => groups.window_lines(),
            MemoryModel::Dram(_) => f64::INFINITY,
        }
    }

    /// What requesters of these groups get of a CXL device; nothing is changed for a DRAM node.
    pub(crate) fn solve_cxl(
        &mut self,
        requesters: &[Requester],
        groups: &[u32],
        out: &mut Equilibrium,
    ) {
        match self {
            MemoryModel::Cxl(model) => model.solve(requesters, out),
            MemoryModel::CxlRates(model) => model.solve(requesters, groups, out),
            MemoryModel::Dram(_) => {}
        }
    }
}
