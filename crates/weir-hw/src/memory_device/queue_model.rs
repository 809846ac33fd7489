// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The CXL device as a queue: one server that needs `service_ns` a line, behind a constant `idle_ns` of
//! link and DRAM. With a bounded window of lines per core ([`crate::memory_device::CoreWindow`]) this is a
//! closed network, and its loaded latency has a knee: below saturation an access takes about `idle_ns`,
//! above it `cores × window × service_ns` (thesis figure 15 shows the same shape).
//!
//! # Out-of-order time
//!
//! The vCPUs of an emulated machine have clocks of their own that drift apart by hundreds of
//! microseconds, while an access takes a few. A queue that only knows "busy until" would make a
//! vCPU that is behind wait for accesses of the future. So the server keeps a *calendar*: time is
//! divided into slots of one service each, and an access takes the first free slot at or after its own
//! time. For calls in time order this is the FIFO queue (to one slot); for calls out of order each
//! gets what it would have got in order, up to accesses that came earlier in host time and later in
//! model time (history-list queue models of parallel simulators do the same).

use std::sync::atomic::{AtomicU64, Ordering};

/// Slots per calendar word: the low half of a word is a bit set, the high half its era.
const SLOTS_PER_WORD: u64 = 32;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueTimes {
    /// Time the device is busy with one line, nanoseconds; capacity is 64 bytes per this.
    pub service_ns: u64,
    /// Time an access takes on an idle device, nanoseconds, service included.
    pub idle_ns: u64,
}

impl QueueTimes {
    /// Bytes per second the device can move at most.
    pub fn capacity_bytes_per_sec(&self) -> f64 {
        64.0 * 1e9 / self.service_ns as f64
    }
}

/// A device: shared and lock-free; the time comes with each call.
pub struct QueueModel {
    profile: QueueTimes,
    /// Word `n % words` holds the slots of era `n / words`.
    calendar: Box<[AtomicU64]>,
}

impl QueueModel {
    /// A device that remembers at least `horizon_ns` of its calendar. Accesses older than that find
    /// the calendar forgotten and are served as if the device had been idle then.
    ///
    /// # Panics
    /// If `service_ns` is 0.
    pub fn new(profile: QueueTimes, horizon_ns: u64) -> Self {
        assert!(profile.service_ns > 0, "a line takes time");
        let words = (horizon_ns / profile.service_ns / SLOTS_PER_WORD + 2).next_power_of_two();
        let calendar = (0..words).map(|_| AtomicU64::new(0)).collect();
        QueueModel { profile, calendar }
    }

    pub fn profile(&self) -> QueueTimes {
        self.profile
    }

    /// Serve one line that arrives at `at_ns`; returns when it is done.
    pub fn access(&self, at_ns: u64) -> u64 {
        let service = self.profile.service_ns;
        let slot = self.take_slot(at_ns / service);
        let start = (slot * service).max(at_ns);
        start + self.profile.idle_ns.max(service)
    }

    /// Lines that were before an access which took `latency_ns`.
    pub fn lines_before(&self, latency_ns: u64) -> u64 {
        let service = self.profile.service_ns;
        latency_ns.saturating_sub(self.profile.idle_ns.max(service)) / service
    }

    /// Take the first free slot at or after `wanted`.
    fn take_slot(&self, wanted: u64) -> u64 {
        let mut word_number = wanted / SLOTS_PER_WORD;
        let mut first_bit = (wanted % SLOTS_PER_WORD) as u32;
        loop {
            match self.take_in_word(word_number, first_bit) {
                Some(bit) => return word_number * SLOTS_PER_WORD + u64::from(bit),
                None => {
                    word_number += 1;
                    first_bit = 0;
                }
            }
        }
    }

    /// Take a free slot of one word at or after `first_bit`, if it has one.
    fn take_in_word(&self, word_number: u64, first_bit: u32) -> Option<u32> {
        let words = self.calendar.len() as u64;
        let word = &self.calendar[(word_number % words) as usize];
        // Era 0 with no bits is the state of a fresh calendar, so eras count from 1.
        let era = (word_number / words + 1) & 0xffff_ffff;
        let mut seen = word.load(Ordering::Relaxed);
        loop {
            let seen_era = seen >> 32;
            if seen_era > era {
                // Older than the calendar remembers: served as on an idle device.
                return Some(first_bit);
            }
            let taken = if seen_era == era { seen as u32 } else { 0 };
            let free = !taken & (u32::MAX << first_bit);
            if free == 0 {
                return None;
            }
            let bit = free.trailing_zeros();
            let next = era << 32 | u64::from(taken | 1 << bit);
            match word.compare_exchange_weak(seen, next, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return Some(bit),
                Err(now) => seen = now,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory_device::CoreWindow;
    use proptest::prelude::*;

    const PROFILE: QueueTimes = QueueTimes {
        service_ns: 400,
        idle_ns: 3000,
    };

    /// `cores` closed loops with `window` lines out, `compute_ns` between two issues, in time order.
    /// Returns (lines per ns of service capacity, mean latency in ns).
    fn closed_loop(cores: usize, window: usize, compute_ns: u64, lines: usize) -> (f64, f64) {
        let device = QueueModel::new(PROFILE, 1_000_000);
        let mut cpus: Vec<(u64, CoreWindow)> = (0..cores)
            .map(|i| (i as u64, CoreWindow::new(window)))
            .collect();
        let mut latency_sum = 0u64;
        for _ in 0..lines {
            let next = (0..cores)
                .min_by_key(|&i| cpus[i].1.issue_at_ns(cpus[i].0))
                .unwrap_or(0);
            let (clock, win) = &mut cpus[next];
            let at = win.issue_at_ns(*clock);
            let done = device.access(at);
            latency_sum += done - at;
            win.issued(done);
            *clock = at + compute_ns;
        }
        let end = cpus.iter().map(|c| c.0).max().unwrap_or(1);
        (
            lines as f64 * 400.0 / end as f64,
            latency_sum as f64 / lines as f64,
        )
    }

    #[test]
    fn alone_and_below_capacity_an_access_takes_the_idle_latency() {
        let (utilisation, latency) = closed_loop(1, 8, 1000, 20_000);
        assert!(
            (utilisation - 0.4).abs() < 0.01,
            "one line per 1000 ns of 400: {utilisation}"
        );
        assert!((latency - 3000.0).abs() < 30.0, "{latency}");
    }

    #[test]
    fn lines_queued_before_an_access_are_counted() {
        let device = QueueModel::new(PROFILE, 1_000_000);
        let before: Vec<u64> = (0..4)
            .map(|_| device.lines_before(device.access(800) - 800))
            .collect();
        assert_eq!(before, [0, 1, 2, 3]);
        assert_eq!(device.lines_before(0), 0);
    }

    #[test]
    fn saturated_latency_is_littles_law_of_the_closed_network() {
        for cores in [5usize, 8] {
            let (utilisation, latency) = closed_loop(cores, 8, 100, 50_000);
            let law = (cores * 8) as f64 * 400.0;
            assert!(utilisation > 0.99, "{cores} cores: {utilisation}");
            assert!(
                (latency / law - 1.0).abs() < 0.02,
                "{cores} cores: {latency} against {law}"
            );
        }
    }

    #[test]
    fn the_knee_lies_where_demand_meets_capacity() {
        // One core demands 0.4 of capacity: two fit, three do not.
        let (two, latency_two) = closed_loop(2, 8, 1000, 40_000);
        let (three, latency_three) = closed_loop(3, 8, 1000, 40_000);
        assert!(
            (two - 0.8).abs() < 0.02 && latency_two < 1.2 * 3000.0,
            "{two} {latency_two}"
        );
        assert!(
            three > 0.98 && latency_three > 2.0 * 3000.0,
            "{three} {latency_three}"
        );
    }

    #[test]
    fn a_core_that_is_behind_finds_the_past_as_free_as_it_was() {
        let device = QueueModel::new(PROFILE, 10_000_000);
        for i in 0..1000 {
            // Ahead by 1 ms, taking every other slot.
            device.access(1_000_000 + i * 800);
        }
        assert_eq!(device.access(0), 3000, "the past was idle");
        assert_eq!(
            device.access(1_000_000),
            1_000_000 + 400 + 3000,
            "first free slot after a taken one"
        );
    }

    #[test]
    fn slots_older_than_the_horizon_are_forgotten_not_waited_for() {
        let device = QueueModel::new(PROFILE, 100_000);
        let far = 1_000_000_000;
        device.access(far);
        assert_eq!(device.access(0), 3000);
    }

    proptest! {
        /// In any order of calls no slot is given twice and no access is served before it arrives.
        #[test]
        fn no_slot_is_given_twice(times in prop::collection::vec(0u64..200_000, 1..400)) {
            let device = QueueModel::new(PROFILE, 10_000_000);
            let mut slots: Vec<u64> = times.iter().map(|&t| {
                let done = device.access(t);
                assert!(done >= t + 3000);
                (done - 3000) / 400
            }).collect();
            slots.sort_unstable();
            slots.dedup();
            prop_assert_eq!(slots.len(), times.len());
        }
    }
}
