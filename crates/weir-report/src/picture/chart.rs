// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Device bandwidth over time: one panel for each run with control, the run without control of its seed
//! behind it, the same axes everywhere, so that runs can be compared without colours to learn: orange is
//! always without, blue is always with.
//!
//! Set-point and capacity are lines with their names at their ends; the span the figures are taken
//! from is shaded.

use crate::picture::layout::{ChartPanel, Layout, Width};
use crate::picture::legend::{legend, legend_entries, window_note};
use crate::picture::paint::Fonts;
use crate::results::{Point, Results, Run};
use crate::run_rows::{bases, is_free, known, names, starting_ms};
use weir_figures::Ink;
use weir_figures::text::{Unit, bandwidth_unit, line, number};
use weir_figures::{Anchor, At, Mark, Picture};
use weir_scenario::ScenarioInfo;

/// Most panels: more would be too small to read. The table has all runs.
const PANELS: usize = 12;

pub(super) struct Axes {
    seconds: f64,
    pub(super) window_ms: Option<f64>,
    bytes_per_sec: f64,
    unit: Unit,
    set_point: Option<f64>,
    capacity: Option<f64>,
    measured_sec: (f64, f64),
}

/// What one panel shows: a run with control before the run without that it is compared with, or a run without
/// alone.
pub(super) struct Drawn<'a> {
    pub(super) free: Option<&'a Run>,
    pub(super) held: Option<&'a Run>,
    pub(super) name: &'a str,
}

impl Drawn<'_> {
    /// The run that the panel is named after.
    fn named(&self) -> Option<(Ink, &Run)> {
        let held = self.held.map(|run| (Ink::Held, run));
        held.or(self.free.map(|run| (Ink::Free, run)))
    }
}

/// A panel for each run, but for those without control that stand behind another.
fn drawn<'a>(runs: &'a [Run], names: &'a [String]) -> Vec<Drawn<'a>> {
    let bases = bases(runs);
    let held = (0..runs.len()).filter(|at| !is_free(&runs[*at]));
    let behind: Vec<usize> = held.filter_map(|at| bases[at]).collect();
    let panel = |at: usize| {
        let (run, name) = (&runs[at], names[at].as_str());
        let base = bases[at].map(|base| &runs[base]);
        match is_free(run) {
            true if behind.contains(&at) => None,
            true => Some(Drawn {
                free: Some(run),
                held: None,
                name,
            }),
            false => Some(Drawn {
                free: base.filter(|base| is_free(base)),
                held: Some(run),
                name,
            }),
        }
    };
    (0..runs.len()).filter_map(panel).collect()
}

/// Draw the bandwidth of all runs over time. Never fails: the picture says what is missing.
pub fn bandwidth(
    subject: &ScenarioInfo,
    results: &Results,
    fonts: &Fonts,
    width: Width,
) -> Picture {
    let axes = axes(subject, results);
    let names = names(results);
    let mut shown = drawn(&results.runs, &names);
    let count = shown.len();
    shown.truncate(PANELS);
    let of = if count > PANELS {
        format!(" ({PANELS} of {count} panels; the table has all runs)")
    } else {
        String::new()
    };
    let name = line(&results.scenario, 60);
    let title = format!("{name}: device bandwidth over time{of}");
    let entries = legend_entries(&axes, &shown, width);
    let layout = Layout::of(width, shown.len().max(1), entries.len() + 1);
    let mut marks = vec![heading(&layout, fonts, &title)];
    legend(&mut marks, fonts, &layout, entries, window_note(&axes));
    for (i, panel) in layout.panels.iter().enumerate() {
        frame(&mut marks, panel, &axes, &layout);
        let runs = shown.get(i);
        if let (Some(runs), true) = (runs, layout.panels.len() > 1) {
            marks.extend(panel_name(panel, &axes, runs, width));
        }
        let mut points = 0;
        for (ink, run) in [
            (Ink::Free, runs.and_then(|r| r.free)),
            (Ink::Held, runs.and_then(|r| r.held)),
        ] {
            let Some(run) = run else { continue };
            points += run.series.len();
            curve(&mut marks, panel, &axes, ink, &run.series);
        }
        if points == 0 {
            let at = (
                panel.at.0 + panel.size.0 / 2.0,
                panel.at.1 + panel.size.1 / 2.0,
            );
            let text = "no bandwidth over time in the results".to_string();
            marks.push(words(Ink::Muted, at, Anchor::Middle, 13.0, false, text));
        }
        references(&mut marks, panel, &axes, width);
        begin(&mut marks, panel, &axes, runs.and_then(|r| r.held));
    }
    Picture {
        size: layout.size,
        label: title,
        marks,
    }
}

/// The title, as large as there is space for.
fn heading(layout: &Layout, fonts: &Fonts, title: &str) -> Mark {
    let (left, at, largest): (f32, f32, f32) = match layout.width {
        Width::Page => (layout.left, 36.0, 19.0),
        Width::Phone => (4.0, 20.0, 15.0),
    };
    let space = layout.size.0 - left - 4.0;
    let size = largest.min(largest * space / fonts.width(title, largest, true));
    words(
        Ink::Text,
        (left, at),
        Anchor::Start,
        size,
        true,
        title.into(),
    )
}

pub fn words(ink: Ink, at: At, anchor: Anchor, size: f32, bold: bool, text: String) -> Mark {
    Mark::Text {
        ink,
        at,
        anchor,
        size,
        bold,
        upwards: false,
        text,
    }
}

fn axes(subject: &ScenarioInfo, results: &Results) -> Axes {
    let points = || {
        results
            .runs
            .iter()
            .flat_map(|r| &r.series)
            .filter(|p| is_drawable(p))
    };
    let usable = |v: f64| (v.is_finite() && v > 0.0).then_some(v);
    let set_point = results
        .runs
        .iter()
        .find_map(|r| usable(r.set_point_bytes_per_sec));
    let capacity = usable(subject.capacity_bytes_per_sec);
    let fixed = [set_point, capacity];
    let highest = fixed
        .iter()
        .flatten()
        .copied()
        .chain(points().map(|p| p.bytes_per_sec));
    let highest = highest.fold(1.0, f64::max);
    let spacing = |r: &Run| {
        let [first, second, ..] = &r.series[..] else {
            return None;
        };
        usable(second.at_ms - first.at_ms)
    };
    let from = subject.settle_sec;
    Axes {
        seconds: points().map(|p| p.at_ms / 1000.0).fold(1.0, f64::max),
        window_ms: results.runs.iter().find_map(spacing),
        bytes_per_sec: highest * 1.06,
        unit: bandwidth_unit(highest),
        set_point,
        capacity,
        measured_sec: (from, from + subject.measure_sec),
    }
}

fn is_drawable(point: &Point) -> bool {
    let sane = |v: f64| v.is_finite() && (0.0..1e18).contains(&v);
    sane(point.at_ms) && sane(point.bytes_per_sec)
}

impl ChartPanel {
    fn x(&self, axes: &Axes, seconds: f64) -> f32 {
        self.at.0 + ((seconds / axes.seconds).clamp(0.0, 1.0) as f32) * self.size.0
    }

    fn y(&self, axes: &Axes, bytes_per_sec: f64) -> f32 {
        let part = (bytes_per_sec / axes.bytes_per_sec).clamp(0.0, 1.0) as f32;
        self.at.1 + (1.0 - part) * self.size.1
    }

    fn right(&self) -> f32 {
        self.at.0 + self.size.0
    }

    fn bottom(&self) -> f32 {
        self.at.1 + self.size.1
    }
}

/// `, mean 36.2 MiB/s`, or nothing.
pub(super) fn mean(axes: &Axes, run: &Run) -> String {
    let mean = Some(run.bandwidth.mean_bytes_per_sec);
    let mean = known(run, "bandwidth.mean_bytes_per_sec", mean);
    mean.map_or(String::new(), |m| {
        format!(", mean {} {}", number(m / axes.unit.0), axes.unit.1)
    })
}

fn panel_name(panel: &ChartPanel, axes: &Axes, runs: &Drawn, width: Width) -> Option<Mark> {
    let (ink, run) = runs.named()?;
    let left = match width {
        Width::Page => panel.at.0,
        Width::Phone => 4.0,
    };
    let at = (left, panel.at.1 - 8.0);
    let text = format!("{}{}", runs.name, mean(axes, run));
    Some(words(ink, at, Anchor::Start, 13.0, true, text))
}

/// Shading, grid, axes, numbers.
fn frame(marks: &mut Vec<Mark>, panel: &ChartPanel, axes: &Axes, layout: &Layout) {
    let (from, to) = axes.measured_sec;
    let (from, to) = (panel.x(axes, from), panel.x(axes, to));
    if to > from {
        let at = (from, panel.at.1);
        marks.push(Mark::Rect {
            ink: Ink::Span,
            at,
            size: (to - from, panel.size.1),
        });
    }
    for (value, text) in ticks(axes.bytes_per_sec / axes.unit.0, 6) {
        let y = panel.y(axes, value * axes.unit.0);
        if value > 0.0 {
            marks.push(Mark::Line {
                ink: Ink::Grid,
                points: vec![(panel.at.0, y), (panel.right(), y)],
            });
        }
        if panel.first_in_row {
            let at = (panel.at.0 - 8.0, y + 4.5);
            marks.push(words(Ink::Muted, at, Anchor::End, 13.0, false, text));
        }
    }
    if panel.first_in_row {
        marks.push(Mark::Text {
            ink: Ink::Muted,
            at: (layout.left - 54.0, panel.at.1 + panel.size.1 / 2.0),
            anchor: Anchor::Middle,
            size: 13.0,
            bold: false,
            upwards: true,
            text: format!("reads + writes, {}", axes.unit.1),
        });
    }
    time_axis(marks, panel, axes);
}

fn time_axis(marks: &mut Vec<Mark>, panel: &ChartPanel, axes: &Axes) {
    let bottom = panel.bottom();
    let muted = |x, y, text| words(Ink::Muted, (x, y), Anchor::Middle, 13.0, false, text);
    let axis = |points| Mark::Line {
        ink: Ink::Axis,
        points,
    };
    let most = if panel.size.0 > 600.0 { 10 } else { 5 };
    for (value, text) in ticks(axes.seconds, most) {
        let x = panel.x(axes, value);
        marks.push(axis(vec![(x, bottom), (x, bottom + 5.0)]));
        marks.push(muted(x, bottom + 20.0, text));
    }
    marks.push(axis(vec![(panel.at.0, bottom), (panel.right(), bottom)]));
    if panel.last_row {
        let wide = panel.size.0 > 300.0;
        let text = if wide {
            "time since the start of the run, s"
        } else {
            "time, s"
        };
        let middle = panel.at.0 + panel.size.0 / 2.0;
        marks.push(muted(middle, bottom + 42.0, text.into()));
    }
}

/// Round numbers from 0 to at most `largest`, about `most` of them.
pub fn ticks(largest: f64, most: usize) -> Vec<(f64, String)> {
    let rough = largest / most as f64;
    let power = 10f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0]
        .map(|s| s * power)
        .into_iter()
        .find(|s| *s >= rough);
    let Some(step) = step.filter(|s| s.is_finite() && *s > 0.0) else {
        return Vec::new();
    };
    let decimals = (-step.log10().floor()).clamp(0.0, 6.0) as usize;
    // The tolerance keeps a last tick that the division would round away.
    let count = (largest / step + 1e-9).floor().min(2.0 * most as f64) as usize;
    let tick = |i: usize| {
        let value = i as f64 * step;
        let text = if value < 1e6 {
            format!("{value:.decimals$}")
        } else {
            number(value)
        };
        (value, text)
    };
    (0..=count).map(tick).collect()
}

/// A line through the windows, broken where a window has no value. Where windows are closer than
/// pixels, each pixel shows the lowest and the highest of its windows: nothing is smoothed away.
fn curve(marks: &mut Vec<Mark>, panel: &ChartPanel, axes: &Axes, ink: Ink, series: &[Point]) {
    let dense = series.len() > 2 * panel.size.0 as usize;
    for part in series.split(|p| !is_drawable(p)) {
        let mut points: Vec<At> = Vec::new();
        for point in part {
            let x = panel.x(axes, point.at_ms / 1000.0);
            let y = panel.y(axes, point.bytes_per_sec);
            if !dense {
                points.push((x, y));
                continue;
            }
            let x = x.floor();
            match points.as_mut_slice() {
                [.., low, high] if high.0 == x => {
                    low.1 = low.1.max(y);
                    high.1 = high.1.min(y);
                }
                _ => points.extend([(x, y), (x, y)]),
            }
        }
        // A single window between two gaps is still a fact.
        if let [only] = points[..] {
            points.push((only.0 + 1.5, only.1));
        }
        if !points.is_empty() {
            marks.push(Mark::Line { ink, points });
        }
    }
}

impl Axes {
    /// Capacity and set-point with their names, the higher one first.
    pub(super) fn lines(&self) -> Vec<(Ink, String, f64)> {
        let known = [
            (Ink::Capacity, "capacity", self.capacity),
            (Ink::SetPoint, "set-point", self.set_point),
        ];
        let named = |(ink, name, value): (Ink, &str, Option<f64>)| {
            let (value, unit) = (value?, &self.unit);
            let text = format!("{name} {} {}", number(value / unit.0), unit.1);
            Some((ink, text, value))
        };
        let mut lines: Vec<_> = known.into_iter().filter_map(named).collect();
        lines.sort_by(|a, b| b.2.total_cmp(&a.2));
        lines
    }
}

/// Set-point and capacity, named at the right end of a row where there is space.
fn references(marks: &mut Vec<Mark>, panel: &ChartPanel, axes: &Axes, width: Width) {
    let mut above = f32::NEG_INFINITY;
    for (ink, text, value) in axes.lines() {
        let y = panel.y(axes, value);
        marks.push(Mark::Line {
            ink,
            points: vec![(panel.at.0, y), (panel.right(), y)],
        });
        if panel.last_in_row && width == Width::Page {
            // Two names need two lines of space, also where the values are close.
            let text_y = (y + 4.5).max(above + 17.0);
            above = text_y;
            let at = (panel.right() + 8.0, text_y);
            let is_bold = ink == Ink::SetPoint;
            marks.push(words(ink, at, Anchor::Start, 13.0, is_bold, text));
        }
    }
}

/// Where weir's first tick was: until then it was starting, and limited nothing.
fn begin(marks: &mut Vec<Mark>, panel: &ChartPanel, axes: &Axes, held: Option<&Run>) {
    let Some(at_ms) = held.and_then(starting_ms) else {
        return;
    };
    let x = panel.x(axes, at_ms / 1000.0);
    marks.push(Mark::Line {
        ink: Ink::Begin,
        points: vec![(x, panel.at.1), (x, panel.bottom())],
    });
    let is_left = x < panel.at.0 + panel.size.0 / 2.0;
    let (x, anchor) = if is_left {
        (x + 5.0, Anchor::Start)
    } else {
        (x - 5.0, Anchor::End)
    };
    let at = (x, panel.at.1 + 0.3 * panel.size.1);
    let text = format!("weir begins, {} s", number(at_ms / 1000.0));
    marks.push(words(Ink::Begin, at, anchor, 12.0, false, text));
}

#[cfg(test)]
#[path = "chart_tests.rs"]
mod tests;
