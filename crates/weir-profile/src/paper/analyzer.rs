// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Algorithm 1, PFAnalyzer: the culprit is the path and component with the longest queue.
//!
//! As printed, Q = λ_hit · W_hit + λ_miss · W_miss, with cycles between requests and their answers. By
//! Little's law that is how many requests are in the component, those that are being served too: an L1D that
//! gives a hit each cycle after five cycles has Q = 5, and wins over a device with two lines that wait.
//! Mended, only what waits is counted (W less W on the idle machine), against what the component holds.

use crate::quality::Refusal;
use serde::Serialize;
use weir_core::window::role::{AccessPath, Stage};

/// A component with what one path does there.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Component {
    pub stage: Stage,
    pub path: AccessPath,
    /// Cycles of its clock in the window.
    pub clocks: f64,
    /// Requests that found their line there.
    pub hits: f64,
    /// Requests that went on; fill buffers and memory have none.
    pub misses: f64,
    /// Cycles that a hit takes.
    pub hit_cycles: f64,
    /// Cycles that a miss takes there: the tags of L1D and L2, all of the way behind the last-level cache.
    pub miss_cycles: f64,
    /// The same cycles on the idle machine.
    pub idle_hit_cycles: f64,
    /// Cycles that a miss takes there, on the idle machine.
    pub idle_miss_cycles: f64,
    /// Requests that it holds.
    pub capacity: f64,
}

/// The length of a queue, as printed: requests in the component.
///
/// # Errors
/// The clock stood.
pub fn queue_as_printed(part: &Component) -> Result<f64, Refusal> {
    weighed(part, part.hit_cycles, part.miss_cycles)
}

/// Requests that wait there, of those that it holds.
///
/// # Errors
/// The clock stood, or it holds nothing.
pub fn queue_mended(part: &Component) -> Result<f64, Refusal> {
    let wait = |now: f64, idle: f64| (now - idle).max(0.0);
    let hit = wait(part.hit_cycles, part.idle_hit_cycles);
    let miss = wait(part.miss_cycles, part.idle_miss_cycles);
    if part.capacity <= 0.0 {
        return Err(Refusal::NoRequests {
            what: format!("entries of {}", part.stage.word()),
        });
    }
    Ok(weighed(part, hit, miss)? / part.capacity)
}

fn weighed(part: &Component, hit: f64, miss: f64) -> Result<f64, Refusal> {
    if part.clocks <= 0.0 {
        return Err(Refusal::NoRequests {
            what: format!("cycles of {}", part.stage.word()),
        });
    }
    Ok(part.hits / part.clocks * hit + part.misses / part.clocks * miss)
}

/// The path and component with the largest queue.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Culprit {
    /// Index of the component.
    pub place: usize,
    pub queue: f64,
}

/// Finds it. A component of which the queue cannot be said is passed over; mended, a queue of nothing is no
/// culprit.
pub fn culprit(parts: &[Component], is_mended: bool) -> Option<Culprit> {
    let queue = |part: &Component| {
        if is_mended {
            queue_mended(part)
        } else {
            queue_as_printed(part)
        }
    };
    let queues = parts.iter().enumerate().filter_map(|(place, part)| {
        let queue = queue(part).ok().filter(|queue| queue.is_finite())?;
        (queue > 0.0).then_some(Culprit { place, queue })
    });
    queues.max_by(|a, b| a.queue.total_cmp(&b.queue))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn l1d() -> Component {
        Component {
            stage: Stage::L1d,
            path: AccessPath::Drd,
            clocks: 1000.0,
            hits: 1000.0,
            misses: 0.0,
            hit_cycles: 5.0,
            miss_cycles: 5.0,
            idle_hit_cycles: 5.0,
            idle_miss_cycles: 5.0,
            capacity: 16.0,
        }
    }

    /// Two lines wait at the device, on average: 20 requests in 1000 cycles, each 100 longer than on the idle
    /// machine.
    fn device() -> Component {
        Component {
            stage: Stage::Device,
            hits: 20.0,
            hit_cycles: 200.0,
            idle_hit_cycles: 100.0,
            capacity: 64.0,
            ..l1d()
        }
    }

    #[test]
    fn as_printed_a_cache_that_serves_wins_over_a_device_that_lets_wait() {
        let parts = [l1d(), device()];
        let printed = culprit(&parts, false).unwrap();
        assert_eq!((printed.place, printed.queue), (0, 5.0));
        let mended = culprit(&parts, true).unwrap();
        assert_eq!((mended.place, mended.queue), (1, 2.0 / 64.0));
        assert_eq!(
            culprit(&[l1d()], true),
            None,
            "a healthy machine has no culprit"
        );
    }

    #[test]
    fn a_clock_that_stood_is_no_queue() {
        let stood = Component {
            clocks: 0.0,
            ..device()
        };
        assert!(queue_as_printed(&stood).is_err());
        let nothing = Component {
            capacity: 0.0,
            ..device()
        };
        assert!(queue_mended(&nothing).is_err());
        assert_eq!(culprit(&[stood], false), None);
    }
}
