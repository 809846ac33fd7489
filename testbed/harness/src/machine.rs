// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Description of the emulated machine. The same words stand in scenario files under `[machine]`.

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
    /// Windows of virtual time end at multiples of this: clocks of vCPUs differ by no more, and timers are no
    /// later.
    pub window_ns: u64,
    /// `kernel.sched_cfs_bandwidth_slice_us` of the guest; the kernel's default (5000) without a value.
    pub bandwidth_slice_us: Option<u64>,
    /// Whether firmware gives latency and bandwidth of the device (an ACPI HMAT).
    pub firmware_figures: bool,
    /// Whether the simulated RTL counts as well, as a PCI device of its own. Groups must be equal then, and
    /// a power of two.
    pub cosim: bool,
    /// The CPUs with events of perf that count what they fill from the device; none if nothing is said.
    pub core_events: Option<CoreEvents>,
    /// Whether the kernel keeps nothing of its own in the groups, as in memory that a CXL driver brings
    /// online.
    pub movable: bool,
    /// Accesses on their way from each vCPU to the RTL before the vCPU waits; a power of two.
    pub cosim_ring_records: u64,
}

/// CPUs that the emulated ones share events with, by name and encoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CoreEvents {
    /// AMD's: lines that were filled.
    Zen5,
    /// Intel's: those, and the ones among them that were fetched in order to store to them.
    GraniteRapids,
}

impl CoreEvents {
    /// Whether they attribute writes.
    pub fn count_stores(self) -> bool {
        self == CoreEvents::GraniteRapids
    }
}

/// QEMU's q35 board puts all memory below its PCI hole if it is less than this; else so much of it, and the
/// rest from 4 GiB on.
const SPLIT_MIB: u64 = 2816;
const LOW_MIB: u64 = 2048;

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
            window_ns: 50_000,
            bandwidth_slice_us: None,
            firmware_figures: false,
            cosim: false,
            core_events: None,
            movable: false,
            cosim_ring_records: 65_536,
        }
    }
}

impl Machine {
    /// Guest-physical address of the first group: right behind ordinary memory, or behind the PCI hole.
    pub fn device_base_bytes(&self) -> u64 {
        if self.total_mib() >= SPLIT_MIB {
            return 4 << 30;
        }
        self.dram_mib << 20
    }

    fn total_mib(&self) -> u64 {
        self.dram_mib + self.groups_mib.iter().sum::<u64>()
    }

    /// Device memory.
    pub fn device_bytes(&self) -> u64 {
        self.groups_mib.iter().sum::<u64>() << 20
    }

    /// What the device can move.
    pub fn capacity_bytes_per_sec(&self) -> f64 {
        64.0 * 1e9 / self.service_ns as f64
    }

    /// The same in whole MiB, as firmware gives it.
    pub fn capacity_mib_per_sec(&self) -> u64 {
        (64_000_000_000 / self.service_ns) >> 20
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
        // The device is one range of guest-physical memory: all of it below the PCI hole, or all above.
        ensure!(
            self.total_mib() < SPLIT_MIB || self.dram_mib == LOW_MIB,
            "dram_mib + groups_mib = {}: below {SPLIT_MIB}, or dram_mib = {LOW_MIB}",
            self.total_mib()
        );
        // What is loaded for booting lies at the end of low memory, and the kernel does not let go of groups
        // that it is in.
        ensure!(
            !self.movable || self.total_mib() >= SPLIT_MIB,
            "movable: with dram_mib + groups_mib of {SPLIT_MIB} or more"
        );
        ensure!(self.service_ns > 0, "service_ns: above 0");
        ensure!(
            self.idle_ns >= self.service_ns,
            "idle_ns: at least service_ns"
        );
        ensure!(self.window_lines > 0, "window_lines: above 0");
        ensure!(self.instruction_ps > 0, "instruction_ps: above 0");
        ensure!(
            (1_000..=4_000_000).contains(&self.window_ns) && 4_000_000 % self.window_ns == 0,
            "window_ns = {}: from 1000, and 4 ms must be a multiple of it",
            self.window_ns
        );
        let first = self.groups_mib[0];
        ensure!(
            !self.cosim || first.is_power_of_two() && self.groups_mib.iter().all(|m| *m == first),
            "cosim: groups_mib must be equal, and a power of two: the RTL selects groups by address bits"
        );
        // What the kernel takes.
        ensure!(
            self.bandwidth_slice_us.is_none_or(|us| us > 0),
            "bandwidth_slice_us: above 0"
        );
        Ok(())
    }
}
