// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which direction is served, and for how long the other one waited.

use crate::banks::command::BurstKind;
use crate::channel::DramChannel;
use crate::part::timing::Clock;

#[derive(Clone, Copy, Debug)]
pub(crate) struct ServedDirection {
    kind: BurstKind,
    since: Clock,
    /// Clocks in which the other direction was served, reads and writes, up to `since`.
    away: [Clock; 2],
}

impl Default for ServedDirection {
    fn default() -> ServedDirection {
        ServedDirection {
            kind: BurstKind::Read,
            since: 0,
            away: [0; 2],
        }
    }
}

impl ServedDirection {
    pub(crate) fn kind(&self) -> BurstKind {
        self.kind
    }

    pub(crate) fn turn(&mut self, kind: BurstKind, now: Clock) {
        if kind != self.kind {
            self.away[kind.index()] = self.away(kind, now);
            self.kind = kind;
            self.since = now;
        }
    }

    /// Clocks up to `at` in which the other direction than this one was served.
    #[inline]
    pub(crate) fn away(&self, kind: BurstKind, at: Clock) -> Clock {
        let earlier = self.away[kind.index()];
        if kind == self.kind {
            earlier
        } else {
            earlier + at.saturating_sub(self.since)
        }
    }
}

impl DramChannel {
    /// Writes are drained above the upper watermark or without reads, down to the lower one if reads wait.
    pub(crate) fn by_watermarks(&self) -> BurstKind {
        let [reads, writes] = self.queues.len;
        let is_above = |percent: u32| writes * 100 > percent * self.settings.entries;
        let is_below = |percent: u32| writes * 100 < percent * self.settings.entries;
        let drains = match self.direction.kind() {
            BurstKind::Read => is_above(self.settings.drain_above_percent) || reads == 0,
            BurstKind::Write => !is_below(self.settings.drain_below_percent) || reads == 0,
        };
        if drains {
            BurstKind::Write
        } else {
            BurstKind::Read
        }
    }

    pub(crate) fn choose_direction(&mut self) -> BurstKind {
        let wanted = if self.rules.has_direction {
            let state = self.queue_state(self.now);
            self.order.direction(&state)
        } else {
            self.by_watermarks()
        };
        self.direction.turn(wanted, self.now);
        wanted
    }
}
