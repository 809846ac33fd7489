// SPDX-License-Identifier: Apache-2.0 OR MIT
//! weir's figure for each workload against the ground truth, in windows of a second or a little more: of as
//! many whole ticks as it takes. weir gives a rate for each tick: bytes of the time between two readings of
//! the counters. The ground truth is read for the same two moments, so that traffic at the edge of a window
//! is in the same one by both.

use crate::live::guest::{ClockOffsets, Instance};
use crate::vm::sampler::{Sample, Series, lines};
use serde_json::Value;
use std::collections::BTreeMap;
use std::time::Duration;

/// Shortest window in which they are compared: one in the middle of a burst may be a tick longer.
const WINDOW_MS: f64 = 1000.0;

#[derive(Clone, Debug, PartialEq)]
pub struct Estimate {
    /// What the device moved for it, by the ground truth.
    pub truth_bytes_per_sec: f64,
    pub weir_bytes_per_sec: f64,
    /// RMSE of the windows' rates ÷ mean of the truth.
    pub rmse_ratio: f64,
    /// How weir said it knows, at the last tick.
    pub provenance: String,
}

pub struct Span {
    /// The measured time, since the guest's power-on.
    pub from: Duration,
    pub to: Duration,
    /// What the guest's clocks show more than that.
    pub offsets: ClockOffsets,
}

/// What weir said of a workload: the end of each tick in milliseconds since power-on, and bytes a second
/// since the one before.
#[derive(Default)]
struct Course {
    ticks: Vec<(f64, f64)>,
    provenance: String,
}

/// Estimates of all workloads that use the device, by name. A workload without a figure of weir's is left
/// out.
pub fn compare(
    text: &str,
    all: &[Instance],
    series: &Series,
    span: &Span,
) -> BTreeMap<String, Estimate> {
    let courses = courses(text, span);
    let of = |instance: &Instance| {
        let owner = usize::from(instance.owner);
        let truth = |ms: f64| {
            let at = Duration::try_from_secs_f64(ms / 1e3).ok()?;
            Some(series.at(at, &|s: &Sample| lines(&s.owners[owner]))? * 64.0)
        };
        let estimate = courses.get(&instance.cgroup())?.against(truth)?;
        Some((instance.name.clone(), estimate))
    };
    all.iter().filter(|i| i.owner > 0).filter_map(of).collect()
}

/// What weir said of each workload within the measured time.
fn courses(text: &str, span: &Span) -> BTreeMap<String, Course> {
    let ticks: Vec<Value> = text
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect();
    let measured = span.from.as_secs_f64() * 1e3..span.to.as_secs_f64() * 1e3;
    let mut courses: BTreeMap<String, Course> = BTreeMap::new();
    for tick in &ticks {
        for verdict in tick["plan"]["workloads"].as_array().into_iter().flatten() {
            let Some((id, ms)) = verdict["id"].as_str().zip(counted_at_ms(tick, verdict)) else {
                continue;
            };
            let end_ms = ms - span.offsets.boot_ms;
            if !measured.contains(&end_ms) {
                continue;
            }
            let course = courses.entry(id.into()).or_default();
            // Unknown is nothing: an unknown rate is wrong by all of it.
            let said = &verdict["bandwidth"];
            let rate = said["bytes_per_sec"].as_f64().unwrap_or(0.0);
            course.ticks.push((end_ms, rate));
            course.provenance = said["provenance"].as_str().unwrap_or_default().into();
        }
    }
    courses
}

/// When the counters behind a workload's figure were read, by the guest's boot clock: some time before the
/// observation was over. The age of an estimate is that of its own source, which may be seconds; then another
/// workload's age is taken, and if there is none, the end of the observation.
fn counted_at_ms(tick: &Value, verdict: &Value) -> Option<f64> {
    let age = |verdict: &Value| match verdict["bandwidth"]["provenance"].as_str() {
        Some("counted" | "sampled") => verdict["traffic"]["age_ns"].as_f64(),
        _ => None,
    };
    let all = tick["plan"]["workloads"].as_array()?;
    let least = || all.iter().filter_map(age).reduce(f64::min);
    let at = tick["plan"]["at"].as_f64()?;
    Some((at - age(verdict).or_else(least).unwrap_or(0.0)) / 1e6)
}

impl Course {
    /// Compared with the true bytes until a moment; nothing if there is no window or nothing was moved.
    fn against(&self, truth: impl Fn(f64) -> Option<f64>) -> Option<Estimate> {
        let mut windows: Vec<(f64, f64, f64)> = Vec::new();
        let mut ticks = self.ticks.iter();
        let mut begun = ticks.next()?.0;
        let (mut before, mut bytes) = (begun, 0.0);
        for (end, rate) in ticks {
            bytes += rate * (end - before) / 1e3;
            before = *end;
            if end - begun >= WINDOW_MS {
                let (Some(from), Some(to)) = (truth(begun), truth(*end)) else {
                    return None;
                };
                windows.push(((end - begun) / 1e3, bytes, to - from));
                (begun, bytes) = (*end, 0.0);
            }
        }
        let sum = |of: fn(&(f64, f64, f64)) -> f64| windows.iter().map(of).sum::<f64>();
        let (seconds, said, actual) = (sum(|w| w.0), sum(|w| w.1), sum(|w| w.2));
        let squares = sum(|w| ((w.1 - w.2) / w.0).powi(2));
        (actual > 0.0).then(|| Estimate {
            truth_bytes_per_sec: actual / seconds,
            weir_bytes_per_sec: said / seconds,
            rmse_ratio: (squares / windows.len() as f64).sqrt() / (actual / seconds),
            provenance: self.provenance.clone(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use weir_ipc::ground_truth::LineCounts;

    const SPAN: Span = Span {
        from: Duration::from_millis(500),
        to: Duration::from_secs(60),
        offsets: ClockOffsets {
            unix_ms: 5000.0,
            boot_ms: -1007.0,
        },
    };

    /// Ticks with counters that were read at these times in ms, 10 ms before the observation was over, each
    /// with the rate since the one before. The guest's boot clock is 1007 ms behind its power-on.
    fn ticks(all: &[(f64, f64)]) -> String {
        let line = |(at_ms, rate): &(f64, f64)| {
            format!(
                "{{\"wall_unix_ms\":{},\"plan\":{{\"at\":{},\"devices\":[{{\"read_bytes_per_sec\":{rate},\"write_bytes_per_sec\":0}}],\"workloads\":[{{\"id\":\"/w\",\"traffic\":{{\"age_ns\":10000000}},\
                 \"bandwidth\":{{\"bytes_per_sec\":{rate},\"provenance\":\"counted\"}}}}]}}}}\n",
                at_ms + 5010.0,
                (at_ms - 990.0) * 1e6,
            )
        };
        all.iter().map(line).collect()
    }

    /// What the device has moved in all: a kilobyte a second, and three from 2.5 s on, by a clock that began
    /// 7 ms before the ticks' own.
    fn series() -> Series {
        let sample = |ms: u64| {
            let device = LineCounts {
                read_lines: ms + 2 * ms.saturating_sub(2507),
                ..LineCounts::default()
            };
            Sample {
                at: Duration::from_millis(ms),
                device,
                owners: vec![LineCounts::default(), device],
            }
        };
        Series {
            samples: (0..5000).map(sample).collect(),
            fingerprint: 0,
        }
    }

    const ALL: [(f64, f64); 5] = [
        (1000.0, 7.0),
        (1600.0, 64_000.0),
        (2500.0, 64_000.0),
        (2600.0, 192_000.0),
        (4100.0, 192_000.0),
    ];

    fn compared(ticks: &str) -> Option<Estimate> {
        let courses = courses(ticks, &SPAN);
        let truth = |ms: f64| {
            Some(
                series().at(
                    Duration::try_from_secs_f64(ms / 1e3).ok()?,
                    &|s: &Sample| lines(&s.device),
                )? * 64.0,
            )
        };
        courses.get("/w")?.against(truth)
    }

    #[test]
    fn windows_are_of_whole_ticks_by_the_same_clock() {
        // A tick is late, and one ends in the middle of a second.
        let exact = compared(&ticks(&ALL)).unwrap();
        assert_eq!(exact.provenance, "counted");
        assert!(exact.rmse_ratio < 1e-6, "{exact:?}");
        // 96 000 bytes in 1.5 s, then 307 200 in 1.6.
        let mean = 403_200.0 / 3.1;
        assert!(
            (exact.truth_bytes_per_sec / mean - 1.0).abs() < 1e-6,
            "{exact:?}"
        );
    }

    #[test]
    fn an_estimates_age_is_not_that_of_the_counters() {
        let at = |provenance: &str| {
            let mine = json!({"bandwidth": {"provenance": provenance}, "traffic": {"age_ns": 3e9}});
            let others =
                json!({"bandwidth": {"provenance": "counted"}, "traffic": {"age_ns": 2e6}});
            let alone = json!({"plan": {"at": 5e9, "workloads": [mine.clone()]}});
            let both = json!({"plan": {"at": 5e9, "workloads": [others, mine.clone()]}});
            [alone, both].map(|tick| counted_at_ms(&tick, &mine))
        };
        assert_eq!(at("apportioned"), [Some(5000.0), Some(4998.0)]);
        assert_eq!(at("sampled"), [Some(2000.0), Some(2000.0)]);
    }

    #[test]
    fn what_is_wrong_in_one_window_is_wrong_by_that() {
        let course = Course {
            ticks: vec![(0.0, 0.0), (1000.0, 50.0), (2000.0, 70.0)],
            provenance: String::new(),
        };
        let wrong = course.against(|ms| Some(ms * 0.05)).unwrap();
        assert!(
            (wrong.rmse_ratio - 20.0 / 2f64.sqrt() / 50.0).abs() < 1e-9,
            "{wrong:?}"
        );
        assert_eq!(
            (wrong.weir_bytes_per_sec, wrong.truth_bytes_per_sec),
            (60.0, 50.0)
        );
    }

    #[test]
    fn nothing_said_and_nothing_done_are_not_compared() {
        assert!(courses("half a li", &SPAN).is_empty());
        assert_eq!(compared(&ticks(&ALL[..2])), None);
        let still = Course {
            ticks: vec![(0.0, 1.0), (1500.0, 1.0)],
            provenance: String::new(),
        };
        assert_eq!(still.against(|_| Some(3.0)), None);
        assert_eq!(still.against(|_| None), None);
    }
}
