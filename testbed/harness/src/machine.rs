// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the emulated machine looks like. The same words stand in scenario files under `[machine]`.

use anyhow::{Result, ensure};
use serde::{Deserialize, Serialize};

/// The machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Machine {
    /// vCPUs.
    pub cpu_count: usize,
    /// Ordinary memory.
    pub dram_mib: u64,
    /// Monitoring groups: each a CPU-less NUMA node of this size with a counter pair.
    pub groups_mib: Vec<u64>,
    /// Time the device is busy with one line: capacity is 64 bytes per this.
    pub service_ns: u64,
    /// Time an access takes on the idle device.
    pub idle_ns: u64,
    /// Lines a CPU may have outstanding.
    pub window_lines: usize,
    /// Lines of the shared last-level cache in front of the device.
    pub cache_lines: usize,
    /// Model time per instruction.
    pub instruction_ps: u64,
    /// How far a vCPU may run ahead of the wall.
    pub slack_us: u64,
    /// How far it may fall behind before time is dropped.
    pub max_lag_us: u64,
    /// `kernel.sched_cfs_bandwidth_slice_us` of the guest; its own default (5000) if nothing is said.
    pub bandwidth_slice_us: Option<u64>,
}

impl Default for Machine {
    fn default() -> Self {
        Machine {
            cpu_count: 6,
            dram_mib: 1024,
            groups_mib: vec![256],
            service_ns: 675,
            idle_ns: 6000,
            window_lines: 4,
            cache_lines: 16384,
            instruction_ps: 40_000,
            slack_us: 300,
            max_lag_us: 20_000,
            bandwidth_slice_us: None,
        }
    }
}

impl Machine {
    /// Guest-physical address of the first group: right behind ordinary memory.
    pub fn device_base_bytes(&self) -> u64 {
        self.dram_mib << 20
    }

    /// Device memory.
    pub fn device_bytes(&self) -> u64 {
        self.groups_mib.iter().sum::<u64>() << 20
    }

    /// What the device can move.
    pub fn capacity_bytes_per_sec(&self) -> f64 {
        64.0 * 1e9 / self.service_ns as f64
    }

    /// Refuse machines that cannot be.
    ///
    /// # Errors
    /// Naming the value and what is allowed.
    pub fn validate(&self) -> Result<()> {
        ensure!(
            (1..=64).contains(&self.cpu_count),
            "cpu_count = {}: 1 to 64",
            self.cpu_count
        );
        ensure!(
            self.dram_mib >= 256,
            "dram_mib = {}: at least 256",
            self.dram_mib
        );
        ensure!(
            !self.groups_mib.is_empty(),
            "groups_mib: at least one group"
        );
        ensure!(
            self.groups_mib.iter().all(|m| *m >= 32),
            "groups_mib: at least 32 each"
        );
        // One range of guest-physical memory below the PCI hole of QEMU's q35 board.
        let total = self.dram_mib + self.groups_mib.iter().sum::<u64>();
        ensure!(
            total <= 2048,
            "dram_mib + groups_mib = {total}: at most 2048"
        );
        ensure!(self.service_ns > 0, "service_ns: above 0");
        ensure!(
            self.idle_ns >= self.service_ns,
            "idle_ns: at least service_ns"
        );
        ensure!(self.window_lines > 0, "window_lines: above 0");
        ensure!(self.instruction_ps > 0, "instruction_ps: above 0");
        ensure!(
            self.slack_us > 0 && self.max_lag_us > 0,
            "slack_us, max_lag_us: above 0"
        );
        // What the kernel takes.
        ensure!(
            self.bandwidth_slice_us.is_none_or(|us| us > 0),
            "bandwidth_slice_us: above 0"
        );
        Ok(())
    }
}
