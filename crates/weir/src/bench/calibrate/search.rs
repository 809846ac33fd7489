// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which load is measured next: steps from a low load to the capacity, then the loads of the search for the
//! knee ([`weir_core::knee::next_load`]). It has no clock and no thread: a closure measures.

use anyhow::Result;
use weir_bench::Timing;
use weir_core::knee::{self, Knee, LoadPoint, NoKnee};
use weir_core::{BytesPerSec, Nanos};

/// Injected delays of the steps, in idle latencies: down to where a thread hardly rests.
const STEPS: [f64; 13] = [
    32.0, 16.0, 8.0, 4.0, 2.8, 2.0, 1.4, 1.0, 0.7, 0.5, 0.25, 0.1, 0.0,
];
/// Points between the steps.
const REFINED_MAX: usize = 10;
/// All points there may be, the idle one among them.
pub const POINTS_MAX: usize = 1 + STEPS.len() + REFINED_MAX;
/// The search stops where bandwidth ÷ latency is less than this part of its largest value, and latency is so
/// many times the idle one: then the knee is long passed, and points above it say nothing more. Both must
/// hold, so that the search stops only where latency has risen.
const ENOUGH: f64 = 0.5;
const ENOUGH_LATENCIES: f64 = 1.5;

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Delay of the threads, in steps of their spinning; nothing when they stand still.
    pub delay: Option<u64>,
    pub bytes_per_sec: f64,
    pub latency: Timing,
}

/// Points by which the knee is found.
pub fn load_points(points: &[Point]) -> Vec<LoadPoint> {
    let point = |p: &Point| LoadPoint {
        bytes_per_sec: BytesPerSec::new(p.bytes_per_sec),
        latency_ns: Nanos::rounded(p.latency.mean_ns),
    };
    points.iter().map(point).collect()
}

/// The knee of what was measured.
///
/// # Errors
/// There is none.
pub fn knee(points: &[Point]) -> Result<Knee, NoKnee> {
    knee::find(&load_points(points))
}

/// Measures from `idle` on until the knee is known closely; `measure` gives nothing when it must end.
///
/// # Errors
/// What measures fails.
pub fn search(
    idle: Point,
    spin_step_ns: f64,
    measure: &mut dyn FnMut(u64) -> Result<Option<Point>>,
) -> Result<Vec<Point>> {
    let mut points = vec![idle];
    let steps = |latencies: f64| steps(latencies * idle.latency.mean_ns / spin_step_ns);
    for delay in STEPS.map(steps) {
        match measure(delay)? {
            Some(point) => points.push(point),
            None => return Ok(points),
        }
        if is_enough(&points) {
            break;
        }
    }
    for _ in 0..REFINED_MAX {
        let wanted = knee::next_load(&load_points(&points));
        let Some(delay) = wanted.and_then(|load| delay_for(&points, load.get())) else {
            break;
        };
        match measure(delay)? {
            Some(point) => points.push(point),
            None => break,
        }
    }
    Ok(points)
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn steps(count: f64) -> u64 {
    // A conversion from floating point saturates.
    count.max(0.0).round() as u64
}

/// Two points in a row decide: one may be noise of another workload.
fn is_enough(points: &[Point]) -> bool {
    let power = |p: &Point| p.bytes_per_sec / p.latency.mean_ns;
    let most = points.iter().map(power).fold(0.0, f64::max);
    let [idle, .., before, last] = points else {
        return false;
    };
    let is_past = |p: &Point| {
        power(p) < ENOUGH * most && p.latency.mean_ns > ENOUGH_LATENCIES * idle.latency.mean_ns
    };
    is_past(before) && is_past(last)
}

/// The delay at which this load is expected: between two neighbours, as the time from one chunk of lines to
/// the next grows with the delay. Nothing if it lies beside no two, or was measured.
fn delay_for(points: &[Point], bytes_per_sec: f64) -> Option<u64> {
    let mut by_delay: Vec<(u64, f64)> = points
        .iter()
        .filter_map(|p| Some((p.delay?, p.bytes_per_sec)))
        .collect();
    by_delay.sort_by_key(|p| std::cmp::Reverse(p.0));
    let beside = |w: &&[(u64, f64)]| w[0].1 <= bytes_per_sec && bytes_per_sec <= w[1].1;
    let pair = by_delay.windows(2).find(beside)?;
    let ((slow, low), (fast, high)) = (pair[0], pair[1]);
    if slow - fast < 2 || low <= 0.0 || high <= low {
        return None;
    }
    let part = (1.0 / bytes_per_sec - 1.0 / high) / (1.0 / low - 1.0 / high);
    let delay = fast + steps(part * (slow - fast) as f64);
    Some(delay.clamp(fast + 1, slow - 1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_hw::memory_device::Profile;
    use weir_hw::memory_device::mlc_sweep::{LoadMix, curve};

    fn point(delay: Option<u64>, bytes_per_sec: f64, latency_ns: f64) -> Point {
        let latency = Timing {
            mean_ns: latency_ns,
            median_ns: latency_ns,
            p99_ns: latency_ns,
            error_ratio: 0.0,
            batches: 100,
        };
        Point {
            delay,
            bytes_per_sec,
            latency,
        }
    }

    #[test]
    fn one_bad_point_does_not_end_it() {
        let idle = point(None, 0.0, 100.0);
        let good = point(Some(9), 1000.0, 110.0);
        let bad = point(Some(8), 1100.0, 400.0);
        assert!(!is_enough(&[idle, good, bad]));
        assert!(!is_enough(&[idle, good, bad, good]));
        assert!(is_enough(&[idle, good, bad, bad]));
        assert!(!is_enough(&[idle, bad]) && !is_enough(&[]));
    }

    /// Threads with eight lines a chunk before a single server with random arrivals: latency
    /// idle + service·u/2(1 − u), and never more lines on their way than `threads` × 8.
    fn queue(threads: f64, idle_ns: f64, capacity: f64, rest_ns: f64) -> (f64, f64) {
        let service = 64e9 / capacity;
        let (mut low, mut high) = (0.0, 0.999_999);
        for _ in 0..100 {
            let u = f64::midpoint(low, high);
            let latency = idle_ns + service * u / (2.0 * (1.0 - u));
            let offered = threads * 512e9 / (latency + rest_ns);
            if offered > u * capacity {
                low = u;
            } else {
                high = u;
            }
        }
        (
            low * capacity,
            idle_ns + service * low / (2.0 * (1.0 - low)),
        )
    }

    #[test]
    fn the_knee_of_a_known_queue_is_found_whatever_its_size() {
        for (idle, capacity, threads) in [
            (6000.0, 95e6, 3.0),
            (300.0, 28e9, 24.0),
            (300.0, 28e9, 64.0),
            (700.0, 9e9, 20.0),
            (120.0, 200e9, 80.0),
        ] {
            let mut count = 0;
            let mut measure = |delay: u64| {
                count += 1;
                let (b, l) = queue(threads, idle, capacity, delay as f64 * 0.5);
                Ok(Some(point(Some(delay), b, l)))
            };
            let points = search(point(None, 64e9 / idle, idle), 0.5, &mut measure).unwrap();
            let found = knee(&points).unwrap();
            // Found by trying: where bandwidth ÷ latency is largest.
            let service = 64e9 / capacity;
            let latency = |u: f64| idle + service * u / (2.0 * (1.0 - u));
            let power = |u: f64| u / latency(u);
            let best = (1..10_000)
                .map(|n| n as f64 / 1e4)
                .fold(0.0, |best, u| if power(u) > power(best) { u } else { best });
            let ratio = found.bytes_per_sec.get() / (best * capacity);
            assert!((ratio - 1.0).abs() < 0.03, "{idle} {capacity}: {ratio}");
            assert!(count < POINTS_MAX, "{count} points");
        }
    }

    #[test]
    fn the_knee_of_measured_and_simulated_devices_is_found() {
        for (name, threads) in [
            ("asic-x16", 16.0),
            ("agilex-thesis", 5.0),
            ("agilex-i", 8.0),
            ("ddr5-2ch", 16.0),
        ] {
            let profile = Profile::named(name).unwrap();
            let at = |delay: u32| curve(&profile, threads, LoadMix::Reads, &[delay])[0];
            let rest = |p: weir_hw::memory_device::mlc_sweep::SweepPoint, delay| {
                point(delay, p.bandwidth_bytes_per_sec, p.latency_ns)
            };
            // The model's delay is MLC's, of which the idle latency is no unit: a step of it is 1 ns here.
            let mut measure =
                |delay: u64| Ok(Some(rest(at(u32::try_from(delay).unwrap()), Some(delay))));
            let idle = rest(at(20_000), None);
            let points = search(idle, 1.0, &mut measure).unwrap();
            let found = knee(&points).unwrap().bytes_per_sec.get();
            let fine: Vec<u32> = (0..1000).chain((1000..20_000).step_by(20)).collect();
            let fine = curve(&profile, threads, LoadMix::Reads, &fine);
            let power = |p: &&weir_hw::memory_device::mlc_sweep::SweepPoint| {
                p.bandwidth_bytes_per_sec / p.latency_ns
            };
            let best = fine
                .iter()
                .max_by(|a, b| power(a).total_cmp(&power(b)))
                .unwrap();
            let ratio = found / best.bandwidth_bytes_per_sec;
            assert!((ratio - 1.0).abs() < 0.05, "{name}: {ratio:.3}");
        }
    }

    #[test]
    fn a_device_that_is_never_full_says_so() {
        let mut measure =
            |delay: u64| Ok(Some(point(Some(delay), 1e9 / (1.0 + delay as f64), 300.0)));
        let points = search(point(None, 1e6, 300.0), 1.0, &mut measure).unwrap();
        let why = knee(&points).unwrap_err();
        assert!(matches!(why, NoKnee::NotReached { .. }), "{why}");
    }

    #[test]
    fn a_stopped_search_keeps_its_points() {
        let mut left = 3;
        let mut measure = |delay: u64| {
            left -= 1;
            Ok((left >= 0).then(|| point(Some(delay), 1e9, 300.0)))
        };
        let points = search(point(None, 1e6, 300.0), 1.0, &mut measure).unwrap();
        assert_eq!(points.len(), 4);
        assert!(knee(&points).is_err());
    }

    #[test]
    fn past_the_knee_no_more_points_are_measured() {
        let mut delays = Vec::new();
        let mut measure = |delay: u64| {
            delays.push(delay);
            let (b, l) = queue(400.0, 300.0, 20e9, delay as f64);
            Ok(Some(point(Some(delay), b, l)))
        };
        search(point(None, 1e8, 300.0), 1.0, &mut measure).unwrap();
        assert!(!delays.contains(&0), "{delays:?}");
    }
}
