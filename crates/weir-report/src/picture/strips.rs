// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Strips: each is a whole, divided into its parts from left to right.

use crate::picture::chart::words;
use crate::picture::paint::Fonts;
use crate::picture::stack::{AreaStyle, swatch};
use weir_figures::Ink;
use weir_figures::text::line;
use weir_figures::{Anchor, Mark, Picture};

const WIDTH: f32 = 1200.0;
const LEFT: f32 = 230.0;
const RIGHT: f32 = 210.0;
const TITLE: f32 = 30.0;
const ENTRY: f32 = 20.0;
const ROW: f32 = 34.0;
const STRIP: f32 = 22.0;

/// A kind of part: its name and how it is drawn.
#[derive(Clone, Debug, PartialEq)]
pub struct StripKind {
    /// Its name in the legend.
    pub name: String,
    pub look: AreaStyle,
}

#[derive(Clone, Debug)]
pub struct Strip {
    pub name: String,
    /// The kind of each part, by its place, and its share. They need not sum to 1.
    pub parts: Vec<(usize, f64)>,
    /// What stands behind it.
    pub note: String,
}

/// Strips with the same kinds of parts.
#[derive(Clone, Debug)]
pub struct Strips {
    pub title: String,
    pub kinds: Vec<StripKind>,
    /// Strips from top to bottom.
    pub strips: Vec<Strip>,
}

/// Draws them. Kinds that no strip has are left out of the legend.
pub fn strips(all: &Strips, fonts: &Fonts) -> Picture {
    let title = line(&all.title, 110);
    let mut marks = vec![words(
        Ink::Text,
        (24.0, TITLE),
        Anchor::Start,
        17.0,
        true,
        title.clone(),
    )];
    let top = legend(&mut marks, all, fonts) + 14.0;
    for (place, strip) in all.strips.iter().enumerate() {
        one(&mut marks, all, strip, top + ROW * place as f32, fonts);
    }
    Picture {
        size: (WIDTH, top + ROW * all.strips.len() as f32 + 8.0),
        label: title,
        marks,
    }
}

fn legend(marks: &mut Vec<Mark>, all: &Strips, fonts: &Fonts) -> f32 {
    let is_used = |kind: usize| {
        let mut parts = all.strips.iter().flat_map(|strip| &strip.parts);
        parts.any(|(of, share)| *of == kind && *share > 0.0)
    };
    let (mut x, mut y) = (24.0, TITLE + 26.0);
    for (_, kind) in all.kinds.iter().enumerate().filter(|(k, _)| is_used(*k)) {
        let name = line(&kind.name, 40);
        let width = fonts.width(&name, 13.0, false);
        if x + width > WIDTH - 60.0 {
            (x, y) = (24.0, y + ENTRY);
        }
        marks.push(swatch(kind.look, (x, y - 10.0)));
        let at = (x + 26.0, y + 0.5);
        marks.push(words(Ink::Text, at, Anchor::Start, 13.0, false, name));
        x += 26.0 + width + 22.0;
    }
    y
}

fn one(marks: &mut Vec<Mark>, all: &Strips, strip: &Strip, top: f32, fonts: &Fonts) {
    let middle = top + STRIP / 2.0 + 4.5;
    let name = line(&strip.name, 32);
    marks.push(words(
        Ink::Text,
        (LEFT - 10.0, middle),
        Anchor::End,
        13.0,
        false,
        name,
    ));
    let width = WIDTH - LEFT - RIGHT;
    let mut labels = Vec::new();
    let mut from = 0.0f64;
    for (kind, share) in &strip.parts {
        let to = (from + share.max(0.0)).min(1.0);
        let (left, right) = (LEFT + from as f32 * width, LEFT + to as f32 * width);
        from = to;
        let Some(kind) = all.kinds.get(*kind).filter(|_| right - left > 0.2) else {
            continue;
        };
        let bottom = top + STRIP;
        let (ink, hatch) = kind.look;
        let points = vec![(left, top), (right, top), (right, bottom), (left, bottom)];
        marks.push(Mark::Area { ink, hatch, points });
        marks.push(Mark::Line {
            ink: Ink::Page,
            points: vec![(right, top), (right, bottom)],
        });
        let label = format!("{:.0} %", share * 100.0);
        let chip = fonts.width(&label, 12.0, false) + 8.0;
        if chip + 8.0 < right - left {
            labels.push(((left + right) / 2.0, chip, label));
        }
    }
    for (middle_x, chip, label) in labels {
        marks.push(Mark::Rect {
            ink: Ink::Page,
            at: (middle_x - chip / 2.0, top + 3.0),
            size: (chip, STRIP - 6.0),
        });
        let at = (middle_x, middle - 0.5);
        marks.push(words(Ink::Text, at, Anchor::Middle, 12.0, false, label));
    }
    let at = (WIDTH - RIGHT + 10.0, middle);
    let note = line(&strip.note, 30);
    marks.push(words(Ink::Muted, at, Anchor::Start, 12.0, false, note));
}
