// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The way to the other socket: a bounded number of lines on their way, one server for the data that comes
//! back. The other socket's own queues are not modelled: its DRAM takes a constant time.

use crate::engine::calendar::Signal;
use crate::engine::clockwork::Clockwork;
use crate::engine::occupancy::Occupancy;
use crate::machine::Machine;
use crate::truth::Contention;
use crate::uncore::is_write;
use crate::words::{Stage, Target};
use std::collections::VecDeque;
use weir_core::random::SplitMix;

/// UPI with what is behind it.
pub(crate) struct Upi {
    used: u32,
    most: u32,
    outside: VecDeque<u32>,
    line: VecDeque<u32>,
    in_service: Option<u32>,
    cache_hit_part: f64,
    random: SplitMix,
    pub entries: Occupancy,
    /// Lines that came, and that went.
    pub lines: [u64; 2],
    pub entry_contention: Contention,
    pub line_contention: Contention,
}

impl Upi {
    pub fn new(machine: &Machine, workloads: usize, seed: u64) -> Self {
        let remote = machine.remote.as_ref();
        Upi {
            used: 0,
            most: remote.map_or(1, |remote| remote.entries),
            outside: VecDeque::new(),
            line: VecDeque::new(),
            in_service: None,
            cache_hit_part: remote.map_or(0.0, |remote| remote.cache_hit_part),
            random: SplitMix::new(seed ^ 0x0f1),
            entries: Occupancy::default(),
            lines: [0; 2],
            entry_contention: Contention::new(workloads),
            line_contention: Contention::new(workloads),
        }
    }

    pub fn arrive(&mut self, number: u32, work: &mut Clockwork) {
        if self.used >= self.most {
            work.enter(number, Stage::Tor, true);
            self.entry_contention
                .wait(work.now, work.requests[number].owner);
            self.outside.push_back(number);
        } else {
            self.send(number, work);
        }
    }

    fn send(&mut self, number: u32, work: &mut Clockwork) {
        self.used += 1;
        self.entries.add(work.now);
        work.enter(number, Stage::Upi, false);
        let request = &work.requests[number];
        self.entry_contention.take(work.now, request.owner);
        if request.supplier == Target::CxlRemote {
            let way = work.timings.upi_way / 2;
            work.post(way, Signal::AtRemotePort { request: number });
            return;
        }
        let is_hit = request.path.is_read() && self.random.unit() < self.cache_hit_part;
        let saved = if is_hit { work.timings.upi_saved } else { 0 };
        work.requests[number].is_remote_hit = is_hit;
        work.post(
            work.timings.upi_out - saved,
            Signal::UpiFar { request: number },
        );
    }

    /// The line, or its completion, begins its way back.
    pub fn far(&mut self, number: u32, work: &mut Clockwork) {
        let request = &work.requests[number];
        if is_write(request.path) {
            self.lines[1] += 1;
            work.post(0, Signal::Returned { request: number });
            self.release(number, work);
            return;
        }
        self.line_contention.wait(work.now, request.owner);
        work.enter(number, Stage::Upi, true);
        self.line.push_back(number);
        if self.in_service.is_none() {
            self.serve(work);
        }
    }

    fn serve(&mut self, work: &mut Clockwork) {
        self.in_service = self.line.pop_front();
        if let Some(number) = self.in_service {
            let owner = work.requests[number].owner;
            self.line_contention.end_wait(work.now, owner);
            self.line_contention.take(work.now, owner);
            work.enter(number, Stage::Upi, false);
            work.post(work.timings.upi_line, Signal::UpiFree);
        }
    }

    pub fn free(&mut self, work: &mut Clockwork) {
        if let Some(number) = self.in_service.take() {
            self.lines[0] += 1;
            self.line_contention
                .leave(work.now, work.requests[number].owner);
            work.post(0, Signal::Returned { request: number });
            self.release(number, work);
        }
        self.serve(work);
    }

    fn release(&mut self, number: u32, work: &mut Clockwork) {
        self.used -= 1;
        self.entries.remove(work.now);
        self.entry_contention
            .leave(work.now, work.requests[number].owner);
        if let Some(next) = self.outside.pop_front() {
            self.entry_contention
                .end_wait(work.now, work.requests[next].owner);
            self.send(next, work);
        }
    }
}
