// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A DRAM channel: bounded queues of pending reads (RPQ) and writes (WPQ) before one bus. Reads go first
//! until so many writes have come; then writes go until few are left. Each change of direction costs time.

use crate::engine::calendar::Signal;
use crate::engine::clockwork::Clockwork;
use crate::engine::occupancy::Occupancy;
use crate::machine::DramFigures;
use crate::truth::Contention;
use crate::uncore::is_write;
use crate::words::{Queue, Stage};
use std::collections::VecDeque;

const READ: usize = 0;
const WRITE: usize = 1;

pub(crate) struct Channel {
    number: u32,
    queue: [VecDeque<u32>; 2],
    most: [usize; 2],
    outside: [VecDeque<u32>; 2],
    drain_from: usize,
    drain_to: usize,
    is_draining: bool,
    direction: usize,
    /// Owner of the line on the bus.
    in_service: Option<u8>,
    /// The request that the bus turns around for. It waits for that as for others: an idle machine's does not
    /// turn.
    turns_for: Option<u32>,
    /// Occupancy of the read and of the write pending queue.
    pub uses: [Occupancy; 2],
    /// Lines read and written.
    pub lines: [u64; 2],
    pub bus_contention: Contention,
    pub entry_contention: Contention,
}

impl Channel {
    pub fn new(number: u32, figures: &DramFigures, workloads: usize) -> Self {
        Channel {
            number,
            queue: Default::default(),
            most: [figures.read_queue as usize, figures.write_queue as usize],
            outside: Default::default(),
            drain_from: figures.drain_from as usize,
            drain_to: figures.drain_to as usize,
            is_draining: false,
            direction: READ,
            in_service: None,
            turns_for: None,
            uses: Default::default(),
            lines: [0; 2],
            bus_contention: Contention::new(workloads),
            entry_contention: Contention::new(workloads),
        }
    }

    pub fn arrive(&mut self, number: u32, work: &mut Clockwork) {
        let kind = usize::from(is_write(work.requests[number].path));
        if self.queue[kind].len() >= self.most[kind] {
            work.enter(number, Stage::Tor, true);
            self.entry_contention
                .wait(work.now, work.requests[number].owner);
            self.outside[kind].push_back(number);
            return;
        }
        self.accept(number, kind, work);
        if self.in_service.is_none() && self.turns_for.is_none() {
            self.serve(work);
        }
    }

    fn accept(&mut self, number: u32, kind: usize, work: &mut Clockwork) {
        work.enter(number, Stage::Dram, true);
        let owner = work.requests[number].owner;
        self.entry_contention.take(work.now, owner);
        self.bus_contention.wait(work.now, owner);
        self.uses[kind].add(work.now);
        self.queue[kind].push_back(number);
        if kind == WRITE {
            work.take(number, Queue::Wpq);
            // The TOR is done with it, the channel not yet.
            work.requests[number].parts += 1;
            work.post(0, Signal::Returned { request: number });
        } else {
            work.take(number, Queue::Rpq);
        }
    }

    /// The next line gets the bus. Reads go first until so many writes have come, then writes go until few
    /// are left, since each change of direction costs time. While the bus turns around, requests wait and
    /// none has it: that time is charged to no workload.
    fn serve(&mut self, work: &mut Clockwork) {
        let writes = self.queue[WRITE].len();
        self.is_draining =
            writes >= self.drain_from || (self.is_draining && writes > self.drain_to);
        let is_write = self.is_draining || self.queue[READ].is_empty();
        let kind = if is_write && writes > 0 { WRITE } else { READ };
        let Some(number) = self.queue[kind].pop_front() else {
            return;
        };
        self.uses[kind].remove(work.now);
        self.entry_contention
            .leave(work.now, work.requests[number].owner);
        self.lines[kind] += 1;
        work.leave(number, [Queue::Rpq, Queue::Wpq][kind]);
        if kind == self.direction {
            self.begin(number, work);
        } else {
            self.direction = kind;
            self.turns_for = Some(number);
            let channel = self.number;
            work.post(work.timings.turnaround, Signal::ChannelFree { channel });
        }
        if let Some(next) = self.outside[kind].pop_front() {
            self.entry_contention
                .end_wait(work.now, work.requests[next].owner);
            self.accept(next, kind, work);
        }
    }

    /// A line gets the bus, which has its direction.
    fn begin(&mut self, number: u32, work: &mut Clockwork) {
        let owner = work.requests[number].owner;
        self.bus_contention.end_wait(work.now, owner);
        self.bus_contention.take(work.now, owner);
        self.in_service = Some(owner);
        let channel = self.number;
        work.post(work.timings.dram_line, Signal::ChannelFree { channel });
        if is_write(work.requests[number].path) {
            work.finish(number);
        } else {
            work.enter(number, Stage::Dram, false);
            let access = work.timings.dram_line + work.timings.dram_access;
            work.post(access, Signal::Returned { request: number });
        }
    }

    /// The bus is free, or has turned around.
    pub fn free(&mut self, work: &mut Clockwork) {
        if let Some(number) = self.turns_for.take() {
            self.begin(number, work);
            return;
        }
        if let Some(owner) = self.in_service.take() {
            self.bus_contention.leave(work.now, owner);
        }
        self.serve(work);
    }
}
