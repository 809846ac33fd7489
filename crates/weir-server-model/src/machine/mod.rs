// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A server's figures: a TOML file, each figure with where it comes from.
//!
//! Figures that no public source gives stand in `assumed`, by key.

mod check;
pub(crate) mod timings;
pub mod workload;

pub use workload::{
    AccessKind, AccessMix, DmaFigures, MemoryArea, PageMove, Pattern, Phase, Workload, Workloads,
};

use garde::Validate;
use serde::{Deserialize, Serialize};
use weir_description::{BuiltIn, DescriptionError, Origin, from_to, in_range};

/// Machines that are built in.
const BUILT_IN: BuiltIn = BuiltIn {
    kind: "machine",
    texts: &[
        (
            "spr-agilex",
            include_str!("../../profiles/server-spr-agilex.toml"),
        ),
        (
            "emr-asic",
            include_str!("../../profiles/server-emr-asic.toml"),
        ),
        ("small", include_str!("../../profiles/server-small.toml")),
    ],
    or: "",
};

/// One socket of a server, what is attached to it, and the way to the other socket.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Validate)]
#[serde(deny_unknown_fields)]
pub struct Machine {
    #[garde(skip)]
    pub name: String,
    #[garde(skip)]
    pub title: String,
    #[garde(skip)]
    pub provenance: Vec<String>,
    /// Keys of the figures that are assumptions.
    #[garde(skip)]
    pub assumed: Vec<String>,
    #[garde(dive)]
    pub cores: CoreFigures,
    #[garde(dive)]
    pub l1d: L1dFigures,
    #[garde(dive)]
    pub l2: L2Figures,
    #[garde(dive)]
    pub prefetch: PrefetchFigures,
    /// The mesh between cores and CHAs.
    #[garde(dive)]
    pub mesh: MeshFigures,
    /// The CHAs with their slices of the last-level cache.
    #[garde(dive)]
    pub cha: ChaFigures,
    #[garde(dive)]
    pub dram: DramFigures,
    /// The other socket. Left out: there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[garde(dive)]
    pub remote: Option<RemoteFigures>,
    #[serde(default)]
    #[garde(dive)]
    pub device: Vec<CxlFigures>,
    #[garde(dive)]
    pub pmu: PmuFigures,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Validate)]
#[serde(deny_unknown_fields)]
pub struct CoreFigures {
    #[garde(custom(from_to(1, 256)))]
    pub count: u32,
    /// Threads a core can run: 1 or 2. Two share its caches and buffers and halve its window.
    #[garde(custom(from_to(1, 2)))]
    pub threads_per_core: u32,
    #[garde(custom(from_to(0.1, 10.0)))]
    pub ghz: f64,
    /// Instructions a cycle at most.
    #[garde(custom(from_to(0.1, 16.0)))]
    pub width: f64,
    /// Instructions that may be in flight.
    #[garde(custom(from_to(8, 4096)))]
    pub window: u32,
    /// Stores that have not reached L1D.
    #[garde(custom(from_to(1, 1024)))]
    pub store_buffer: u32,
    /// Retired stores for which the line is asked for at once.
    #[garde(custom(from_to(1, 256)))]
    pub rfo_ahead: u32,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Validate)]
#[serde(deny_unknown_fields)]
pub struct L1dFigures {
    #[garde(custom(from_to(1, 1 << 20)))]
    pub kib: u32,
    #[garde(custom(from_to(1, 32)))]
    pub ways: u32,
    /// Load to use of a hit, core cycles.
    #[garde(custom(from_to(1, 100)))]
    pub latency_cycles: u32,
    #[garde(custom(from_to(1, 256)))]
    pub fill_buffers: u32,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Validate)]
#[serde(deny_unknown_fields)]
pub struct L2Figures {
    #[garde(custom(from_to(1, 1 << 20)))]
    pub kib: u32,
    #[garde(custom(from_to(1, 32)))]
    pub ways: u32,
    /// Load to use of a hit, core cycles.
    #[garde(custom(from_to(1, 1000)))]
    pub latency_cycles: u32,
    /// Entries of the super queue.
    #[garde(custom(from_to(1, 1024)))]
    pub super_queue: u32,
    /// Lines on their way out of L2; if all are in use no new line is asked for.
    #[garde(custom(from_to(1, 1024)))]
    pub write_back_buffers: u32,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Validate)]
#[serde(deny_unknown_fields)]
pub struct PrefetchFigures {
    /// A second miss in a row asks for the line after it, into L1D.
    #[garde(skip)]
    pub l1_next_line: bool,
    /// Streams that the second-level prefetcher follows at once; 0 turns it off.
    #[garde(custom(from_to(0, 64)))]
    pub streams: u32,
    /// Lines it goes ahead of the demand.
    #[garde(custom(from_to(0, 512)))]
    pub distance_lines: u32,
    /// Lines it asks for at one access.
    #[garde(custom(from_to(0, 16)))]
    pub degree: u32,
    /// It asks for no line into L2 while so many entries of the super queue are in use.
    #[garde(custom(from_to(0, 1024)))]
    pub queue_limit: u32,
    /// Lines ahead that it brings into the last-level cache only; 0: none.
    #[garde(custom(from_to(0, 512)))]
    pub llc_distance_lines: u32,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Validate)]
#[serde(deny_unknown_fields)]
pub struct MeshFigures {
    /// Clock of mesh and CHAs, GHz.
    #[garde(custom(from_to(0.1, 10.0)))]
    pub ghz: f64,
    /// From a core to a CHA, nanoseconds, and the same back.
    #[garde(custom(from_to(0.1, 1e4)))]
    pub hop_ns: f64,
    /// Added in each direction if the CHA is in another cluster, nanoseconds.
    #[garde(custom(from_to(0.0, 1e4)))]
    pub other_cluster_ns: f64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Validate)]
#[serde(deny_unknown_fields)]
pub struct ChaFigures {
    /// CHAs, each with a slice.
    #[garde(custom(from_to(1, 256)))]
    pub count: u32,
    /// Sub-NUMA clusters: 1, 2 or 4. A line of DRAM lies in the slices of the cluster that owns its memory.
    #[garde(skip)]
    pub clusters: u32,
    /// Entries of the ingress queue of requests (IRQ).
    #[garde(custom(from_to(1, 4096)))]
    pub ingress_entries: u32,
    /// Entries of the table of requests (TOR).
    #[garde(custom(from_to(1, 4096)))]
    pub tor_entries: u32,
    /// Size of a slice, KiB.
    #[garde(custom(from_to(1, 1 << 20)))]
    pub llc_kib: u32,
    /// Ways of a slice.
    #[garde(custom(from_to(1, 32)))]
    pub llc_ways: u32,
    /// From the TOR's entry to the slice's answer, nanoseconds.
    #[garde(custom(from_to(0.1, 1e4)))]
    pub lookup_ns: f64,
    /// Ways that DMA writes go to: so many, the last ones.
    #[garde(custom(from_to(1, self.llc_ways)))]
    pub io_ways: u32,
    /// Whether its counters see the occupancy of the ingress queue (Granite Rapids).
    #[garde(skip)]
    pub counts_ingress: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Validate)]
#[serde(deny_unknown_fields)]
pub struct DramFigures {
    #[garde(custom(from_to(1, 64)))]
    pub channels: u32,
    /// Latency of a load on the idle machine, from the core, nanoseconds.
    #[garde(custom(from_to(1.0, 1e5)))]
    pub load_to_use_ns: f64,
    /// Reads of all channels together, bytes per second.
    #[garde(custom(from_to(1e8, 1e13)))]
    pub bytes_per_sec: f64,
    /// Entries of the read pending queue of a channel.
    #[garde(custom(from_to(1, 4096)))]
    pub read_queue: u32,
    /// Entries of the write pending queue of a channel.
    #[garde(custom(from_to(1, 4096)))]
    pub write_queue: u32,
    /// Time lost at each change between reads and writes, nanoseconds.
    #[garde(custom(from_to(0.0, 1e4)))]
    pub turnaround_ns: f64,
    /// Writes in the queue at which they go first.
    #[garde(custom(from_to(1, self.write_queue)))]
    pub drain_from: u32,
    /// Writes in the queue at which reads go first again.
    #[garde(custom(from_to(0, self.drain_from.saturating_sub(1))))]
    pub drain_to: u32,
    /// Clock of its counters, GHz.
    #[garde(custom(from_to(0.1, 10.0)))]
    pub clock_ghz: f64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Validate)]
#[serde(deny_unknown_fields)]
pub struct RemoteFigures {
    /// Latency of a load from its DRAM on the idle machine, nanoseconds.
    #[garde(custom(from_to(1.0, 1e5)))]
    pub load_to_use_ns: f64,
    /// UPI in one direction, bytes of lines per second.
    #[garde(custom(from_to(1e8, 1e13)))]
    pub bytes_per_sec: f64,
    /// Lines that may be on their way.
    #[garde(custom(from_to(1, 4096)))]
    pub entries: u32,
    /// Part of the reads that its caches supply, 0 to 1.
    #[garde(custom(from_to(0.0, 1.0)))]
    pub cache_hit_part: f64,
    /// Latency saved by such a hit, nanoseconds.
    #[garde(custom(from_to(0.0, 1e4)))]
    pub cache_saves_ns: f64,
}

/// A CXL device with its port and link.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Validate)]
#[serde(deny_unknown_fields)]
pub struct CxlFigures {
    /// Name of a device profile of this crate (see [`crate::Profile::names`]).
    #[garde(skip)]
    pub profile: String,
    /// It is attached to the other socket.
    #[serde(default)]
    #[garde(skip)]
    pub is_remote: bool,
    /// Entries of the port's M2PCIe ingress, for each of reads and writes.
    #[garde(custom(from_to(1, 4096)))]
    pub ingress_entries: u32,
    /// Messages that may be with the device's queue, for each of reads and writes. Left out: the profile's
    /// `queue_lines`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[garde(custom(from_to(1, 4096)))]
    pub credits: Option<u32>,
    /// The link in each direction, bytes per second.
    #[garde(custom(from_to(1e8, 1e13)))]
    pub link_bytes_per_sec: f64,
    /// A message without data takes so many bytes of the link.
    #[garde(custom(from_to(1, 256)))]
    pub header_bytes: u32,
    /// A message with data takes so many.
    #[garde(custom(from_to(64, 1024)))]
    pub data_bytes: u32,
    /// From the port to the device, nanoseconds, and the same back.
    #[garde(custom(from_to(0.0, 1e4)))]
    pub flight_ns: f64,
    /// Part of the messages that the link sends again, 0 to 1 (a fault).
    #[serde(default)]
    #[garde(custom(from_to(0.0, 1.0)))]
    pub resend_part: f64,
    /// Time that a message sent again blocks its direction, nanoseconds.
    #[serde(default)]
    #[garde(custom(from_to(0.0, 1e6)))]
    pub resend_ns: f64,
    /// The device needs so much longer than its profile says, nanoseconds (a fault).
    #[serde(default)]
    #[garde(custom(from_to(0.0, 1e5)))]
    pub slower_by_ns: f64,
    /// No queue forms in it or on its link, and load adds no latency: an idle device, for comparison.
    #[serde(default)]
    #[garde(skip)]
    pub is_always_idle: bool,
    /// Clock of the counters of port and link, GHz.
    #[garde(custom(from_to(0.1, 10.0)))]
    pub clock_ghz: f64,
    /// In place of the profile's idle latency as a core sees it, nanoseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[garde(custom(from_to(1.0, 1e13)))]
    pub idle_ns: Option<f64>,
    /// In place of the profile's capacity of the medium, bytes per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[garde(custom(from_to(1e8, 1e13)))]
    pub media_bytes_per_sec: Option<f64>,
    /// In place of the profile's latency that load adds, nanoseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[garde(custom(from_to(0.0, 1e13)))]
    pub rise_ns: Option<f64>,
    /// In place of the profile's burst, nanoseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[garde(custom(from_to(0.0, 1e13)))]
    pub burst_ns: Option<f64>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Validate)]
#[serde(deny_unknown_fields)]
pub struct PmuFigures {
    /// General counters of a CPU, the fixed ones not included.
    #[garde(custom(from_to(1, 32)))]
    pub core_counters: u32,
    /// Counters of a box outside of the cores.
    #[garde(custom(from_to(1, 32)))]
    pub uncore_counters: u32,
    #[garde(custom(from_to(8, 64)))]
    pub width_bits: u32,
    /// Boxes are read one after the other; each takes so long, nanoseconds.
    #[garde(custom(from_to(0.0, 1e6)))]
    pub read_ns: f64,
}

impl Machine {
    pub fn names() -> Vec<&'static str> {
        BUILT_IN.names()
    }

    /// A built-in machine.
    ///
    /// # Errors
    /// There is none of this name.
    pub fn named(name: &str) -> Result<Machine, DescriptionError> {
        Self::parse(BUILT_IN.text(name)?, name)
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
        in_range(self, origin)?;
        check::machine(self, origin)?;
        timings::Timings::of(self).map_err(|(key, value)| {
            Origin(origin).wrong(
                &key,
                value,
                "it must be longer than the way through caches, mesh and port, which is within it",
            )
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
