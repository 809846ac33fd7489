// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Latency of a chain of random reads beside a stream, as Ramulator 2.1 measures it
//! (`data/dram-loaded-latency.csv`).

use super::settings;
use weir_dram::{
    AddressMapping, BurstKind, BurstRequest, ChannelStep, Clock, DramChannel, DramProfile, Offered,
    OrderKind, Organisation,
};

const ROWS: &str = include_str!("../../data/loaded-latency.csv");

/// The front end asks so often in a clock of the memory.
const TICKS_PER_CLOCK: u64 = 8;
const WARM_UP_CLOCKS: Clock = 10_000;
const PROBES: u64 = 4000;

/// Stream turns between two requests of the stream.
const NOPS: [u64; 16] = [
    16, 17, 18, 19, 20, 21, 22, 24, 27, 30, 35, 42, 60, 120, 400, 5000,
];

/// Ramulator's `LatencyThroughputTrace`: turns of a stream and of a probe alternate.
struct FrontEnd {
    parts: Organisation,
    nops: u64,
    nop: u64,
    reads_percent: u64,
    random: u64,
    streamed: u64,
    is_probe_turn: bool,
    stream: Option<BurstRequest>,
    probe: Option<BurstRequest>,
    probe_done: Option<Clock>,
    in_flight: bool,
}

impl FrontEnd {
    fn draw(&mut self, below: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random >> 11) % below
    }

    /// Number of a burst in the mapping ChRaBaRoCo.
    fn burst(&self, bank: u64, row: u64, column: u64) -> u64 {
        let rows = u64::from(self.parts.rows);
        (bank * rows + row % rows) * u64::from(self.parts.bursts_per_row) + column
    }

    /// Bank groups first, then banks, columns, rows; each bank begins at another column.
    fn next_of_stream(&mut self) -> BurstRequest {
        let (groups, each) = (
            u64::from(self.parts.bank_groups),
            u64::from(self.parts.banks_per_group),
        );
        let banks = groups * each;
        let turn = self.streamed % banks;
        let columns = u64::from(self.parts.bursts_per_row);
        let in_bank = self.streamed / banks + turn * columns / banks;
        let bank = turn % groups * each + turn / groups;
        self.streamed += 1;
        let is_read = self.reads_percent == 100 || self.draw(100) < self.reads_percent;
        BurstRequest {
            source: 0,
            kind: if is_read {
                BurstKind::Read
            } else {
                BurstKind::Write
            },
            burst: self.burst(bank, in_bank / columns, in_bank % columns),
        }
    }

    fn next_probe(&mut self) -> BurstRequest {
        let bank = self.draw(u64::from(self.parts.banks()));
        let row = self.draw(u64::from(self.parts.rows));
        let column = self.draw(u64::from(self.parts.bursts_per_row));
        BurstRequest {
            source: 1,
            kind: BurstKind::Read,
            burst: self.burst(bank, row, column),
        }
    }

    fn tick(&mut self, channel: &mut DramChannel, now: Clock) {
        if !self.is_probe_turn {
            let is_nop = self.nop != 0;
            self.nop = (self.nop + 1) % self.nops;
            if is_nop {
                self.is_probe_turn = true;
                return;
            }
            let request = match self.stream.take() {
                Some(request) => request,
                None => self.next_of_stream(),
            };
            match channel.offer(request, now) {
                Offered::Refused => self.stream = Some(request),
                Offered::Queued | Offered::Merged => self.is_probe_turn = true,
            }
            return;
        }
        if self.in_flight || now < WARM_UP_CLOCKS {
            self.is_probe_turn = false;
            return;
        }
        let request = match self.probe.take() {
            Some(request) => request,
            None => self.next_probe(),
        };
        match channel.offer(request, now) {
            Offered::Refused => self.probe = Some(request),
            Offered::Merged => self.is_probe_turn = false,
            Offered::Queued => {
                self.in_flight = true;
                self.is_probe_turn = false;
            }
        }
    }
}

/// Bandwidth (GB/s) and mean latency of the probe (ns).
fn measured(profile: &DramProfile, reads_percent: u64, nops: u64) -> (f64, f64) {
    let order = OrderKind::RowHitFirst.order(profile, 32);
    let settings = settings(AddressMapping::ChRaBaRoCo, 32);
    let mut channel = DramChannel::new(profile, settings, order);
    let mut front = FrontEnd {
        parts: profile.organisation,
        nops,
        nop: 0,
        reads_percent,
        random: 0x9E37_79B9_7F4A_7C15,
        streamed: 0,
        is_probe_turn: false,
        stream: None,
        probe: None,
        probe_done: None,
        in_flight: false,
    };
    let (mut now, mut probes, mut clocks, mut bursts) = (0, 0, 0, 0);
    while probes < PROBES {
        if front.probe_done.is_some_and(|done| done <= now) {
            front.probe_done = None;
            front.in_flight = false;
        }
        (0..TICKS_PER_CLOCK).for_each(|_| front.tick(&mut channel, now));
        while channel.now() <= now {
            if let ChannelStep::Served(served) = channel.step(now) {
                bursts += u64::from(now >= WARM_UP_CLOCKS);
                if served.request.source == 1 {
                    front.probe_done = Some(served.done);
                    probes += 1;
                    clocks += served.done - served.arrived;
                }
            }
        }
        now += 1;
    }
    let bytes = (bursts * profile.organisation.burst_bytes) as f64;
    let span = profile.ns((now - WARM_UP_CLOCKS) as f64);
    (bytes / span, profile.ns(clocks as f64 / probes as f64))
}

/// Latency at a bandwidth, on straight lines between measured points of rising bandwidth.
fn at(curve: &[(f64, f64)], rate: f64) -> Option<f64> {
    let pair = curve
        .windows(2)
        .find(|pair| pair[0].0 <= rate && rate <= pair[1].0)?;
    let part = (rate - pair[0].0) / (pair[1].0 - pair[0].0);
    Some(pair[0].1 + part * (pair[1].1 - pair[0].1))
}

#[test]
fn loaded_latency_is_that_of_ramulator_below_the_knee() {
    let mut compared = 0;
    for (name, reads) in [
        ("ddr4-3200", 100),
        ("ddr4-3200", 50),
        ("ddr5-4800", 100),
        ("ddr5-4800", 50),
    ] {
        let profile = DramProfile::named(name).unwrap();
        // A DDR5 burst is twice as many clocks.
        let scale = profile.timing.bl_clocks / 4;
        let mut curve: Vec<_> = NOPS
            .iter()
            .map(|nops| measured(&profile, reads, nops * scale))
            .collect();
        curve.reverse();
        let of_curve = ROWS.lines().filter_map(|line| {
            let rest = line.strip_prefix("ramulator-2.1,")?.strip_prefix(name)?;
            let (rate, latency) = rest.strip_prefix(&format!(",{reads},"))?.split_once(',')?;
            Some((
                rate.parse::<f64>().unwrap(),
                latency.parse::<f64>().unwrap(),
            ))
        });
        let rows: Vec<(f64, f64)> = of_curve.collect();
        let most = rows.iter().map(|(rate, _)| *rate).fold(0.0, f64::max);
        for (rate, theirs) in rows.iter().filter(|(rate, _)| *rate <= 0.9 * most) {
            let ours = at(&curve, *rate).unwrap_or(curve[0].1);
            let off = 100.0 * (ours / theirs - 1.0);
            assert!(
                off.abs() <= 5.0,
                "{name}, {reads} % reads, {rate} GB/s: {ours:.1} ns for {theirs} ({off:+.1} %); {curve:?}"
            );
            compared += 1;
        }
    }
    assert!(compared >= 15, "only {compared} points");
}
