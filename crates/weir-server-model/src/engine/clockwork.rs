// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What all parts of the machine share: the time, the signals to come, the requests in flight, the CPUs'
//! meters, the truth. Parts know each other only by signals and by the numbers of requests.

use crate::cpu::CpuMeter;
use crate::engine::calendar::{Calendar, Signal};
use crate::engine::request::{NONE, RequestPool};
use crate::machine::timings::Timings;
use crate::memory::pages::PageTable;
use crate::truth::GroundTruth;
use crate::words::{Path, Queue, Stage};

/// The shared state of a run. Times are picoseconds.
pub(crate) struct Clockwork {
    pub now: u64,
    pub calendar: Calendar,
    pub requests: RequestPool,
    pub meters: Vec<CpuMeter>,
    pub truth: GroundTruth,
    pub pages: PageTable,
    pub timings: Timings,
    /// Requests begun since the beginning.
    pub begun: u64,
    pub finished: u64,
}

impl Clockwork {
    pub fn post(&mut self, after: u64, signal: Signal) {
        self.calendar.post(self.now + after, signal);
    }

    pub fn begin(&mut self, line: u64, cpu: u16, path: Path, stage: Stage) -> u32 {
        let number = self.requests.begin(self.now, line, path, stage);
        let request = &mut self.requests[number];
        request.cpu = cpu;
        request.owner = self.pages.owner(line);
        request.supplier = self.pages.memory(line);
        self.begun += 1;
        number
    }

    /// The request goes on to `stage`, where it waits or not.
    pub fn enter(&mut self, number: u32, stage: Stage, is_waiting: bool) {
        self.settle_awaited(number);
        let request = &mut self.requests[number];
        request.pass_time(self.now);
        request.stage = stage;
        request.is_waiting = is_waiting;
        request.passed |= 1 << stage as u16;
    }

    fn settle_awaited(&mut self, number: u32) {
        if self.requests[number].is_awaited {
            let cpu = usize::from(self.requests[number].cpu);
            self.meters[cpu].settle(self.now, &mut self.requests, &mut self.truth);
        }
    }

    /// Counts time up to now for a CPU. Before anything that its counters depend on changes.
    pub fn settle(&mut self, cpu: u16) {
        self.meters[usize::from(cpu)].settle(self.now, &mut self.requests, &mut self.truth);
    }

    pub fn take(&mut self, number: u32, queue: Queue) {
        self.requests[number].held_since[queue as usize] = self.now;
    }

    pub fn leave(&mut self, number: u32, queue: Queue) {
        self.truth.add_held(&self.requests[number], queue, self.now);
    }

    /// The request has been served: its times and lines go to the truth. Its number stays valid for parts
    /// that know it.
    pub fn finish(&mut self, number: u32) {
        self.settle_awaited(number);
        let request = &mut self.requests[number];
        if request.rides_on == NONE {
            request.pass_time(self.now);
        }
        if request.is_awaited {
            request.is_awaited = false;
            self.meters[usize::from(request.cpu)].awaited = NONE;
        }
        self.truth.add_request(request);
        self.truth.add_stalls(request);
        self.finished += 1;
        self.forget(number);
    }

    /// One part fewer knows the request; without any its number is free.
    pub fn forget(&mut self, number: u32) {
        let request = &mut self.requests[number];
        request.parts -= 1;
        if request.parts == 0 {
            self.requests.end(number);
        }
    }

    /// The request at which the line of this one is.
    pub fn root(&self, number: u32) -> u32 {
        match self.requests[number].rides_on {
            NONE => number,
            root => root,
        }
    }

    /// Charges all stalls of requests in flight, at the end of a window.
    pub fn charge_stalls(&mut self) {
        for cpu in 0..self.meters.len() {
            self.settle(cpu as u16);
        }
        for request in self.requests.iter_mut() {
            self.truth.add_stalls(request);
        }
    }
}
