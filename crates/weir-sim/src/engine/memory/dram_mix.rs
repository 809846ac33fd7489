// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a mix of sources gets from a DRAM node: a run of the channel's model at command level
//! (`weir_dram`) of some ten thousand lines. Each mix, order, and set of rates or ranks is run once, and
//! kept.

use crate::engine::memory::memory_model::{Class, LineAccess};
use std::collections::HashMap;
use weir_core::units::LINE_BYTES;
use weir_dram::order::{FrLvtf, Rates};
use weir_dram::{
    AddressMapping, ChannelSettings, ClosedLoop, DramChannel, DramOrder, DramProfile, LoopPattern,
    LoopSource, OrderKind,
};
use weir_hw::memory_device::Requester;
use weir_scenario::simulated::{DramNode, MemoryOrder};

/// Bursts before measuring, and measured ones.
const WARM_BURSTS: u64 = 20_000;
const MEASURED_BURSTS: u64 = 60_000;
/// The run is looked at this often, clocks.
const CHUNK_CLOCKS: u64 = 5_000;
/// A run ends here even if hardly anything is moved, clocks.
const RUN_CLOCKS_MAX: u64 = 4_000_000;
/// Rates are kept in steps of this ratio.
const RATE_STEP: f64 = 1.005;
/// Rates below this part of the largest are taken as it.
const RATE_MIN: f64 = 1e-4;
/// Lead and slack of the order of rates are those of a queue of so many entries at most.
const RATES_ENTRIES_MAX: u32 = 16;
/// Its reserve: one line of LPDDR2. A source with one line out that is behind waits for no more of the
/// others', and sources that fill the memory lose nothing (varied: 1 to 5).
const RATES_RESERVE_BURSTS: u32 = 2;
const MIXES_MAX: usize = 20_000;

/// What a memory controller knows of its sources, by workload; those beyond the list have 1 or rank 0.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Arbitration {
    Blind(MemoryOrder),
    /// Rates, of which only ratios count.
    Rates(Vec<f64>),
    /// Ranks: the lowest goes first.
    Ranks(Vec<u64>),
}

impl Arbitration {
    /// The same in steps, so that mixes are found again.
    fn in_steps(self) -> Arbitration {
        let Arbitration::Rates(rates) = self else {
            return self;
        };
        let most = rates.iter().copied().fold(f64::MIN_POSITIVE, f64::max);
        let step = |rate: f64| ((rate / most).max(RATE_MIN).ln() / RATE_STEP.ln()).round();
        Arbitration::Rates(rates.into_iter().map(|r| RATE_STEP.powf(step(r))).collect())
    }
}

/// One task or disk of a mix, in whole thousandths so that it can be looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct MixSource {
    workload: u32,
    access: LineAccess,
    writes_per_mille: u32,
    window_lines: u32,
    /// Least picoseconds between two lines.
    gap_ps: u64,
}

impl MixSource {
    pub(crate) fn new(class: &Class, requester: &Requester) -> MixSource {
        MixSource {
            workload: class.source,
            access: class.access,
            writes_per_mille: (class.write_ratio * 1000.0).round() as u32,
            window_lines: requester.window_lines.clamp(1.0, 1024.0).round() as u32,
            gap_ps: (requester.busy_ns * 1000.0).round() as u64,
        }
    }

    fn pattern(&self) -> LoopPattern {
        let is_random = self.access == LineAccess::Random;
        match (self.access, self.writes_per_mille) {
            (LineAccess::Dma, 1000) => LoopPattern::Dma,
            (LineAccess::Sequential | LineAccess::Dma, 0) => LoopPattern::Stream,
            (LineAccess::Random, 0) => LoopPattern::Random,
            (LineAccess::Sequential, 333) => LoopPattern::Copy,
            (_, writes_per_mille) => LoopPattern::Mixed {
                writes_per_mille,
                is_random,
            },
        }
    }
}

#[derive(Clone, Debug, Default)]
pub(crate) struct DramEquilibrium {
    /// Lines that each source gets per nanosecond.
    pub lines_per_ns: Vec<f64>,
    /// Mean latency of a read, and at the quantiles that were asked for.
    pub latency_ns: f64,
    pub quantiles_ns: [f64; 8],
}

type MixKey = (Vec<MixSource>, Vec<u64>);

/// A DRAM node and the mixes that were run.
pub(crate) struct DramMix {
    profile: DramProfile,
    settings: ChannelSettings,
    arbitration: Arbitration,
    health: f64,
    known: HashMap<MixKey, DramEquilibrium>,
}

impl DramMix {
    /// The memory of a checked scenario: the names of profile and mapping are known.
    pub(crate) fn new(profile: DramProfile, node: &DramNode) -> DramMix {
        let mapping = AddressMapping::named(&node.mapping);
        DramMix {
            profile,
            settings: ChannelSettings {
                mapping: mapping.unwrap_or(ChannelSettings::PEERS.mapping),
                entries: node.entries,
                ..ChannelSettings::PEERS
            },
            arbitration: Arbitration::Blind(node.order),
            health: 1.0,
            known: HashMap::new(),
        }
    }

    /// It gives only this part of its bandwidth.
    pub(crate) fn set_health(&mut self, ratio: f64) {
        self.health = ratio;
    }

    /// True if that is something else than before.
    pub(crate) fn arbitrate(&mut self, arbitration: Arbitration) -> bool {
        let arbitration = arbitration.in_steps();
        let is_new = arbitration != self.arbitration;
        if is_new
            && std::mem::discriminant(&arbitration) != std::mem::discriminant(&self.arbitration)
        {
            self.known.clear();
        }
        self.arbitration = arbitration;
        is_new
    }

    /// What each source gets of the memory. A mix that was run before is not run again; rates are kept in
    /// steps ([`RATE_STEP`]), so that a small change of a rate is none.
    pub(crate) fn solve(&mut self, sources: &[MixSource], quantiles: &[f64; 8]) -> DramEquilibrium {
        if sources.is_empty() {
            return DramEquilibrium::default();
        }
        let key = (sources.to_vec(), self.places(sources));
        if self.known.len() >= MIXES_MAX {
            self.known.clear();
        }
        let mut found = match self.known.get(&key) {
            Some(known) => known.clone(),
            None => {
                let new = self.run(sources, &key.1, quantiles);
                self.known.insert(key, new.clone());
                new
            }
        };
        found
            .lines_per_ns
            .iter_mut()
            .for_each(|l| *l *= self.health);
        found
    }

    /// What the arbitration says of these sources, relative to each other: millionths of the largest rate, or
    /// places in the order of ranks. Only ratios, and the order of ranks, decide what a channel does. Taken
    /// relative, mixes are met again that would each be new otherwise.
    fn places(&self, sources: &[MixSource]) -> Vec<u64> {
        let of = |workload: u32| workload as usize;
        match &self.arbitration {
            Arbitration::Blind(_) => Vec::new(),
            Arbitration::Rates(rates) => {
                // Tasks of one workload have its rate together.
                let share = |s: &MixSource| {
                    let all = sources.iter().filter(|o| o.workload == s.workload).count();
                    rates.get(of(s.workload)).copied().unwrap_or(1.0) / all as f64
                };
                let rates: Vec<f64> = sources.iter().map(share).collect();
                let most = rates.iter().copied().fold(f64::MIN_POSITIVE, f64::max);
                rates.iter().map(|r| (r / most * 1e6) as u64).collect()
            }
            Arbitration::Ranks(ranks) => {
                let rank = |s: &MixSource| ranks.get(of(s.workload)).copied().unwrap_or(0);
                let mut order: Vec<u64> = sources.iter().map(rank).collect();
                order.sort_unstable();
                order.dedup();
                let place = |s: &MixSource| order.partition_point(|r| *r < rank(s)) as u64;
                sources.iter().map(place).collect()
            }
        }
    }

    fn order(&self, places: &[u64]) -> Box<dyn DramOrder> {
        let entries = self.settings.entries;
        let kind = match &self.arbitration {
            Arbitration::Ranks(_) => {
                return Box::new(FrLvtf::with_ranks(&self.profile, places));
            }
            Arbitration::Rates(_) => {
                let order = Rates::new(entries.min(RATES_ENTRIES_MAX));
                return Box::new(order.with_reserve(RATES_RESERVE_BURSTS));
            }
            Arbitration::Blind(MemoryOrder::Fcfs) => OrderKind::Fcfs,
            Arbitration::Blind(MemoryOrder::FrFcfs) => OrderKind::FrFcfs,
            Arbitration::Blind(MemoryOrder::FrLvtf) => OrderKind::FrLvtf,
            Arbitration::Blind(MemoryOrder::Rates) => OrderKind::Rates,
        };
        kind.order(&self.profile, entries)
    }

    fn run(&self, sources: &[MixSource], places: &[u64], quantiles: &[f64; 8]) -> DramEquilibrium {
        let mut channel = DramChannel::new(&self.profile, self.settings, self.order(places));
        if matches!(self.arbitration, Arbitration::Rates(_)) {
            let rates: Vec<f64> = places.iter().map(|p| (*p).max(1) as f64).collect();
            channel.set_shares(&rates);
        }
        let bursts = LINE_BYTES as f64 / self.profile.organisation.burst_bytes as f64;
        let clock_ps = self.profile.clock_ps as f64;
        let source = |s: &MixSource| LoopSource {
            pattern: s.pattern(),
            window: (f64::from(s.window_lines) * bursts) as u32,
            gap: s.gap_ps as f64 / clock_ps / bursts,
        };
        let all: Vec<LoopSource> = sources.iter().map(source).collect();
        let mut running = ClosedLoop::new(channel, &all);
        let from = run_until(&mut running, 0, WARM_BURSTS);
        let before = running.accepted();
        let to = run_until(&mut running, from, WARM_BURSTS + MEASURED_BURSTS);
        let ns = self.profile.ns((to - from) as f64);
        let counts = running.accepted().into_iter().zip(before);
        let reads = running.channel().tallies().total().read_latency;
        let quantile = |q: f64| self.profile.ns(reads.quantile(q).unwrap_or(0.0));
        DramEquilibrium {
            lines_per_ns: counts.map(|(n, b)| (n - b) as f64 / bursts / ns).collect(),
            latency_ns: self.profile.ns(reads.mean().unwrap_or(0.0)),
            quantiles_ns: quantiles.map(quantile),
        }
    }
}

/// Runs on until so many bursts are moved, and gives the clock.
fn run_until(running: &mut ClosedLoop, from: u64, bursts: u64) -> u64 {
    let mut clock = from;
    while running.accepted().iter().sum::<u64>() < bursts && clock < RUN_CLOCKS_MAX {
        clock += CHUNK_CLOCKS;
        running.run_to(clock);
    }
    clock
}
