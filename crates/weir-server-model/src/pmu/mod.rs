// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Performance counters: what can be counted, and counting it under the limits of real counters.
//!
//! Each unit kind (`cpu`, `cha`, `imc`, …) has boxes, each box a few counters of limited width. Sets of
//! events take turns; boxes are read one after the other. So a count has, as `perf` shows it, a value, the
//! time it was enabled and the time it ran.

mod boxes;
mod catalogue;
mod plan;
mod unit;

pub use catalogue::{EventInfo, catalogue};
pub use plan::{CounterFault, CountingPlan, EventSet, FaultKind};
pub use unit::UnitKind;

use crate::engine::calendar::Signal;
use crate::machine::Machine;
use crate::machine::timings::picos;
use crate::socket::Socket;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use weir_core::random::SplitMix;
use weir_description::DescriptionError;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CountWindow {
    /// Number of the window, from 0.
    pub number: u32,
    /// When the first box was read at its beginning, nanoseconds.
    pub from_ns: f64,
    /// When the first box was read at its end.
    pub to_ns: f64,
    /// The window was lost on its way (a fault): it has no counts.
    pub is_lost: bool,
    pub counts: Vec<EventCount>,
}

/// What a box counted of an event.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EventCount {
    /// The event: see [`catalogue`].
    pub event: Arc<str>,
    pub unit: UnitKind,
    /// Number of the box among its kind: for `cpu` the CPU, for `cha` the CHA, and so on.
    pub index: u32,
    /// Counted while it ran. Without a unit of its own: cycles are those of the box's clock.
    pub value: u64,
    /// Time of the window, nanoseconds.
    pub enabled_ns: f64,
    /// Time in which it had a counter.
    pub running_ns: f64,
}

struct Slot {
    event: Arc<str>,
    /// Index into the catalogue.
    info: usize,
    /// Set that it belongs to.
    set: usize,
    /// Register when it began to run, and where the counter stood at power-on.
    begun: u64,
    offset: u64,
    value: u64,
    running: u64,
}

struct CounterBox {
    unit: UnitKind,
    index: u32,
    delay: u64,
    slots: Vec<Slot>,
    sets: usize,
    set: usize,
    enabled_at: u64,
    running_at: u64,
    closes_at: u64,
    turns_at: u64,
    is_open: bool,
    closed: Vec<EventCount>,
}

pub(crate) struct Pmu {
    machine: Machine,
    catalogue: Vec<EventInfo>,
    boxes: Vec<CounterBox>,
    turn: u64,
    mask: u64,
    faults: Vec<CounterFault>,
    number: u32,
    is_running: bool,
    random: SplitMix,
    cpus: Vec<u16>,
    scratch: Vec<u64>,
}

impl Pmu {
    pub fn new(machine: &Machine, cpus: &[u16], seed: u64) -> Self {
        Pmu {
            machine: machine.clone(),
            catalogue: catalogue(machine),
            boxes: Vec::new(),
            turn: u64::MAX,
            mask: u64::MAX >> (64 - machine.pmu.width_bits),
            faults: Vec::new(),
            number: 0,
            is_running: false,
            random: SplitMix::new(seed ^ 0x9_0b),
            cpus: cpus.to_vec(),
            scratch: Vec::new(),
        }
    }

    pub fn set_plan(&mut self, plan: &CountingPlan) -> Result<(), DescriptionError> {
        plan.check(&self.machine, &self.catalogue)?;
        self.turn = plan.turn_us.map_or(u64::MAX, |us| picos(us * 1000.0));
        self.faults = plan.fault.clone();
        self.boxes.clear();
        self.is_running = false;
        let read = picos(self.machine.pmu.read_ns);
        for &unit in UnitKind::ALL {
            let sets: Vec<&EventSet> = plan.set.iter().filter(|set| set.unit == unit).collect();
            if sets.is_empty() {
                continue;
            }
            // Boxes that begin at different sets count them all at the same time. CPUs run different
            // programs: one does not stand for another.
            let is_shifted = plan.is_spread && (unit != UnitKind::Cpu || plan.turn_us.is_none());
            for index in unit.boxes(&self.machine, &self.cpus) {
                let slots = self.slots(&sets);
                let position = self.boxes.len() as u64;
                self.boxes.push(CounterBox {
                    unit,
                    index,
                    delay: position * read,
                    slots,
                    sets: sets.len(),
                    set: if is_shifted {
                        index as usize % sets.len()
                    } else {
                        0
                    },
                    enabled_at: 0,
                    running_at: 0,
                    closes_at: u64::MAX,
                    turns_at: u64::MAX,
                    is_open: false,
                    closed: Vec::new(),
                });
            }
        }
        Ok(())
    }

    fn slots(&mut self, sets: &[&EventSet]) -> Vec<Slot> {
        let mut slots = Vec::new();
        for (number, set) in sets.iter().enumerate() {
            for event in &set.events {
                let is_it = |info: &EventInfo| info.unit == set.unit && *info.name == **event;
                let Some(info) = self.catalogue.iter().position(is_it) else {
                    continue;
                };
                slots.push(Slot {
                    event: self.catalogue[info].name.clone(),
                    info,
                    set: number,
                    begun: 0,
                    offset: (self.random.unit() * self.mask as f64) as u64,
                    value: 0,
                    running: 0,
                });
            }
        }
        slots
    }

    pub fn stop(&mut self) {
        self.is_running = false;
    }

    /// A window from `from` to `end`, picoseconds.
    pub fn begin(&mut self, from: u64, end: u64, socket: &mut Socket) {
        for number in 0..self.boxes.len() {
            if !self.is_running {
                let turn = self.turn;
                let counters = &mut self.boxes[number];
                counters.enabled_at = socket.work.now;
                counters.turns_at = from.saturating_add(turn).saturating_add(counters.delay);
                for slot in &mut counters.slots {
                    (slot.value, slot.running) = (0, 0);
                }
                if turn != u64::MAX && counters.sets > 1 {
                    let unit = number as u32;
                    socket
                        .work
                        .calendar
                        .post(counters.turns_at, Signal::Sample { unit });
                }
                self.start(number, socket);
            }
            let counters = &mut self.boxes[number];
            counters.closes_at = end + counters.delay;
            counters.is_open = true;
            let unit = number as u32;
            socket
                .work
                .calendar
                .post(counters.closes_at, Signal::Sample { unit });
        }
        self.is_running = true;
    }

    /// Whether a box of the window is still to be read.
    pub fn is_open(&self) -> bool {
        self.boxes.iter().any(|counters| counters.is_open)
    }

    /// A box is read: its set's turn ends, or its window does.
    ///
    /// Boxes are read one after the other, each a little later than the one before, as a profiler reads them
    /// through the kernel. So windows of two boxes do not begin and end together, and sums over boxes have
    /// the error that a real recording has.
    pub fn sample(&mut self, number: usize, socket: &mut Socket) {
        let now = socket.work.now;
        let is_turn =
            self.is_running && self.boxes[number].turns_at == now && self.boxes[number].sets > 1;
        let is_end = self.boxes[number].is_open && self.boxes[number].closes_at == now;
        if !is_turn && !is_end {
            return;
        }
        self.read(number, socket);
        let counters = &mut self.boxes[number];
        if is_turn {
            counters.set = (counters.set + 1) % counters.sets;
            counters.turns_at = now + self.turn;
            let unit = number as u32;
            socket
                .work
                .calendar
                .post(counters.turns_at, Signal::Sample { unit });
        }
        if is_end {
            counters.is_open = false;
            let enabled_ns = (now - counters.enabled_at) as f64 / 1000.0;
            counters.enabled_at = now;
            let counts = counters.slots.iter_mut().map(|slot| EventCount {
                event: slot.event.clone(),
                unit: counters.unit,
                index: counters.index,
                value: std::mem::take(&mut slot.value),
                enabled_ns,
                running_ns: std::mem::take(&mut slot.running) as f64 / 1000.0,
            });
            counters.closed = counts.collect();
        }
        self.start(number, socket);
    }

    fn registers(&mut self, number: usize, socket: &mut Socket) {
        let counters = &self.boxes[number];
        self.scratch.clear();
        boxes::read(counters.unit, counters.index, socket, &mut self.scratch);
    }

    fn start(&mut self, number: usize, socket: &mut Socket) {
        self.registers(number, socket);
        let counters = &mut self.boxes[number];
        counters.running_at = socket.work.now;
        for slot in counters
            .slots
            .iter_mut()
            .filter(|slot| slot.set == counters.set)
        {
            let count = self.catalogue[slot.info].count(&self.scratch);
            slot.begun = count.wrapping_add(slot.offset) & self.mask;
        }
    }

    fn read(&mut self, number: usize, socket: &mut Socket) {
        self.registers(number, socket);
        let counters = &mut self.boxes[number];
        let ran = socket.work.now - counters.running_at;
        for slot in counters
            .slots
            .iter_mut()
            .filter(|slot| slot.set == counters.set)
        {
            let count = self.catalogue[slot.info].count(&self.scratch);
            let register = count.wrapping_add(slot.offset) & self.mask;
            slot.value += register.wrapping_sub(slot.begun) & self.mask;
            slot.running += ran;
        }
    }

    /// The counts of the window, with the plan's faults.
    pub fn finish(&mut self, from: u64, end: u64) -> CountWindow {
        let number = self.number;
        self.number += 1;
        let closed = self
            .boxes
            .iter_mut()
            .flat_map(|counters| std::mem::take(&mut counters.closed));
        let mut counts: Vec<EventCount> = closed.collect();
        let active = self.faults.iter().filter(|fault| fault.is_active(number));
        let mut is_lost = false;
        for fault in active {
            is_lost |= fault.kind == FaultKind::LostWindow;
            for count in counts.iter_mut().filter(|count| fault.is_for(count)) {
                fault.apply(count, number);
            }
        }
        if is_lost {
            counts.clear();
        }
        CountWindow {
            number,
            from_ns: from as f64 / 1000.0,
            to_ns: end as f64 / 1000.0,
            is_lost,
            counts,
        }
    }
}
