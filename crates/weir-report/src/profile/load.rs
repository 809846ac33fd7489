// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Waiting time against load at each shared queue, a dot for each span: where a queue is full, more load is
//! more waiting; where a device is slow, it waits at any load.

use super::words::{amount, place_words, queue_words, time};
use crate::picture::paint::Fonts;
use crate::picture::plot::{Axis, Curve, Panel, Plot, Shape, plot};
use std::collections::BTreeMap;
use weir_core::Role;
use weir_core::window::role::Stage;
use weir_figures::Ink;
use weir_figures::Picture;
use weir_figures::text::NONE;
use weir_figures::{Cell, Part, Table};
use weir_profile::Answer;
use weir_profile::report::over_time::{OverTime, QueueOverTime, QueueSpan};

/// Panels: more are in the table.
const PANELS_MAX: usize = 9;

/// A queue at which no span has so many nanoseconds needs no picture.
const SHOWN_NS_MIN: f64 = 1.0;

/// Recordings that are shown together, each with its name.
pub type Recordings<'a> = [(&'a str, &'a OverTime)];

fn is_known(answer: &Answer) -> bool {
    answer.as_ref().is_ok_and(|figure| figure.value.is_finite())
}

/// Waiting time where all spans have it, else residence.
fn has_waits(queues: &[&QueueOverTime]) -> bool {
    let spans = || queues.iter().flat_map(|queue| &queue.of_spans);
    let mut known = spans()
        .filter(|span| is_known(&span.residence_ns))
        .peekable();
    known.peek().is_some() && known.all(|span| is_known(&span.waiting_ns))
}

/// Load and time of each span that has both.
fn points(queue: &QueueOverTime, is_wait: bool) -> Vec<(f64, f64)> {
    let point = |span: &QueueSpan| {
        let ns = if is_wait {
            &span.waiting_ns
        } else {
            &span.residence_ns
        };
        Some((
            span.requests_per_sec.as_ref().ok()?.value,
            ns.as_ref().ok()?.value,
        ))
    };
    let points = queue.of_spans.iter().filter_map(point);
    points
        .filter(|(load, ns)| load.is_finite() && ns.is_finite())
        .collect()
}

/// Queues by role, those of each recording together. Stops on the way that hold nothing are left out.
fn queues<'a>(all: &Recordings<'a>) -> BTreeMap<Role, Vec<(&'a str, &'a QueueOverTime)>> {
    let mut queues: BTreeMap<Role, Vec<(&str, &QueueOverTime)>> = BTreeMap::new();
    for (name, over_time) in all {
        for queue in &over_time.queues {
            if !points(queue, false).is_empty() {
                queues.entry(queue.role).or_default().push((name, queue));
            }
        }
    }
    queues
}

/// The picture; nothing where no queue has two spans with both figures.
fn picture(all: &Recordings, fonts: &Fonts) -> Option<Picture> {
    let mut known: Vec<_> = queues(all).into_iter().collect();
    let every: Vec<&QueueOverTime> = known
        .iter()
        .flat_map(|(_, queues)| queues.iter().map(|one| one.1))
        .collect();
    let is_wait = has_waits(&every);
    known.retain(|(_, queues)| {
        let points = || queues.iter().flat_map(|(_, queue)| points(queue, is_wait));
        points().count() > 1 && points().any(|(_, ns)| ns >= SHOWN_NS_MIN)
    });
    // Rows go from the stage that most wait behind to the nearest.
    let rank = |role: &Role| match role.stage {
        Stage::Tor | Stage::Device => 0,
        Stage::Imc | Stage::Ingress => 1,
        _ => 2,
    };
    known.sort_by_key(|(role, _)| (rank(role), *role));
    known.truncate(PANELS_MAX);
    let panel = |(role, queues): &(Role, Vec<(&str, &QueueOverTime)>)| Panel {
        title: place_words(*role),
        curves: queues
            .iter()
            .map(|(name, queue)| Curve {
                name: if all.len() > 1 {
                    (*name).to_owned()
                } else {
                    String::new()
                },
                ink: match all.iter().position(|one| one.0 == *name) {
                    Some(0) => Ink::Held,
                    _ => Ink::Free,
                },
                shape: Shape::Dots,
                points: points(queue, is_wait)
                    .into_iter()
                    .map(|(load, ns)| (load / 1e6, ns))
                    .collect(),
            })
            .collect(),
    };
    let what = if is_wait { "waiting time" } else { "residence" };
    (!known.is_empty()).then(|| {
        plot(
            &Plot {
                title: format!(
                    "{} against load, a dot for each span",
                    if is_wait { "Waiting time" } else { "Residence" }
                ),
                x: Axis::linear("million requests a second"),
                y: Axis::linear(&format!("{what}, ns")),
                panels: known.iter().map(panel).collect(),
                reference: None,
                panels_a_row: 3,
                has_own_axes: true,
            },
            fonts,
        )
    })
}

/// Load and times of each queue: the least, the middle and the most of the spans.
fn table(all: &Recordings) -> Table {
    let range = |values: Vec<f64>, shown: &dyn Fn(f64) -> String| -> String {
        let mut values = values;
        values.sort_by(f64::total_cmp);
        match (values.first(), values.get(values.len() / 2), values.last()) {
            (Some(least), Some(middle), Some(most)) if values.len() > 1 => {
                format!("{} · {} · {}", shown(*least), shown(*middle), shown(*most))
            }
            (Some(only), _, _) => shown(*only),
            _ => NONE.into(),
        }
    };
    let mut rows: Vec<Vec<Cell>> = Vec::new();
    for (role, queues) in queues(all) {
        for (name, queue) in queues {
            let of = |answer: fn(&QueueSpan) -> &Answer| -> Vec<f64> {
                let known = queue
                    .of_spans
                    .iter()
                    .filter_map(|span| answer(span).as_ref().ok());
                known
                    .map(|figure| figure.value)
                    .filter(|value| value.is_finite())
                    .collect()
            };
            let label = match all.len() {
                1 => queue_words(role),
                _ => format!("{name}: {}", queue_words(role)),
            };
            let waits = queue
                .of_spans
                .iter()
                .find_map(|span| span.waiting_ns.as_ref().err());
            rows.push(vec![
                Cell::words(label),
                Cell::number(range(of(|span| &span.requests_per_sec), &|value| {
                    format!("{}/s", amount(value))
                })),
                Cell::number(range(of(|span| &span.residence_ns), &time)),
                Cell::number(range(of(|span| &span.waiting_ns), &time)),
                Cell::long(waits.map_or(String::new(), |why| format!("waiting time: {why}"))),
            ]);
        }
    }
    Table::new(
        "",
        &[
            "queue",
            "load: least · middle · most",
            "residence, likewise",
            "waiting time, likewise",
            "not known",
        ],
        rows,
    )
}

pub fn parts(all: &Recordings, fonts: &Fonts) -> Vec<Part> {
    let table = table(all);
    if table.rows.is_empty() {
        let why = "No queue outside of the cores has a residence: occupancies, inserts and a clock are needed.";
        return vec![Part::Words(why.into())];
    }
    let mut parts = Vec::new();
    match picture(all, fonts) {
        Some(picture) => parts.push(Part::Picture(picture)),
        None => parts.push(Part::Words(
            "One span has no curve; its figures are in the table.".into(),
        )),
    }
    parts.push(Part::Details {
        summary: "Table of load and times, by queue".into(),
        parts: vec![Part::Table(table)],
    });
    parts
}
