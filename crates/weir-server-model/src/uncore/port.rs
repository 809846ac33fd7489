// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The port of a CXL device: M2PCIe ingress, credits, both directions of the link.
//!
//! ```text
//! TOR ─► ingress (reads, writes) ─► credit ─► link down ─► device ─► link up ─► CHA
//! ```
//!
//! A read is a short message down and a long one up; a write the other way round. A credit comes back when
//! the device's medium takes the message on.

use crate::engine::calendar::Signal;
use crate::engine::clockwork::Clockwork;
use crate::engine::occupancy::Occupancy;
use crate::machine::CxlFigures;
use crate::truth::Contention;
use crate::uncore::device::CxlDevice;
use crate::uncore::is_write;
use crate::words::{Queue, Stage};
use std::collections::VecDeque;
use weir_core::random::SplitMix;
use weir_hw::memory_device::Profile;

pub(crate) struct Direction {
    queue: VecDeque<u32>,
    in_service: Option<u32>,
    /// Messages in the packing buffer and on the wire.
    pub uses: Occupancy,
    /// Messages without data, with data.
    pub messages: [u64; 2],
    pub resends: u64,
    pub contention: Contention,
}

impl Direction {
    fn new(workloads: usize) -> Self {
        Direction {
            queue: VecDeque::new(),
            in_service: None,
            uses: Occupancy::default(),
            messages: [0; 2],
            resends: 0,
            contention: Contention::new(workloads),
        }
    }

    fn push(&mut self, number: u32, work: &mut Clockwork) {
        work.enter(number, Stage::Port, true);
        self.uses.add(work.now);
        self.contention.wait(work.now, work.requests[number].owner);
        self.queue.push_back(number);
    }

    fn serve(&mut self, work: &mut Clockwork) -> Option<u32> {
        if self.in_service.is_some() {
            return None;
        }
        let number = self.queue.pop_front()?;
        let owner = work.requests[number].owner;
        self.contention.end_wait(work.now, owner);
        self.contention.take(work.now, owner);
        work.enter(number, Stage::Port, false);
        self.in_service = Some(number);
        Some(number)
    }

    fn free(&mut self, work: &mut Clockwork) -> Option<u32> {
        let number = self.in_service.take()?;
        self.contention.leave(work.now, work.requests[number].owner);
        self.uses.remove(work.now);
        Some(number)
    }
}

/// A port with its link and device.
pub(crate) struct Port {
    number: u32,
    is_remote: bool,
    ingress: [VecDeque<u32>; 2],
    ingress_most: usize,
    outside: [VecDeque<u32>; 2],
    credits: [u32; 2],
    resend_part: f64,
    random: SplitMix,
    pub device: CxlDevice,
    pub down: Direction,
    pub up: Direction,
    /// Ingress of reads and of writes.
    pub ingress_uses: [Occupancy; 2],
    /// Time without a credit, of reads and of writes.
    no_credit: [Occupancy; 2],
    pub ingress_contention: Contention,
    pub credit_contention: Contention,
}

impl Port {
    pub fn new(
        number: u32,
        figures: &CxlFigures,
        profile: &Profile,
        workloads: usize,
        seed: u64,
    ) -> Self {
        let credits = figures
            .credits
            .unwrap_or(profile.device.queue_lines as u32)
            .max(1);
        Port {
            number,
            is_remote: figures.is_remote,
            ingress: Default::default(),
            ingress_most: figures.ingress_entries as usize,
            outside: Default::default(),
            credits: [credits; 2],
            resend_part: figures.resend_part,
            random: SplitMix::new(seed ^ 0x11_4b ^ u64::from(number) << 32),
            device: CxlDevice::new(number, figures, profile, workloads, seed),
            down: Direction::new(workloads),
            up: Direction::new(workloads),
            ingress_uses: Default::default(),
            no_credit: Default::default(),
            ingress_contention: Contention::new(workloads),
            credit_contention: Contention::new(workloads),
        }
    }

    /// Picoseconds without a credit: of reads and of writes.
    pub fn without_credit(&self, now: u64) -> [u64; 2] {
        [self.no_credit[0].area(now), self.no_credit[1].area(now)]
    }

    pub fn arrive(&mut self, number: u32, work: &mut Clockwork) {
        let kind = usize::from(is_write(work.requests[number].path));
        if self.ingress[kind].len() >= self.ingress_most {
            work.enter(number, Stage::Tor, true);
            self.ingress_contention
                .wait(work.now, work.requests[number].owner);
            self.outside[kind].push_back(number);
            return;
        }
        self.accept(number, kind, work);
        self.pump(kind, work);
    }

    fn accept(&mut self, number: u32, kind: usize, work: &mut Clockwork) {
        work.enter(number, Stage::Port, true);
        work.take(number, Queue::PortIngress);
        let owner = work.requests[number].owner;
        self.ingress_contention.take(work.now, owner);
        self.credit_contention.wait(work.now, owner);
        self.ingress_uses[kind].add(work.now);
        self.ingress[kind].push_back(number);
    }

    /// Messages for which there are credits go to the link.
    fn pump(&mut self, kind: usize, work: &mut Clockwork) {
        while self.credits[kind] > 0 {
            let Some(number) = self.ingress[kind].pop_front() else {
                break;
            };
            self.credits[kind] -= 1;
            if self.credits[kind] == 0 {
                self.no_credit[kind].add(work.now);
            }
            let owner = work.requests[number].owner;
            work.leave(number, Queue::PortIngress);
            work.take(number, Queue::Credits);
            self.ingress_uses[kind].remove(work.now);
            self.ingress_contention.leave(work.now, owner);
            self.credit_contention.end_wait(work.now, owner);
            self.credit_contention.take(work.now, owner);
            self.down.push(number, work);
            if let Some(next) = self.outside[kind].pop_front() {
                self.ingress_contention
                    .end_wait(work.now, work.requests[next].owner);
                self.accept(next, kind, work);
            }
        }
        self.serve_down(work);
    }

    fn serve_down(&mut self, work: &mut Clockwork) {
        let Some(number) = self.down.serve(work) else {
            return;
        };
        let has_data = is_write(work.requests[number].path);
        let timings = &work.timings.device[self.number as usize];
        let mut time = if has_data {
            timings.down_data
        } else {
            timings.header
        };
        if self.resend_part > 0.0 && self.random.unit() < self.resend_part {
            self.down.resends += 1;
            time += timings.resend;
        }
        self.down.messages[usize::from(has_data)] += 1;
        let device = self.number;
        work.post(time, Signal::DownFree { device });
    }

    pub fn down_free(&mut self, work: &mut Clockwork) {
        if let Some(number) = self.down.free(work) {
            let flight = work.timings.device[self.number as usize].flight;
            work.post(flight, Signal::AtDevice { request: number });
        }
        self.serve_down(work);
    }

    pub fn credit(&mut self, is_write: bool, owner: u8, work: &mut Clockwork) {
        let kind = usize::from(is_write);
        if self.credits[kind] == 0 {
            self.no_credit[kind].remove(work.now);
        }
        self.credits[kind] += 1;
        self.credit_contention.leave(work.now, owner);
        self.pump(kind, work);
    }

    pub fn respond(&mut self, number: u32, work: &mut Clockwork) {
        self.device.ready(number, work);
        self.up.push(number, work);
        self.serve_up(work);
    }

    fn serve_up(&mut self, work: &mut Clockwork) {
        let Some(number) = self.up.serve(work) else {
            return;
        };
        let has_data = !is_write(work.requests[number].path);
        let timings = &work.timings.device[self.number as usize];
        let mut time = if has_data {
            timings.up_data
        } else {
            timings.header
        };
        if self.resend_part > 0.0 && self.random.unit() < self.resend_part {
            self.up.resends += 1;
            time += timings.resend;
        }
        self.up.messages[usize::from(has_data)] += 1;
        let device = self.number;
        work.post(time, Signal::UpFree { device });
    }

    pub fn up_free(&mut self, work: &mut Clockwork) {
        if let Some(number) = self.up.free(work) {
            let mut flight = work.timings.device[self.number as usize].flight;
            let back = if self.is_remote {
                flight += work.timings.upi_way / 2;
                Signal::UpiFar { request: number }
            } else {
                Signal::Returned { request: number }
            };
            work.post(flight, back);
        }
        self.serve_up(work);
    }
}
