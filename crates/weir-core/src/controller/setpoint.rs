// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The bandwidth to hold at this context: the *target* of one device.
//!
//! With a bandwidth as the goal that is the set-point itself. With a latency, or the knee, it follows
//! from the device's own loaded latency; `set_point_bytes_per_sec` is then the most that is allowed.
//!
//! * *Latency.* An integral on e = (L* − L)/L*: dT/dt = k·e·T, faster down than up. It begins where the
//!   device is when it first exceeds L*, and does not rise where the device does not follow.
//! * *Knee.* The target is led down step by step from what the device moves freely, and bandwidth and
//!   latency are averaged at each step, until power (bandwidth ÷ latency) has clearly passed its
//!   maximum; some steps between those around the maximum follow, then [`crate::knee::find`]. The target
//!   is what it found minus the headroom. If latency hardly falls at the first step, the device is below
//!   its knee: no workload is limited until it moves more. When latency at the target no longer is what it
//!   was, by a quarter for some time, the device or its traffic has changed: search anew.
//!
//! *Failing open.* Where latency was not known for [`BLIND`] there is no target, and limits end.

use super::config::Gains;
use crate::knee::{Knee, LoadPoint, find};
use crate::rates::bandwidth::Ewma;
use crate::units::{BytesPerSec, Nanos};
use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Goal {
    /// `set_point_bytes_per_sec`.
    #[default]
    Bandwidth,
    /// A mean latency of the device's accesses, in nanoseconds.
    LatencyNs(Nanos),
    /// The knee of the device, minus `headroom_ratio`.
    Knee,
}

/// Longest time without a latency for which a target stands. After it there is no target, and limits end:
/// weir fails open.
const BLIND: Nanos = Nanos::from_millis(3000);

/// Time constant in which latency and bandwidth are smoothed, in seconds.
const SMOOTH_SECS: f64 = 0.3;

/// How fast a latency goal moves the target per second at an error of 100 %: down and up.
const ATTACK_PER_SEC: f64 = 1.5;
const RELEASE_PER_SEC: f64 = 0.5;

/// A target is at most this much above what the device moves: more would only wind up.
const ABOVE: f64 = 1.2;

/// One step of the search: until limits have settled, then two windows of this length with latencies that
/// agree this well, and the longest time to wait for that. A large step of many limits can take seconds to
/// settle.
const SETTLE_SECS: f64 = 1.5;
const WINDOW_SECS: f64 = 0.75;
const STEADY_RATIO: f64 = 0.1;
const LONGEST_SECS: f64 = 8.0;

/// Each step of the search holds the device at this part of the step before.
const STEP_RATIO: f64 = 0.8;

/// Power (bandwidth ÷ latency) has passed its maximum when it has fallen to this part of it. It is flat
/// around the maximum, so a smaller fall may be noise of the measured latencies.
const POWER_PASSED: f64 = 0.85;

/// Percent of latency per percent of bandwidth: at the knee 1, far below it 0.
const BELOW_KNEE: f64 = 0.5;

/// The search ends at this part of where it began at the latest, so that a latency that never falls does not
/// lead the device down to nothing.
const LOWEST_RATIO: f64 = 0.1;

/// A latency at the knee that is off by this for this long starts a new search.
const CHANGED_RATIO: f64 = 0.25;
const CHANGED_SECS: f64 = 3.0;

/// What is seen of a device at a step.
#[derive(Clone, Copy, Debug)]
pub(super) struct DeviceSample {
    pub at: Nanos,
    /// Time since the last step, in seconds.
    pub dt: f64,
    pub bytes_per_sec: Option<f64>,
    pub latency_ns: Option<f64>,
    /// A workload runs into a limit of ours because of this device.
    pub is_binding: bool,
}

/// The target of one device and how it comes about.
#[derive(Clone, Debug, Default)]
pub(super) struct Setpoint {
    /// In bytes per second; nothing when nothing is to be held.
    pub target: Option<f64>,
    bandwidth: Ewma,
    latency: Ewma,
    known_at: Option<Nanos>,
    search: Search,
}

#[derive(Clone, Debug, Default)]
enum Search {
    /// Nothing is known yet, or what was known does not hold any more.
    #[default]
    Waiting,
    /// At one step, for this long, with sums of what was measured.
    Probing(Probe),
    /// Found: latency there, and for how long it has been off.
    Holding { latency_ns: f64, off_secs: f64 },
    /// The device was not loaded up to its knee: nothing to hold until it moves more than this.
    Below { highest: f64 },
}

#[derive(Clone, Debug, Default)]
struct Probe {
    /// Loads still to be tried, the next one last.
    to_do: Vec<f64>,
    points: Vec<LoadPoint>,
    is_refining: bool,
    at_secs: f64,
    before: Option<SpanSums>,
    now: SpanSums,
}

#[derive(Clone, Copy, Debug, Default)]
struct SpanSums {
    bytes: f64,
    /// Mean over accesses, not over time: times bytes.
    latency: f64,
    secs: f64,
}

impl SpanSums {
    fn mean_latency(&self) -> f64 {
        self.latency / self.bytes
    }

    fn point(&self) -> Option<LoadPoint> {
        (self.bytes > 0.0 && self.secs > 0.0).then(|| LoadPoint {
            bytes_per_sec: BytesPerSec::new(self.bytes / self.secs),
            latency_ns: Nanos::rounded(self.mean_latency()),
        })
    }
}

impl Setpoint {
    pub fn follow(&mut self, goal: Goal, gains: &Gains, seen: &DeviceSample) {
        let most = gains.set_point.unwrap_or(f64::INFINITY);
        if goal == Goal::Bandwidth {
            self.target = gains.set_point;
            return;
        }
        let alpha = 1.0 - (-seen.dt / SMOOTH_SECS).exp();
        let bandwidth = seen
            .bytes_per_sec
            .map(|b| self.bandwidth.push(alpha.max(0.01), b));
        let Some(latency) = seen.latency_ns.filter(|l| *l > 0.0) else {
            return self.without_latency(seen.at);
        };
        self.known_at = Some(seen.at);
        let smooth = self.latency.push(alpha.max(0.01), latency);
        let (Some(bandwidth), Some(now)) = (bandwidth, seen.bytes_per_sec) else {
            return;
        };
        match goal {
            Goal::LatencyNs(wanted) => self.regulate(wanted.0 as f64, smooth, bandwidth, seen),
            _ => self.find_knee(gains.headroom, now, latency, seen),
        }
        self.target = self.target.map(|t| t.min(most));
    }

    fn without_latency(&mut self, at: Nanos) {
        let blind = self
            .known_at
            .is_none_or(|then| at.0.saturating_sub(then.0) > BLIND.0);
        if blind {
            *self = Setpoint::default();
        }
    }

    fn regulate(&mut self, wanted: f64, latency: f64, bandwidth: f64, seen: &DeviceSample) {
        let error = ((wanted - latency) / wanted).max(-1.0);
        let Some(target) = self.target else {
            if error < 0.0 && bandwidth > 0.0 {
                self.target = Some(bandwidth);
            }
            return;
        };
        let rate = if error < 0.0 {
            ATTACK_PER_SEC
        } else {
            RELEASE_PER_SEC
        };
        let moved = target * (1.0 + (rate * error * seen.dt).clamp(-0.5, 0.5));
        // Upwards only as far as the device follows; and if no workload is held back, not at all.
        let ceiling = if seen.is_binding {
            bandwidth * ABOVE
        } else {
            bandwidth.max(target)
        };
        self.target = Some(if moved > target {
            moved.min(ceiling.max(target))
        } else {
            moved
        });
    }

    /// One step of the search for the knee: it waits for traffic, probes one load after the other, and then
    /// holds what it found. A device that is below its knee is left alone until it moves more than it did; a
    /// held knee is searched anew when the latency there has changed for some time while a limit was felt.
    fn find_knee(&mut self, headroom: f64, bandwidth: f64, latency: f64, seen: &DeviceSample) {
        match &mut self.search {
            Search::Waiting => {
                if bandwidth > 0.0 {
                    self.target = None;
                    self.search = Search::Probing(Probe::default());
                }
            }
            Search::Below { highest } => {
                let more = self.bandwidth.get().is_some_and(|b| b > *highest * ABOVE);
                if more {
                    self.search = Search::Waiting;
                }
            }
            Search::Probing(probe) => {
                probe.at_secs += seen.dt;
                if probe.at_secs <= SETTLE_SECS {
                    return;
                }
                if probe.measure(bandwidth, latency, seen.dt) {
                    self.next_probe(headroom);
                }
            }
            Search::Holding {
                latency_ns,
                off_secs,
            } => {
                let off = self
                    .latency
                    .get()
                    .is_some_and(|l| (l / *latency_ns - 1.0).abs() > CHANGED_RATIO);
                *off_secs = if off && seen.is_binding {
                    *off_secs + seen.dt
                } else {
                    0.0
                };
                if *off_secs > CHANGED_SECS {
                    self.search = Search::Waiting;
                    self.target = None;
                }
            }
        }
    }

    /// A point is complete: the next load to measure, or the knee.
    fn next_probe(&mut self, headroom: f64) {
        let Search::Probing(probe) = &mut self.search else {
            return;
        };
        probe.take();
        if let Some(highest) = probe.is_below() {
            self.target = None;
            self.search = Search::Below { highest };
            return;
        }
        if probe.to_do.is_empty() && !probe.is_refining {
            match probe.lower() {
                Some(load) => probe.to_do.push(load),
                None => {
                    probe.is_refining = true;
                    probe.to_do = probe.around_the_best();
                }
            }
        }
        if let Some(load) = probe.to_do.pop() {
            self.target = Some(load);
            return;
        }
        // The search passed the largest power, so there is a knee; where no curve fits what was
        // measured, the best load itself is the best guess.
        let knee = find(&probe.points).ok().or_else(|| probe.best_as_knee());
        let Some(knee) = knee else {
            self.target = None;
            self.search = Search::Waiting;
            return;
        };
        let load = knee.bytes_per_sec.get() * (1.0 - headroom);
        self.target = Some(load);
        self.search = Search::Holding {
            latency_ns: knee.latency_at(&probe.points, load),
            off_secs: 0.0,
        };
    }
}

impl Probe {
    /// True once the point is known.
    fn measure(&mut self, bandwidth: f64, latency: f64, dt: f64) -> bool {
        let now = &mut self.now;
        now.bytes += bandwidth * dt;
        now.latency += latency * bandwidth * dt;
        now.secs += dt;
        if now.secs < WINDOW_SECS {
            return false;
        }
        let now = std::mem::take(&mut self.now);
        let Some(before) = self.before.replace(now) else {
            return false;
        };
        let is_steady = (now.mean_latency() / before.mean_latency() - 1.0).abs() <= STEADY_RATIO;
        if !is_steady && self.at_secs < LONGEST_SECS {
            return false;
        }
        self.now = SpanSums {
            bytes: before.bytes + now.bytes,
            latency: before.latency + now.latency,
            secs: before.secs + now.secs,
        };
        true
    }

    fn take(&mut self) {
        self.points.extend(self.now.point());
        (self.at_secs, self.before, self.now) = (0.0, None, SpanSums::default());
    }

    /// The highest load, when the first step down shows that it lies below the knee.
    ///
    /// The steepness is the change of ln latency ÷ the change of ln bandwidth. Power is bandwidth ÷ latency,
    /// so that at its maximum both change by the same part, and the steepness is 1. Far below the knee
    /// latency does not change at all.
    fn is_below(&self) -> Option<f64> {
        let [first, second] = &self.points[..] else {
            return None;
        };
        let ratio = |of: fn(&LoadPoint) -> f64| (of(second) / of(first)).ln();
        let steepness =
            ratio(|p| p.latency_ns.0 as f64) / ratio(|p| p.bytes_per_sec.get()).min(-1e-3);
        (steepness < BELOW_KNEE).then_some(first.bytes_per_sec.get())
    }

    /// The next load further down; nothing once the maximum of power lies behind.
    fn lower(&self) -> Option<f64> {
        let first = self.points.first()?.bytes_per_sec.get();
        let last = self.points.last()?;
        let most = self.points.iter().map(power).fold(0.0, f64::max);
        let next = last.bytes_per_sec.get().min(first) * STEP_RATIO;
        let passed = power(last) < POWER_PASSED * most && self.points.len() > 3;
        (!passed && next > LOWEST_RATIO * first).then_some(next)
    }

    fn best(&self) -> Option<&LoadPoint> {
        let by_power = |a: &&LoadPoint, b: &&LoadPoint| power(a).total_cmp(&power(b));
        self.points.iter().max_by(by_power)
    }

    fn best_as_knee(&self) -> Option<Knee> {
        self.best().map(|best| Knee {
            bytes_per_sec: best.bytes_per_sec,
            latency_ns: best.latency_ns,
            fit_error_ratio: f64::INFINITY,
        })
    }

    /// Loads between the best one and its neighbours.
    fn around_the_best(&self) -> Vec<f64> {
        let Some(best) = self.best().map(|p| p.bytes_per_sec.get()) else {
            return Vec::new();
        };
        vec![
            best * STEP_RATIO.sqrt(),
            best / STEP_RATIO.sqrt(),
            best / STEP_RATIO.powf(0.25),
        ]
    }
}

fn power(point: &LoadPoint) -> f64 {
    point.bytes_per_sec.get() / (point.latency_ns.0 as f64).max(1.0)
}
