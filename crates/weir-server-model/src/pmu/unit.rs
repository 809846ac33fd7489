// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Kinds of boxes of counters, and what a box can count at the same time.

use crate::machine::Machine;
use crate::pmu::catalogue::EventInfo;
use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UnitKind {
    Cpu,
    Cha,
    Imc,
    /// M2PCIe of a CXL port.
    M2p,
    /// The link of a CXL port.
    #[serde(rename = "cxlcm")]
    CxlCm,
    /// The device's own counters (CXL 3.1, 8.2.7: CPMU).
    #[serde(rename = "cxl_pmu")]
    CxlDevice,
    /// The link to the other socket.
    Upi,
}

impl UnitKind {
    /// All of them, in the order in which they are read.
    pub const ALL: &'static [UnitKind] = &[
        UnitKind::Cpu,
        UnitKind::Cha,
        UnitKind::Imc,
        UnitKind::M2p,
        UnitKind::CxlCm,
        UnitKind::CxlDevice,
        UnitKind::Upi,
    ];

    pub fn name(self) -> &'static str {
        match self {
            UnitKind::Cpu => "cpu",
            UnitKind::Cha => "cha",
            UnitKind::Imc => "imc",
            UnitKind::M2p => "m2p",
            UnitKind::CxlCm => "cxlcm",
            UnitKind::CxlDevice => "cxl_pmu",
            UnitKind::Upi => "upi",
        }
    }

    pub(super) fn boxes(self, machine: &Machine, cpus: &[u16]) -> Vec<u32> {
        match self {
            UnitKind::Cpu => cpus.iter().map(|cpu| u32::from(*cpu)).collect(),
            UnitKind::Cha => (0..machine.cha.count).collect(),
            UnitKind::Imc => (0..machine.dram.channels).collect(),
            UnitKind::M2p | UnitKind::CxlCm | UnitKind::CxlDevice => {
                (0..machine.device.len() as u32).collect()
            }
            UnitKind::Upi => (0..u32::from(machine.remote.is_some())).collect(),
        }
    }

    /// Whether events can count at the same time; if not, the first that cannot, and why.
    pub(super) fn fits(
        self,
        machine: &Machine,
        events: &[&EventInfo],
    ) -> Result<(), (String, String)> {
        let most = match self {
            UnitKind::Cpu => machine.pmu.core_counters,
            _ => machine.pmu.uncore_counters,
        };
        let mut registers = 0;
        let mut holders: Vec<Option<usize>> = vec![None; most as usize];
        for (number, event) in events.iter().enumerate() {
            registers += u32::from(event.has_response);
            if registers > 2 {
                let why = "a CPU has two response registers: take a set more".to_owned();
                return Err((event.name.to_string(), why));
            }
            let mut seen = vec![false; holders.len()];
            if event.counters != 0 && !place(number, events, &mut holders, &mut seen) {
                let why = format!("no counter is left for it: a box has {most}, take a set more");
                return Err((event.name.to_string(), why));
            }
        }
        Ok(())
    }
}

/// Finds a counter for an event, moving others if need be.
fn place(
    event: usize,
    events: &[&EventInfo],
    holders: &mut [Option<usize>],
    seen: &mut [bool],
) -> bool {
    for counter in 0..holders.len() {
        if events[event].counters >> counter.min(31) & 1 == 0 || seen[counter] {
            continue;
        }
        seen[counter] = true;
        let is_free = holders[counter].is_none_or(|other| place(other, events, holders, seen));
        if is_free {
            holders[counter] = Some(event);
            return true;
        }
    }
    false
}
