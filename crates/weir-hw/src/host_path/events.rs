// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The same path line by line: each line is issued, admitted in order of arrival, served and returned at a
//! time of its own. It knows buffers, queues and clocks, and none of the solver's equations.
//!
//! Random, from one seed: when slots begin, which slice and which server a line goes to, a core's own time
//! (±50 %) and the idle time of a memory (±5 %).

use crate::host_path::flow::PathNetwork;
use crate::host_path::op::Keeping;
use crate::host_path::outcome::PathOutcome;
use crate::host_path::tally::{PS, Tally};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use weir_core::random::SplitMix;

/// Part of the lines that pass before counting begins.
const WARM_UP_PART: f64 = 0.3;
/// Rounds of the slowest slot that a run lasts, at least.
const ROUNDS: f64 = 30.0;
/// Lines at most, as a multiple of what was asked for.
const LINES_MAX_RATIO: u64 = 8;

/// Lines that a limit in front of admission lets pass at once after a pause.
const BURST_LINES: u64 = 64;

/// How long to simulate, and from which seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventPlan {
    /// Lines of all flows together.
    pub lines: u64,
    pub seed: u64,
}

/// What happens next, with the number of the slot or of the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum PathStep {
    /// A request leaves the memory and gives its tracker back.
    Leave(u32),
    /// A request comes to admission.
    Arrive(u32),
    /// A slot sends its next line.
    Issue(u32),
}

/// A line at one of its legs.
#[derive(Clone, Copy, Debug, Default)]
struct Passage {
    slot: u32,
    leg: u8,
    slice: u32,
    since_ps: u64,
}

/// A thread, or an I/O in flight.
#[derive(Clone, Debug)]
struct SlotState {
    flow: u32,
    /// The free buffers of each leg.
    free: Vec<u32>,
    /// How many lines are done with the leg before and wait for a buffer of this one.
    waiting: Vec<u32>,
    /// In a serial flow, the lines of this round that are still to be sent.
    left: u32,
    /// It has no buffer, or waits for its round to end.
    is_asleep: bool,
    /// A limit in front of admission has given it its turn.
    is_granted: bool,
}

#[derive(Clone, Copy, Debug)]
enum Taker {
    Slot(u32),
    /// A line that comes from the leg before.
    Line(u32),
}

/// Credits of one leg of a flow.
#[derive(Clone, Debug)]
struct Credits {
    free: u32,
    queue: VecDeque<Taker>,
}

#[derive(Clone, Debug)]
struct SliceState {
    free: u32,
    queue: VecDeque<u32>,
}

struct PathRun<'a> {
    network: &'a PathNetwork,
    random: SplitMix,
    now_ps: u64,
    steps: BinaryHeap<Reverse<(u64, PathStep)>>,
    passages: Vec<Passage>,
    unused: Vec<u32>,
    slots: Vec<SlotState>,
    credits: Vec<Vec<Option<Credits>>>,
    next_grant_ps: Vec<u64>,
    slices: Vec<Vec<SliceState>>,
    /// For each memory, and each of its servers, the time at which it is free, in picoseconds.
    servers: Vec<Vec<u64>>,
    tally: Tally,
}

#[must_use]
pub fn simulate(network: &PathNetwork, plan: EventPlan) -> PathOutcome {
    let mut host = PathRun::new(network, plan.seed);
    let warm_lines = (plan.lines as f64 * WARM_UP_PART) as u64;
    let slowest = network.flows.iter().map(|flow| {
        let buffers = f64::from(flow.legs[0].buffers);
        let paced = f64::from(flow.slots) * buffers / flow.most_per_ns;
        let own = flow.own_ns * buffers;
        own.max(if flow.most_per_ns.is_finite() {
            paced
        } else {
            0.0
        })
    });
    let round_ps = slowest.fold(1.0, f64::max) * PS;
    let warm_ps = (round_ps * ROUNDS * WARM_UP_PART) as u64;
    let least_ps = (round_ps * ROUNDS) as u64;
    host.run(|sent, now| sent >= warm_lines && now >= warm_ps, plan.lines);
    let begun_ps = host.now_ps;
    host.tally = Tally::new(network);
    host.run(
        |sent, now| sent >= plan.lines && now >= begun_ps + least_ps,
        plan.lines,
    );
    host.outcome(begun_ps)
}

impl<'a> PathRun<'a> {
    fn new(network: &'a PathNetwork, seed: u64) -> Self {
        let mut random = SplitMix::new(seed);
        let mut slots = Vec::new();
        let mut steps = BinaryHeap::new();
        for (number, flow) in network.flows.iter().enumerate() {
            let round = flow.own_ns * f64::from(flow.legs[0].buffers) + 200.0;
            for _ in 0..flow.slots {
                let at = (random.unit() * round * PS) as u64;
                steps.push(Reverse((at, PathStep::Issue(index(slots.len())))));
                slots.push(SlotState {
                    flow: index(number),
                    free: flow.legs.iter().map(|leg| leg.buffers).collect(),
                    waiting: vec![0; flow.legs.len()],
                    left: flow.legs[0].buffers,
                    is_asleep: false,
                    is_granted: false,
                });
            }
        }
        let credits = network.flows.iter().map(|flow| {
            let of_leg = flow.legs.iter().map(|leg| {
                leg.credits.map(|free| Credits {
                    free,
                    queue: VecDeque::new(),
                })
            });
            of_leg.collect()
        });
        let slices = network.pools.iter().map(|pool| {
            let of_slice = (0..pool.slices).map(|number| SliceState {
                free: pool.count / pool.slices + u32::from(number < pool.count % pool.slices),
                queue: VecDeque::new(),
            });
            of_slice.collect()
        });
        let servers = network.memories.iter();
        PathRun {
            credits: credits.collect(),
            slices: slices.collect(),
            servers: servers.map(|m| vec![0; m.servers as usize]).collect(),
            next_grant_ps: vec![0; network.flows.len()],
            tally: Tally::new(network),
            now_ps: 0,
            passages: Vec::new(),
            unused: Vec::new(),
            network,
            random,
            slots,
            steps,
        }
    }

    /// Goes on until it is enough, by the lines that were sent meanwhile and the time.
    fn run(&mut self, is_enough: impl Fn(u64, u64) -> bool, lines: u64) {
        let (mut sent, most) = (0, lines.saturating_mul(LINES_MAX_RATIO));
        while let Some(Reverse((at, step))) = self.steps.pop() {
            self.now_ps = at;
            match step {
                PathStep::Issue(slot) => sent += u64::from(self.issue(slot)),
                PathStep::Arrive(request) => self.arrive(request),
                PathStep::Leave(request) => self.leave(request),
            }
            if sent >= most || is_enough(sent, at) {
                return;
            }
        }
    }

    fn schedule(&mut self, after_ps: u64, step: PathStep) {
        self.steps.push(Reverse((self.now_ps + after_ps, step)));
    }

    fn own_ps(&mut self, flow: usize) -> u64 {
        let jitter = 0.5 + self.random.unit();
        // A slot takes its turn with others even where it needs no time of its own.
        ((self.network.flows[flow].own_ns * jitter * PS) as u64).max(50)
    }

    /// A slot sends a line if it may. Whether it did.
    fn issue(&mut self, number: u32) -> bool {
        let slot = number as usize;
        let flow = self.slots[slot].flow as usize;
        let is_done = self.network.flows[flow].is_serial && self.slots[slot].left == 0;
        if self.slots[slot].free[0] == 0 || is_done {
            self.slots[slot].is_asleep = true;
            return false;
        }
        if !self.has_turn(number, flow) {
            return false;
        }
        if let Some(credits) = &mut self.credits[flow][0] {
            if credits.free == 0 {
                credits.queue.push_back(Taker::Slot(number));
                return false;
            }
            credits.free -= 1;
        }
        self.send(number);
        true
    }

    /// A limit in front of admission lets lines pass one after the other.
    fn has_turn(&mut self, number: u32, flow: usize) -> bool {
        let most = self.network.flows[flow].most_per_ns;
        let slot = &mut self.slots[number as usize];
        if !most.is_finite() || std::mem::take(&mut slot.is_granted) {
            return true;
        }
        let gap = (PS / most) as u64;
        let earliest = self.now_ps.saturating_sub(gap.saturating_mul(BURST_LINES));
        let at = self.next_grant_ps[flow].max(earliest);
        self.next_grant_ps[flow] = at.saturating_add(gap);
        if at <= self.now_ps {
            return true;
        }
        slot.is_granted = true;
        self.schedule(at - self.now_ps, PathStep::Issue(number));
        false
    }

    /// The line leaves the slot; the next one follows after the slot's own time.
    fn send(&mut self, number: u32) {
        let slot = number as usize;
        let flow = self.slots[slot].flow as usize;
        self.slots[slot].free[0] -= 1;
        self.depart(number, 0);
        let is_serial = self.network.flows[flow].is_serial;
        if is_serial {
            self.slots[slot].left -= 1;
        }
        if is_serial && self.slots[slot].left == 0 {
            self.slots[slot].is_asleep = true;
        } else {
            let own = self.own_ps(flow);
            self.schedule(own, PathStep::Issue(number));
        }
    }

    /// A line that has buffer and credit is on its way to admission.
    fn depart(&mut self, slot: u32, leg: u8) {
        let flow = self.slots[slot as usize].flow as usize;
        let figures = self.network.flows[flow].legs[leg as usize];
        let slices = u64::from(self.network.pools[figures.pool].slices);
        let slice = match slices {
            1 => 0,
            _ => index((self.random.bits() % slices) as usize),
        };
        let passage = Passage {
            slot,
            leg,
            slice,
            since_ps: 0,
        };
        let request = match self.unused.pop() {
            Some(request) => request,
            None => {
                self.passages.push(passage);
                index(self.passages.len() - 1)
            }
        };
        self.passages[request as usize] = passage;
        self.schedule((figures.path_ns * PS) as u64, PathStep::Arrive(request));
    }

    fn arrive(&mut self, request: u32) {
        let passage = &mut self.passages[request as usize];
        passage.since_ps = self.now_ps;
        let (slot, leg, slice) = (passage.slot as usize, passage.leg, passage.slice);
        let flow = self.slots[slot].flow as usize;
        let pool = self.network.flows[flow].legs[leg as usize].pool;
        let slice = &mut self.slices[pool][slice as usize];
        if slice.free > 0 {
            slice.free -= 1;
            self.admit(request);
        } else {
            slice.queue.push_back(request);
        }
    }

    fn admit(&mut self, request: u32) {
        let passage = self.passages[request as usize];
        let flow = self.slots[passage.slot as usize].flow as usize;
        let leg = self.network.flows[flow].legs[passage.leg as usize];
        let wait = self.now_ps - passage.since_ps;
        self.tally.pool_wait_ps[leg.pool] += wait;
        self.tally.pool_admitted[leg.pool] += 1;
        if passage.leg == 0 {
            self.tally.flow_wait_ps[flow] += wait;
            self.tally.flow_admitted[flow] += 1;
        }
        let is_cached = leg.memory_part < 1.0 && self.random.unit() >= leg.memory_part;
        let stay = if is_cached {
            (self.network.lookup_ns * PS) as u64
        } else {
            self.serve(leg.memory, leg.work_ns)
        };
        self.tally.pool_residence_ps[leg.pool] += stay;
        if passage.leg == 0 {
            self.tally.flow_residence_ps[flow] += stay;
        }
        self.schedule(stay, PathStep::Leave(request));
        if leg.keeping == Keeping::Posted {
            self.go_on(passage.slot, passage.leg);
        }
    }

    /// How long a line that is admitted now stays. Lines are drawn to the memory's servers, each of which is
    /// slower by the number of them, and wait for their own. The idle part varies by 5 % up and down.
    fn serve(&mut self, memory: usize, work_ns: f64) -> u64 {
        let figures = self.network.memories[memory];
        let servers = &mut self.servers[memory];
        let one = (self.random.bits() % servers.len() as u64) as usize;
        let begin = servers[one].max(self.now_ps);
        servers[one] = begin + (work_ns * f64::from(figures.servers) * PS) as u64;
        let idle = figures.residence_ns * (0.95 + 0.1 * self.random.unit());
        let stay = begin - self.now_ps + (idle * PS) as u64;
        self.tally.memory_residence_ps[memory] += stay;
        self.tally.memory_lines[memory] += 1;
        self.tally.memory_work_ps[memory] += work_ns * PS;
        stay
    }

    fn leave(&mut self, request: u32) {
        let passage = self.passages[request as usize];
        self.unused.push(request);
        let flow = self.slots[passage.slot as usize].flow as usize;
        let leg = self.network.flows[flow].legs[passage.leg as usize];
        let slice = &mut self.slices[leg.pool][passage.slice as usize];
        match slice.queue.pop_front() {
            Some(next) => self.admit(next),
            None => slice.free += 1,
        }
        if leg.keeping == Keeping::Held {
            self.go_on(passage.slot, passage.leg);
        }
    }

    /// A line is done with a leg: it goes to the next as soon as that has a buffer, or is done.
    fn go_on(&mut self, slot: u32, leg: u8) {
        let flow = self.slots[slot as usize].flow as usize;
        let next = leg + 1;
        if leg == 0 {
            self.tally.done[flow] += 1;
        }
        if usize::from(next) == self.network.flows[flow].legs.len() {
            self.release(slot, leg);
            return;
        }
        let state = &mut self.slots[slot as usize];
        if state.free[usize::from(next)] == 0 {
            state.waiting[usize::from(next)] += 1;
            return;
        }
        state.free[usize::from(next)] -= 1;
        self.with_buffer(slot, next);
    }

    /// A line has a buffer of this leg, and waits for a credit where the leg needs one.
    fn with_buffer(&mut self, slot: u32, leg: u8) {
        let flow = self.slots[slot as usize].flow as usize;
        if let Some(credits) = &mut self.credits[flow][usize::from(leg)] {
            if credits.free == 0 {
                credits.queue.push_back(Taker::Line(slot));
                return;
            }
            credits.free -= 1;
        }
        self.depart(slot, leg);
        self.release(slot, leg - 1);
    }

    /// A buffer, and its credit, are free again: the first that waits takes them.
    fn release(&mut self, slot: u32, leg: u8) {
        let number = usize::from(leg);
        let flow = self.slots[slot as usize].flow as usize;
        let taker = self.credits[flow][number].as_mut().and_then(|credits| {
            let first = credits.queue.pop_front();
            credits.free += u32::from(first.is_none());
            first
        });
        match taker {
            Some(Taker::Slot(other)) => self.send(other),
            Some(Taker::Line(other)) => {
                self.depart(other, leg);
                self.release(other, leg - 1);
            }
            None => {}
        }
        let state = &mut self.slots[slot as usize];
        if state.waiting[number] > 0 {
            state.waiting[number] -= 1;
            self.with_buffer(slot, leg);
            return;
        }
        state.free[number] += 1;
        if leg == 0 {
            self.wake(slot, flow);
        }
    }

    /// A slot goes on: at once where it had no buffer, after its own time where its round is over.
    fn wake(&mut self, number: u32, flow: usize) {
        let buffers = self.network.flows[flow].legs[0].buffers;
        let slot = &mut self.slots[number as usize];
        if !slot.is_asleep {
            return;
        }
        if !self.network.flows[flow].is_serial {
            slot.is_asleep = false;
            self.schedule(0, PathStep::Issue(number));
        } else if slot.free[0] == buffers && slot.left == 0 {
            slot.is_asleep = false;
            slot.left = buffers;
            let own = self.own_ps(flow);
            self.schedule(own, PathStep::Issue(number));
        }
    }

    fn outcome(&self, begun_ps: u64) -> PathOutcome {
        let span_ps = (self.now_ps - begun_ps).max(1) as f64;
        self.tally.outcome(self.network, span_ps)
    }
}

fn index(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}
