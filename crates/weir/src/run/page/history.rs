// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The last minutes, for a page that is opened later: devices in steps of half a second, spans for which
//! workloads were limited, and the last changes in words. All of it is bounded. Times are those of ticks, so
//! that a recording has its own.

use super::figures::{UNKNOWN, kib_per_sec, three_digits};
use crate::run::screens::changes::{ChangeKind, MachineChange};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use weir_core::seam::observation::Observation;
use weir_core::seam::plan::{DeviceState, Plan};
use weir_core::{BytesPerSec, WorkloadId};
use weir_figures::text;
use weir_store::Tick;

/// How far back the page shows figures, in milliseconds.
pub const WINDOW_MS: u64 = 300_000;
/// Ticks of so much time are one point.
const STEP_MS: u64 = 500;
/// Devices that the page shows; more are left out, and counted.
pub const DEVICES_MAX: usize = 16;
/// Spans of limits that have ended.
const SPANS_MAX: usize = 2000;
/// Changes that the page keeps as sentences.
const CHANGES_MAX: usize = 100;
/// Workloads that have gone are forgotten when there are so many more limits than workloads.
const SLACK: usize = 256;
/// Cells of a name in a span, or of a line.
const CELLS_MAX: usize = 600;

/// Means over a step.
#[derive(Clone, Debug, Default)]
struct Step {
    /// Sum and count of bandwidth, and the newest of all else, for each device.
    devices: Vec<DeviceStep>,
}

#[derive(Clone, Debug, Default)]
struct DeviceStep {
    sum: f64,
    count: u32,
    set_point: Option<BytesPerSec>,
    latency_ns: Option<f64>,
    devload: Option<i64>,
}

/// A device's place, time, bandwidth and set-point in KiB per second, latency in ns, DevLoad from 0 to 3.
pub type DevicePoint = [i64; 6];

/// A workload was limited from here to there, in milliseconds since the Unix epoch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LimitSpan(pub String, pub u64, pub u64);

/// A change, in words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ChangeLine {
    at: u64,
    what: &'static str,
    text: String,
}

/// Numbered from the beginning on: what came after a number is new.
struct Ring<T> {
    kept: VecDeque<T>,
    most: usize,
    count: u64,
}

impl<T> Ring<T> {
    fn new(most: usize) -> Ring<T> {
        let kept = VecDeque::new();
        Ring {
            kept,
            most,
            count: 0,
        }
    }

    fn push(&mut self, value: T) {
        if self.kept.len() >= self.most {
            self.kept.pop_front();
        }
        self.kept.push_back(value);
        self.count += 1;
    }

    /// Those after the first `seen` that are still there.
    fn since(&self, seen: u64) -> impl Iterator<Item = &T> {
        let new = usize::try_from(self.count.saturating_sub(seen)).unwrap_or(usize::MAX);
        self.kept.iter().skip(self.kept.len().saturating_sub(new))
    }
}

#[derive(Clone, Copy, Default)]
pub struct Seen {
    points: u64,
    spans: u64,
    lines: u64,
}

pub struct PageHistory {
    now_ms: u64,
    step_ms: u64,
    step: Step,
    points: Ring<DevicePoint>,
    /// Moments since which limited workloads are limited, in milliseconds.
    limited: BTreeMap<WorkloadId, u64>,
    spans: Ring<LimitSpan>,
    lines: Ring<MachineChange>,
}

impl Default for PageHistory {
    fn default() -> PageHistory {
        let steps = usize::try_from(WINDOW_MS / STEP_MS).unwrap_or(usize::MAX);
        PageHistory {
            now_ms: 0,
            step_ms: 0,
            step: Step::default(),
            points: Ring::new(steps * DEVICES_MAX),
            limited: BTreeMap::new(),
            spans: Ring::new(SPANS_MAX),
            lines: Ring::new(CHANGES_MAX),
        }
    }
}

impl PageHistory {
    /// One more tick. Whether what was before does not count any more: its time is not later.
    pub fn add(&mut self, tick: &Tick, changes: &[MachineChange]) -> bool {
        let now_ms = tick.wall_unix_ms;
        let went_back = now_ms < self.now_ms;
        if went_back {
            *self = PageHistory::default();
        }
        self.now_ms = now_ms;
        let step_ms = now_ms - now_ms % STEP_MS;
        if step_ms != self.step_ms {
            self.close_step();
            self.step_ms = step_ms;
        }
        self.step.add(&tick.plan.devices, &tick.observation);
        for change in changes {
            self.note(change);
        }
        if self.limited.len() > tick.plan.workloads.len() + SLACK {
            self.forget_gone(&tick.plan);
        }
        went_back
    }

    /// Forgets workloads that went without a word.
    fn forget_gone(&mut self, plan: &Plan) {
        let limited = plan.workloads.iter().filter(|w| w.limit_cpus.is_some());
        let there: BTreeSet<&WorkloadId> = limited.map(|workload| &workload.id).collect();
        self.limited.retain(|id, _| there.contains(id));
    }

    fn close_step(&mut self) {
        let step = std::mem::take(&mut self.step);
        let at = i64::try_from(self.step_ms).unwrap_or(UNKNOWN);
        for (place, device) in step.devices.into_iter().enumerate() {
            let place = i64::try_from(place).unwrap_or(UNKNOWN);
            let mean = (device.count > 0).then(|| device.sum / f64::from(device.count) / 1024.0);
            self.points.push([
                place,
                at,
                three_digits(mean),
                kib_per_sec(device.set_point),
                three_digits(device.latency_ns),
                device.devload.unwrap_or(UNKNOWN),
            ]);
        }
    }

    fn note(&mut self, change: &MachineChange) {
        match change.what {
            ChangeKind::Limited => {
                let since = self.limited.entry(change.workload.clone());
                since.or_insert(change.wall_unix_ms);
            }
            ChangeKind::Released | ChangeKind::Vanished => {
                if let Some(from) = self.limited.remove(&change.workload) {
                    let name = text::fit(&text::harmless(change.workload.as_str()), CELLS_MAX);
                    self.spans.push(LimitSpan(name, from, change.wall_unix_ms));
                }
            }
            ChangeKind::Adjusted | ChangeKind::Refused | ChangeKind::Failed => {}
        }
        self.lines.push(change.clone());
    }

    /// Everything so far has been seen.
    pub fn seen(&self) -> Seen {
        Seen {
            points: self.points.count,
            spans: self.spans.count,
            lines: self.lines.count,
        }
    }

    /// Numbers of new points, one after the other.
    pub fn points(&self, seen: Seen) -> impl Iterator<Item = i64> {
        let oldest = i64::try_from(self.now_ms.saturating_sub(WINDOW_MS)).unwrap_or(0);
        let new = self.points.since(seen.points);
        new.filter(move |point| point[1] >= oldest)
            .copied()
            .flatten()
    }

    pub fn spans(&self, seen: Seen) -> Vec<&LimitSpan> {
        let oldest = self.now_ms.saturating_sub(WINDOW_MS);
        let new = self.spans.since(seen.spans);
        new.filter(|span| span.2 >= oldest).collect()
    }

    pub fn lines(&self, seen: Seen) -> Vec<ChangeLine> {
        let new = self.lines.since(seen.lines);
        let line = |change: &MachineChange| ChangeLine {
            at: change.wall_unix_ms,
            what: change.what.word(),
            text: text::fit(&change.sentence(), CELLS_MAX),
        };
        new.map(line).collect()
    }
}

impl Step {
    fn add(&mut self, devices: &[DeviceState], seen: &Observation) {
        let shown = devices.len().min(DEVICES_MAX);
        self.devices.resize(shown, DeviceStep::default());
        for (device, step) in devices.iter().zip(&mut self.devices) {
            if let (Some(read), Some(write)) =
                (device.read_bytes_per_sec, device.write_bytes_per_sec)
            {
                step.sum += read.get() + write.get();
                step.count += 1;
            }
            step.set_point = device.set_point_bytes_per_sec;
            let latency = seen
                .latencies
                .iter()
                .find(|latency| latency.id == device.id);
            let mean = latency.and_then(|latency| latency.mean_ns.ok());
            step.latency_ns = mean.map(|mean| mean.0 as f64);
            let load = seen.devload.iter().find(|load| load.id == device.id);
            step.devload = load
                .and_then(|load| load.load.ok())
                .map(|load| *load as i64);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::top::testing::snapshot;
    use weir_core::CpuShare;

    fn tick(at_ms: u64) -> Tick {
        Tick {
            wall_unix_ms: at_ms,
            plan: snapshot(0, 100.0).plan,
            ..Tick::default()
        }
    }

    fn change(at_ms: u64, what: ChangeKind) -> MachineChange {
        MachineChange {
            wall_unix_ms: at_ms,
            seq: 0,
            workload: WorkloadId::new("/a\u{202e}b"),
            what,
            from_cpus: None,
            to_cpus: Some(CpuShare::new(0.5)),
            detail: None,
            why: None,
        }
    }

    #[test]
    fn ticks_of_a_step_are_one_point_and_old_points_go() {
        let mut history = PageHistory::default();
        for at in (1_000..=1_000 + 2 * WINDOW_MS).step_by(50) {
            assert!(!history.add(&tick(at), &[]));
        }
        let all: Vec<i64> = history.points(Seen::default()).collect();
        let times: Vec<i64> = all.chunks(6).filter(|p| p[0] == 0).map(|p| p[1]).collect();
        assert_eq!(times.len() as u64, WINDOW_MS / STEP_MS);
        assert!(
            times.windows(2).all(|pair| pair[1] - pair[0] == 500),
            "{times:?}"
        );
        assert_eq!(all[2], 102_000, "100 MiB/s in KiB/s");
        let seen = history.seen();
        assert_eq!(history.points(seen).count(), 0);
        history.add(&tick(602_000), &[]);
        let new: Vec<i64> = history.points(seen).collect();
        assert_eq!(new.len() % 6, 0);
        assert_eq!(new[1], 601_000, "the step that is over");
        assert!(history.add(&tick(5), &[]), "the clock was set back");
        assert_eq!(history.points(Seen::default()).count(), 0);
    }

    #[test]
    fn spans_of_limits_and_changes_in_words_are_kept() {
        let mut history = PageHistory::default();
        history.add(&tick(1000), &[change(1000, ChangeKind::Limited)]);
        history.add(&tick(2000), &[change(2000, ChangeKind::Adjusted)]);
        assert!(history.spans(Seen::default()).is_empty());
        history.add(&tick(3000), &[change(3000, ChangeKind::Released)]);
        let name = "/a\\u{202e}b".to_owned();
        assert_eq!(
            history.spans(Seen::default()),
            [&LimitSpan(name.clone(), 1000, 3000)]
        );
        let lines = history.lines(Seen::default());
        let words: Vec<&str> = lines.iter().map(|line| line.what).collect();
        assert_eq!(words, ["limited", "adjusted", "released"]);
        assert!(lines[0].text.starts_with(&name), "{lines:?}");
        let seen = history.seen();
        for at in 0..500 {
            let change = change(4000 + at, ChangeKind::Limited);
            history.add(&tick(4000 + at), &[change]);
        }
        assert_eq!(history.lines(seen).len(), CHANGES_MAX);
    }
}
