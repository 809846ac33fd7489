// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Mixes of sources on one DDR4 channel, and what an order makes of them.

use weir_dram::order::{Atlas, FrLvtf};
use weir_dram::{
    ChannelSettings, ClosedLoop, DramChannel, DramOrder, DramProfile, LatencyHistogram,
    LoopPattern, LoopSource, OrderKind,
};

const ENTRIES: u32 = 64;

pub struct Mix {
    pub name: &'static str,
    pub sources: Vec<LoopSource>,
}

fn source(pattern: LoopPattern, window: u32) -> LoopSource {
    LoopSource {
        pattern,
        window,
        gap: 1.0,
    }
}

pub fn random(window: u32) -> LoopSource {
    source(LoopPattern::Random, window)
}

pub fn stream(window: u32) -> LoopSource {
    source(LoopPattern::Stream, window)
}

pub fn copy(window: u32) -> LoopSource {
    source(LoopPattern::Copy, window)
}

/// Blocks of 128 KiB at 7.3 GB/s, 2 µs apart.
pub fn disk() -> LoopSource {
    let pattern = LoopPattern::Disk {
        block_bursts: 2048,
        pause: 3200,
    };
    LoopSource {
        gap: 14.0,
        ..source(pattern, 1)
    }
}

pub fn mixes() -> Vec<Mix> {
    let mix = |name, sources: &[LoopSource]| Mix {
        name,
        sources: sources.to_vec(),
    };
    vec![
        mix("2 copies, 16 + 16 out", &[copy(16), copy(16)]),
        mix("2 copies, 8 + 64", &[copy(8), copy(64)]),
        mix("random 2 + copy 64", &[random(2), copy(64)]),
        mix("random 8 + copy 64", &[random(8), copy(64)]),
        mix("random 16 + stream 64", &[random(16), stream(64)]),
        mix("2 streams, 16 + 64", &[stream(16), stream(64)]),
        mix("stream 32 + disk", &[stream(32), disk()]),
        mix("copy 32 + disk", &[copy(32), disk()]),
        mix("random 4 + disk", &[random(4), disk()]),
        mix("random 4 + random 32", &[random(4), random(32)]),
        mix(
            "4 random, 4 to 16",
            &[random(4), random(8), random(12), random(16)],
        ),
        mix(
            "random 2, copy 32, stream 32, disk",
            &[random(2), copy(32), stream(32), disk()],
        ),
        mix(
            "4 random 4, 4 copies 8",
            &[
                random(4),
                random(4),
                random(4),
                random(4),
                copy(8),
                copy(8),
                copy(8),
                copy(8),
            ],
        ),
    ]
}

/// What the sources of a mix were served.
pub struct MixRun {
    /// Bytes per nanosecond (GB/s) of each source.
    pub rates: Vec<f64>,
    /// Standard deviation ÷ mean of a source's share in windows, where it is worst.
    pub scatter: f64,
    /// 99th percentile of the reads of the first source, nanoseconds.
    pub first_p99_ns: f64,
}

impl MixRun {
    pub fn total(&self) -> f64 {
        self.rates.iter().sum()
    }

    /// Largest deviation of a source's share from this allocation's.
    pub fn share_error(&self, allocation: &[f64]) -> f64 {
        let all: f64 = allocation.iter().sum();
        let errors = self.rates.iter().zip(allocation).map(|(rate, allocated)| {
            let share = rate / self.total();
            (share / (allocated / all) - 1.0).abs()
        });
        errors.fold(0.0, f64::max)
    }
}

pub struct Bench {
    pub profile: DramProfile,
    /// Windows that are measured, and those before them.
    pub windows: u64,
    pub warm_windows: u64,
    pub window_clocks: u64,
}

impl Bench {
    pub fn run(&self, sources: &[LoopSource], order: OrderKind, shares: Option<&[f64]>) -> MixRun {
        let settings = ChannelSettings {
            entries: ENTRIES,
            ..ChannelSettings::PEERS
        };
        let mut channel = DramChannel::new(&self.profile, settings, self.order(order));
        if let Some(shares) = shares {
            channel.set_shares(shares);
        }
        let mut running = ClosedLoop::new(channel, sources);
        let mut counts: Vec<Vec<f64>> = vec![Vec::new(); sources.len()];
        let mut before = vec![0; sources.len()];
        for window in 0..self.warm_windows + self.windows {
            running.run_to((window + 1) * self.window_clocks);
            let now = running.accepted();
            if window >= self.warm_windows {
                for (index, count) in counts.iter_mut().enumerate() {
                    count.push((now[index] - before[index]) as f64);
                }
            }
            before = now;
        }
        let bytes = self.profile.organisation.burst_bytes as f64;
        let window_ns = self.profile.ns(self.window_clocks as f64);
        let mean = |of: &[f64]| of.iter().sum::<f64>() / of.len() as f64;
        let in_window = |window: usize| counts.iter().map(|of| of[window]).sum::<f64>();
        let scatter = |of: &Vec<f64>| {
            let shares = of
                .iter()
                .enumerate()
                .map(|(window, count)| count / in_window(window));
            let shares: Vec<f64> = shares.collect();
            let mean = mean(&shares);
            let squares = shares
                .iter()
                .map(|share| (share - mean).powi(2))
                .sum::<f64>();
            (squares / shares.len() as f64).sqrt() / mean.max(1e-9)
        };
        let none = LatencyHistogram::default();
        let tally = running.channel().tallies().of(0);
        let reads = tally.map_or(&none, |tally| &tally.read_latency);
        MixRun {
            rates: counts
                .iter()
                .map(|of| mean(of) * bytes / window_ns)
                .collect(),
            scatter: counts.iter().map(scatter).fold(0.0, f64::max),
            first_p99_ns: self.profile.ns(reads.quantile(0.99).unwrap_or(0.0)),
        }
    }

    /// The order; those that rank sources each few milliseconds do so each 40 µs here.
    fn order(&self, kind: OrderKind) -> Box<dyn DramOrder> {
        match kind {
            OrderKind::FrLvtf => Box::new(FrLvtf::new(&self.profile, 40e3)),
            OrderKind::Atlas => Box::new(Atlas::new(&self.profile, 64_000)),
            other => other.order(&self.profile, ENTRIES),
        }
    }

    pub fn alone(&self, sources: &[LoopSource]) -> Vec<f64> {
        let one = |source: &LoopSource| self.run(&[*source], OrderKind::FrFcfs, None).total();
        sources.iter().map(one).collect()
    }
}

/// Max-min shares of equal weights: each gets what it wants or the same as all others that want more.
pub fn max_min(wanted: &[f64], capacity: f64) -> Vec<f64> {
    let mut level = capacity;
    for _ in 0..64 {
        let used: f64 = wanted.iter().map(|rate| rate.min(level)).sum();
        let limited = wanted.iter().filter(|rate| **rate > level).count();
        if limited == 0 {
            break;
        }
        level += (capacity - used) / limited as f64;
    }
    wanted.iter().map(|rate| rate.min(level)).collect()
}
