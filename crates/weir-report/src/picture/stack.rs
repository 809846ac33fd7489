// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Parts of a whole over time, on top of each other. What has no value leaves a gap.

use crate::picture::chart::{ticks, words};
use weir_figures::text::line;
use weir_figures::{Anchor, At, Mark, Picture};
use weir_figures::{Hatch, Ink};

const WIDTH: f32 = 1200.0;
const LEFT: f32 = 78.0;
const RIGHT: f32 = 330.0;
const TOP: f32 = 66.0;
const HEIGHT: f32 = 190.0;
const BOTTOM: f32 = 54.0;
/// Space between two entries of the legend.
const ENTRY: f32 = 20.0;
/// Characters of an entry.
const ENTRY_CHARS: usize = 42;

/// How an area is drawn: with what, and what is over it.
pub type AreaStyle = (Ink, Hatch);

#[derive(Clone, Debug)]
pub struct Layer {
    /// Its name in the legend.
    pub name: String,
    pub look: AreaStyle,
    /// Its value in each span, from 0 to 1; nothing where the whole is not known.
    pub values: Vec<Option<f64>>,
}

/// A moment that is marked: what begins there.
#[derive(Clone, Debug, PartialEq)]
pub struct Moment {
    /// When, in units of the axis.
    pub at: f64,
    pub name: String,
}

/// Where spans lie on the axis.
#[derive(Clone, Debug, PartialEq)]
pub struct SpanAxis {
    /// What it shows, with its unit.
    pub name: String,
    /// Begin and end of each span.
    pub spans: Vec<(f64, f64)>,
}

impl SpanAxis {
    /// Where the first span begins and the last one ends. An axis without length gets a length of 1.
    pub fn ends(&self) -> (f64, f64) {
        let from = self.spans.first().map_or(0.0, |span| span.0);
        let to = self.spans.last().map_or(1.0, |span| span.1);
        (from, if to > from { to } else { from + 1.0 })
    }
}

#[derive(Clone, Debug)]
pub struct TimeStack {
    pub title: String,
    pub x: SpanAxis,
    /// Upwards, with its unit.
    pub y: String,
    /// Layers from the lowest to the highest.
    pub layers: Vec<Layer>,
    pub moments: Vec<Moment>,
}

struct StackFrame {
    from: f64,
    to: f64,
}

impl StackFrame {
    fn x(&self, value: f64) -> f32 {
        let part = ((value - self.from) / (self.to - self.from)) as f32;
        LEFT + part.clamp(0.0, 1.0) * (WIDTH - LEFT - RIGHT)
    }

    fn y(&self, value: f64) -> f32 {
        TOP + (1.0 - value.clamp(0.0, 1.0) as f32) * HEIGHT
    }
}

/// Draws it. The axis upwards is the whole, from 0 to 100 %, so that pictures can be compared.
pub fn stack(stack: &TimeStack) -> Picture {
    let (from, to) = stack.x.ends();
    let frame = StackFrame { from, to };
    let title = line(&stack.title, 100);
    let mut marks = vec![words(
        Ink::Text,
        (LEFT, 30.0),
        Anchor::Start,
        17.0,
        true,
        title.clone(),
    )];
    grid(&mut marks, stack, &frame);
    let mut below: Vec<f64> = vec![0.0; stack.x.spans.len()];
    for layer in &stack.layers {
        layer_areas(&mut marks, stack, layer, &mut below, &frame);
    }
    gaps(&mut marks, stack, &frame);
    moments(&mut marks, stack, &frame);
    let entries = legend(&mut marks, stack);
    Picture {
        size: (WIDTH, (TOP + HEIGHT + BOTTOM).max(entries)),
        label: title,
        marks,
    }
}

fn muted(at: At, anchor: Anchor, text: String) -> Mark {
    words(Ink::Muted, at, anchor, 13.0, false, text)
}

fn grid(marks: &mut Vec<Mark>, stack: &TimeStack, frame: &StackFrame) {
    let right = WIDTH - RIGHT;
    for value in [0.0, 0.25, 0.5, 0.75, 1.0] {
        let y = frame.y(value);
        marks.push(Mark::Line {
            ink: if value > 0.0 { Ink::Grid } else { Ink::Axis },
            points: vec![(LEFT, y), (right, y)],
        });
        let text = format!("{:.0}", value * 100.0);
        marks.push(muted((LEFT - 8.0, y + 4.5), Anchor::End, text));
    }
    marks.push(Mark::Text {
        ink: Ink::Muted,
        at: (24.0, TOP + HEIGHT / 2.0),
        anchor: Anchor::Middle,
        size: 13.0,
        bold: false,
        upwards: true,
        text: line(&stack.y, 40),
    });
    let bottom = TOP + HEIGHT;
    for (value, text) in ticks(frame.to, 8) {
        if value >= frame.from {
            let x = frame.x(value);
            marks.push(Mark::Line {
                ink: Ink::Axis,
                points: vec![(x, bottom), (x, bottom + 5.0)],
            });
            marks.push(muted((x, bottom + 19.0), Anchor::Middle, text));
        }
    }
    let middle = (LEFT + right) / 2.0;
    let name = line(&stack.x.name, 80);
    marks.push(muted((middle, bottom + 42.0), Anchor::Middle, name));
}

/// Areas of a layer, one for each run of spans in which it has a value, with a line of the page above it.
fn layer_areas(
    marks: &mut Vec<Mark>,
    stack: &TimeStack,
    layer: &Layer,
    below: &mut [f64],
    frame: &StackFrame,
) {
    let mut upper: Vec<At> = Vec::new();
    let mut lower: Vec<At> = Vec::new();
    let mut flush = |upper: &mut Vec<At>, lower: &mut Vec<At>| {
        let is_seen = upper
            .iter()
            .zip(lower.iter())
            .any(|(a, b)| b.1 - a.1 > 0.05);
        if is_seen {
            let edge = upper.clone();
            let points = upper.drain(..).chain(lower.drain(..).rev()).collect();
            let (ink, hatch) = layer.look;
            marks.push(Mark::Area { ink, hatch, points });
            marks.push(Mark::Line {
                ink: Ink::Page,
                points: edge,
            });
        }
        upper.clear();
        lower.clear();
    };
    let spans = stack.x.spans.iter().zip(&layer.values).zip(below);
    for (((from, to), value), below) in spans {
        let Some(value) = value.filter(|value| value.is_finite()) else {
            flush(&mut upper, &mut lower);
            continue;
        };
        let above = *below + value.max(0.0);
        let (left, right) = (frame.x(*from), frame.x(*to));
        upper.extend([(left, frame.y(above)), (right, frame.y(above))]);
        lower.extend([(left, frame.y(*below)), (right, frame.y(*below))]);
        *below = above;
    }
    flush(&mut upper, &mut lower);
}

/// How spans without a value are drawn.
const GAP: AreaStyle = (Ink::Grid, Hatch::Falling);

fn is_gap(stack: &TimeStack, place: usize) -> bool {
    let lacks = |layer: &Layer| layer.values.get(place).is_some_and(Option::is_none);
    stack.layers.iter().all(lacks)
}

/// Spans without a value are hatched from top to bottom.
fn gaps(marks: &mut Vec<Mark>, stack: &TimeStack, frame: &StackFrame) {
    let (ink, hatch) = GAP;
    for (place, (from, to)) in stack.x.spans.iter().enumerate() {
        if is_gap(stack, place) {
            let (left, right) = (frame.x(*from), frame.x(*to));
            let (top, bottom) = (frame.y(1.0), frame.y(0.0));
            let points = vec![(left, top), (right, top), (right, bottom), (left, bottom)];
            marks.push(Mark::Area { ink, hatch, points });
        }
    }
}

fn moments(marks: &mut Vec<Mark>, stack: &TimeStack, frame: &StackFrame) {
    for (place, moment) in stack.moments.iter().enumerate() {
        let (x, top) = (frame.x(moment.at), TOP - 6.0);
        marks.push(Mark::Line {
            ink: Ink::SetPoint,
            points: vec![(x, top), (x, TOP + HEIGHT)],
        });
        // Two rows of names, so that neighbours do not overlap.
        let y = top - 4.0 - if place % 2 == 1 { 12.0 } else { 0.0 };
        let is_left = x < LEFT + (WIDTH - LEFT - RIGHT) * 0.6;
        let anchor = if is_left { Anchor::Start } else { Anchor::End };
        let name = line(&moment.name, 48);
        marks.push(words(Ink::Text, (x, y), anchor, 11.0, false, name));
    }
}

/// In the order of the stack, from above. Returns where it ends.
fn legend(marks: &mut Vec<Mark>, stack: &TimeStack) -> f32 {
    let x = WIDTH - RIGHT + 20.0;
    let mut y = TOP + 6.0;
    let layers = stack.layers.iter().rev();
    let mut entries: Vec<(AreaStyle, &str)> = layers
        .map(|layer| (layer.look, layer.name.as_str()))
        .collect();
    if (0..stack.x.spans.len()).any(|place| is_gap(stack, place)) {
        entries.push((GAP, "not known: the table says why"));
    }
    for (look, name) in entries {
        marks.push(swatch(look, (x, y - 9.0)));
        let name = line(name, ENTRY_CHARS);
        marks.push(words(
            Ink::Text,
            (x + 26.0, y + 1.5),
            Anchor::Start,
            12.0,
            false,
            name,
        ));
        y += ENTRY;
    }
    y
}

/// A sample of how something is drawn.
pub fn swatch((ink, hatch): AreaStyle, (x, y): At) -> Mark {
    Mark::Area {
        ink,
        hatch,
        points: vec![(x, y), (x + 20.0, y), (x + 20.0, y + 12.0), (x, y + 12.0)],
    }
}
