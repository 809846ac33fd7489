// SPDX-License-Identifier: Apache-2.0 OR MIT
//! On which sockets workloads run: their CPU time, where it was counted by socket. What a workload has in
//! common with others, it has with those of its socket: the mesh, the table of requests, the last-level
//! cache, and memory, unless it fetches lines from another socket's.

use crate::counts::Counts;
use crate::path_map::lines_of;
use std::collections::{BTreeMap, BTreeSet};
use weir_core::window::CountScope;
use weir_core::window::role::{AccessPath, Quantity, Stage, Target};
use weir_core::{Role, Window};

/// Part of the CPU time on a socket from which on a workload runs there. Before workloads were judged by
/// their own socket, 14 findings of 56 runs on two sockets named a place or a workload of the other one
/// (docs/evidence/stalls.md).
const HOME_MIN: f64 = 0.9;
/// Part of the lines from other sockets up to which it uses the memory of its own.
const REMOTE_MAX: f64 = 0.1;

const TIME: Role = Role {
    stage: Stage::Core,
    path: AccessPath::Any,
    target: Target::Any,
    quantity: Quantity::TimeNs,
};

/// Workloads by the sockets that they run on.
#[derive(Debug, Default)]
pub struct Homes {
    /// Parts of the CPU time, by workload and socket. Without those of which that is not known.
    parts: BTreeMap<String, BTreeMap<u32, f64>>,
    /// Workloads that fetch lines from other sockets.
    remote: BTreeSet<String>,
}

impl Homes {
    /// The homes that these windows show. `counts` are their counts by workload.
    pub fn new(windows: &[Window], counts: &BTreeMap<String, Counts>) -> Homes {
        let mut times: BTreeMap<String, BTreeMap<u32, f64>> = BTreeMap::new();
        for workload in windows.iter().flat_map(|window| &window.workloads) {
            let time = workload.counts.iter().filter(|count| count.role == TIME);
            for count in time {
                if let (CountScope::Socket(socket), Ok(ns)) = (count.of, &count.value) {
                    let name = workload.id.as_str().to_owned();
                    *times.entry(name).or_default().entry(socket).or_default() += *ns as f64;
                }
            }
        }
        for of_sockets in times.values_mut() {
            let all: f64 = of_sockets.values().sum();
            of_sockets.values_mut().for_each(|time| *time /= all);
        }
        times.retain(|_, parts| parts.values().all(|part| part.is_finite()));
        let remote = counts.iter().filter(|(_, own)| is_remote(own));
        Homes {
            parts: times,
            remote: remote.map(|(name, _)| name.clone()).collect(),
        }
    }

    /// The socket that a workload runs on and has its lines from; nothing where it has several, or none is
    /// known.
    pub fn socket(&self, name: &str) -> Option<u32> {
        let parts = self.parts.get(name).filter(|_| !self.is_remote(name))?;
        let home = parts.iter().find(|(_, part)| **part >= HOME_MIN);
        home.map(|(socket, _)| *socket)
    }

    /// The part of a workload's requests that comes from the cores of a socket: that of its CPU time; all,
    /// where nothing is known.
    pub fn cores_part(&self, name: &str, socket: u32) -> f64 {
        let parts = self.parts.get(name);
        parts.map_or(1.0, |parts| parts.get(&socket).copied().unwrap_or(0.0))
    }

    /// The part of its requests that goes to the memory of a socket: the same; all, where it fetches lines
    /// from other sockets too.
    pub fn memory_part(&self, name: &str, socket: u32) -> f64 {
        if self.is_remote(name) {
            1.0
        } else {
            self.cores_part(name, socket)
        }
    }

    fn is_remote(&self, name: &str) -> bool {
        self.remote.contains(name)
    }
}

/// Whether more than [`REMOTE_MAX`] of the lines come from other sockets.
fn is_remote(counts: &Counts) -> bool {
    let lines = |targets: &[Target]| -> f64 {
        let of = |target: &Target| {
            let all = lines_of(counts, AccessPath::Reads, *target);
            let known = all.or_else(|_| lines_of(counts, AccessPath::Drd, *target));
            known.map_or(0.0, |lines| lines.value)
        };
        targets.iter().map(of).sum()
    };
    let own = lines(&[Target::Own, Target::DramOwn, Target::CxlOwn]);
    let remote = lines(&[Target::DramRemote, Target::CxlRemote, Target::RemoteCache]);
    remote > REMOTE_MAX * (own + remote)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counts::tests::count;
    use weir_core::WorkloadId;
    use weir_core::window::{Count, WorkloadCounts};

    /// A workload with so much time on two sockets, and such lines.
    fn homes(time: [u64; 2], lines: &[(&str, u64)]) -> Homes {
        let time = (0..).zip(time).map(|(socket, ns)| Count {
            of: CountScope::Socket(socket),
            ..count("core.any.any.time-ns", ns)
        });
        let lines = lines.iter().map(|(role, lines)| count(role, *lines));
        let counts: Vec<Count> = time.chain(lines).collect();
        let all = [("db".to_owned(), Counts::new(&counts, None))];
        let window = Window {
            workloads: vec![WorkloadCounts {
                id: WorkloadId::new("db"),
                counts,
            }],
            ..Window::default()
        };
        Homes::new(&[window], &all.into())
    }

    #[test]
    fn a_workload_is_of_the_socket_on_which_it_runs() {
        let made = homes([50, 950], &[]);
        assert_eq!(made.socket("db"), Some(1));
        let parts = |made: &Homes, name| [0, 1].map(|socket| made.memory_part(name, socket));
        assert_eq!(parts(&made, "db"), [0.05, 0.95]);
        let spread = homes([500, 500], &[]);
        assert_eq!(
            (spread.socket("db"), parts(&spread, "db")),
            (None, [0.5; 2])
        );
        let never = homes([0, 0], &[]);
        assert_eq!((never.socket("db"), parts(&never, "db")), (None, [1.0; 2]));
        assert_eq!((made.socket("web"), parts(&made, "web")), (None, [1.0; 2]));
    }

    #[test]
    fn lines_of_another_socket_are_in_the_memory_of_both() {
        let of = |remote| {
            let lines = [
                ("sq.drd.dram-own.lines", 900),
                ("sq.drd.dram-remote.lines", remote),
            ];
            homes([0, 1000], &lines)
        };
        assert_eq!(of(90).socket("db"), Some(1));
        let many = of(500);
        assert_eq!((many.socket("db"), many.memory_part("db", 0)), (None, 1.0));
        assert_eq!(
            many.cores_part("db", 0),
            0.0,
            "its lines are in the other's cache"
        );
    }
}
