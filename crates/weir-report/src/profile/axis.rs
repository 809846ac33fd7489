// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The axis that all pictures over time share, and the moments that are marked on it.

use crate::picture::stack::{Moment, SpanAxis};
use weir_core::Nanos;
use weir_profile::report::over_time::OverTime;
use weir_profile::report::{Report, time};

/// Moments that are marked in one picture.
const MOMENTS_MAX: usize = 4;

/// Where spans lie: by time where all windows have a length and follow each other, else by their numbers.
pub struct TimeScale {
    ns_per_unit: f64,
    origin: Nanos,
    pub axis: SpanAxis,
}

impl TimeScale {
    /// The scale of the spans of a recording.
    pub fn new(over_time: &OverTime) -> TimeScale {
        let spans = &over_time.spans;
        let origin = spans.first().map_or(Nanos(0), |span| span.from);
        let has_times = spans.iter().all(|span| span.to > span.from)
            && spans.windows(2).all(|pair| match pair {
                [a, b] => a.to <= b.from,
                _ => true,
            });
        let steps = match over_time.windows_a_span {
            1 => "each step: one window".to_owned(),
            many => format!("each step: {many} windows together"),
        };
        if !has_times {
            let number =
                |first: usize, windows: usize| ((first - 1) as f64, (first - 1 + windows) as f64);
            let numbers = spans
                .iter()
                .map(|span| number(span.first_window, span.windows));
            return TimeScale {
                ns_per_unit: 0.0,
                origin,
                axis: SpanAxis {
                    name: format!(
                        "windows since the begin, as their times are not known ({steps})"
                    ),
                    spans: numbers.collect(),
                },
            };
        }
        let since = |ns: Nanos| ns.0.saturating_sub(origin.0) as f64;
        let at = match origin {
            Nanos(0) => String::new(),
            origin => format!(" (at {})", time(origin)),
        };
        let (ns_per_unit, unit) = unit(spans.last().map_or(0.0, |span| since(span.to)));
        let times = spans
            .iter()
            .map(|span| (since(span.from) / ns_per_unit, since(span.to) / ns_per_unit));
        TimeScale {
            ns_per_unit,
            origin,
            axis: SpanAxis {
                name: format!("time since the first window{at}, {unit} ({steps})"),
                spans: times.collect(),
            },
        }
    }

    /// A time of the recording on the axis; nothing where it shows no times.
    pub fn place(&self, at: Nanos) -> Option<f64> {
        let since = at.0.saturating_sub(self.origin.0) as f64;
        (self.ns_per_unit > 0.0).then_some(since / self.ns_per_unit)
    }

    pub fn words(&self, place: usize) -> String {
        let Some((from, to)) = self.axis.spans.get(place) else {
            return String::new();
        };
        let shown = weir_figures::text::plain_number;
        format!("{} to {}", shown(*from), shown(*to))
    }
}

/// Nanoseconds of the unit in which a length is short, and its name.
fn unit(length_ns: f64) -> (f64, &'static str) {
    match length_ns {
        ns if ns >= 3.0 * 3600e9 => (3600e9, "h"),
        ns if ns >= 3.0 * 60e9 => (60e9, "min"),
        ns if ns >= 1e9 => (1e9, "s"),
        ns if ns >= 1e6 => (1e6, "ms"),
        _ => (1e3, "µs"),
    }
}

/// What is marked in pictures of a subject: where its findings begin.
pub fn moments(report: &Report, subject: &str, scale: &TimeScale) -> Vec<Moment> {
    let mut all: Vec<Moment> = Vec::new();
    for rule in report.rules.iter().filter(|rule| rule.subject == subject) {
        let Some(at) = rule.since_ns.and_then(|at| scale.place(at)) else {
            continue;
        };
        if let Some(same) = all.iter_mut().find(|moment| moment.at == at) {
            same.name += &format!(", {}", rule.rule);
        } else if all.len() < MOMENTS_MAX {
            all.push(Moment {
                at,
                name: rule.rule.to_owned(),
            });
        }
    }
    all.sort_by(|a, b| a.at.total_cmp(&b.at));
    all
}
