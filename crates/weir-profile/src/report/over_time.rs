// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What changes over a recording: the stalls of each subject, and load and waiting at the queues that it
//! shares with others. A span is a window, or as many together as give [`SPANS_MAX`] spans.

use super::Subject;
use super::judged::windows_a_span;
use super::scene::Scene;
use crate::Answer;
use crate::quality::Refusal;
use crate::stages::{StageFigures, queue};
use crate::stalls::{StallSplit, stalls};
use crate::window_file::WindowFile;
use serde::Serialize;
use std::collections::BTreeMap;
use weir_core::window::role::{Stage, Target};
use weir_core::{Nanos, Role, Window};

/// Spans at most: more are not told apart in a picture, and each has a fit of the model of stalls.
pub const SPANS_MAX: usize = 120;
/// Subjects whose stalls are split by span, for the same reason.
pub const SUBJECTS_MAX: usize = 12;

/// What changes over a recording.
#[derive(Debug, Serialize)]
pub struct OverTime {
    /// Windows that are taken together; the last span may have fewer.
    pub windows_a_span: usize,
    pub spans: Vec<SpanTime>,
    /// Stalls of the subjects that stall most, most first.
    pub stalls: Vec<StallsOverTime>,
    /// Subjects whose stalls are split over all windows, and not by span.
    pub not_by_span: usize,
    /// Queues of the machine.
    pub queues: Vec<QueueOverTime>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct SpanTime {
    /// Its first window, from 1.
    pub first_window: usize,
    /// How many it takes together.
    pub windows: usize,
    /// The begin of the first.
    pub from: Nanos,
    /// The end of the last; the same as `from` where lengths are not known.
    pub to: Nanos,
}

/// Stalls of a subject.
#[derive(Debug, Serialize)]
pub struct StallsOverTime {
    /// `machine`, or the workload.
    pub subject: String,
    /// One split for each span.
    pub of_spans: Vec<Result<StallSplit, Refusal>>,
}

/// A queue of the machine.
#[derive(Debug, Serialize)]
pub struct QueueOverTime {
    /// The role of its occupancy.
    pub role: Role,
    /// One entry for each span.
    pub of_spans: Vec<QueueSpan>,
}

#[derive(Debug, Serialize)]
pub struct QueueSpan {
    /// Requests that enter it each second.
    pub requests_per_sec: Answer,
    /// How long they stay.
    pub residence_ns: Answer,
    /// What of it the idle machine does not have.
    pub waiting_ns: Answer,
}

impl OverTime {
    /// The time course of a file. `subjects` are those of `names`, over all windows.
    pub(super) fn new(
        file: &WindowFile,
        idle: Option<&Scene>,
        names: &[Option<String>],
        subjects: &[Subject],
    ) -> OverTime {
        let length = windows_a_span(file.windows.len(), SPANS_MAX);
        let capacities = &file.header.capacities;
        let (chosen, split) = most_stalled(names, subjects);
        let machine = subjects.iter().zip(names).find(|(_, name)| name.is_none());
        let roles = machine.map_or_else(Vec::new, |(machine, _)| {
            shared_queues(&machine.figures.stages.queues)
        });
        let empty = |subject: &Subject| StallsOverTime {
            subject: subject.name.clone(),
            of_spans: Vec::new(),
        };
        let mut all = OverTime {
            windows_a_span: length,
            spans: Vec::new(),
            not_by_span: split.saturating_sub(chosen.len()),
            stalls: chosen.iter().map(|(_, subject)| empty(subject)).collect(),
            queues: roles
                .iter()
                .map(|role| QueueOverTime {
                    role: *role,
                    of_spans: Vec::new(),
                })
                .collect(),
        };
        // One span at a time: the counts of all of them together would be as large as the file.
        for (place, windows) in file.windows.chunks(length).enumerate() {
            let scene = Scene::new(windows, &file.header);
            all.spans.push(span_time(windows, place * length + 1));
            for (stalled, (name, _)) in all.stalls.iter_mut().zip(&chosen) {
                stalled
                    .of_spans
                    .push(stalls(&scene.of(*name).sources(*name)));
            }
            let counts = scene.counts(None);
            for over_time in &mut all.queues {
                let idle = idle.map(|idle| idle.counts(None));
                let figures = queue(counts, idle, over_time.role, capacities);
                over_time.of_spans.push(QueueSpan {
                    requests_per_sec: figures.requests_per_sec,
                    residence_ns: figures.residence_ns,
                    waiting_ns: figures.waiting_ns,
                });
            }
        }
        all
    }
}

fn span_time(windows: &[Window], first_window: usize) -> SpanTime {
    let from = windows.first().map_or(Nanos(0), |window| window.from);
    SpanTime {
        first_window,
        windows: windows.len(),
        from,
        to: windows.last().map_or(from, |window| window.to),
    }
}

/// Subjects with most stalled cycles, each with its name in the file, and how many have any. The machine,
/// where it has, is one of them.
fn most_stalled<'a>(
    names: &'a [Option<String>],
    subjects: &'a [Subject],
) -> (Vec<(Option<&'a str>, &'a Subject)>, usize) {
    let cycles = |subject: &Subject| {
        let split = subject.figures.stalls.as_ref();
        split.map_or(0.0, |split| split.measured.value)
    };
    let mut stalled: Vec<(Option<&str>, &Subject)> = names
        .iter()
        .map(Option::as_deref)
        .zip(subjects)
        .filter(|(_, subject)| cycles(subject) > 0.0)
        .collect();
    stalled.sort_by(|a, b| cycles(b.1).total_cmp(&cycles(a.1)));
    let count = stalled.len();
    stalled.truncate(SUBJECTS_MAX);
    (stalled, count)
}

/// Queues outside of the cores, one for each stage and kind of memory: of its paths the one that most
/// requests take.
fn shared_queues(queues: &[StageFigures]) -> Vec<Role> {
    let requests = |queue: &StageFigures| {
        let known = queue.requests_per_sec.as_ref();
        known.map_or(0.0, |figure| figure.value)
    };
    let mut most: BTreeMap<(Stage, Target), (f64, Role)> = BTreeMap::new();
    for queue in queues.iter().filter(|queue| requests(queue) > 0.0) {
        let Some(target) = shared_target(queue.role) else {
            continue;
        };
        let of_stage = most
            .entry((queue.role.stage, target))
            .or_insert((0.0, queue.role));
        if requests(queue) > of_stage.0 {
            *of_stage = (requests(queue), queue.role);
        }
    }
    most.into_values().map(|(_, role)| role).collect()
}

/// The kind of memory that a queue is for: in the table of requests only kinds can be compared.
fn shared_target(role: Role) -> Option<Target> {
    match (role.stage, role.target) {
        (Stage::Ingress, _) => Some(Target::Any),
        (Stage::Imc | Stage::M2pcie | Stage::Port | Stage::Device, target) => Some(target),
        (Stage::Tor, Target::Dram | Target::DramOwn) => Some(Target::DramOwn),
        (Stage::Tor, Target::Cxl | Target::CxlOwn) => Some(Target::CxlOwn),
        (Stage::Tor, Target::DramRemote | Target::CxlRemote) => Some(role.target),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counts::tests::count;
    use crate::report::{Options, report};
    use crate::window_file::Header;

    fn file(windows: usize) -> WindowFile {
        let window = |place: usize| Window {
            from: Nanos(place as u64 * 1_000_000_000),
            to: Nanos((place as u64 + 1) * 1_000_000_000),
            machine: vec![
                count("tor.any.any.clock", 2_000_000_000),
                count("tor.reads.cxl-own.inserts", 1000 + place as u64),
                count("tor.reads.cxl-own.occupancy", 800_000),
                count("tor.drd.cxl-own.inserts", 10),
                count("tor.drd.cxl-own.occupancy", 8000),
            ],
            ..Window::default()
        };
        WindowFile {
            header: Header::new("a test"),
            windows: (0..windows).map(window).collect(),
        }
    }

    fn over_time(windows: usize) -> OverTime {
        let options = Options {
            over_time: true,
            ..Options::default()
        };
        report(&file(windows), &options).over_time.unwrap()
    }

    #[test]
    fn many_windows_are_taken_together_and_none_is_lost() {
        for (windows, length, spans) in [(1, 1, 1), (120, 1, 120), (121, 2, 61), (1000, 9, 112)] {
            let made = over_time(windows);
            assert_eq!((made.windows_a_span, made.spans.len()), (length, spans));
            let all: usize = made.spans.iter().map(|span| span.windows).sum();
            assert_eq!(all, windows);
            let last = made.spans.last().unwrap();
            assert_eq!(last.to, Nanos(windows as u64 * 1_000_000_000));
            assert_eq!(last.first_window + last.windows, windows + 1);
        }
    }

    #[test]
    fn a_queue_is_shown_by_its_largest_path() {
        let made = over_time(3);
        let roles: Vec<String> = made.queues.iter().map(|q| q.role.to_string()).collect();
        assert_eq!(roles, ["tor.reads.cxl-own.occupancy"]);
        let rates = made.queues[0].of_spans.iter();
        let rates: Vec<f64> = rates
            .map(|span| span.requests_per_sec.as_ref().unwrap().value)
            .collect();
        assert_eq!(rates, [1000.0, 1001.0, 1002.0]);
        assert!(made.stalls.is_empty() && made.not_by_span == 0);
    }
}
