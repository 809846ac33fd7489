// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Bars beside each other, with the range of what was repeated and, where there is one, a printed figure to
//! compare with.

use crate::picture::chart::{ticks, words};
use weir_figures::Ink;
use weir_figures::text::{line, number};
use weir_figures::{Anchor, Mark, Picture};

const WIDTH: f32 = 1200.0;
const LEFT: f32 = 190.0;
const RIGHT: f32 = 110.0;
const TOP: f32 = 76.0;
const ROW: f32 = 34.0;
const BAR: f32 = 20.0;

#[derive(Clone, Debug)]
pub struct Bar {
    pub name: String,
    pub value: f64,
    /// The lowest and the highest of what `value` is the mean of.
    pub range: Option<(f64, f64)>,
    /// A printed figure that it is compared with.
    pub printed: Option<f64>,
    /// Whether it is the one that the others are compared with.
    pub is_base: bool,
}

#[derive(Clone, Debug)]
pub struct Bars {
    pub title: String,
    /// The axis, with its unit.
    pub axis: String,
    /// What the printed figures are, for the legend.
    pub printed: String,
    /// Bars from top to bottom.
    pub bars: Vec<Bar>,
}

pub fn bars(all: &Bars) -> Picture {
    let values = all.bars.iter().flat_map(|b| {
        let (_, high) = b.range.unwrap_or((b.value, b.value));
        [Some(b.value), Some(high), b.printed]
    });
    let highest = values
        .flatten()
        .filter(|v| v.is_finite())
        .fold(0.0, f64::max);
    let to = if highest > 0.0 { highest * 1.04 } else { 1.0 };
    let width = WIDTH - LEFT - RIGHT;
    let x = |value: f64| LEFT + (value / to).clamp(0.0, 1.0) as f32 * width;
    let bottom = TOP + ROW * all.bars.len() as f32;
    let mut marks = vec![words(
        Ink::Text,
        (24.0, 32.0),
        Anchor::Start,
        18.0,
        true,
        line(&all.title, 110),
    )];
    legend(&mut marks, all);
    for (value, text) in ticks(to, 10) {
        let at = x(value);
        marks.push(Mark::Line {
            ink: Ink::Grid,
            points: vec![(at, TOP - 4.0), (at, bottom)],
        });
        marks.push(words(
            Ink::Muted,
            (at, bottom + 18.0),
            Anchor::Middle,
            13.0,
            false,
            text,
        ));
    }
    for (i, bar) in all.bars.iter().enumerate() {
        let top = TOP + ROW * i as f32 + (ROW - BAR) / 2.0;
        one(&mut marks, bar, top, &x);
    }
    let at = (LEFT + width / 2.0, bottom + 40.0);
    marks.push(words(
        Ink::Muted,
        at,
        Anchor::Middle,
        13.0,
        false,
        line(&all.axis, 80),
    ));
    Picture {
        size: (WIDTH, bottom + 54.0),
        label: line(&all.title, 110),
        marks,
    }
}

fn legend(marks: &mut Vec<Mark>, all: &Bars) {
    if all.bars.iter().any(|b| b.printed.is_some()) {
        marks.push(tick(24.0, 44.0, 14.0));
        let at = (34.0, 55.5);
        marks.push(words(
            Ink::Muted,
            at,
            Anchor::Start,
            13.0,
            false,
            line(&all.printed, 80),
        ));
    }
}

fn tick(x: f32, top: f32, height: f32) -> Mark {
    Mark::Rect {
        ink: Ink::Text,
        at: (x - 1.5, top),
        size: (3.0, height),
    }
}

fn one(marks: &mut Vec<Mark>, bar: &Bar, top: f32, x: &impl Fn(f64) -> f32) {
    let ink = if bar.is_base { Ink::Free } else { Ink::Held };
    let middle = top + BAR / 2.0;
    let name = line(&bar.name, 24);
    marks.push(words(
        Ink::Text,
        (LEFT - 10.0, middle + 4.5),
        Anchor::End,
        13.0,
        false,
        name,
    ));
    marks.push(Mark::Rect {
        ink,
        at: (LEFT, top),
        size: (x(bar.value) - LEFT, BAR),
    });
    let mut end = x(bar.value);
    if let Some((low, high)) = bar.range {
        marks.push(Mark::Line {
            ink: Ink::Text,
            points: vec![(x(low), middle), (x(high), middle)],
        });
        end = end.max(x(high));
    }
    if let Some(printed) = bar.printed {
        marks.push(tick(x(printed), top - 3.0, BAR + 6.0));
        end = end.max(x(printed));
    }
    let at = (end + 8.0, middle + 4.5);
    marks.push(words(
        Ink::Text,
        at,
        Anchor::Start,
        13.0,
        false,
        number(bar.value),
    ));
}
