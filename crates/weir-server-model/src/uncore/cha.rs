// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A caching and home agent: a bounded ingress, a bounded table of requests (TOR), a slice of the last-level
//! cache.
//!
//! A request keeps its TOR entry until its data is back or its write is taken over. While the table is full
//! requests wait in the ingress in order, whatever memory they want; while that is full they wait on the
//! mesh. The slice holds what cores put out: a read that hits takes the line away, modified or not.

use crate::engine::calendar::Signal;
use crate::engine::clockwork::Clockwork;
use crate::engine::occupancy::Occupancy;
use crate::engine::tags::{DIRTY, TagArray};
use crate::machine::ChaFigures;
use crate::memory::route::Route;
use crate::truth::Contention;
use crate::words::{Path, Queue, Stage, Target};
use std::collections::VecDeque;

/// What happens to a request next, outside of the CHA.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Onward {
    /// A signal will bring it.
    Later,
    Memory(u32),
    Finished,
}

pub(crate) struct Cha {
    ingress: VecDeque<u32>,
    ingress_most: usize,
    outside: VecDeque<u32>,
    tor_used: u32,
    tor_most: u32,
    slice: TagArray,
    /// The ways that each workload may fill, as a mask.
    masks: Vec<u32>,
    io_mask: u32,
    route: Route,
    /// Occupancy of the table of requests, by path and target.
    pub tor: [[Occupancy; Target::COUNT]; Path::COUNT],
    pub ingress_use: Occupancy,
    pub arrivals: u64,
    /// Requests that found the table full.
    pub rejects: u64,
    pub contention: Contention,
}

impl Cha {
    pub fn new(figures: &ChaFigures, masks: Vec<u32>, route: Route) -> Self {
        let all = u32::MAX >> (32 - figures.llc_ways);
        Cha {
            ingress: VecDeque::new(),
            ingress_most: figures.ingress_entries as usize,
            outside: VecDeque::new(),
            tor_used: 0,
            tor_most: figures.tor_entries,
            slice: TagArray::new(figures.llc_kib, figures.llc_ways),
            io_mask: all & !(all >> figures.io_ways),
            contention: Contention::new(masks.len()),
            masks: masks.into_iter().map(|mask| mask & all).collect(),
            route,
            tor: Default::default(),
            ingress_use: Occupancy::default(),
            arrivals: 0,
            rejects: 0,
        }
    }

    pub fn count(&self) -> usize {
        self.slice.count()
    }

    /// Puts a line into the slice without any request, before the run.
    pub fn warm(&mut self, line: u64, owner: u8, work: &Clockwork) {
        let index = self.route.in_slice(line, work);
        self.slice
            .insert(index, line, 0, self.masks[usize::from(owner)]);
    }

    pub fn arrive(&mut self, number: u32, work: &mut Clockwork) {
        self.arrivals += 1;
        if self.tor_used < self.tor_most && self.ingress.is_empty() {
            self.allocate(number, work);
            return;
        }
        self.rejects += 1;
        work.enter(number, Stage::Mesh, true);
        self.contention.wait(work.now, work.requests[number].owner);
        if self.ingress.len() < self.ingress_most {
            self.queue(number, work);
        } else {
            self.outside.push_back(number);
        }
    }

    fn queue(&mut self, number: u32, work: &mut Clockwork) {
        work.take(number, Queue::Ingress);
        self.ingress_use.add(work.now);
        self.ingress.push_back(number);
    }

    /// The request gets an entry of the table; the slice is looked up.
    fn allocate(&mut self, number: u32, work: &mut Clockwork) {
        self.tor_used += 1;
        self.look_up(number, work);
        work.take(number, Queue::Tor);
        work.enter(number, Stage::Llc, false);
        let request = &work.requests[number];
        self.contention.take(work.now, request.owner);
        self.tor[request.path as usize][request.supplier as usize].add(work.now);
        work.post(work.timings.lookup, Signal::LlcResult { request: number });
    }

    /// Looks a line up in the slice, when its request gets the entry in the table of requests.
    ///
    /// The slice is no copy of L2. A line that a core reads leaves it and comes back when L2 puts it out,
    /// clean or modified; a prefetch into the last-level cache leaves it there; a non-temporal store takes it
    /// out.
    fn look_up(&mut self, number: u32, work: &mut Clockwork) {
        let request = &work.requests[number];
        let (line, path, cpu) = (request.line, request.path, request.cpu);
        let (owner, is_dirty) = (request.owner, request.is_dirty);
        let index = self.route.in_slice(line, work);
        let is_far = self.route.is_far(line, cpu, work);
        let cache = if is_far { Target::Snc } else { Target::Llc };
        let flags = if is_dirty { DIRTY } else { 0 };
        match path {
            Path::Drd | Path::Rfo | Path::PfL1 | Path::PfL2 => {
                if let Some(flags) = self.slice.remove(index, line) {
                    work.requests[number].supplier = cache;
                    work.requests[number].is_dirty |= flags & DIRTY != 0;
                }
            }
            Path::PfLlc => {
                if self.slice.touch(index, line, 0, 0).is_some() {
                    work.requests[number].supplier = cache;
                }
            }
            Path::Wb | Path::Clean => {
                let mask = self.masks[usize::from(owner)];
                let victim = self.slice.insert(index, line, flags, mask);
                work.requests[number].victim = modified(victim);
                work.requests[number].supplier = cache;
            }
            Path::Nt => drop(self.slice.remove(index, line)),
            Path::Io => {
                let victim = self.slice.insert(index, line, DIRTY, self.io_mask);
                work.requests[number].victim = modified(victim);
                work.requests[number].supplier = cache;
            }
        }
    }

    /// The slice has answered: the request goes on to memory, back to its core, or is done. A core that
    /// writes, or that stores past the caches, is told as soon as the home agent has the line: such requests
    /// are posted, and what happens to them later holds up no core.
    pub fn result(&mut self, number: u32, work: &mut Clockwork) -> Onward {
        let request = &work.requests[number];
        let (path, line, cpu) = (request.path, request.line, request.cpu);
        let is_miss = request.supplier.is_memory();
        let hop = self.route.hop(line, cpu, work);
        match path {
            Path::Wb | Path::Clean | Path::Io => {
                work.post(hop, Signal::Accepted { request: number });
                self.finish_insert(number, work)
            }
            Path::Nt => {
                work.post(hop, Signal::Accepted { request: number });
                Onward::Memory(number)
            }
            Path::PfLlc if !is_miss => {
                work.post(hop, Signal::Accepted { request: number });
                self.release(number, work);
                work.finish(number);
                Onward::Finished
            }
            _ if is_miss => {
                if path == Path::PfLlc {
                    work.post(hop, Signal::Accepted { request: number });
                }
                missed(number, work);
                Onward::Memory(number)
            }
            _ => {
                self.release(number, work);
                work.enter(number, Stage::Mesh, false);
                work.post(hop, Signal::Fill { request: number });
                Onward::Later
            }
        }
    }

    /// A line is in the slice; what it put out takes over the entry in the table on its way to memory. So
    /// write-backs hold entries that reads want: with slow writes to CXL memory the table fills, and reads of
    /// DRAM wait behind them.
    fn finish_insert(&mut self, number: u32, work: &mut Clockwork) -> Onward {
        let victim = work.requests[number].victim;
        if victim == u64::MAX {
            self.release(number, work);
            work.finish(number);
            return Onward::Finished;
        }
        self.leave(number, work);
        work.finish(number);
        let eviction = work.begin(victim, work.pages.cpu(victim), Path::Wb, Stage::Tor);
        self.tor_used += 1;
        work.take(eviction, Queue::Tor);
        let request = &work.requests[eviction];
        self.contention.take(work.now, request.owner);
        self.tor[Path::Wb as usize][request.supplier as usize].add(work.now);
        Onward::Memory(eviction)
    }

    /// Data or a completion are back from memory.
    pub fn returned(&mut self, number: u32, work: &mut Clockwork) -> Onward {
        let request = &work.requests[number];
        let (path, line, cpu) = (request.path, request.line, request.cpu);
        match path {
            Path::Wb | Path::Nt => {
                self.release(number, work);
                if request_is_in_write_queue(line, work) {
                    work.forget(number);
                } else {
                    work.finish(number);
                }
                Onward::Finished
            }
            Path::PfLlc => {
                let index = self.route.in_slice(line, work);
                let mask = self.masks[usize::from(work.requests[number].owner)];
                let victim = self.slice.insert(index, line, 0, mask);
                work.requests[number].victim = modified(victim);
                self.finish_insert(number, work)
            }
            _ => {
                self.release(number, work);
                let request = &mut work.requests[number];
                if request.is_remote_hit {
                    request.supplier = Target::RemoteCache;
                }
                let hop = self.route.hop(line, cpu, work);
                work.enter(number, Stage::Mesh, false);
                work.post(hop, Signal::Fill { request: number });
                Onward::Later
            }
        }
    }

    fn leave(&mut self, number: u32, work: &mut Clockwork) {
        self.tor_used -= 1;
        work.leave(number, Queue::Tor);
        let request = &work.requests[number];
        self.contention.leave(work.now, request.owner);
        self.tor[request.path as usize][request.supplier as usize].remove(work.now);
    }

    /// An entry of the table is free: the next request in the ingress gets it.
    fn release(&mut self, number: u32, work: &mut Clockwork) {
        self.leave(number, work);
        let Some(next) = self.ingress.pop_front() else {
            return;
        };
        self.ingress_use.remove(work.now);
        self.contention
            .end_wait(work.now, work.requests[next].owner);
        if let Some(outside) = self.outside.pop_front() {
            self.queue(outside, work);
        }
        self.allocate(next, work);
        work.leave(next, Queue::Ingress);
    }
}

fn modified(victim: Option<(u64, u8)>) -> u64 {
    match victim {
        Some((line, flags)) if flags & DIRTY != 0 => line,
        _ => u64::MAX,
    }
}

/// A write to the socket's own DRAM is taken over by the channel's queue, and goes on there.
fn request_is_in_write_queue(line: u64, work: &Clockwork) -> bool {
    work.pages.memory(line) == Target::Dram
}

/// The core learns, by its counters, that loads wait for memory.
fn missed(number: u32, work: &mut Clockwork) {
    let cpu = work.requests[number].cpu;
    work.settle(cpu);
    let now = work.now;
    let request = &mut work.requests[number];
    request.is_llc_miss = true;
    let meter = &mut work.meters[usize::from(cpu)];
    meter.loads_beyond_llc += u32::from(request.loads_behind);
    if request.path == Path::Drd {
        meter.queue_llc_miss.add(now);
    }
}
