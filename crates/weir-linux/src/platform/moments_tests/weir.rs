// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A weir process that limits, schedules and counts, one step at a time.

use super::SCHEDULED;
use crate::backends::cpu_max::CpuMaxBackend;
use crate::backends::sched_ext::threads::moved::MovedThreads;
use crate::backends::{Backend, BackendContext};
use crate::kernel::files::{inode, open_beneath};
use crate::leases::undo::UndoOutcome;
use crate::task_traffic::TaskTraffic;
use crate::workloads::discovery::{Discovery, View};
use weir_core::Nanos;

pub(super) struct Weir {
    pub(super) backend: CpuMaxBackend,
    pub(super) context: BackendContext,
    pub(super) view: View,
    pub(super) discovery: Discovery,
    pub(super) scheduled: Option<MovedThreads>,
    pub(super) traffic: Option<TaskTraffic>,
}

impl Weir {
    /// Moves some threads at each tick, as the back end of weir's scheduler does, without a scheduler in the
    /// kernel.
    pub(super) fn schedule(&mut self, until: Nanos) {
        let leases = &mut self.context.leases;
        leases.compact();
        if self.scheduled.is_none() {
            let path = format!("/{SCHEDULED}");
            let dir = open_beneath(&*self.context.root, path.as_bytes()).unwrap();
            let inode = inode(&dir).unwrap().st_ino;
            let mut threads = MovedThreads::new(dir, path, inode);
            if threads.begin(leases).is_err() {
                threads.end(leases);
                return;
            }
            self.scheduled = Some(threads);
        }
        if let Some(threads) = &mut self.scheduled {
            threads.be_due();
            let _ = threads.follow(until, leases);
        }
    }

    pub(super) fn unschedule(&mut self) {
        let Some(threads) = self.scheduled.take() else {
            return;
        };
        match threads.leave_now() {
            UndoOutcome::Failed(_) => self.scheduled = Some(threads),
            _ => threads.end(&mut self.context.leases),
        }
    }

    /// Ends weir in order, as SIGTERM does.
    pub(super) fn end(&mut self) {
        self.release_all();
        self.traffic = None;
        let _ = self.context.leases.undo_all();
        self.context.leases.end_if_empty();
    }

    pub(super) fn release_all(&mut self) {
        self.backend.release_all(&mut self.context);
        self.unschedule();
        self.context.leases.compact();
    }
}
