// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Curves and points in panels that share their axes, so that panels are compared by eye.

use crate::picture::chart::{ticks, words};
use crate::picture::paint::Fonts;
use weir_figures::Ink;
use weir_figures::text::{line, number};
use weir_figures::{Anchor, At, Mark, Picture};

const WIDTH: f32 = 1200.0;
const LEFT: f32 = 78.0;
const RIGHT: f32 = 24.0;
const TOP: f32 = 76.0;
const BOTTOM: f32 = 58.0;
const GAP: At = (26.0, 46.0);
/// Space between panels with axes of their own.
const OWN_AXES_GAP: At = (84.0, 84.0);

/// How the points of a curve are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// A line through them.
    Line,
    /// A line that stays at each value until the next.
    Steps,
    Dots,
}

/// Points, by rising x. Those that are not finite, or not above zero on a logarithmic axis, break
/// the line.
#[derive(Clone, Debug)]
pub struct Curve {
    /// Its name in the legend; curves with one name have one entry, an empty name has none.
    pub name: String,
    pub ink: Ink,
    pub shape: Shape,
    /// The points, in units of the axes.
    pub points: Vec<(f64, f64)>,
}

#[derive(Clone, Debug)]
pub struct Panel {
    pub title: String,
    /// Curves from back to front.
    pub curves: Vec<Curve>,
}

/// One axis, from 0, or logarithmic from the lowest value.
#[derive(Clone, Debug)]
pub struct Axis {
    /// What it shows, with its unit.
    pub name: String,
    pub is_log: bool,
    /// End of the axis; from the points if not given.
    pub to: Option<f64>,
}

impl Axis {
    /// A linear axis from 0 to the largest value.
    pub fn linear(name: &str) -> Self {
        Axis {
            name: name.into(),
            is_log: false,
            to: None,
        }
    }

    /// A logarithmic axis from the smallest value to the largest.
    pub fn log(name: &str) -> Self {
        Axis {
            is_log: true,
            ..Self::linear(name)
        }
    }
}

/// Panels, with the same axes or with their own.
#[derive(Clone, Debug)]
pub struct Plot {
    pub title: String,
    pub x: Axis,
    pub y: Axis,
    pub panels: Vec<Panel>,
    /// A value of y that everything is compared with, and its name.
    pub reference: Option<(String, f64)>,
    /// Most panels beside each other.
    pub panels_a_row: usize,
    /// Whether each panel has axes that fit its points, and not all points.
    pub has_own_axes: bool,
}

/// An axis with its range in numbers.
struct Scale {
    from: f64,
    to: f64,
    is_log: bool,
}

impl Scale {
    fn of(axis: &Axis, values: impl Iterator<Item = f64>) -> Self {
        let usable = values.filter(|v| v.is_finite() && *v < 1e18 && (!axis.is_log || *v > 0.0));
        let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
        usable.for_each(|v| (low, high) = (low.min(v), high.max(v)));
        if !axis.is_log {
            let to = axis.to.unwrap_or(high * 1.06);
            let to = if to > 0.0 { to } else { 1.0 };
            return Scale {
                from: 0.0,
                to,
                is_log: false,
            };
        }
        if low > high {
            (low, high) = (1.0, 10.0);
        }
        let to = axis.to.unwrap_or(high * 1.05).max(low * 1.1);
        Scale {
            from: low * 0.95,
            to,
            is_log: true,
        }
    }

    /// The place of a value between 0 and 1, or nothing outside.
    fn part(&self, value: f64) -> Option<f32> {
        let part = if self.is_log {
            (value / self.from).ln() / (self.to / self.from).ln()
        } else {
            (value - self.from) / (self.to - self.from)
        };
        let is_drawable = value.abs() < 1e18 && part.is_finite() && part >= -1e-9;
        is_drawable.then_some(part.clamp(0.0, 1.0) as f32)
    }

    fn ticks(&self, most: usize) -> Vec<(f64, String)> {
        if !self.is_log {
            return ticks(self.to, most);
        }
        let decades = self.from.log10().floor() as i32..=self.to.log10().ceil() as i32;
        let wide = decades.clone().count() > 3;
        let steps: &[f64] = if wide { &[1.0] } else { &[1.0, 2.0, 5.0] };
        let values = decades.flat_map(|d| steps.iter().map(move |s| s * 10f64.powi(d)));
        let inside = values.filter(|v| (self.from..=self.to).contains(v));
        inside.map(|v| (v, plain(v))).collect()
    }
}

/// A round number without needless digits.
fn plain(value: f64) -> String {
    if (0.001..1e6).contains(&value) {
        format!("{value}")
    } else {
        number(value)
    }
}

/// Where a panel is.
struct Frame {
    at: At,
    size: At,
    has_y_axis: bool,
    has_x_axis: bool,
}

impl Frame {
    fn place(&self, x: f32, y: f32) -> At {
        (
            self.at.0 + x * self.size.0,
            self.at.1 + (1.0 - y) * self.size.1,
        )
    }
}

pub fn plot(plot: &Plot, fonts: &Fonts) -> Picture {
    let all = scales(plot, &plot.panels);
    let (frames, height) = frames(plot);
    let mut marks = vec![words(
        Ink::Text,
        (LEFT, 32.0),
        Anchor::Start,
        18.0,
        true,
        line(&plot.title, 110),
    )];
    legend(&mut marks, plot, fonts);
    for (panel, frame) in plot.panels.iter().zip(&frames) {
        let own = plot
            .has_own_axes
            .then(|| scales(plot, std::slice::from_ref(panel)));
        let (x, y) = own.as_ref().unwrap_or(&all);
        grid(&mut marks, plot, frame, x, y);
        if plot.panels.len() > 1 {
            let at = (frame.at.0, frame.at.1 - 8.0);
            let title = line(&panel.title, 60);
            marks.push(words(Ink::Text, at, Anchor::Start, 13.0, true, title));
        }
        for curve in &panel.curves {
            draw(&mut marks, curve, frame, x, y);
        }
        if let Some(part) = plot.reference.as_ref().and_then(|(_, v)| y.part(*v)) {
            marks.push(Mark::Line {
                ink: Ink::SetPoint,
                points: vec![frame.place(0.0, part), frame.place(1.0, part)],
            });
        }
    }
    Picture {
        size: (WIDTH, height),
        label: line(&plot.title, 110),
        marks,
    }
}

/// Scales that hold the points of some panels.
fn scales(plot: &Plot, panels: &[Panel]) -> (Scale, Scale) {
    let curves = || panels.iter().flat_map(|panel| &panel.curves);
    let points = || curves().flat_map(|curve| &curve.points);
    let above = plot.reference.iter().map(|(_, value)| *value);
    (
        Scale::of(&plot.x, points().map(|point| point.0)),
        Scale::of(&plot.y, points().map(|point| point.1).chain(above)),
    )
}

fn frames(plot: &Plot) -> (Vec<Frame>, f32) {
    let gap = if plot.has_own_axes { OWN_AXES_GAP } else { GAP };
    let count = plot.panels.len().max(1);
    let columns = plot.panels_a_row.clamp(1, count);
    let rows = count.div_ceil(columns);
    let height = if columns == 1 && rows == 1 {
        380.0
    } else {
        190.0
    };
    let named = if count > 1 { 22.0 } else { 0.0 };
    let width = (WIDTH - LEFT - RIGHT - gap.0 * (columns - 1) as f32) / columns as f32;
    let frame = |i: usize| {
        let (row, column) = (i / columns, i % columns);
        let x = LEFT + column as f32 * (width + gap.0);
        let y = TOP + named + row as f32 * (height + gap.1);
        Frame {
            at: (x, y),
            size: (width, height),
            has_y_axis: column == 0 || plot.has_own_axes,
            has_x_axis: i + columns >= count || plot.has_own_axes,
        }
    };
    let bottom = TOP + named + rows as f32 * height + (rows - 1) as f32 * gap.1;
    ((0..count).map(frame).collect(), bottom + BOTTOM)
}

fn legend(marks: &mut Vec<Mark>, plot: &Plot, fonts: &Fonts) {
    let mut entries: Vec<(Ink, Shape, &str)> = Vec::new();
    for curve in plot.panels.iter().flat_map(|p| &p.curves) {
        let entry = (curve.ink, curve.shape, curve.name.as_str());
        if !curve.name.is_empty() && !entries.contains(&entry) {
            entries.push(entry);
        }
    }
    if let Some((name, _)) = &plot.reference {
        entries.push((Ink::SetPoint, Shape::Line, name));
    }
    let mut x = LEFT;
    for (ink, shape, name) in entries {
        match shape {
            Shape::Dots => marks.push(dot(ink, (x + 11.0, 51.0))),
            _ => marks.push(Mark::Line {
                ink,
                points: vec![(x, 51.0), (x + 22.0, 51.0)],
            }),
        }
        let name = line(name, 40);
        let width = fonts.width(&name, 13.0, false);
        marks.push(words(
            Ink::Text,
            (x + 28.0, 55.5),
            Anchor::Start,
            13.0,
            false,
            name,
        ));
        x += 28.0 + width + 24.0;
    }
}

fn grid(marks: &mut Vec<Mark>, plot: &Plot, frame: &Frame, x: &Scale, y: &Scale) {
    let muted = |at, anchor, text| words(Ink::Muted, at, anchor, 13.0, false, text);
    for (value, text) in y.ticks(5) {
        let Some(part) = y.part(value) else { continue };
        let (left, right) = (frame.place(0.0, part), frame.place(1.0, part));
        marks.push(Mark::Line {
            ink: Ink::Grid,
            points: vec![left, right],
        });
        if frame.has_y_axis {
            marks.push(muted((left.0 - 8.0, left.1 + 4.5), Anchor::End, text));
        }
    }
    let most = if frame.size.0 > 600.0 { 10 } else { 5 };
    for (value, text) in x.ticks(most) {
        let Some(part) = x.part(value) else { continue };
        let at = frame.place(part, 0.0);
        marks.push(Mark::Line {
            ink: Ink::Axis,
            points: vec![at, (at.0, at.1 + 5.0)],
        });
        marks.push(muted((at.0, at.1 + 19.0), Anchor::Middle, text));
    }
    marks.push(Mark::Line {
        ink: Ink::Axis,
        points: vec![frame.place(0.0, 0.0), frame.place(1.0, 0.0)],
    });
    if frame.has_x_axis {
        let (middle, bottom) = frame.place(0.5, 0.0);
        marks.push(muted(
            (middle, bottom + 40.0),
            Anchor::Middle,
            line(&plot.x.name, 60),
        ));
    }
    if frame.has_y_axis {
        marks.push(Mark::Text {
            ink: Ink::Muted,
            at: (frame.at.0 - 56.0, frame.at.1 + frame.size.1 / 2.0),
            anchor: Anchor::Middle,
            size: 13.0,
            bold: false,
            upwards: true,
            text: line(&plot.y.name, 40),
        });
    }
}

fn dot(ink: Ink, at: At) -> Mark {
    Mark::Rect {
        ink,
        at: (at.0 - 2.5, at.1 - 2.5),
        size: (5.0, 5.0),
    }
}

fn draw(marks: &mut Vec<Mark>, curve: &Curve, frame: &Frame, x: &Scale, y: &Scale) {
    let place = |(a, b): &(f64, f64)| Some(frame.place(x.part(*a)?, y.part(*b)?));
    let mut run: Vec<At> = Vec::new();
    let mut flush = |run: &mut Vec<At>| {
        // A single point between two gaps is still a fact.
        if let [only] = run[..] {
            run.push((only.0 + 1.5, only.1));
        }
        if !run.is_empty() {
            marks.push(Mark::Line {
                ink: curve.ink,
                points: std::mem::take(run),
            });
        }
    };
    let mut dots = Vec::new();
    for point in &curve.points {
        match (place(point), curve.shape) {
            (None, _) => flush(&mut run),
            (Some(at), Shape::Dots) => dots.push(dot(curve.ink, at)),
            (Some(at), Shape::Line) => run.push(at),
            (Some(at), Shape::Steps) => {
                if let Some(last) = run.last().copied() {
                    run.push((at.0, last.1));
                }
                run.push(at);
            }
        }
    }
    flush(&mut run);
    marks.extend(dots);
}
