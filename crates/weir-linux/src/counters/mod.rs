// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The access counters: how many bytes each monitoring group has read and written.
//!
//! Sources, best first:
//! 1. weir's driver, `/sys/class/weir_cxl/weir_cxlN/counters`: all groups of a device in one binary
//!    attribute, read on a kept descriptor. Where that file is missing, `groupK/{read,write}_bytes`.
//! 2. the thesis's module (5.1.4), `/sys/kernel/debug/cxl-counter-driver/counter-dump`: text. It
//!    does not name nodes: see [`node_join`].
//! 3. events of perf ([`crate::counters::pmu`]): of CXL devices, of ports, of sockets.
//! 4. none: nodes of CXL memory are groups of one device. Their counts are missing, with the reason.
//!
//! [`windows`] is apart: counts of a profile, which no tick reads.
//!
//! A device can go away and come back (unbind, hot-unplug): then its descriptor answers `ENODEV`,
//! its readings are lost, and once a second the file is opened anew.

pub(crate) mod idle_groups;
pub(crate) mod latency;
pub(crate) mod link_bound;
pub mod pmu;
pub(crate) mod read_timing;
pub(crate) mod totals;
pub mod windows;

use crate::inventory::driver_groups::{GROUP_COUNT_MAX, class_devices, read_node, read_number};
use crate::inventory::numa::MemoryNode;
use crate::kernel::clock::now;
use crate::kernel::parse::sysfs::Pair;
use crate::kernel::privilege;
use crate::options::{CounterSource, Roots};
use driver_files::{open_counters, read_attribute, read_dump, read_text_files};
use pmu::Counting;
use read_timing::ReadTiming;
use rustix::fd::OwnedFd;
use std::path::{Path, PathBuf};
use weir_core::seam::next_move::{Act, NextMove, Precondition};
use weir_core::seam::observation::GroupReading;
use weir_core::seam::topology::{CountedBy, Device, Fact, Group};
use weir_core::{Bytes, BytesPerSec, DeviceId, GroupId, Missing, Nanos, Reading};

/// How long a lost device is left alone before it is tried again.
const RETRY: Nanos = Nanos::from_millis(1000);

pub(crate) struct Counters {
    pub(crate) devices: Vec<Device>,
    pub(crate) groups: Vec<Group>,
    pub(crate) facts: Vec<Fact>,
    sources: Vec<DeviceSource>,
}

/// Where the counts of one device come from.
struct DeviceSource {
    device: DeviceId,
    group_count: u32,
    kind: Kind,
    retry_at: Nanos,
    timing: ReadTiming,
    /// Where it says how busy it is, if it does.
    load: Option<PathBuf>,
}

enum Kind {
    Attribute {
        path: PathBuf,
        fd: Option<OwnedFd>,
    },
    TextFiles {
        dir: PathBuf,
    },
    Dump {
        path: PathBuf,
    },
    Perf {
        counting: Vec<Counting>,
        running_ratio: f64,
    },
    None(Missing),
}

impl Counters {
    /// Finds counters of drivers; where there are none, these nodes of CXL memory are groups.
    pub(crate) fn probe(
        roots: &Roots,
        nodes: &[MemoryNode],
        capacity: Option<BytesPerSec>,
    ) -> Counters {
        Self::probe_from(roots, nodes, capacity, CounterSource::Driver)
    }

    pub(crate) fn probe_from(
        roots: &Roots,
        nodes: &[MemoryNode],
        capacity: Option<BytesPerSec>,
        source: CounterSource,
    ) -> Counters {
        Self::probe_after(roots, nodes, capacity, source, &[])
    }

    /// The same where devices were known `before`, which keep their numbers.
    pub(crate) fn probe_after(
        roots: &Roots,
        nodes: &[MemoryNode],
        capacity: Option<BytesPerSec>,
        source: CounterSource,
        before: &[Device],
    ) -> Counters {
        let mut found = Counters {
            devices: vec![],
            groups: vec![],
            facts: vec![],
            sources: vec![],
        };
        let class = roots.sys.join("class/weir_cxl");
        if source != CounterSource::Perf {
            for (number, dir) in class_devices(&class) {
                found.add_class_device(roots, number, &dir, capacity);
            }
            found.refresh_nodes(roots);
            if found.sources.is_empty() {
                found.add_dump(roots, nodes, capacity);
            }
        }
        if source != CounterSource::Driver {
            found.add_perf(roots, nodes, capacity, before);
        }
        if found.sources.is_empty() {
            found.add_uncounted(roots, nodes, capacity);
        }
        found
    }

    /// Adds a device of weir's driver: its groups, and how they are read. The binary attribute gives all
    /// counters in one read. Where it cannot be opened the text files are read instead, which is slower. What
    /// is wrong with a device becomes a fact of its own, and other devices are counted all the same.
    fn add_class_device(
        &mut self,
        roots: &Roots,
        number: u32,
        dir: &Path,
        capacity: Option<BytesPerSec>,
    ) {
        let fact = |value, next_move: Option<NextMove>| Fact {
            name: format!("cxl.counters.weir_cxl{number}"),
            value,
            next_move,
        };
        let count = match read_number(&dir.join("group_count")) {
            Ok(n) if (1..=u64::from(GROUP_COUNT_MAX)).contains(&n) => {
                u32::try_from(n).unwrap_or(GROUP_COUNT_MAX)
            }
            Ok(n) => {
                let why = format!(
                    "{}/group_count: {n} is not 1 to {GROUP_COUNT_MAX}",
                    dir.display()
                );
                let reload = NextMove {
                    act: Act::Deed("reload weir_cxl".into()),
                    why: "the driver's files make no sense".into(),
                    needs: Precondition::Seen("its class device is there".into()),
                };
                return self.facts.push(fact(Err(Missing::Lost(why)), Some(reload)));
            }
            Err(why) => {
                let next_move =
                    matches!(why, Missing::NotPermitted(_)).then(|| privilege::next_move(roots));
                return self.facts.push(fact(Err(why), next_move));
            }
        };
        let device = DeviceId(number);
        for index in 0..count {
            let group = dir.join(format!("group{index}"));
            let size = read_number(&group.join("size_bytes")).unwrap_or(0);
            self.groups.push(Group {
                id: GroupId { device, index },
                node: read_node(&group),
                size_bytes: Bytes(size),
            });
        }
        let path = dir.join("counters");
        let (kind, how) = match open_counters(&path) {
            Ok(fd) => (Kind::Attribute { path, fd: Some(fd) }, "binary attribute"),
            Err(_) => (
                Kind::TextFiles {
                    dir: dir.to_owned(),
                },
                "text files: slower",
            ),
        };
        self.facts
            .push(fact(Ok(format!("{count} groups, {how}")), None));
        self.add_device(device, format!("weir_cxl{number}"), capacity, count, kind);
        self.note_load(dir);
    }

    fn add_dump(&mut self, roots: &Roots, nodes: &[MemoryNode], capacity: Option<BytesPerSec>) {
        let path = dump_path(roots);
        let pairs = match read_dump(&path) {
            // A module without a device has the file too.
            Ok(pairs) if pairs.is_empty() => return,
            Ok(pairs) => pairs,
            Err(Missing::NotSupported(_)) => return,
            Err(why) => {
                let next_move = Some(privilege::next_move(roots));
                let name = "cxl.counters.debugfs".into();
                return self.facts.push(Fact {
                    name,
                    value: Err(why),
                    next_move,
                });
            }
        };
        let count = u32::try_from(pairs.len()).unwrap_or(GROUP_COUNT_MAX);
        let name = "cxl.counters.debugfs".into();
        self.facts.push(Fact {
            name,
            value: Ok(format!("{count} groups")),
            next_move: None,
        });
        match node_join::by_elimination(count, nodes) {
            Ok(nodes) => self.add_groups(count, nodes),
            Err(why) => {
                self.add_groups(count, &[]);
                self.facts.push(node_join::not_joined(why, count, nodes));
            }
        }
        let kind = Kind::Dump { path };
        self.add_device(
            DeviceId(0),
            "cxl-counter-driver".into(),
            capacity,
            count,
            kind,
        );
    }

    fn add_uncounted(
        &mut self,
        roots: &Roots,
        nodes: &[MemoryNode],
        capacity: Option<BytesPerSec>,
    ) {
        let class = roots.sys.join("class/weir_cxl");
        let why = Missing::NotSupported(format!("no counters: {} has no device", class.display()));
        self.facts.push(Fact {
            name: "cxl.counters".into(),
            value: Err(why.clone()),
            next_move: Some(perf::next_move(roots)),
        });
        if nodes.is_empty() {
            return;
        }
        let count = u32::try_from(nodes.len())
            .unwrap_or(GROUP_COUNT_MAX)
            .min(GROUP_COUNT_MAX);
        self.add_groups(count, nodes);
        let name = "memory-only nodes".into();
        self.add_device(DeviceId(0), name, capacity, count, Kind::None(why));
    }

    fn add_groups(&mut self, count: u32, nodes: &[MemoryNode]) {
        let mut nodes = nodes.iter();
        for index in 0..count {
            let node = nodes.next();
            self.groups.push(Group {
                id: GroupId {
                    device: DeviceId(0),
                    index,
                },
                node: node.map(|n| n.id),
                size_bytes: node.map_or(Bytes(0), |n| n.size_bytes),
            });
        }
    }

    fn add_device(
        &mut self,
        device: DeviceId,
        name: String,
        capacity_bytes_per_sec: Option<BytesPerSec>,
        group_count: u32,
        kind: Kind,
    ) {
        // Byte counts wrap where 64 bits do, whatever the line counters below them do.
        let counter_mask_bytes = u64::MAX;
        let counted_by = match kind {
            Kind::Perf { .. } => CountedBy::PerfEvents,
            Kind::None(_) => CountedBy::Unknown,
            Kind::Attribute { .. } | Kind::TextFiles { .. } | Kind::Dump { .. } => {
                CountedBy::AccessCounters
            }
        };
        self.devices.push(Device {
            id: device,
            name,
            capacity_bytes_per_sec,
            counter_mask_bytes,
            counted_by,
        });
        self.sources.push(DeviceSource {
            device,
            group_count,
            kind,
            retry_at: Nanos(0),
            timing: ReadTiming::default(),
            load: None,
        });
    }

    /// Reads all counters, in the order of the groups.
    pub(crate) fn read(&mut self, space: &mut Vec<u8>) -> Vec<GroupReading> {
        let mut seen = Vec::with_capacity(self.groups.len());
        for source in &mut self.sources {
            source.read(space, &mut seen);
        }
        seen
    }

    /// Whether anything counts: without it, groups are only nodes.
    pub(crate) fn are_counted(&self) -> bool {
        let counts = |source: &DeviceSource| !matches!(source.kind, Kind::None(_));
        self.sources.iter().any(counts)
    }
}

impl DeviceSource {
    fn read(&mut self, space: &mut Vec<u8>, seen: &mut Vec<GroupReading>) {
        let before = now();
        if before < self.retry_at {
            let why = Missing::Lost("the counters went away; tried again each second".into());
            return self.push_missing(before, &why, seen);
        }
        let (count, timing) = (self.group_count, &mut self.timing);
        // Registers of a device take microseconds each: the middle is when the counts were true.
        let (at, pairs) = match &mut self.kind {
            Kind::Attribute { path, fd } => timing.read(|| read_attribute(path, fd, count, space)),
            Kind::TextFiles { dir } => {
                return read_text_files(self.device, dir, count, timing, seen);
            }
            Kind::Dump { path } => timing.read(|| read_dump(path)),
            Kind::Perf {
                counting,
                running_ratio,
            } => {
                *running_ratio = perf::read(self.device, counting, seen);
                return;
            }
            Kind::None(why) => (before, Err(why.clone())),
        };
        match pairs {
            Ok(pairs) => self.push_pairs(at, &pairs, seen),
            Err(why) => {
                if matches!(why, Missing::Lost(_)) {
                    self.retry_at = Nanos(at.0.saturating_add(RETRY.0));
                }
                self.push_missing(at, &why, seen);
            }
        }
    }

    fn push_pairs(&self, at: Nanos, pairs: &[Pair], seen: &mut Vec<GroupReading>) {
        for index in 0..self.group_count {
            let pair = usize::try_from(index).ok().and_then(|i| pairs.get(i));
            let lost = || {
                Missing::Lost(format!(
                    "{}: the file ends before group {index}",
                    self.name()
                ))
            };
            let value = |number: Option<u64>| Reading {
                at,
                value: number.map(Bytes).ok_or_else(lost),
            };
            seen.push(GroupReading {
                id: GroupId {
                    device: self.device,
                    index,
                },
                read_bytes: value(pair.map(|p| p.read_bytes)),
                write_bytes: value(pair.map(|p| p.write_bytes)),
            });
        }
    }

    fn push_missing(&self, at: Nanos, why: &Missing, seen: &mut Vec<GroupReading>) {
        seen.extend((0..self.group_count).map(|index| GroupReading {
            id: GroupId {
                device: self.device,
                index,
            },
            read_bytes: Reading::missing(at, why.clone()),
            write_bytes: Reading::missing(at, why.clone()),
        }));
    }

    fn name(&self) -> String {
        match &self.kind {
            Kind::Attribute { path, .. } | Kind::Dump { path } => path.display().to_string(),
            Kind::TextFiles { dir } => dir.display().to_string(),
            Kind::Perf { .. } => "perf".into(),
            Kind::None(_) => "no counters".into(),
        }
    }
}

fn dump_path(roots: &Roots) -> PathBuf {
    roots
        .sys
        .join("kernel/debug/cxl-counter-driver/counter-dump")
}

mod devload;
mod driver_files;
pub(crate) mod fabric_counters;
mod node_join;
mod perf;
mod reopen;

pub use fabric_counters::CountedFabric;
pub(crate) use perf::{perf_targets, perf_targets_by_scope};

#[cfg(test)]
mod tests;
