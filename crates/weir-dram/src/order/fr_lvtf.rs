// SPDX-License-Identifier: Apache-2.0 OR MIT
//! FR-LVTF of the DRFQS thesis, 4.4: first ready, lowest virtual time first.

use super::{BY_SHARE, BySource, Clock, DramOrder, OrderRules, QueueState, SourceShares};
use crate::banks::command::BurstKind;
use crate::part::profile::DramProfile;
use crate::queues::waiting::{Standing, WaitingBurst};

/// The thesis's slice, in nanoseconds: its kernel writes virtual times at each tick of the scheduler. All
/// sources of one rank go together until the next tick, which is why shares in windows of 100 µs scatter by
/// 16 to 109 % in six mixes (docs/evidence/dram.md).
pub(super) const SLICE_NS: f64 = 4e6;

/// Virtual times reach the controller shifted right by so many bits of nanoseconds (thesis 4.5.3; its text
/// says left).
const QUANTUM_BITS: u32 = 22;

/// Virtual time and bytes of a source since the kernel's last tick.
#[derive(Clone, Copy, Debug, Default)]
struct Register {
    virtual_ns: f64,
    bytes: u64,
    rank: u64,
}

/// A request's place is the rank of its source when it comes. A source's rank is its virtual time at the last
/// tick, in quanta of 4.19 ms. Rules of the thesis:
///
/// - a queue that is more than 90 % full takes only requests with a rank below that of its head;
/// - the direction is that of the queue whose head has the lower rank, whatever the turn costs; at equal
///   ranks it is that of the watermarks (the thesis leaves it open);
/// - in a queue the first row hit goes, counted from the head, else the head.
///
/// Here the kernel's part is played as well: at each tick a source's virtual time grows by the time that its
/// bytes need at the channel's peak bandwidth, divided by its share.
#[derive(Clone, Debug)]
pub struct FrLvtf {
    shares: SourceShares,
    registers: BySource<Register>,
    tick_clocks: Clock,
    next_tick: Clock,
    burst_bytes: u64,
    ns_per_byte: f64,
    quantum_ns: f64,
}

impl FrLvtf {
    /// The order with ticks of this length, nanoseconds; quanta are in proportion to the thesis's slice.
    pub fn new(profile: &DramProfile, tick_ns: f64) -> FrLvtf {
        let tick_clocks = (tick_ns * 1000.0 / profile.clock_ps as f64).max(1.0) as Clock;
        let burst_ns = profile.ns(profile.timing.bl_clocks as f64);
        FrLvtf {
            shares: SourceShares::default(),
            registers: BySource::default(),
            tick_clocks,
            next_tick: tick_clocks,
            burst_bytes: profile.organisation.burst_bytes,
            ns_per_byte: burst_ns / profile.organisation.burst_bytes as f64,
            quantum_ns: (1u64 << QUANTUM_BITS) as f64 * tick_ns / SLICE_NS,
        }
    }

    /// Without the kernel's part: sources have these ranks for ever, by their numbers; the lowest goes first.
    pub fn with_ranks(profile: &DramProfile, ranks: &[u64]) -> FrLvtf {
        let mut order = FrLvtf::new(profile, SLICE_NS);
        (order.tick_clocks, order.next_tick) = (Clock::MAX, Clock::MAX);
        for (source, rank) in ranks.iter().enumerate() {
            order.registers.of(source as u16).rank = *rank;
        }
        order
    }

    fn tick(&mut self) {
        let Self {
            shares,
            registers,
            ns_per_byte,
            quantum_ns,
            ..
        } = self;
        for (source, register) in registers.iter_mut().enumerate() {
            let used_ns = register.bytes as f64 * *ns_per_byte;
            register.virtual_ns += used_ns / shares.of(source as u16);
            register.bytes = 0;
            register.rank = (register.virtual_ns / *quantum_ns) as u64;
        }
    }
}

impl DramOrder for FrLvtf {
    fn rules(&self) -> OrderRules {
        BY_SHARE
    }

    fn set_shares(&mut self, shares: &[f64]) {
        self.shares.set(shares);
    }

    fn standing(&mut self, waiting: &WaitingBurst) -> Standing {
        while waiting.arrived >= self.next_tick {
            self.tick();
            self.next_tick += self.tick_clocks;
        }
        Standing {
            before: 0,
            after: self.registers.of(waiting.request.source).rank,
        }
    }

    fn admits(&mut self, waiting: &WaitingBurst, queues: &QueueState) -> bool {
        let kind = waiting.request.kind.index();
        let is_nearly_full = queues.len[kind] * 10 > queues.entries * 9;
        !is_nearly_full || queues.head[kind].is_none_or(|head| waiting.standing < head)
    }

    fn direction(&mut self, queues: &QueueState) -> BurstKind {
        queues.direction_ahead(|one, other| one < other)
    }

    fn on_accept(&mut self, waiting: &WaitingBurst) {
        self.registers.of(waiting.request.source).bytes += self.burst_bytes;
    }
}
