// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Parts of which scenarios are made.

use crate::machine::{AccessKind, AccessMix, Machine, MemoryArea, Pattern, Phase, Workload};
use weir_core::random::SplitMix;
use weir_description::DescriptionError;

/// Time that a CXL access spends before the port on the machines drawn here, in nanoseconds.
pub(super) const HOST_WAY_NS: f64 = 92.0;
/// Idle latency of the device of `small`, nanoseconds.
pub(super) const DEVICE_IDLE_NS: f64 = 355.3;
/// Its capacity, bytes per second.
pub(super) const DEVICE_BYTES_PER_SEC: f64 = 17.6e9;

/// Random figures of a scenario.
pub(super) struct Draw(SplitMix);

impl Draw {
    pub fn new(seed: u64) -> Self {
        Draw(SplitMix::new(
            seed.wrapping_mul(0x2545_F491_4F6C_DD1D) ^ 0xD12A,
        ))
    }

    /// From `low` to below `high`.
    pub fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.0.unit()
    }

    /// From `low` to `high`, both included.
    pub fn integer(&mut self, low: u32, high: u32) -> u32 {
        low + (self.0.unit() * f64::from(high - low + 1)) as u32
    }
}

/// `small` with 4 to 8 cores, 4 to 12 CHAs and other figures around its own.
pub(super) fn machine(draw: &mut Draw) -> Result<Machine, DescriptionError> {
    let mut machine = Machine::named("small")?;
    machine.cores.count = draw.integer(4, 8);
    machine.cores.ghz = draw.between(1.8, 3.2);
    machine.cores.window = [512, 512, 384, 256][draw.integer(0, 3) as usize];
    machine.cha.count = draw.integer(4, 12);
    machine.cha.tor_entries = draw.integer(12, 42);
    machine.mesh.hop_ns = draw.between(9.0, 13.0);
    machine.dram.channels = draw.integer(2, 4);
    machine.dram.bytes_per_sec = 16.4e9 * f64::from(machine.dram.channels);
    machine.dram.load_to_use_ns = draw.between(85.0, 125.0);
    machine.prefetch.queue_limit = draw.integer(12, 36);
    machine.prefetch.l1_next_line = draw.integer(0, 1) == 1;
    if let Some(remote) = &mut machine.remote {
        remote.load_to_use_ns = machine.dram.load_to_use_ns + draw.between(50.0, 80.0);
    }
    Ok(machine)
}

pub(super) fn area(name: &str, kib: f64, cxl_part: f64) -> MemoryArea {
    MemoryArea {
        name: name.to_owned(),
        kib,
        cxl_part,
        remote_part: 0.0,
        device: 0,
        other_cluster_part: 0.0,
    }
}

pub(super) fn mix(area: &str, pattern: Pattern, kind: AccessKind) -> AccessMix {
    AccessMix {
        weight: 1.0,
        area: area.to_owned(),
        pattern,
        kind,
        gap: 10,
        per_line: 1,
        chains: 0,
        dependence: 1.0,
        run_lines: 1,
        hot_part: 0.0,
        hot_probability: 0.0,
    }
}

pub(super) fn program(
    name: &str,
    cpus: &[u16],
    area: Vec<MemoryArea>,
    mix: Vec<AccessMix>,
) -> Workload {
    Workload {
        name: name.to_owned(),
        cpus: cpus.to_vec(),
        llc_ways: None,
        start_us: 0.0,
        end_us: None,
        area,
        phase: vec![Phase {
            for_us: None,
            ipc: 4.0,
            mb_per_sec: None,
            mix,
        }],
        page_move: Vec::new(),
        dma: None,
    }
}
