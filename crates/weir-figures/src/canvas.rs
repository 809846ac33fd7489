// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A picture is a list of [`Mark`]s, which become SVG for the page and a PNG (weir-report) for
//! everything else. Both come from the same marks, so they cannot differ.

use crate::ink::{HATCH_SIDE, Hatch, Ink};
use crate::text::escape;
use std::collections::BTreeSet;
use std::fmt::Write;

/// A point, in units of the picture from its upper left corner.
pub type At = (f32, f32);

/// Which end of a text is at its point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Anchor {
    Start,
    Middle,
    End,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Mark {
    Rect {
        ink: Ink,
        at: At,
        size: At,
    },
    Line {
        ink: Ink,
        points: Vec<At>,
    },
    Area {
        ink: Ink,
        hatch: Hatch,
        /// Its corners.
        points: Vec<At>,
    },
    /// Text on a base line.
    Text {
        ink: Ink,
        at: At,
        /// Which end is there.
        anchor: Anchor,
        size: f32,
        bold: bool,
        /// Whether it runs upwards.
        upwards: bool,
        text: String,
    },
}

#[derive(Clone, Debug, PartialEq)]
pub struct Picture {
    pub size: At,
    /// What it shows, for readers that do not see it.
    pub label: String,
    /// Marks from back to front.
    pub marks: Vec<Mark>,
}

/// The picture as an SVG element to stand in a page (without a name space, which a page knows).
pub fn svg(picture: &Picture) -> String {
    let (width, height) = picture.size;
    let label = escape(&picture.label);
    let mut svg = format!(
        "<svg viewBox=\"0 0 {width} {height}\" role=\"img\" aria-label=\"{label}\" \
         font-family=\"DejaVu Sans, Verdana, sans-serif\">\n"
    );
    for mark in &picture.marks {
        svg += &svg_mark(mark);
    }
    svg + "</svg>\n"
}

fn svg_mark(mark: &Mark) -> String {
    match mark {
        Mark::Rect { ink, at, size } => format!(
            "<rect class=\"{}\" x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\" \
             fill=\"#{:06x}\"/>\n",
            ink.class(),
            at.0,
            at.1,
            size.0,
            size.1,
            ink.colours().0,
        ),
        Mark::Line { ink, points } => {
            let dashes = ink.dashes().map_or(String::new(), |[on, off]| {
                format!(" stroke-dasharray=\"{on} {off}\"")
            });
            let points: Vec<String> = points
                .iter()
                .map(|(x, y)| format!("{x:.1},{y:.1}"))
                .collect();
            format!(
                "<polyline class=\"{}\" fill=\"none\" stroke=\"#{:06x}\" stroke-width=\"{}\" \
                 stroke-linejoin=\"round\"{dashes} points=\"{}\"/>\n",
                ink.class(),
                ink.colours().0,
                ink.width(),
                points.join(" "),
            )
        }
        Mark::Area { ink, hatch, points } => area(*ink, *hatch, points),
        Mark::Text {
            ink,
            at: (x, y),
            anchor,
            size,
            bold,
            upwards,
            text,
        } => {
            let anchor = match anchor {
                Anchor::Start => "start",
                Anchor::Middle => "middle",
                Anchor::End => "end",
            };
            let weight = if *bold { " font-weight=\"bold\"" } else { "" };
            let rotation = if *upwards {
                format!(" transform=\"rotate(-90 {x:.1} {y:.1})\"")
            } else {
                String::new()
            };
            format!(
                "<text class=\"{}\" x=\"{x:.1}\" y=\"{y:.1}\" font-size=\"{size}\" \
                 text-anchor=\"{anchor}\" fill=\"#{:06x}\"{weight}{rotation}>{}</text>\n",
                ink.class(),
                ink.colours().0,
                escape(text),
            )
        }
    }
}

fn area(ink: Ink, hatch: Hatch, points: &[At]) -> String {
    let outline = outline(points);
    match hatch {
        Hatch::Plain => format!(
            "<path class=\"{}\" fill=\"#{:06x}\" d=\"{outline}\"/>\n",
            ink.class(),
            ink.colours().0,
        ),
        _ => format!(
            "<path fill=\"url(#{})\" d=\"{outline}\"/>\n",
            pattern_id(ink, hatch)
        ),
    }
}

/// In tenths of a unit, with the short forms that steps have.
fn outline(points: &[At]) -> String {
    let tenths = |value: f32| (value * 10.0).round() as i64;
    let shown = |tenths: i64| match tenths % 10 {
        0 => (tenths / 10).to_string(),
        _ => format!("{:.1}", tenths as f64 / 10.0),
    };
    let mut path = String::new();
    let mut last: Option<(i64, i64)> = None;
    for (x, y) in points.iter().map(|(x, y)| (tenths(*x), tenths(*y))) {
        match last {
            None => path += &format!("M{} {}", shown(x), shown(y)),
            Some((a, b)) if (a, b) == (x, y) => {}
            Some((a, b)) if b == y => path += &format!("h{}", shown(x - a)),
            Some((a, b)) if a == x => path += &format!("v{}", shown(y - b)),
            Some((a, b)) => path += &format!("l{} {}", shown(x - a), shown(y - b)),
        }
        last = Some((x, y));
    }
    path + "z"
}

fn pattern_id(ink: Ink, hatch: Hatch) -> String {
    format!("{}-{}", ink.class(), hatch.word())
}

/// The hatches of some pictures, once for the page that they stand in; nothing where there are none.
pub fn patterns<'a>(pictures: impl Iterator<Item = &'a Picture>) -> String {
    let hatched = |mark: &Mark| match mark {
        Mark::Area { ink, hatch, .. } if *hatch != Hatch::Plain => Some((*ink, *hatch)),
        _ => None,
    };
    let used: BTreeSet<(Ink, Hatch)> = pictures
        .flat_map(|p| p.marks.iter().filter_map(hatched))
        .collect();
    if used.is_empty() {
        return String::new();
    }
    let mut svg =
        String::from("<svg class=\"defs\" width=\"0\" height=\"0\" aria-hidden=\"true\"><defs>\n");
    for (ink, hatch) in used {
        let lines: String = hatch
            .segments()
            .iter()
            .map(|[a, b, c, d]| format!("M{a} {b}L{c} {d}"))
            .collect();
        let _ = writeln!(
            svg,
            "<pattern id=\"{}\" width=\"{HATCH_SIDE}\" height=\"{HATCH_SIDE}\" \
             patternUnits=\"userSpaceOnUse\"><rect class=\"{}\" width=\"{HATCH_SIDE}\" \
             height=\"{HATCH_SIDE}\" fill=\"#{:06x}\"/><path class=\"hatch\" d=\"{lines}\" \
             stroke=\"#{:06x}\" stroke-width=\"{}\"/></pattern>",
            pattern_id(ink, hatch),
            ink.class(),
            ink.colours().0,
            Ink::Page.colours().0,
            hatch.width(),
        );
    }
    svg + "</defs></svg>\n"
}
