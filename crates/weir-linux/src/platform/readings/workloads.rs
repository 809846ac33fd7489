// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a tick reads of workloads: CPU time, and the limits that are on them.

use crate::backends::Backends;
use crate::counters::idle_groups::IdleGroups;
use crate::kernel::files::Buffer;
use crate::workloads::cpu_time::bpf::CpuTimeBpf;
use crate::workloads::cpu_time::{self, CpuTimeReader, IdleSkips, Repose, kind};
use crate::workloads::discovery::{View, WorkloadSource};
use rustix::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use weir_core::CpuShare;
use weir_core::seam::observation::{Skipped, WorkloadReading};

pub(crate) struct WorkloadReader {
    pub(crate) root: Arc<OwnedFd>,
    pub(crate) proc: Arc<OwnedFd>,
    /// Whether process ids in `proc` are those of weir's own PID namespace, so that the kernel's CPU clocks
    /// can be read by process id.
    pub(crate) own_proc: bool,
    pub(crate) usage: CpuTimeBpf,
    pub(crate) idle_skips: IdleSkips,
    /// A workload of the view was found to be gone at the last read.
    pub(crate) has_vanished: bool,
}

impl WorkloadReader {
    /// Reads all workloads of a view that are still there. Those that have used no CPU time for a while, and
    /// have memory in idle groups alone, are reported as they were read last.
    pub(crate) fn read(
        &mut self,
        view: &View,
        backends: &Backends,
        idle: &IdleGroups,
        buffer: &mut Buffer,
        skipped: &mut Vec<Skipped>,
    ) -> Vec<WorkloadReading> {
        let mut seen = Vec::with_capacity(view.workloads.len());
        let (backend, cpu_max) = (backends.active(), &backends.cpu_max);
        let mut requests = cpu_time::requests(view, &cpu_max.holds, &mut self.idle_skips, idle);
        let root = self.root.as_fd();
        self.usage.sweep(&mut requests, root, buffer);
        let mut reader = CpuTimeReader {
            root,
            proc: &self.proc,
            own_proc: self.own_proc,
            buffer,
            skipped,
            vanished: false,
        };
        for request in &mut requests {
            let (watched, is_idle) = (request.watched, request.repose == Repose::Idle);
            let mut uses_count = true;
            let parked = backend.throttled(&watched.id);
            let told = request
                .is_resting
                .then(|| self.idle_skips.last_times(request.place));
            let times = match told.flatten() {
                Some(told) => told,
                None => {
                    let Some(times) = reader.read(request) else {
                        continue;
                    };
                    uses_count = self.idle_skips.note(request.place, &watched.source, &times);
                    times
                }
            };
            let (theirs, weight) = match request.hold {
                Some(hold) => (hold.theirs(), hold.weight.theirs()),
                None => match cpu_max.released.get(&watched.id) {
                    Some(released) => (released.limit_cpus, released.weight),
                    None => (watched.limit.and_then(|max| max.cpus()), None),
                },
            };
            // That of a process is its nice value.
            let weight = weight.filter(|_| matches!(watched.source, WorkloadSource::Cgroup(_)));
            let uses = uses_count.then(|| Arc::clone(&watched.uses));
            seen.push(WorkloadReading {
                id: watched.id.clone(),
                kind: kind(watched),
                cpu_ns: times.0,
                throttled_ns: parked.unwrap_or(times.1),
                resident_bytes: watched.resident_bytes.filter(|_| uses_count && !is_idle),
                uses: uses.unwrap_or_default(),
                weight: weight.unwrap_or(watched.weight),
                limited_weight: request.hold.and_then(|hold| hold.weight.seen()),
                their_limit_cpus: theirs.map(CpuShare::new),
                excluded: watched.excluded.clone(),
            });
        }
        self.has_vanished = reader.vanished;
        seen
    }
}
