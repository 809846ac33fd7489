// SPDX-License-Identifier: Apache-2.0 OR MIT
//! L1D and L2 of a core, fill buffers, super queue, prefetchers.
//!
//! ```text
//! load ─► L1D ─► fill buffer ─► L2 ─► super queue ─► mesh        L2 holds what L1D holds; lines that it
//!                                       ▲                        puts out go to the last-level cache
//!                               streamer ┘
//! ```

use crate::cpu::arrival::{Arrival, Found};
use crate::cpu::entry_table::EntryTable;
use crate::cpu::meter::CpuCount;
use crate::cpu::streamer::Streamer;
use crate::cpu::write_backs::WriteBacks;
use crate::engine::calendar::Signal;
use crate::engine::clockwork::Clockwork;
use crate::engine::request::NONE;
use crate::engine::tags::{DIRTY, PREFETCHED, TagArray};
use crate::machine::Machine;
use crate::memory::pages::{mixed, without_home};
use crate::memory::route::Route;
use crate::words::{Path, Queue, Stage, Target};

/// Fill buffers that the first-level prefetcher leaves free.
const L1_RESERVE: usize = 4;
/// Lines whose successors the first-level prefetcher remembers.
const RECENT_MISSES: usize = 4;

/// Paths whose lines do not come to the core.
const NOT_FOR_CORES: &[Path] = &[Path::PfLlc, Path::Nt];

pub(crate) struct PrivateCaches {
    l1: TagArray,
    l2: TagArray,
    pub buffers: EntryTable,
    pub queue: EntryTable,
    write_backs: WriteBacks,
    streamer: Streamer,
    prefetch_limit: usize,
    has_next_line: bool,
    recent: [u64; RECENT_MISSES],
    route: Route,
    pub arrivals: Vec<Arrival>,
}

/// A line's number among those of a cache: areas begin at different sets.
fn index(line: u64) -> u64 {
    (line & 0xffff_ffff) + (mixed(line >> 32) >> 32)
}

impl PrivateCaches {
    pub fn new(machine: &Machine, workloads: usize, route: Route) -> Self {
        PrivateCaches {
            l1: TagArray::new(machine.l1d.kib, machine.l1d.ways),
            l2: TagArray::new(machine.l2.kib, machine.l2.ways),
            buffers: EntryTable::new(machine.l1d.fill_buffers, workloads),
            queue: EntryTable::new(machine.l2.super_queue, workloads),
            write_backs: WriteBacks::new(machine.l2.write_back_buffers),
            streamer: Streamer::new(&machine.prefetch),
            prefetch_limit: machine.prefetch.queue_limit as usize,
            has_next_line: machine.prefetch.l1_next_line,
            recent: [0; RECENT_MISSES],
            route,
            arrivals: Vec::new(),
        }
    }

    pub fn count(&self) -> (usize, usize) {
        (self.l1.count(), self.l2.count())
    }

    pub fn load(&mut self, line: u64, cpu: u16, work: &mut Clockwork) -> Found {
        if self.l1.touch(index(line), line, 0, 0).is_some() {
            return Found::InL1;
        }
        if let Some(number) = self.under_way(line, work) {
            self.join(number, work);
            return Found::Request {
                number,
                is_new: false,
            };
        }
        let number = work.begin(line, cpu, Path::Drd, Stage::FillBuffer);
        work.requests[number].has_load = true;
        work.settle(cpu);
        work.meters[usize::from(cpu)].loads_out += 1;
        self.want_buffer(number, work);
        self.next_line(line, cpu, work);
        Found::Request {
            number,
            is_new: true,
        }
    }

    /// A store wants a line: the request that brings it. Nothing if L1D has it.
    pub fn own(&mut self, line: u64, cpu: u16, work: &mut Clockwork) -> u32 {
        if self.l1.flags(index(line), line).is_some() {
            return NONE;
        }
        let number = self.under_way(line, work).unwrap_or_else(|| {
            let number = work.begin(line, cpu, Path::Rfo, Stage::FillBuffer);
            self.want_buffer(number, work);
            number
        });
        work.requests[number].has_store = true;
        number
    }

    /// A non-temporal store of a whole line: the request that carries it.
    pub fn combine(&mut self, line: u64, cpu: u16, work: &mut Clockwork) -> u32 {
        self.l1.remove(index(line), line);
        self.l2.remove(index(line), line);
        let number = work.begin(line, cpu, Path::Nt, Stage::FillBuffer);
        // The core and the memory both know it to its end.
        work.requests[number].parts = 2;
        self.want_buffer(number, work);
        number
    }

    /// Writes to a line, if L1D has it.
    pub fn write(&mut self, line: u64) -> bool {
        self.l1.touch(index(line), line, DIRTY, 0).is_some()
    }

    /// A device has written the line: it goes.
    pub fn invalidate(&mut self, line: u64) {
        self.l1.remove(index(line), line);
        self.l2.remove(index(line), line);
    }

    /// The fill-buffer request for a line that is under way.
    fn under_way(&self, line: u64, work: &Clockwork) -> Option<u32> {
        let without = &[Path::Nt];
        let found = self.buffers.find(line, without, &work.requests);
        found.or_else(|| self.buffers.find_waiting(line, without, &work.requests))
    }

    fn join(&mut self, number: u32, work: &mut Clockwork) {
        let request = &work.requests[number];
        if request.has_load {
            return;
        }
        let (cpu, has_buffer) = (request.cpu, request.has_fill_buffer);
        let is_sent = request.is_beyond_l2 && (request.rides_on != NONE || request.has_queue_entry);
        let is_beyond_l2 = request.is_beyond_l2;
        work.settle(cpu);
        let root = work.root(number);
        let is_late =
            work.requests[number].path.is_prefetch() || work.requests[root].path.is_prefetch();
        work.requests[number].has_load = true;
        let mut beyond_llc = 0;
        if is_sent {
            work.requests[root].loads_behind += 1;
            beyond_llc = u32::from(work.requests[root].is_llc_miss);
        }
        let meter = &mut work.meters[usize::from(cpu)];
        meter.loads_out += 1;
        meter.count(CpuCount::PrefetchLate, u64::from(is_late));
        meter.loads_in_buffers += u32::from(has_buffer);
        meter.loads_beyond_l2 += u32::from(is_beyond_l2);
        meter.loads_beyond_llc += beyond_llc;
    }

    fn want_buffer(&mut self, number: u32, work: &mut Clockwork) {
        if self.buffers.has_spare(1) {
            self.grant_buffer(number, work);
            return;
        }
        work.enter(number, Stage::FillBuffer, true);
        let cpu = work.requests[number].cpu;
        work.settle(cpu);
        work.meters[usize::from(cpu)].buffer_waits += 1;
        self.buffers.wait(number, work);
    }

    fn grant_buffer(&mut self, number: u32, work: &mut Clockwork) {
        let request = &mut work.requests[number];
        request.has_fill_buffer = true;
        let (cpu, path, has_load) = (request.cpu, request.path, request.has_load);
        self.buffers.put(number, work);
        work.take(number, Queue::FillBuffers);
        work.settle(cpu);
        work.meters[usize::from(cpu)].loads_in_buffers += u32::from(has_load);
        if path == Path::Nt {
            self.want_queue(number, work);
            let cpu = u32::from(cpu);
            work.post(0, Signal::Run { cpu });
        } else {
            work.enter(number, Stage::L2, false);
            work.post(work.timings.l2, Signal::L2Result { request: number });
        }
    }

    fn release_buffer(&mut self, number: u32, work: &mut Clockwork) {
        self.buffers.remove(number, work);
        work.leave(number, Queue::FillBuffers);
        if let Some(next) = self.buffers.next_waiting(work) {
            let cpu = work.requests[next].cpu;
            work.settle(cpu);
            work.meters[usize::from(cpu)].buffer_waits -= 1;
            self.grant_buffer(next, work);
        }
    }

    /// The first-level prefetcher: a second miss in a row brings the line after it.
    fn next_line(&mut self, line: u64, cpu: u16, work: &mut Clockwork) {
        if !self.has_next_line {
            return;
        }
        let name = without_home(line);
        let is_next = self.recent.contains(&(name.wrapping_sub(1)));
        self.recent.rotate_right(1);
        self.recent[0] = name;
        let Some(next) = work.pages.physical(name + 1).filter(|_| is_next) else {
            return;
        };
        let is_free = self.buffers.has_spare(L1_RESERVE + 1);
        let is_there = self.l1.flags(index(next), next).is_some();
        if is_free && !is_there && self.under_way(next, work).is_none() {
            self.recent.rotate_right(1);
            self.recent[0] = name + 1;
            let number = work.begin(next, cpu, Path::PfL1, Stage::FillBuffer);
            self.grant_buffer(number, work);
        }
    }

    /// The second-level cache has looked a request up. A line that is on its way already is not asked for
    /// again: the request rides on the one that fetches it.
    pub fn l2_result(&mut self, number: u32, work: &mut Clockwork) {
        let request = &work.requests[number];
        let (line, path, cpu) = (request.line, request.path, request.cpu);
        let flags = self.l2.touch(index(line), line, 0, PREFETCHED);
        let counted = match (path, flags.is_some()) {
            (Path::Rfo, true) => CpuCount::L2RfoHit,
            (Path::Rfo, false) => CpuCount::L2RfoMiss,
            (Path::PfL1, true) => CpuCount::L2PrefetchHit,
            (Path::PfL1, false) => CpuCount::L2PrefetchMiss,
            (_, true) => CpuCount::L2ReadHit,
            (_, false) => CpuCount::L2ReadMiss,
        };
        work.meters[usize::from(cpu)].count(counted, 1);
        self.run_ahead(line, cpu, work);
        if flags.is_some() {
            work.requests[number].supplier = Target::Own;
            self.finish_buffer(number, number, work);
            return;
        }
        work.settle(cpu);
        work.requests[number].is_beyond_l2 = true;
        let has_load = work.requests[number].has_load;
        work.meters[usize::from(cpu)].loads_beyond_l2 += u32::from(has_load);
        match self.queue.find(line, NOT_FOR_CORES, &work.requests) {
            Some(root) => self.ride(number, root, work),
            None => self.want_queue(number, work),
        }
    }

    /// The request's line is already on its way for another.
    fn ride(&mut self, number: u32, root: u32, work: &mut Clockwork) {
        work.settle(work.requests[number].cpu);
        let next = std::mem::replace(&mut work.requests[root].riders, number);
        let request = &mut work.requests[number];
        request.pass_time(work.now);
        request.rides_on = root;
        request.next_rider = next;
        let (cpu, has_load) = (usize::from(request.cpu), request.has_load);
        let was_awaited = std::mem::take(&mut request.is_awaited);
        let root_request = &mut work.requests[root];
        root_request.loads_behind += u16::from(has_load);
        let beyond_llc = u32::from(has_load && root_request.is_llc_miss);
        let is_late = root_request.path.is_prefetch();
        let meter = &mut work.meters[cpu];
        meter.loads_beyond_llc += beyond_llc;
        meter.count(CpuCount::PrefetchLate, u64::from(has_load && is_late));
        if was_awaited {
            meter.awaited = root;
            root_request.is_awaited = true;
        }
    }

    fn is_queue_open(&self) -> bool {
        self.queue.has_room() && !self.write_backs.is_full()
    }

    fn want_queue(&mut self, number: u32, work: &mut Clockwork) {
        if self.is_queue_open() && self.queue.has_spare(1) {
            self.grant_queue(number, work);
            return;
        }
        work.enter(number, Stage::SuperQueue, true);
        let cpu = work.requests[number].cpu;
        work.settle(cpu);
        work.meters[usize::from(cpu)].queue_waits += 1;
        self.queue.wait(number, work);
    }

    fn grant_queue(&mut self, number: u32, work: &mut Clockwork) {
        let now = work.now;
        let request = &mut work.requests[number];
        request.has_queue_entry = true;
        request.is_beyond_l2 = true;
        request.loads_behind += u16::from(request.has_load);
        let (cpu, path) = (request.cpu, request.path);
        self.queue.put(number, work);
        work.take(number, Queue::SuperQueue);
        work.settle(cpu);
        work.meters[usize::from(cpu)].queue[path as usize].add(now);
        self.send(number, work);
    }

    fn send(&self, number: u32, work: &mut Clockwork) {
        let request = &work.requests[number];
        let hop = self.route.hop(request.line, request.cpu, work);
        work.enter(number, Stage::Mesh, false);
        work.post(hop, Signal::AtCha { request: number });
    }

    fn release_queue(&mut self, number: u32, work: &mut Clockwork) {
        let now = work.now;
        self.queue.remove(number, work);
        work.leave(number, Queue::SuperQueue);
        let request = &work.requests[number];
        let (path, supplier) = (request.path, request.supplier);
        let is_llc_miss = request.is_llc_miss && path == Path::Drd;
        let cpu = usize::from(request.cpu);
        work.settle(cpu as u16);
        let meter = &mut work.meters[cpu];
        meter.queue[path as usize].remove(now);
        meter.responses[path as usize][supplier as usize] += 1;
        if is_llc_miss {
            meter.queue_llc_miss.remove(now);
        }
    }

    fn grant_waiting(&mut self, work: &mut Clockwork) {
        while self.is_queue_open() {
            let Some(next) = self.queue.next_waiting(work) else {
                return;
            };
            let (cpu, line, path) = {
                let request = &work.requests[next];
                (request.cpu, request.line, request.path)
            };
            work.settle(cpu);
            work.meters[usize::from(cpu)].queue_waits -= 1;
            // A prefetch may have gone out for the line meanwhile.
            match self.queue.find(line, NOT_FOR_CORES, &work.requests) {
                Some(root) if path != Path::Nt => self.ride(next, root, work),
                _ => self.grant_queue(next, work),
            }
        }
    }

    /// The second-level prefetcher sees an access, and asks for lines ahead of it: the near ones for L2, the
    /// far ones for the last-level cache.
    ///
    /// It gives up at the first line that finds no entry of the super queue, because demand goes first, and
    /// begins there at the next access. Behind the end of the program's area there is nothing to ask for.
    fn run_ahead(&mut self, line: u64, cpu: u16, work: &mut Clockwork) {
        let ahead = self.streamer.observe(without_home(line));
        let mut asked = 0;
        for name in ahead.near.0..ahead.near.0 + ahead.near.1 {
            let Some(line) = work.pages.physical(name) else {
                break;
            };
            let is_there = self.l2.flags(index(line), line).is_some();
            if !is_there && !self.queue.has(line) {
                let is_busy = !self.is_queue_open() || !self.queue.has_spare(1);
                if is_busy || self.queue.len() >= self.prefetch_limit {
                    break;
                }
                let number = work.begin(line, cpu, Path::PfL2, Stage::L2);
                work.meters[usize::from(cpu)].count(CpuCount::L2PrefetchMiss, 1);
                self.grant_queue(number, work);
            } else {
                work.meters[usize::from(cpu)].count(CpuCount::L2PrefetchHit, 1);
            }
            asked += 1;
        }
        self.streamer.advance(ahead.near.0, asked);
        for name in ahead.far.0..ahead.far.0 + ahead.far.1 {
            let Some(line) = work.pages.physical(name) else {
                break;
            };
            let is_there = self.l2.flags(index(line), line).is_some();
            let is_known = is_there || self.queue.has(line);
            if !is_known && self.is_queue_open() && self.queue.has_spare(1) {
                let number = work.begin(line, cpu, Path::PfLlc, Stage::L2);
                work.requests[number].parts = 2;
                self.grant_queue(number, work);
            }
        }
    }

    pub fn fill(&mut self, number: u32, work: &mut Clockwork) {
        self.release_queue(number, work);
        let request = &work.requests[number];
        let is_unused = request.path == Path::PfL2 && request.riders == NONE;
        let mut flags = if request.is_dirty { DIRTY } else { 0 };
        flags |= if is_unused { PREFETCHED } else { 0 };
        let (line, mut rider) = (request.line, request.riders);
        let has_fill_buffer = request.has_fill_buffer;
        self.put_in_l2(line, flags, work);
        while rider != NONE {
            let next = work.requests[rider].next_rider;
            work.requests[rider].supplier = work.requests[number].supplier;
            self.finish_buffer(rider, number, work);
            rider = next;
        }
        if has_fill_buffer {
            self.finish_buffer(number, number, work);
        } else {
            work.finish(number);
        }
        self.grant_waiting(work);
    }

    /// A line goes into L1D, and its fill buffer is free. `root` is the request that brought it.
    fn finish_buffer(&mut self, number: u32, root: u32, work: &mut Clockwork) {
        let request = &work.requests[number];
        let (line, cpu) = (request.line, request.cpu);
        if request.has_load {
            let (beyond_l2, beyond_llc) = (request.is_beyond_l2, work.requests[root].is_llc_miss);
            work.settle(cpu);
            let meter = &mut work.meters[usize::from(cpu)];
            meter.loads_out -= 1;
            meter.loads_in_buffers -= 1;
            meter.loads_beyond_l2 -= u32::from(beyond_l2);
            meter.loads_beyond_llc -= u32::from(beyond_llc);
        }
        let request = &work.requests[number];
        self.arrivals.push(Arrival {
            request: number,
            cpu,
            slots: request.slots,
            supplier: request.supplier,
            has_store: request.has_store,
        });
        if let Some((victim, flags)) = self.l1.insert(index(line), line, 0, u32::MAX) {
            work.meters[usize::from(cpu)].count(CpuCount::L1Replaced, 1);
            if flags & DIRTY != 0 && self.l2.touch(index(victim), victim, DIRTY, 0).is_none() {
                self.put_in_l2(victim, DIRTY, work);
            }
        }
        self.release_buffer(number, work);
        work.finish(number);
    }

    fn put_in_l2(&mut self, line: u64, flags: u8, work: &mut Clockwork) {
        let Some((victim, mut flags)) = self.l2.insert(index(line), line, flags, u32::MAX) else {
            return;
        };
        // What L2 puts out leaves L1D too.
        flags |= self.l1.remove(index(victim), victim).unwrap_or(0) & DIRTY;
        let cpu = work.pages.cpu(victim);
        let is_dirty = flags & DIRTY != 0;
        let meter = &mut work.meters[usize::from(cpu)];
        let counted = if is_dirty {
            CpuCount::L2OutDirty
        } else {
            CpuCount::L2OutClean
        };
        meter.count(counted, 1);
        meter.count(
            CpuCount::PrefetchUseless,
            u64::from(flags & PREFETCHED != 0),
        );
        let path = if is_dirty { Path::Wb } else { Path::Clean };
        let number = work.begin(victim, cpu, path, Stage::L2);
        work.requests[number].is_dirty = is_dirty;
        work.requests[number].parts = 2;
        if self.write_backs.admit(number) {
            self.send(number, work);
        } else {
            work.enter(number, Stage::L2, true);
        }
    }

    /// The CHA has taken a posted request over.
    pub fn accepted(&mut self, number: u32, work: &mut Clockwork) {
        match work.requests[number].path {
            Path::Wb | Path::Clean => {
                if let Some(next) = self.write_backs.end_one() {
                    self.send(next, work);
                }
            }
            Path::Nt => {
                self.release_queue(number, work);
                self.release_buffer(number, work);
            }
            _ => self.release_queue(number, work),
        }
        work.forget(number);
        self.grant_waiting(work);
    }
}
