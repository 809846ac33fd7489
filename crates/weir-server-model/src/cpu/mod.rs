// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A core: one or two threads, each with a window of instructions and a store buffer, over the caches and
//! buffers that they share.

mod arrival;
mod entry_table;
mod meter;
mod private_caches;
mod program;
mod streamer;
mod thread;
mod write_backs;

pub(crate) use meter::{CpuCount, CpuMeter};
pub(crate) use private_caches::PrivateCaches;
pub(crate) use program::Program;
pub(crate) use thread::Thread;

use crate::engine::clockwork::Clockwork;
use crate::engine::request::NO_CPU;

pub(crate) struct CpuCore {
    pub threads: Vec<Thread>,
    pub caches: PrivateCaches,
}

impl CpuCore {
    fn thread(&mut self, cpu: u16) -> Option<(&mut Thread, &mut PrivateCaches)> {
        let thread = self.threads.iter_mut().find(|thread| thread.cpu == cpu);
        thread.map(|thread| (thread, &mut self.caches))
    }

    /// A thread goes on as far as it can now.
    pub fn run(&mut self, cpu: u16, work: &mut Clockwork) {
        if let Some((thread, caches)) = self.thread(cpu) {
            thread.woken(work.now);
            thread.advance(caches, work);
        }
    }

    pub fn issue(&mut self, cpu: u16, slot: u32, work: &mut Clockwork) {
        if let Some((thread, caches)) = self.thread(cpu) {
            thread.issue(slot, caches, work);
            thread.advance(caches, work);
        }
    }

    pub fn l2_result(&mut self, request: u32, work: &mut Clockwork) {
        self.caches.l2_result(request, work);
        self.deliver(work);
    }

    pub fn fill(&mut self, request: u32, work: &mut Clockwork) {
        self.caches.fill(request, work);
        self.deliver(work);
    }

    /// The CHA has taken a posted request over.
    pub fn accepted(&mut self, request: u32, work: &mut Clockwork) {
        self.caches.accepted(request, work);
    }

    /// Loads and stores whose lines have come go on.
    fn deliver(&mut self, work: &mut Clockwork) {
        let arrivals = std::mem::take(&mut self.caches.arrivals);
        let mut last = NO_CPU;
        for arrival in &arrivals {
            if let Some((thread, _)) = self.thread(arrival.cpu) {
                thread.arrived(arrival, work);
            }
        }
        for arrival in &arrivals {
            if arrival.cpu != last {
                last = arrival.cpu;
                if let Some((thread, caches)) = self.thread(arrival.cpu) {
                    thread.advance(caches, work);
                }
            }
        }
        self.caches.arrivals = arrivals;
        self.caches.arrivals.clear();
    }
}
