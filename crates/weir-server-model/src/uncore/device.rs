// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A CXL device by its profile, line by line: the medium works in bursts, as in
//! [`weir_hw::memory_device::event_sim`]. Latency rises with the load of other CPUs (N equal ones meet 1 −
//! 1/N of it, an assumption for devices whose profile does not say so) and has a spread and rare stalls.
//! What overload costs in bandwidth is left out: credits bound the load.

use crate::engine::calendar::Signal;
use crate::engine::clockwork::Clockwork;
use crate::engine::occupancy::Occupancy;
use crate::machine::CxlFigures;
use crate::machine::timings::picos;
use crate::truth::Contention;
use crate::uncore::is_write;
use crate::words::{Queue, Stage};
use std::collections::VecDeque;
use weir_core::random::SplitMix;
use weir_hw::memory_device::{Profile, Tail};

/// Time over which load is averaged, picoseconds.
const LOAD_PS: f64 = 5e6;
/// The part of the constant latency that is left at least, whatever the spread.
const LEAST_PART: f64 = 0.25;

pub(crate) struct CxlDevice {
    number: u32,
    queue: VecDeque<u32>,
    in_service: Option<u8>,
    /// Medium's time for a line by part of writes, nanoseconds.
    line_ns: Vec<(f64, f64)>,
    burst_ns: f64,
    rise_ns: f64,
    rise_exponent: f64,
    tail: Tail,
    random: SplitMix,
    /// Recent lines: reads, writes, and by owner.
    load: [f64; 2],
    load_by_owner: Vec<f64>,
    /// The same by CPU, each with the time of its last line.
    load_by_cpu: Vec<(f64, u64)>,
    load_at: u64,
    /// Occupancy by requests from their arrival to the response.
    pub uses: Occupancy,
    pub contention: Contention,
}

impl CxlDevice {
    pub fn new(
        number: u32,
        figures: &CxlFigures,
        profile: &Profile,
        workloads: usize,
        seed: u64,
    ) -> Self {
        let mixes = profile.mix.iter().filter(|mix| !mix.non_temporal);
        let line_ns = mixes.map(|mix| {
            let media = figures
                .media_bytes_per_sec
                .unwrap_or(mix.media_bytes_per_sec);
            let line_ns = if figures.is_always_idle {
                0.0
            } else {
                64e9 / media
            };
            (mix.write_ratio, line_ns)
        });
        let reads = &profile.mix[0];
        CxlDevice {
            number,
            queue: VecDeque::new(),
            in_service: None,
            line_ns: line_ns.collect(),
            burst_ns: figures.burst_ns.unwrap_or(reads.burst_ns),
            rise_ns: figures.rise_ns.unwrap_or(reads.rise_ns),
            rise_exponent: reads.rise_exponent,
            tail: profile.tail.clone(),
            random: SplitMix::new(seed ^ 0xC0FFEE ^ u64::from(number) << 32),
            load: [0.0; 2],
            load_by_owner: vec![0.0; workloads],
            load_by_cpu: Vec::new(),
            load_at: 0,
            uses: Occupancy::default(),
            contention: Contention::new(workloads),
        }
    }

    pub fn arrive(&mut self, number: u32, work: &mut Clockwork) {
        work.enter(number, Stage::Device, true);
        work.take(number, Queue::Device);
        self.uses.add(work.now);
        self.contention.wait(work.now, work.requests[number].owner);
        self.queue.push_back(number);
        if self.in_service.is_none() {
            self.serve(work);
        }
    }

    pub fn free(&mut self, work: &mut Clockwork) {
        if let Some(owner) = self.in_service.take() {
            self.contention.leave(work.now, owner);
        }
        self.serve(work);
    }

    /// Lines go to the medium until one begins a burst.
    ///
    /// The profile describes the medium as M/G/1 with `E[S²]/E[S]` equal to the burst: it works for a burst
    /// at once, and then for nothing. Here that is drawn. A line begins a burst with the probability line ÷
    /// burst, and takes no time of the medium otherwise, so that the mean is the line's time and the variance
    /// is the profile's.
    fn serve(&mut self, work: &mut Clockwork) {
        while let Some(number) = self.queue.pop_front() {
            let owner = work.requests[number].owner;
            let is_write = is_write(work.requests[number].path);
            self.contention.end_wait(work.now, owner);
            work.leave(number, Queue::Credits);
            let flight = work.timings.device[self.number as usize].flight;
            let device = self.number;
            work.post(
                flight,
                Signal::Credit {
                    device,
                    is_write,
                    owner,
                },
            );
            work.enter(number, Stage::Device, false);
            let line_ns = self.line_ns(work.now, owner, is_write);
            let latency = self.latency(number, line_ns, work);
            work.post(latency, Signal::DeviceReady { request: number });
            if self.random.unit() * self.burst_ns < line_ns {
                self.in_service = Some(owner);
                self.contention.take(work.now, owner);
                let time = picos(self.burst_ns.max(line_ns));
                work.post(time, Signal::MediumFree { device });
                return;
            }
        }
    }

    pub fn ready(&mut self, number: u32, work: &mut Clockwork) {
        work.leave(number, Queue::Device);
        self.uses.remove(work.now);
    }

    /// The medium's time for a line in the recent mix, which the line then belongs to.
    fn line_ns(&mut self, now: u64, owner: u8, is_write: bool) -> f64 {
        let kept = (-((now - self.load_at) as f64) / LOAD_PS).exp();
        self.load_at = now;
        self.load = self.load.map(|lines| lines * kept);
        for lines in &mut self.load_by_owner {
            *lines *= kept;
        }
        self.load[usize::from(is_write)] += 1.0;
        self.load_by_owner[usize::from(owner)] += 1.0;
        let ratio = self.load[1] / (self.load[0] + self.load[1]);
        let above = self.line_ns.iter().position(|(at, _)| *at >= ratio);
        match above {
            Some(0) => self.line_ns[0].1,
            None => self.line_ns[self.line_ns.len() - 1].1,
            Some(n) => {
                let ((low, before), (high, after)) = (self.line_ns[n - 1], self.line_ns[n]);
                before + (after - before) * (ratio - low) / (high - low)
            }
        }
    }

    /// Recent lines of a CPU, the present one included.
    fn own_load(&mut self, cpu: u16, now: u64) -> f64 {
        let index = usize::from(cpu.wrapping_add(1));
        if self.load_by_cpu.len() <= index {
            self.load_by_cpu.resize(index + 1, (0.0, 0));
        }
        let (lines, at) = &mut self.load_by_cpu[index];
        *lines = *lines * (-((now - *at) as f64) / LOAD_PS).exp() + 1.0;
        *at = now;
        *lines
    }

    /// Time of a line in the device without waiting for the medium. What load adds counts as wait, and is
    /// charged to the recent load.
    fn latency(&mut self, number: u32, line_ns: f64, work: &mut Clockwork) -> u64 {
        let timings = &work.timings.device[self.number as usize];
        let (constant, idle_ns) = (timings.constant as f64, timings.idle_ns);
        let mut rise_ns = 0.0;
        if self.rise_ns > 0.0 {
            let lines = self.load[0] + self.load[1];
            let load = (lines * line_ns * 1000.0 / LOAD_PS).min(1.0);
            let others = 1.0 - self.own_load(work.requests[number].cpu, work.now) / lines;
            rise_ns = self.rise_ns * load.powf(self.rise_exponent) * others.max(0.0);
            let request = &mut work.requests[number];
            let rise = picos(rise_ns);
            request.waited[Stage::Device as usize] += rise as u32;
            self.contention
                .charge(request.owner, rise as f64, &self.load_by_owner);
        }
        let mut extra_ns = rise_ns;
        if self.tail.spread > 0.0 {
            let spread = self.tail.spread;
            let factor = (spread * self.random.normal() - 0.5 * spread * spread).exp();
            extra_ns += (idle_ns + rise_ns) * (factor - 1.0);
        }
        if self.tail.stall_ratio > 0.0 {
            extra_ns -= self.tail.stall_ratio * self.tail.stall_ns;
            if self.random.unit() < self.tail.stall_ratio {
                extra_ns -= self.tail.stall_ns * (1.0 - self.random.unit()).ln();
            }
        }
        (constant + extra_ns * 1000.0).max(LEAST_PART * constant) as u64
    }
}
