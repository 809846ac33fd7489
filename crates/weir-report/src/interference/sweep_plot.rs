// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A sweep over thread counts: the change of the victim's bandwidth at each, with its interval.

use crate::interference::class::{MILD_RATIO, MODERATE_RATIO, NONE_RATIO};
use crate::interference::document::SweepPoint;
use crate::interference::words;
use crate::picture::chart::words as text;
use weir_figures::Ink;
use weir_figures::{Anchor, At, Mark, Picture};

const SIZE: At = (1200.0, 400.0);
const LEFT: f32 = 110.0;
const RIGHT: f32 = 40.0;
const TOP: f32 = 56.0;
const BOTTOM: f32 = 70.0;
/// Half of the mark at the end of an interval.
const CAP: f32 = 7.0;
/// The axis ends here at least, and at most.
const HIGHEST: (f64, f64) = (1.2, 5.0);

/// Points that are drawn, and the range of the axis.
struct SweepAxes {
    points: usize,
    highest: f64,
}

impl SweepAxes {
    fn x(&self, place: usize) -> f32 {
        let step = (SIZE.0 - LEFT - RIGHT) / self.points as f32;
        LEFT + step * (place as f32 + 0.5)
    }

    fn y(&self, ratio: f64) -> f32 {
        let part = (ratio / self.highest).clamp(0.0, 1.0) as f32;
        TOP + (1.0 - part) * (SIZE.1 - TOP - BOTTOM)
    }
}

/// The plot, or nothing where fewer than two points have a ratio.
pub fn sweep_plot(title: &str, sweep: &[SweepPoint]) -> Option<Picture> {
    let known: Vec<(&SweepPoint, f64)> = sweep
        .iter()
        .filter_map(|point| point.ratio.filter(|r| r.is_finite()).map(|r| (point, r)))
        .collect();
    if known.len() < 2 {
        return None;
    }
    let ends = known
        .iter()
        .map(|(point, ratio)| point.ratio_high.unwrap_or(*ratio));
    let highest = ends.fold(HIGHEST.0, f64::max).min(HIGHEST.1);
    let axes = SweepAxes {
        points: known.len(),
        highest,
    };
    let mut marks = frame(&axes, title);
    let line = known
        .iter()
        .enumerate()
        .map(|(place, (_, ratio))| (axes.x(place), axes.y(*ratio)));
    marks.push(Mark::Line {
        ink: Ink::Held,
        points: line.collect(),
    });
    for (place, (point, ratio)) in known.iter().enumerate() {
        marks.extend(of_point(&axes, place, point, *ratio));
    }
    Some(Picture {
        size: SIZE,
        label: title.to_owned(),
        marks,
    })
}

/// The bounds of the classes, and the axis.
fn frame(axes: &SweepAxes, title: &str) -> Vec<Mark> {
    let ends = (LEFT, SIZE.0 - RIGHT);
    let (top, bottom) = (axes.y(1.0 + NONE_RATIO), axes.y(1.0 - NONE_RATIO));
    let mut marks = vec![
        text(
            Ink::Text,
            (24.0, 30.0),
            Anchor::Start,
            15.0,
            true,
            title.to_owned(),
        ),
        Mark::Rect {
            ink: Ink::Fill(1),
            at: (ends.0, top),
            size: (ends.1 - ends.0, bottom - top),
        },
    ];
    let bounds = [
        1.0,
        1.0 - MILD_RATIO,
        1.0 - MODERATE_RATIO,
        0.0,
        1.0 + MODERATE_RATIO,
        2.0,
        3.0,
    ];
    for ratio in bounds.into_iter().filter(|r| *r <= axes.highest) {
        let y = axes.y(ratio);
        let ink = if ratio == 0.0 { Ink::Axis } else { Ink::Grid };
        marks.push(Mark::Line {
            ink,
            points: vec![(ends.0, y), (ends.1, y)],
        });
        let label = format!("{} %", words::change(Some(ratio)).replace(".0", ""));
        marks.push(text(
            Ink::Muted,
            (LEFT - 10.0, y + 4.5),
            Anchor::End,
            13.0,
            false,
            label,
        ));
    }
    let middle = (ends.0 + ends.1) / 2.0;
    let below = "threads of the background; the band is no influence";
    marks.push(text(
        Ink::Muted,
        (middle, SIZE.1 - 14.0),
        Anchor::Middle,
        13.0,
        false,
        below.into(),
    ));
    marks
}

fn of_point(axes: &SweepAxes, place: usize, point: &SweepPoint, ratio: f64) -> Vec<Mark> {
    let (x, y) = (axes.x(place), axes.y(ratio));
    let mut marks = Vec::new();
    if let (Some(low), Some(high)) = (point.ratio_low, point.ratio_high) {
        let (low, high) = (axes.y(low), axes.y(high));
        let line = |points| Mark::Line {
            ink: Ink::Text,
            points,
        };
        marks.push(line(vec![(x, low), (x, high)]));
        marks.push(line(vec![(x - CAP, low), (x + CAP, low)]));
        marks.push(line(vec![(x - CAP, high), (x + CAP, high)]));
    }
    marks.push(Mark::Rect {
        ink: Ink::Held,
        at: (x - 4.0, y - 4.0),
        size: (8.0, 8.0),
    });
    let said = format!("{} %", words::change(Some(ratio)));
    marks.push(text(
        Ink::Text,
        (x + 12.0, y - 8.0),
        Anchor::Start,
        13.0,
        false,
        said,
    ));
    let threads = point.background_threads.to_string();
    marks.push(text(
        Ink::Muted,
        (x, SIZE.1 - BOTTOM + 22.0),
        Anchor::Middle,
        13.0,
        false,
        threads,
    ));
    marks
}
