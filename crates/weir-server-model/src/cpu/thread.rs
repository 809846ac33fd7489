// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A thread: it dispatches instructions in order into a window, executes loads as their addresses are known,
//! retires in order, and lets retired stores leave the store buffer in order.
//!
//! Instructions between accesses are not simulated one by one: a *dispatch point* moves over them at the
//! program's pace. It stands still where the window ends (at its oldest load that is not done) or at a store
//! for which the buffer has no room.

use crate::cpu::arrival::{Arrival, Found};
use crate::cpu::meter::{CpuCount, Halt};
use crate::cpu::private_caches::PrivateCaches;
use crate::cpu::program::{Access, Program, Step};
use crate::engine::calendar::Signal;
use crate::engine::clockwork::Clockwork;
use crate::engine::request::NONE;
use crate::machine::CoreFigures;
use crate::words::{Stage, Target};
use std::collections::VecDeque;

/// A time that is not known yet.
const LATER: u64 = u64::MAX;
/// Loads of a mix that later ones may need: how far back the load may lie whose value is an address.
const HISTORY: u64 = 16;
/// Bits behind the point of the time per instruction. A core that dispatches six instructions in a cycle
/// takes some 50 ps for each, and whole picoseconds would round that by a percent.
const FRACTION_BITS: u32 = 10;

#[derive(Clone, Copy)]
struct Slot {
    instruction: u64,
    line: u64,
    done_at: u64,
    request: u32,
    /// Next slot that waits for the same request.
    next: u32,
    /// First slot that needs this one's result, and the next that needs the same.
    needed_by: u32,
    next_needing: u32,
    per_line: u32,
    is_store: bool,
    /// It met a request under way.
    is_merged: bool,
}

/// Stores to a line in the store buffer.
struct BufferedStores {
    line: u64,
    count: u32,
    is_nt: bool,
    request: u32,
    is_asked: bool,
}

pub(crate) struct Thread {
    pub cpu: u16,
    program: Program,
    step: Step,
    /// Number of the next access's instruction.
    instruction: u64,
    reached: u64,
    reached_at: u64,
    instruction_time: u64,
    ipc: f64,
    width: f64,
    window: u64,
    slots: Vec<Slot>,
    first: u64,
    end: u64,
    history: Vec<([u64; HISTORY as usize], u64)>,
    stores: VecDeque<BufferedStores>,
    stores_used: u32,
    stores_most: u32,
    retired_stores: usize,
    rfo_ahead: usize,
    drain_at: u64,
    wake_at: u64,
    start: u64,
}

impl Thread {
    /// A thread that starts its program at `start`; `share` threads run on its core.
    pub fn new(
        cpu: u16,
        mut program: Program,
        figures: &CoreFigures,
        share: u32,
        start: u64,
    ) -> Self {
        let window = (figures.window / share).max(2);
        let step = program.next(start);
        let empty = Slot {
            instruction: 0,
            line: 0,
            done_at: LATER,
            request: NONE,
            next: NONE,
            needed_by: NONE,
            next_needing: NONE,
            per_line: 1,
            is_store: false,
            is_merged: false,
        };
        Thread {
            cpu,
            program,
            instruction: u64::from(step.gap),
            step,
            reached: 0,
            reached_at: start,
            instruction_time: 0,
            ipc: 0.0,
            width: figures.width,
            window: u64::from(window),
            slots: vec![empty; window.next_power_of_two() as usize],
            first: 0,
            end: 0,
            history: Vec::new(),
            stores: VecDeque::new(),
            stores_used: 0,
            stores_most: figures.store_buffer / share,
            retired_stores: 0,
            rfo_ahead: figures.rfo_ahead as usize,
            drain_at: 0,
            wake_at: LATER,
            start,
        }
    }

    pub fn start(&self) -> u64 {
        self.start
    }

    fn index(&self, number: u64) -> u32 {
        (number & (self.slots.len() as u64 - 1)) as u32
    }

    pub fn woken(&mut self, now: u64) {
        if self.wake_at <= now {
            self.wake_at = LATER;
        }
    }

    fn wake(&mut self, at: u64, work: &mut Clockwork) {
        if at < self.wake_at {
            self.wake_at = at;
            work.calendar.post(
                at,
                Signal::Run {
                    cpu: u32::from(self.cpu),
                },
            );
        }
    }

    /// Goes on as far as it can now, and sees to it that it is woken when it can again.
    ///
    /// A thread moves from access to access and not from cycle to cycle. It stands still in three cases: the
    /// next access is not due yet by the pace of its program; the window is full behind a load that waits; or
    /// the store buffer is full. In the first case it knows when it goes on, in the others an event will wake
    /// it.
    pub fn advance(&mut self, caches: &mut PrivateCaches, work: &mut Clockwork) {
        loop {
            self.retire(work);
            self.drain(caches, work);
            if work.meters[usize::from(self.cpu)].halt != Halt::No {
                self.reached_at = work.now;
            }
            let limit = self.limit();
            let goal = self.instruction.min(limit);
            self.keep_pace(work.timings.cycle);
            let way = ((goal - self.reached) * self.instruction_time) >> FRACTION_BITS;
            let mut at = self.reached_at + way;
            if goal == self.instruction && goal < limit {
                at = at.max(self.step.not_before);
            }
            if at > work.now {
                self.resume(work);
                self.wake(at, work);
                break;
            }
            self.reached = goal;
            self.reached_at = work.now;
            if self.instruction >= limit {
                self.halt(Halt::Load, work);
                break;
            }
            if self.step.access != Access::Load && !self.has_store_room() {
                self.halt(Halt::Store, work);
                break;
            }
            self.resume(work);
            self.dispatch(caches, work);
        }
        if self.retired_stores > 0 && self.drain_at > work.now {
            self.wake(self.drain_at, work);
        }
    }

    fn keep_pace(&mut self, cycle: u64) {
        let ipc = self.program.ipc().min(self.width);
        if ipc != self.ipc {
            self.ipc = ipc;
            self.instruction_time = ((cycle << FRACTION_BITS) as f64 / ipc) as u64;
        }
    }

    /// The instruction at which the window ends.
    fn limit(&self) -> u64 {
        if self.first == self.end {
            return u64::MAX;
        }
        self.slots[self.index(self.first) as usize].instruction + self.window
    }

    fn has_store_room(&self) -> bool {
        self.stores.is_empty() || self.stores_used + self.step.per_line <= self.stores_most
    }

    fn retire(&mut self, work: &mut Clockwork) {
        let meter = &mut work.meters[usize::from(self.cpu)];
        while self.first < self.end {
            let slot = &self.slots[self.index(self.first) as usize];
            if slot.done_at > work.now {
                meter.retired = slot.instruction;
                return;
            }
            if slot.is_store {
                self.retired_stores += 1;
                meter.count(CpuCount::Stores, u64::from(slot.per_line));
            }
            self.first += 1;
        }
        meter.retired = self.reached;
    }

    /// Stands still from now on; or goes on standing still, perhaps for another request.
    fn halt(&mut self, halt: Halt, work: &mut Clockwork) {
        let cpu = usize::from(self.cpu);
        if work.meters[cpu].halt != halt {
            work.settle(self.cpu);
            work.meters[cpu].halt = halt;
        }
        if halt == Halt::Load {
            let slot = self.slots[self.index(self.first) as usize];
            if slot.done_at != LATER {
                self.wake(slot.done_at, work);
            }
            let place = if slot.done_at == LATER {
                Stage::Core
            } else {
                Stage::L1d
            };
            self.await_request(slot.request, place, work);
        } else {
            let request = self.stores.front().map_or(NONE, |stores| stores.request);
            if self.retired_stores > 0 {
                self.await_request(request, Stage::StoreBuffer, work);
            } else if self.first < self.end {
                // The oldest store has not retired: a load before it is not done.
                let slot = self.slots[self.index(self.first) as usize];
                self.await_request(slot.request, Stage::Core, work);
            }
        }
    }

    fn await_request(&self, request: u32, place: Stage, work: &mut Clockwork) {
        let request = if request == NONE {
            NONE
        } else {
            work.root(request)
        };
        let meter = &work.meters[usize::from(self.cpu)];
        if meter.awaited == request && meter.place == place {
            return;
        }
        work.settle(self.cpu);
        let meter = &mut work.meters[usize::from(self.cpu)];
        let before = std::mem::replace(&mut meter.awaited, request);
        meter.place = place;
        if before != NONE {
            work.requests[before].is_awaited = false;
        }
        if request != NONE {
            work.requests[request].is_awaited = true;
        }
    }

    fn resume(&mut self, work: &mut Clockwork) {
        let cpu = usize::from(self.cpu);
        if work.meters[cpu].halt != Halt::No {
            work.settle(self.cpu);
            work.meters[cpu].halt = Halt::No;
            self.await_request(NONE, Stage::Core, work);
        }
    }

    /// Puts the next access into the window and draws the one after it. A store is done for the window at
    /// once, because it goes on from the store buffer after it has retired; a load is done when its data
    /// comes. A load whose address is the value of another load is issued when that one has its data
    /// ([`Self::is_ready`]).
    fn dispatch(&mut self, caches: &mut PrivateCaches, work: &mut Clockwork) {
        let step = self.step;
        let number = self.end;
        let index = self.index(number);
        self.end += 1;
        let is_store = step.access != Access::Load;
        self.slots[index as usize] = Slot {
            instruction: self.instruction,
            line: step.line,
            done_at: if is_store { work.now } else { LATER },
            request: NONE,
            next: NONE,
            needed_by: NONE,
            next_needing: NONE,
            per_line: step.per_line,
            is_store,
            is_merged: false,
        };
        work.meters[usize::from(self.cpu)].accesses += 1;
        if is_store {
            self.stores_used += step.per_line;
            self.stores.push_back(BufferedStores {
                line: step.line,
                count: step.per_line,
                is_nt: step.access == Access::NtStore,
                request: NONE,
                is_asked: false,
            });
        } else if self.is_ready(number, &step, work) {
            self.issue(index, caches, work);
        }
        self.step = self.program.next(work.now);
        self.instruction += u64::from(step.per_line) + u64::from(self.step.gap);
    }

    /// Whether a load's address is known; if not it is put behind the load that gives it.
    fn is_ready(&mut self, number: u64, step: &Step, work: &mut Clockwork) -> bool {
        while self.history.len() <= step.mix {
            self.history.push(([0; HISTORY as usize], 0));
        }
        let index = self.index(number);
        let (numbers, count) = &mut self.history[step.mix];
        let needs = u64::from(step.needs);
        let needed =
            (needs > 0 && *count >= needs).then(|| numbers[((*count - needs) % HISTORY) as usize]);
        numbers[(*count % HISTORY) as usize] = number;
        *count += 1;
        let Some(needed) = needed.filter(|needed| *needed >= self.first) else {
            return true;
        };
        let at = self.index(needed) as usize;
        let done_at = self.slots[at].done_at;
        if done_at == LATER {
            self.slots[index as usize].next_needing = self.slots[at].needed_by;
            self.slots[at].needed_by = index;
            return false;
        }
        if done_at > work.now {
            let cpu = u32::from(self.cpu);
            work.calendar
                .post(done_at, Signal::Issue { cpu, slot: index });
            return false;
        }
        true
    }

    pub fn issue(&mut self, index: u32, caches: &mut PrivateCaches, work: &mut Clockwork) {
        let (line, per_line) = {
            let slot = &self.slots[index as usize];
            (slot.line, u64::from(slot.per_line))
        };
        let Some(line) = work.pages.physical(line) else {
            return;
        };
        match caches.load(line, self.cpu, work) {
            Found::InL1 => {
                let meter = &mut work.meters[usize::from(self.cpu)];
                meter.count(CpuCount::Loads, per_line);
                meter.count(CpuCount::LoadsL1, per_line);
                self.done(index, work.now + work.timings.l1, work);
            }
            Found::Request { number, is_new } => {
                let slot = &mut self.slots[index as usize];
                slot.request = number;
                slot.is_merged = !is_new;
                slot.next = work.requests[number].slots;
                work.requests[number].slots = index;
            }
        }
    }

    /// A load has its value from `at` on.
    fn done(&mut self, index: u32, at: u64, work: &mut Clockwork) {
        let slot = &mut self.slots[index as usize];
        slot.done_at = at;
        slot.request = NONE;
        let mut needing = slot.needed_by;
        slot.needed_by = NONE;
        while needing != NONE {
            let cpu = u32::from(self.cpu);
            work.calendar.post(at, Signal::Issue { cpu, slot: needing });
            needing = self.slots[needing as usize].next_needing;
        }
    }

    pub fn arrived(&mut self, arrival: &Arrival, work: &mut Clockwork) {
        let mut index = arrival.slots;
        while index != NONE {
            let slot = self.slots[index as usize];
            let meter = &mut work.meters[usize::from(self.cpu)];
            meter.count(CpuCount::Loads, u64::from(slot.per_line));
            let source = if slot.is_merged {
                CpuCount::LoadsFillBuffer
            } else {
                CpuCount::of_source(arrival.supplier)
            };
            meter.count(source, 1);
            meter.count(CpuCount::LoadsFillBuffer, u64::from(slot.per_line - 1));
            self.done(index, work.now, work);
            index = slot.next;
        }
        if arrival.has_store {
            if arrival.supplier == Target::Own {
                work.meters[usize::from(self.cpu)].count(CpuCount::StoresL2, 1);
            }
            for stores in self
                .stores
                .iter_mut()
                .filter(|s| s.request == arrival.request)
            {
                stores.request = NONE;
            }
        }
    }

    /// Lets retired stores leave, the oldest first, and asks for the lines of those behind it.
    fn drain(&mut self, caches: &mut PrivateCaches, work: &mut Clockwork) {
        while self.retired_stores > 0 && self.drain_at <= work.now {
            let (line, count) = (self.stores[0].line, self.stores[0].count);
            let is_out = if self.stores[0].is_nt {
                self.combine_first(caches, work)
            } else {
                work.pages
                    .physical(line)
                    .is_none_or(|line| caches.write(line))
            };
            if !is_out {
                break;
            }
            self.drain_at = work.now + u64::from(count) * work.timings.cycle;
            self.stores.pop_front();
            self.stores_used -= count;
            self.retired_stores -= 1;
        }
        for n in 0..self.retired_stores.min(self.rfo_ahead) {
            let stores = &self.stores[n];
            let is_first = n == 0 && self.drain_at <= work.now;
            if stores.is_nt || stores.request != NONE || (stores.is_asked && !is_first) {
                continue;
            }
            let line = work.pages.physical(stores.line);
            let request = line.map_or(NONE, |line| caches.own(line, self.cpu, work));
            self.stores[n].request = request;
            self.stores[n].is_asked = true;
        }
    }

    /// A non-temporal store leaves when it has a fill buffer.
    fn combine_first(&mut self, caches: &mut PrivateCaches, work: &mut Clockwork) -> bool {
        let Some(line) = work.pages.physical(self.stores[0].line) else {
            return true;
        };
        if self.stores[0].request == NONE {
            self.stores[0].request = caches.combine(line, self.cpu, work);
        }
        work.requests[self.stores[0].request].has_fill_buffer
    }
}
