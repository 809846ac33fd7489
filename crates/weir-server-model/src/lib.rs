// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A synthetic server: every line of memory that its cores ask for, from the window of instructions to the
//! medium of a CXL device and back. It counts what the performance counters of such servers count, and keeps
//! the truth beside it, which no real machine has.
//!
//! ```text
//!  program ─► window ─► L1D ─► fill buffer ─► L2 ─► super queue ─► mesh ─► ingress ─► TOR ─┬─► LLC slice
//!             store buffer                     ▲ prefetchers                              ├─► DRAM channel
//!                                                                                         ├─► UPI
//!                                                                                         └─► port, device
//! ```
//!
//! Each arrow can be full, and then what is behind waits where it is. In the order a reader wants them:
//! [`machine`] and [`Workloads`] describe a run, `words` names stages, paths and targets, `cpu`, `memory` and
//! `uncore` are the parts, `engine` is what they share, [`truth`] and [`pmu`] are what comes out,
//! [`WhatIf`] runs the same seed under another condition, [`random`] makes machines and causes.
//!
//! # What a stall is
//!
//! A stall cycle belongs to the place where the request that the core waits for is in that cycle: the
//! request of the oldest load in the window, or of the oldest store if the store buffer is full. A demand
//! that meets a prefetch under way waits for the prefetch. So stalls by stage, path and target sum to the
//! measured ones.
//!
//! # Shortcuts
//!
//! Instructions between accesses have no dependences, pages are not translated, cores share no line, all
//! cores of a cluster are equally far from a CHA, refresh and banks of DRAM are within its rate, the other
//! socket's DRAM takes a constant time, and a core learns of an LLC miss when the slice does.
//!
//! When a line is accessed several times the first access looks for it; the others count and take
//! instructions. Offcore counters see the request that is sent: a demand that meets a prefetch adds none. A
//! read that hits the LLC takes the line from there. Page moves cost nothing. The copies of a thread's
//! program share no random numbers with others, so that a neighbour more or less does not change it.
//!
//! # Use
//!
//! [`Server::new`], then [`Server::count`] with a plan, [`Server::warm`] and [`Server::run`] if wanted, then
//! [`Server::window`] as often as wanted. [`Scenario::run`] does all that for a file.
//!
//! The same machine, workloads and seed give the same bytes.

mod cpu;
mod engine;
pub mod machine;
mod memory;
pub mod pmu;
pub mod random;
mod scenario;
mod socket;
pub mod truth;
mod uncore;
mod words;

pub use machine::{Machine, Workload, Workloads};
pub use pmu::{CountWindow, CountingPlan};
pub use scenario::what_if::{Progress, WhatIf};
pub use scenario::{CauseLabel, RunFigures, Scenario};
pub use truth::TruthWindow;
pub use words::{Path, Queue, Stage, Target};

use crate::engine::calendar::Signal;
use crate::machine::timings::picos;
use crate::pmu::Pmu;
use crate::socket::Socket;
use crate::truth::TruthReader;
use serde::{Deserialize, Serialize};
use weir_description::DescriptionError;

/// A window: what the counters said and what was so.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ServerWindow {
    /// Counts, as a program reads them.
    pub counts: CountWindow,
    /// The truth. Its window is exact; each box of counters was read a little later than the one before.
    pub truth: TruthWindow,
}

pub struct Server {
    socket: Socket,
    pmu: Pmu,
    before: TruthReader,
    /// Set at the end of a window.
    after: Option<TruthReader>,
}

impl Server {
    /// A server at time 0, with cold caches, that counts nothing yet (see [`Server::count`]).
    ///
    /// # Errors
    /// A figure is out of range, or the workloads do not fit the machine.
    pub fn new(
        machine: &Machine,
        workloads: &Workloads,
        seed: u64,
    ) -> Result<Server, DescriptionError> {
        machine.check(&machine.name)?;
        workloads.check(machine, &machine.name)?;
        let mut socket = Socket::new(machine, workloads, seed)?;
        let before = socket.read_truth();
        Ok(Server {
            pmu: Pmu::new(machine, &socket.cpu_numbers(), seed),
            socket,
            before,
            after: None,
        })
    }

    /// Fills the last-level cache with the areas that programs visit at random, so that a run needs no
    /// warm-up of a whole working set. Before the first window.
    pub fn warm(&mut self) {
        self.socket.warm();
    }

    /// Counts by this plan from the next window on.
    ///
    /// # Errors
    /// An event is unknown, or a set does not fit the counters of its unit.
    pub fn count(&mut self, plan: &CountingPlan) -> Result<(), DescriptionError> {
        self.pmu.set_plan(plan)
    }

    /// Runs for a time, in nanoseconds, outside of any window.
    pub fn run(&mut self, span_ns: f64) {
        let end = self.socket.work.now + picos(span_ns);
        self.socket.work.calendar.post(end, Signal::WindowEnd);
        while self.after.is_none() && self.step() {}
        self.before = self
            .after
            .take()
            .unwrap_or_else(|| self.socket.read_truth());
        self.pmu.stop();
    }

    /// Runs one window of this length in nanoseconds, which begins where the last one ended.
    pub fn window(&mut self, span_ns: f64) -> ServerWindow {
        let from = self.before.at;
        let end = from + picos(span_ns);
        self.pmu.begin(from, end, &mut self.socket);
        self.socket.work.calendar.post(end, Signal::WindowEnd);
        while (self.after.is_none() || self.pmu.is_open()) && self.step() {}
        let after = self
            .after
            .take()
            .unwrap_or_else(|| self.socket.read_truth());
        let truth = self.socket.truth_between(&self.before, &after);
        let counts = self.pmu.finish(from, end);
        self.before = after;
        ServerWindow { counts, truth }
    }

    pub fn progress(&self) -> Vec<Progress> {
        self.socket.progress()
    }

    /// Requests for lines begun, and finished, since the beginning.
    pub fn requests(&self) -> (u64, u64) {
        (self.socket.work.begun, self.socket.work.finished)
    }

    /// Lines in L1D, L2 and the last-level cache.
    pub fn cached_lines(&self) -> [usize; 3] {
        self.socket.cached_lines()
    }

    /// Time since the beginning, nanoseconds.
    pub fn now_ns(&self) -> f64 {
        self.socket.work.now as f64 / 1000.0
    }

    fn step(&mut self) -> bool {
        let Some((now, signal)) = self.socket.work.calendar.pop() else {
            return false;
        };
        self.socket.work.now = now;
        match signal {
            Signal::Sample { unit } => self.pmu.sample(unit as usize, &mut self.socket),
            Signal::WindowEnd => self.after = Some(self.socket.read_truth()),
            signal => self.socket.handle(signal),
        }
        true
    }
}
