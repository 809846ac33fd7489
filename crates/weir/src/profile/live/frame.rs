// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the screen shows of some windows: the first lines of their report, and of each subject its findings,
//! stalls and stages. Names are harmless from here on.

use crate::run::screens::waits_in::WaitsIn;
use weir_core::Nanos;
use weir_figures::text::harmless;
use weir_profile::findings::RuleOutcome;
use weir_profile::report::{self, Report, Subject};
use weir_profile::stages::StageFigures;
use weir_profile::{Answer, WindowFile};

/// Parts of the stalls, and queues, that are kept of a subject.
const LINES_MAX: usize = 24;

/// One refresh of the screen.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LiveFrame {
    /// Where in the recording, or how long it counts.
    pub place: String,
    /// What is wrong, how sure that is, what to do.
    pub headline: [String; 3],
    /// The machine, and each workload.
    pub rows: Vec<LiveRow>,
    /// What figures are sums over, where there are several of something.
    pub sums: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct LiveRow {
    /// `machine`, or the workload.
    pub name: String,
    /// Part of its time that it stalls, or why that is not known.
    pub stalled: Option<f64>,
    /// Part of the stalls that is for CXL memory, and its error.
    pub cxl: Option<(f64, f64)>,
    /// The stage of most stalls.
    pub waits_in: Option<WaitsIn>,
    /// Why its stalls are not split.
    pub why: Option<String>,
    /// Names of rules that found something.
    pub findings: Vec<&'static str>,
    /// Parts of its stalls, largest first: place, share, error.
    pub parts: Vec<(String, f64, f64)>,
    /// Its queues, longest stay first.
    pub queues: Vec<LiveQueue>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct LiveQueue {
    /// Stage, path and target.
    pub role: String,
    /// How long requests stay, ns.
    pub residence_ns: f64,
    /// What of it the idle machine does not have, ns.
    pub waiting_ns: Option<f64>,
    /// Requests in it ÷ its entries.
    pub pressure: Option<f64>,
}

impl LiveFrame {
    /// The frame of these windows. `place` says where they are.
    pub fn new(
        file: &WindowFile,
        idle: Option<&WindowFile>,
        workload: Option<&str>,
        place: String,
    ) -> LiveFrame {
        let options = report::Options {
            idle,
            workload,
            brief: true,
            ..report::Options::default()
        };
        let made = report::report(file, &options);
        LiveFrame {
            place,
            rows: made.subjects.iter().map(|one| row(&made, one)).collect(),
            sums: made.places.sums(),
            headline: made.headline.map(|line| harmless(&line)),
        }
    }
}

fn row(made: &Report, subject: &Subject) -> LiveRow {
    let is_found = |rule: &&report::RuleReport| {
        rule.subject == subject.name && matches!(rule.outcome, RuleOutcome::Found(_))
    };
    let split = subject.figures.stalls.as_ref();
    let known = split.ok();
    let parts = known.map_or(&[][..], |split| &split.parts);
    let parts = parts.iter().take(LINES_MAX).map(|part| {
        let place = part.role.to_string().replace(".stalls", "");
        (place, part.share, part.error)
    });
    let queues = subject.figures.stages.queues.iter().filter_map(queue);
    let mut queues: Vec<LiveQueue> = queues.collect();
    queues.sort_by(|a, b| b.residence_ns.total_cmp(&a.residence_ns));
    queues.truncate(LINES_MAX);
    LiveRow {
        name: harmless(&subject.name),
        stalled: known.and_then(|split| value(&split.stalled_ratio)),
        cxl: known.map(|split| (split.cxl_share.value, split.cxl_error)),
        waits_in: known.and_then(WaitsIn::of),
        why: split.err().map(|why| harmless(&why.to_string())),
        findings: made
            .rules
            .iter()
            .filter(is_found)
            .map(|rule| rule.rule)
            .collect(),
        parts: parts.collect(),
        queues,
    }
}

fn queue(figures: &StageFigures) -> Option<LiveQueue> {
    Some(LiveQueue {
        role: figures.role.to_string().replace(".occupancy", ""),
        residence_ns: value(&figures.residence_ns)?,
        waiting_ns: value(&figures.waiting_ns),
        pressure: value(&figures.pressure),
    })
}

fn value(answer: &Answer) -> Option<f64> {
    answer.as_ref().ok().map(|figure| figure.value)
}

/// A time of a recording: in ms where it is short.
pub fn moment(at: Nanos) -> String {
    match at.secs_f64() {
        secs if secs < 1.0 => format!("{:.3} ms", secs * 1e3),
        secs if secs < 60.0 => format!("{secs:.1} s"),
        // Below 2^64 ns.
        _ => weir_figures::text::clock(at.0 / 1_000_000),
    }
}
