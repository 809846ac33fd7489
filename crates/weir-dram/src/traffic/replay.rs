// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A trace through a channel, at full throttle: a request is offered each clock, and again until it is taken.

use crate::channel::DramChannel;
use crate::part::timing::Clock;
use crate::queues::waiting::BurstRequest;
use crate::served::events::{ChannelStep, Offered};
use crate::traffic::trace::TraceLine;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplaySpan {
    pub requests: u64,
    /// From the first offer to the last data, clocks.
    pub clocks: Clock,
}

/// Replays a trace, as one source, to its last data.
pub fn replay(channel: &mut DramChannel, trace: impl Iterator<Item = TraceLine>) -> ReplaySpan {
    let begun = channel.now();
    let burst_bytes = channel.profile.organisation.burst_bytes;
    let (mut requests, mut last, mut offer_at) = (0, begun, begun);
    let mut trace = trace.peekable();
    loop {
        let mut is_blocked = false;
        while let Some(line) = trace.peek() {
            let at = offer_at.max(line.not_before);
            let request = BurstRequest {
                source: 0,
                kind: line.kind,
                burst: line.address / burst_bytes,
            };
            // Only a command makes room, so that a full queue need not be asked at the next clock.
            is_blocked = channel.is_full_for(&request);
            if at > channel.now() || is_blocked {
                break;
            }
            is_blocked = channel.offer(request, at) == Offered::Refused;
            if is_blocked {
                break;
            }
            requests += 1;
            offer_at = at + 1;
            last = last.max(offer_at);
            trace.next();
        }
        let until = match trace.peek() {
            _ if is_blocked => Clock::MAX,
            // Nothing more comes before that clock.
            Some(line) => channel.now().max(offer_at.max(line.not_before) - 1),
            None if channel.is_empty() => break,
            None => Clock::MAX,
        };
        match channel.step(until) {
            ChannelStep::Idle => {}
            ChannelStep::Row => offer_at = offer_at.max(channel.offer_from()),
            ChannelStep::Served(served) => {
                last = last.max(served.done);
                offer_at = offer_at.max(channel.offer_from());
            }
        }
    }
    ReplaySpan {
        requests,
        clocks: last - begun,
    }
}
