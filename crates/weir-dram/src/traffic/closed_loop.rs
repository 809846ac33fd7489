// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Several sources on one channel, each with a bounded number of lines out.

use crate::banks::command::BurstKind;
use crate::channel::DramChannel;
use crate::part::timing::Clock;
use crate::queues::waiting::{BurstRequest, SourceId};
use crate::served::events::{ChannelStep, Offered};
use crate::traffic::page_places::PagePlaces;
use crate::traffic::trace::XorShift64;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum LoopPattern {
    /// Reads bursts one after the other.
    Stream,
    /// Copies as `mbw` does: reads a burst, reads the one that it will write, and writes one back.
    Copy,
    Random,
    /// Writes blocks one after the other, as a disk that was read does, and pauses between them.
    Disk {
        block_bursts: u64,
        /// Clocks from the last write of a block to the next block.
        pause: Clock,
    },
    /// Writes bursts one after the other, and waits for them as others do for reads: a DMA engine with a
    /// bounded number of lines out.
    Dma,
    /// Reads and writes of one program, one after the other or at random.
    Mixed {
        /// Writes among a thousand requests.
        writes_per_mille: u32,
        is_random: bool,
    },
}

impl LoopPattern {
    /// Whether a source waits for requests of this kind.
    fn waits_for(self, kind: BurstKind) -> bool {
        kind == BurstKind::Read || self == LoopPattern::Dma
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LoopSource {
    pub pattern: LoopPattern,
    /// Reads that it may have out. Writes are posted and take no place, but for [`LoopPattern::Dma`].
    pub window: u32,
    /// Least clocks between two requests.
    pub gap: f64,
}

/// Bursts of the region that a source has for itself.
const REGION_BURSTS: u64 = 1 << 20;
/// Bursts between the two arrays of a copy, and by which it writes back later than it reads.
const ARRAY_BURSTS: u64 = 1 << 18;
const LATER_BURSTS: u64 = 1 << 15;

struct LoopState {
    source: LoopSource,
    id: SourceId,
    random: XorShift64,
    out: u32,
    /// Earliest next request.
    next: f64,
    position: u64,
    phase: u8,
    in_block: u64,
    /// Thousandths of a write that are owed.
    owed_writes: u32,
    pending: Option<BurstRequest>,
    accepted: u64,
}

impl LoopState {
    /// The next request, in the source's own addresses.
    fn request(&mut self) -> BurstRequest {
        let base = u64::from(self.id) * REGION_BURSTS;
        let position = self.position % ARRAY_BURSTS;
        let (offset, kind, is_last_phase) = match (self.source.pattern, self.phase) {
            (LoopPattern::Stream, _) => (position, BurstKind::Read, true),
            (LoopPattern::Random, _) => (self.random.draw() % REGION_BURSTS, BurstKind::Read, true),
            (LoopPattern::Disk { .. } | LoopPattern::Dma, _) => (position, BurstKind::Write, true),
            (
                LoopPattern::Mixed {
                    writes_per_mille,
                    is_random,
                },
                _,
            ) => {
                let (offset, kind) = self.mixed(writes_per_mille, is_random, position);
                (offset, kind, true)
            }
            (LoopPattern::Copy, 0) => (position, BurstKind::Read, false),
            (LoopPattern::Copy, 1) => (ARRAY_BURSTS + position, BurstKind::Read, false),
            (LoopPattern::Copy, _) => {
                let later = (position + ARRAY_BURSTS - LATER_BURSTS) % ARRAY_BURSTS;
                (ARRAY_BURSTS + later, BurstKind::Write, true)
            }
        };
        if is_last_phase {
            self.phase = 0;
            self.position += 1;
        } else {
            self.phase += 1;
        }
        BurstRequest {
            source: self.id,
            kind,
            burst: base + offset,
        }
    }

    /// Writes go to what was read a while ago.
    fn mixed(&mut self, per_mille: u32, is_random: bool, position: u64) -> (u64, BurstKind) {
        self.owed_writes += per_mille;
        let at = if is_random {
            self.random.draw() % REGION_BURSTS
        } else {
            position
        };
        if self.owed_writes < 1000 {
            return (at, BurstKind::Read);
        }
        self.owed_writes -= 1000;
        let later = if is_random { 0 } else { LATER_BURSTS };
        (
            (at + REGION_BURSTS - later) % REGION_BURSTS,
            BurstKind::Write,
        )
    }

    /// A request was taken. The source waits for reads, and for what its pattern says.
    fn after_accept(&mut self, kind: BurstKind, now: Clock) {
        self.accepted += 1;
        self.out += u32::from(self.source.pattern.waits_for(kind));
        // A source that was kept waiting makes up for a few requests and not for all.
        self.next = self.next.max(now as f64 - 16.0 * self.source.gap) + self.source.gap;
        if let LoopPattern::Disk {
            block_bursts,
            pause,
        } = self.source.pattern
        {
            self.in_block += 1;
            if self.in_block >= block_bursts {
                self.in_block = 0;
                self.next = (now + pause) as f64;
            }
        }
    }

    /// Clock at which the next request can be made; none while lines have to come back first.
    fn ready_at(&self) -> Option<Clock> {
        if self.pending.is_none() && self.out >= self.source.window {
            return None;
        }
        Some(self.next.ceil() as Clock)
    }
}

pub struct ClosedLoop {
    channel: DramChannel,
    places: PagePlaces,
    sources: Vec<LoopState>,
    /// When waited-for bursts are done, by clock and source.
    done: BinaryHeap<Reverse<(Clock, SourceId)>>,
    /// The source that is asked first, in turn.
    first: usize,
}

impl ClosedLoop {
    /// These sources, numbered from 0, on an idle channel.
    pub fn new(channel: DramChannel, sources: &[LoopSource]) -> ClosedLoop {
        let state = |(index, source): (usize, &LoopSource)| LoopState {
            source: *source,
            id: index as SourceId,
            random: XorShift64(0x9E37_79B9_7F4A_7C15 ^ (index as u64 + 1)),
            out: 0,
            next: 0.0,
            position: 0,
            phase: 0,
            in_block: 0,
            owed_writes: 0,
            pending: None,
            accepted: 0,
        };
        ClosedLoop {
            places: PagePlaces::new(channel.profile.organisation.burst_bytes),
            channel,
            sources: sources.iter().enumerate().map(state).collect(),
            done: BinaryHeap::new(),
            first: 0,
        }
    }

    pub fn channel(&self) -> &DramChannel {
        &self.channel
    }

    /// Bursts of each source that the channel has taken so far.
    pub fn accepted(&self) -> Vec<u64> {
        self.sources.iter().map(|source| source.accepted).collect()
    }

    pub fn run_to(&mut self, end: Clock) {
        while self.channel.now() < end {
            let now = self.channel.now();
            while let Some(Reverse((at, source))) = self.done.peek().copied()
                && at <= now
            {
                self.done.pop();
                self.sources[usize::from(source)].out -= 1;
            }
            let mut until = self.offer_all(now).min(end - 1);
            if let Some(Reverse((at, _))) = self.done.peek() {
                until = until.min(*at - 1);
            }
            if let ChannelStep::Served(served) = self.channel.step(until.max(now))
                && self.waits_for(&served.request)
            {
                self.done
                    .push(Reverse((served.done, served.request.source)));
            }
        }
    }

    fn waits_for(&self, request: &BurstRequest) -> bool {
        let source = &self.sources[usize::from(request.source)].source;
        source.pattern.waits_for(request.kind)
    }

    /// Offers what the sources have; gives the last clock before one of them has more.
    fn offer_all(&mut self, now: Clock) -> Clock {
        let mut until = Clock::MAX - 1;
        self.first = (self.first + 1) % self.sources.len();
        for turn in 0..self.sources.len() {
            let index = (self.first + turn) % self.sources.len();
            let source = &mut self.sources[index];
            while let Some(ready) = source.ready_at() {
                if ready > now {
                    until = until.min(ready - 1);
                    break;
                }
                let request = match source.pending.take() {
                    Some(request) => request,
                    None => {
                        let own = source.request();
                        BurstRequest {
                            burst: self.places.place(own.burst),
                            ..own
                        }
                    }
                };
                match self.channel.offer(request, now) {
                    Offered::Refused => {
                        source.pending = Some(request);
                        break;
                    }
                    Offered::Merged => {
                        source.after_accept(request.kind, now);
                        if source.source.pattern.waits_for(request.kind) {
                            self.done.push(Reverse((now + 1, source.id)));
                        }
                    }
                    Offered::Queued => source.after_accept(request.kind, now),
                }
            }
        }
        until
    }
}
