// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A server's figures: a TOML file, each figure with where it comes from.
//!
//! Figures that no public source gives stand in `assumed`, by key.

mod check;
pub(crate) mod ranges;
pub(crate) mod timings;
pub mod workload;

pub use workload::{
    AccessKind, AccessMix, DmaFigures, MemoryArea, PageMove, Pattern, Phase, Workload, Workloads,
};

use crate::description::DescriptionError;
use serde::{Deserialize, Serialize};

/// Text of the machines that are built in, by name.
const BUILT_IN: &[(&str, &str)] = &[
    (
        "spr-agilex",
        include_str!("../../../profiles/server-spr-agilex.toml"),
    ),
    (
        "emr-asic",
        include_str!("../../../profiles/server-emr-asic.toml"),
    ),
    ("small", include_str!("../../../profiles/server-small.toml")),
];

/// One socket of a server, what is attached to it, and the way to the other socket.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Machine {
    /// Its name, as in scenarios.
    pub name: String,
    /// One line for people.
    pub title: String,
    /// Where the figures come from.
    pub provenance: Vec<String>,
    /// Keys of the figures that are assumptions.
    pub assumed: Vec<String>,
    /// The cores.
    pub cores: CoreFigures,
    /// The first-level data cache.
    pub l1d: L1dFigures,
    /// The second-level cache.
    pub l2: L2Figures,
    /// The prefetchers.
    pub prefetch: PrefetchFigures,
    /// The mesh between cores and CHAs.
    pub mesh: MeshFigures,
    /// The CHAs with their slices of the last-level cache.
    pub cha: ChaFigures,
    /// The socket's own DRAM.
    pub dram: DramFigures,
    /// The other socket. Left out: there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remote: Option<RemoteFigures>,
    /// CXL devices.
    #[serde(default)]
    pub device: Vec<CxlFigures>,
    /// The counters.
    pub pmu: PmuFigures,
}

/// Out-of-order cores.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CoreFigures {
    /// Cores of the socket.
    pub count: u32,
    /// Threads a core can run: 1 or 2. Two share its caches and buffers and halve its window.
    pub threads_per_core: u32,
    /// Clock, GHz.
    pub ghz: f64,
    /// Instructions a cycle at most.
    pub width: f64,
    /// Instructions that may be in flight.
    pub window: u32,
    /// Stores that have not reached L1D.
    pub store_buffer: u32,
    /// Retired stores for which the line is asked for at once.
    pub rfo_ahead: u32,
}

/// The first-level data cache.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct L1dFigures {
    /// Size, KiB.
    pub kib: u32,
    /// Ways.
    pub ways: u32,
    /// Load to use of a hit, core cycles.
    pub latency_cycles: u32,
    /// Fill buffers (LFB).
    pub fill_buffers: u32,
}

/// The second-level cache.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct L2Figures {
    /// Size, KiB.
    pub kib: u32,
    /// Ways.
    pub ways: u32,
    /// Load to use of a hit, core cycles.
    pub latency_cycles: u32,
    /// Entries of the super queue.
    pub super_queue: u32,
    /// Lines on their way out of L2; if all are in use no new line is asked for.
    pub write_back_buffers: u32,
}

/// The prefetchers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PrefetchFigures {
    /// A second miss in a row asks for the line after it, into L1D.
    pub l1_next_line: bool,
    /// Streams that the second-level prefetcher follows at once; 0 turns it off.
    pub streams: u32,
    /// Lines it goes ahead of the demand.
    pub distance_lines: u32,
    /// Lines it asks for at one access.
    pub degree: u32,
    /// It asks for no line into L2 while so many entries of the super queue are in use.
    pub queue_limit: u32,
    /// Lines ahead that it brings into the last-level cache only; 0: none.
    pub llc_distance_lines: u32,
}

/// The mesh.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MeshFigures {
    /// Clock of mesh and CHAs, GHz.
    pub ghz: f64,
    /// From a core to a CHA, nanoseconds, and the same back.
    pub hop_ns: f64,
    /// Added in each direction if the CHA is in another cluster, nanoseconds.
    pub other_cluster_ns: f64,
}

/// CHAs and slices.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChaFigures {
    /// CHAs, each with a slice.
    pub count: u32,
    /// Sub-NUMA clusters: 1, 2 or 4. A line of DRAM lies in the slices of the cluster that owns its memory.
    pub clusters: u32,
    /// Entries of the ingress queue of requests (IRQ).
    pub ingress_entries: u32,
    /// Entries of the table of requests (TOR).
    pub tor_entries: u32,
    /// Size of a slice, KiB.
    pub llc_kib: u32,
    /// Ways of a slice.
    pub llc_ways: u32,
    /// From the TOR's entry to the slice's answer, nanoseconds.
    pub lookup_ns: f64,
    /// Ways that DMA writes go to: so many, the last ones.
    pub io_ways: u32,
    /// Whether its counters see the occupancy of the ingress queue (Granite Rapids).
    pub counts_ingress: bool,
}

/// The DRAM of the socket.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DramFigures {
    /// Channels.
    pub channels: u32,
    /// Latency of a load on the idle machine, from the core, nanoseconds.
    pub load_to_use_ns: f64,
    /// Reads of all channels together, bytes per second.
    pub bytes_per_sec: f64,
    /// Entries of the read pending queue of a channel.
    pub read_queue: u32,
    /// Entries of the write pending queue of a channel.
    pub write_queue: u32,
    /// Time lost at each change between reads and writes, nanoseconds.
    pub turnaround_ns: f64,
    /// Writes in the queue at which they go first.
    pub drain_from: u32,
    /// Writes in the queue at which reads go first again.
    pub drain_to: u32,
    /// Clock of its counters, GHz.
    pub clock_ghz: f64,
}

/// The other socket.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RemoteFigures {
    /// Latency of a load from its DRAM on the idle machine, nanoseconds.
    pub load_to_use_ns: f64,
    /// UPI in one direction, bytes of lines per second.
    pub bytes_per_sec: f64,
    /// Lines that may be on their way.
    pub entries: u32,
    /// Part of the reads that its caches supply, 0 to 1.
    pub cache_hit_part: f64,
    /// Latency saved by such a hit, nanoseconds.
    pub cache_saves_ns: f64,
}

/// A CXL device with its port and link.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CxlFigures {
    /// Name of a device profile of this crate (see [`crate::Profile::names`]).
    pub profile: String,
    /// It is attached to the other socket.
    #[serde(default)]
    pub is_remote: bool,
    /// Entries of the port's M2PCIe ingress, for each of reads and writes.
    pub ingress_entries: u32,
    /// Messages that may be with the device's queue, for each of reads and writes. Left out: the profile's
    /// `queue_lines`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credits: Option<u32>,
    /// The link in each direction, bytes per second.
    pub link_bytes_per_sec: f64,
    /// A message without data takes so many bytes of the link.
    pub header_bytes: u32,
    /// A message with data takes so many.
    pub data_bytes: u32,
    /// From the port to the device, nanoseconds, and the same back.
    pub flight_ns: f64,
    /// Part of the messages that the link sends again, 0 to 1 (a fault).
    #[serde(default)]
    pub resend_part: f64,
    /// Time that a message sent again blocks its direction, nanoseconds.
    #[serde(default)]
    pub resend_ns: f64,
    /// The device needs so much longer than its profile says, nanoseconds (a fault).
    #[serde(default)]
    pub slower_by_ns: f64,
    /// No queue forms in it or on its link, and load adds no latency: an idle device, for comparison.
    #[serde(default)]
    pub is_always_idle: bool,
    /// Clock of the counters of port and link, GHz.
    pub clock_ghz: f64,
    /// In place of the profile's idle latency as a core sees it, nanoseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_ns: Option<f64>,
    /// In place of the profile's capacity of the medium, bytes per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub media_bytes_per_sec: Option<f64>,
    /// In place of the profile's latency that load adds, nanoseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rise_ns: Option<f64>,
    /// In place of the profile's burst, nanoseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub burst_ns: Option<f64>,
}

/// Counters and their limits.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PmuFigures {
    /// General counters of a CPU, the fixed ones not included.
    pub core_counters: u32,
    /// Counters of a box outside of the cores.
    pub uncore_counters: u32,
    /// Bits of a counter.
    pub width_bits: u32,
    /// Boxes are read one after the other; each takes so long, nanoseconds.
    pub read_ns: f64,
}

impl Machine {
    /// Names of the built-in machines.
    pub fn names() -> Vec<&'static str> {
        BUILT_IN.iter().map(|(name, _)| *name).collect()
    }

    /// A built-in machine.
    ///
    /// # Errors
    /// There is none of this name.
    pub fn named(name: &str) -> Result<Machine, DescriptionError> {
        match BUILT_IN.iter().find(|(known, _)| *known == name) {
            Some((_, text)) => Self::parse(text, name),
            None => Err(DescriptionError::Unknown {
                kind: "machine",
                name: name.to_owned(),
                names: Self::names().join(", "),
            }),
        }
    }

    /// Reads a machine from TOML. `origin` names the text in errors.
    ///
    /// # Errors
    /// The text is no TOML, a key is unknown or missing, a figure is out of range.
    pub fn parse(text: &str, origin: &str) -> Result<Machine, DescriptionError> {
        let machine: Machine =
            toml::from_str(text).map_err(|error| DescriptionError::syntax(origin, &error))?;
        machine.check(origin)?;
        Ok(machine)
    }

    /// The machine without what is wrong with its devices: as it was when it was calibrated.
    #[must_use]
    pub fn without_faults(&self) -> Machine {
        let mut machine = self.clone();
        for device in &mut machine.device {
            device.slower_by_ns = 0.0;
            device.resend_part = 0.0;
        }
        machine
    }

    /// Checks all ranges, and that the idle latencies leave room for the way they contain.
    ///
    /// # Errors
    /// Names the key, its value and what is allowed.
    pub fn check(&self, origin: &str) -> Result<(), DescriptionError> {
        check::machine(self, origin)?;
        timings::Timings::of(self).map_err(|(key, value)| DescriptionError::Value {
            origin: origin.to_owned(),
            key,
            value,
            allowed:
                "it must be longer than the way through caches, mesh and port, which is within it"
                    .to_owned(),
        })?;
        Ok(())
    }

    /// CPUs, which are threads of cores: CPU `n` runs on core `n` modulo the number of cores.
    pub fn cpus(&self) -> u32 {
        self.cores.count * self.cores.threads_per_core
    }

    /// The same with all caches smaller by a factor, so that working sets and runs may be shorter by it.
    pub fn with_caches_divided_by(&self, factor: u32) -> Machine {
        let mut machine = self.clone();
        let factor = factor.max(1);
        machine.l1d.kib = (self.l1d.kib / factor).max(1);
        machine.l2.kib = (self.l2.kib / factor).max(4);
        machine.cha.llc_kib = (self.cha.llc_kib / factor).max(1);
        machine
    }
}
