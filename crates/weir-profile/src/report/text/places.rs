// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Sockets, ports and devices one by one, as text: a queue a line.

use crate::figure::places::place_words;
use crate::report::by_place::{PlaceFigures, PlaceLines, PlaceQueue};
use crate::report::text::{LABEL, line, number};
use weir_core::Role;
use weir_core::window::role::{AccessPath, Quantity, Stage, Target};

/// Whether people are shown it: sums of others stand in the JSON alone.
fn is_shown(role: Role) -> bool {
    let is_kind = matches!(
        role.path,
        AccessPath::Pf | AccessPath::PfL1 | AccessPath::PfL2 | AccessPath::PfLlc
    );
    let is_sum = matches!(
        role.target,
        Target::Any | Target::Miss | Target::Dram | Target::Cxl
    );
    let is_sum = role.stage == Stage::Tor && (is_sum || role.path == AccessPath::Any);
    !is_kind && !is_sum
}

/// Queues that people are shown, and that requests entered.
pub fn shown_queues(place: &PlaceFigures) -> impl Iterator<Item = &PlaceQueue> {
    place.queues.iter().filter(|queue| {
        let requests = queue.figures.requests_per_sec.as_ref();
        let held = queue.figures.entries.as_ref();
        let is_used = requests.is_ok_and(|figure| figure.value > 0.0)
            || held.is_ok_and(|figure| figure.value > 0.0);
        is_used && is_shown(queue.figures.role)
    })
}

/// Lines that people are shown: those that memory and links move.
pub fn shown_lines(place: &PlaceFigures) -> impl Iterator<Item = &PlaceLines> {
    let known = |lines: &&PlaceLines| {
        let is_memory = matches!(lines.role.stage, Stage::Imc | Stage::Port | Stage::Device);
        is_memory && lines.per_sec.is_ok()
    };
    place.lines.iter().filter(known)
}

pub fn by_place(out: &mut String, places: &[PlaceFigures]) {
    for place in places {
        line(out, &format!("\n== {}", place_words(place.place)));
        for queue in shown_queues(place) {
            one_queue(out, queue);
        }
        for lines in shown_lines(place) {
            if let (Ok(rate), Ok(share)) = (&lines.per_sec, &lines.share) {
                let text = format!("{}, {:.1} % of all", number(rate), share.value * 100.0);
                labelled(out, &lines.role.to_string(), &text, &rate.quality());
            }
        }
        for (role, busy) in &place.busy {
            if let Ok(busy) = busy {
                let label = format!("{} ÷ cycles", role.with(Quantity::Busy));
                labelled(out, &label, &number(busy), &busy.quality());
            }
        }
    }
}

fn one_queue(out: &mut String, queue: &PlaceQueue) {
    let figures = &queue.figures;
    let share = queue.share.as_ref().ok();
    let share = share.map(|share| format!("{:.1} % of requests", share.value * 100.0));
    let named = [
        ("residence", &figures.residence_ns),
        ("waiting", &figures.waiting_ns),
        ("pressure", &figures.pressure),
    ];
    let known = named
        .into_iter()
        .filter_map(|(name, answer)| Some(format!("{name} {}", number(answer.as_ref().ok()?))));
    let text: Vec<String> = share.into_iter().chain(known).collect();
    let quality = figures.residence_ns.as_ref().or(figures.entries.as_ref());
    let quality = match quality {
        Ok(figure) => figure.quality(),
        Err(why) => format!("no residence: {why}"),
    };
    let label = figures.role.to_string().replace(".occupancy", "");
    labelled(out, &label, &text.join(", "), &quality);
}

fn labelled(out: &mut String, label: &str, text: &str, quality: &str) {
    line(out, &format!("  {label:LABEL$} {text}  [{quality}]"));
}
