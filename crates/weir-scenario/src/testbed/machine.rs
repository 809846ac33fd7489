// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Description of the emulated machine. The same words stand in scenario files under `[machine]`.

use crate::place::Part::Key;
use crate::wrong::{Checked, WrongValue, wrong};
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TestbedMachine {
    /// vCPUs.
    pub cpu_count: usize,
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
    pub fn count_stores(self) -> bool {
        self == CoreEvents::GraniteRapids
    }
}

/// QEMU's q35 board puts all memory below its PCI hole if it is less than this; else so much of it, and the
/// rest from 4 GiB on.
const SPLIT_MIB: u64 = 2816;
const LOW_MIB: u64 = 2048;

impl Default for TestbedMachine {
    fn default() -> Self {
        TestbedMachine {
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

impl TestbedMachine {
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

    pub fn device_bytes(&self) -> u64 {
        self.groups_mib.iter().sum::<u64>() << 20
    }

    pub fn capacity_bytes_per_sec(&self) -> f64 {
        64.0 * 1e9 / self.service_ns as f64
    }

    /// The same in whole MiB, as firmware gives it.
    pub fn capacity_mib_per_sec(&self) -> u64 {
        (64_000_000_000 / self.service_ns) >> 20
    }

    /// Refuses machines that cannot be.
    ///
    /// # Errors
    /// Naming the key, its value and what is allowed.
    pub fn validate(&self) -> Result<(), WrongValue> {
        self.check_memory()?;
        is(&[
            (
                "cpu_count",
                (1..=64).contains(&self.cpu_count),
                &self.cpu_count,
                "allowed is 1 to 64",
            ),
            (
                "service_ns",
                self.service_ns > 0,
                &self.service_ns,
                "above 0",
            ),
            (
                "idle_ns",
                self.idle_ns >= self.service_ns,
                &self.idle_ns,
                "at least service_ns",
            ),
            (
                "window_lines",
                self.window_lines > 0,
                &self.window_lines,
                "above 0",
            ),
            (
                "instruction_ps",
                self.instruction_ps > 0,
                &self.instruction_ps,
                "above 0",
            ),
            (
                "window_ns",
                (1_000..=4_000_000).contains(&self.window_ns) && 4_000_000 % self.window_ns == 0,
                &self.window_ns,
                "from 1000, and 4 ms must be a multiple of it",
            ),
            // What the kernel takes.
            (
                "bandwidth_slice_us",
                self.bandwidth_slice_us != Some(0),
                &0,
                "above 0",
            ),
        ])
    }

    fn check_memory(&self) -> Checked {
        let total = self.total_mib();
        let sizes = format!("{:?}", self.groups_mib);
        let first = self.groups_mib.first().copied().unwrap_or(0);
        let is_equal = first.is_power_of_two() && self.groups_mib.iter().all(|m| *m == first);
        is(&[
            (
                "dram_mib",
                self.dram_mib >= 256,
                &self.dram_mib,
                "at least 256",
            ),
            (
                "groups_mib",
                !self.groups_mib.is_empty(),
                &sizes,
                "at least one group",
            ),
            (
                "groups_mib",
                self.groups_mib.iter().all(|m| *m >= 32),
                &sizes,
                "at least 32 each",
            ),
            // The device is one range of guest-physical memory: all of it below the PCI hole, or all above.
            (
                "dram_mib",
                total < SPLIT_MIB || self.dram_mib == LOW_MIB,
                &self.dram_mib,
                "together with groups_mib below 2816, or 2048",
            ),
            // What is loaded for booting lies at the end of low memory, and the kernel does not let go of
            // groups that it is in.
            (
                "movable",
                !self.movable || total >= SPLIT_MIB,
                &self.movable,
                "with dram_mib + groups_mib of 2816 or more",
            ),
            (
                "cosim",
                !self.cosim || is_equal,
                &self.cosim,
                "groups_mib must be equal, and a power of two: the RTL selects groups by address bits",
            ),
        ])
    }
}

/// A key of `[machine]`, whether its value may be, the value, and what is allowed.
type Rule<'a> = (&'static str, bool, &'a dyn std::fmt::Display, &'static str);

fn is(rules: &[Rule<'_>]) -> Checked {
    let broken = rules.iter().find(|(_, is_met, ..)| !is_met);
    broken.map_or(Ok(()), |(key, _, value, allowed)| {
        wrong(&[Key("machine"), Key(key)], value, *allowed)
    })
}
