// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the colours and lines of the bandwidth picture are.

use crate::picture::chart::{Axes, Drawn, mean, words};
use crate::picture::layout::{Layout, Width};
use crate::picture::paint::Fonts;
use crate::results::Run;
use weir_figures::Ink;
use weir_figures::text::number;
use weir_figures::{Anchor, At, Mark};

/// Says which colour is what, with its mean where it is one run. On a phone the lines have their names here
/// too.
pub(super) fn legend_entries(axes: &Axes, shown: &[Drawn], width: Width) -> Vec<(Ink, String)> {
    let held: Vec<&Run> = shown.iter().filter_map(|runs| runs.held).collect();
    let free: Vec<&Run> = shown.iter().filter_map(|runs| runs.free).collect();
    // Simulated runs may be controlled by something else: the thesis's controllers.
    let is_weir = |run: &&Run| !run.backend.starts_with("thesis-");
    let controller = if held.iter().all(is_weir) {
        "weir"
    } else {
        "control"
    };
    let mut entries = Vec::new();
    if let Some(first) = free.first() {
        let is_one = free.iter().all(|run| std::ptr::eq(*run, *first));
        let mean = if is_one {
            mean(axes, first)
        } else {
            String::new()
        };
        entries.push((Ink::Free, format!("without {controller}{mean}")));
    }
    match held[..] {
        [] => {}
        [run] => {
            let named = shown.iter().find(|runs| runs.held.is_some());
            let name = named.map_or("", |runs| runs.name);
            entries.push((
                Ink::Held,
                format!("with {controller}, {name}{}", mean(axes, run)),
            ));
        }
        _ => entries.push((Ink::Held, format!("with {controller}"))),
    }
    if width == Width::Phone {
        let lines = axes.lines().into_iter();
        entries.extend(lines.map(|(ink, name, _)| (ink, name)));
    }
    entries
}

/// What a point is.
pub(super) fn window_note(axes: &Axes) -> String {
    let window = match axes.window_ms {
        Some(ms) => format!("{} ms", number(ms)),
        None => "a window".into(),
    };
    format!("each point: mean of {window}; shaded: measured")
}

/// Draws the legend in one line below the title; on a phone each entry has a line.
pub(super) fn legend(
    marks: &mut Vec<Mark>,
    fonts: &Fonts,
    layout: &Layout,
    entries: Vec<(Ink, String)>,
    note: String,
) {
    let is_page = layout.width == Width::Page;
    let (mut x, mut y) = if is_page {
        (layout.left, 64.0)
    } else {
        (4.0, 42.0)
    };
    for (ink, text) in entries {
        marks.push(sample(ink, (x, y - 4.5)));
        let width = fonts.width(&text, 13.0, false);
        marks.push(words(
            Ink::Text,
            (x + 30.0, y),
            Anchor::Start,
            13.0,
            false,
            text,
        ));
        if is_page {
            x += 30.0 + width + 30.0
        } else {
            y += Layout::LEGEND_LINE
        }
    }
    let (at, anchor) = if is_page {
        ((layout.size.0 - 12.0, y), Anchor::End)
    } else {
        ((4.0, y), Anchor::Start)
    };
    marks.push(words(Ink::Muted, at, anchor, 12.0, false, note));
}

/// What a thing looks like: of curves, which are thin, a bar.
fn sample(ink: Ink, at: At) -> Mark {
    match ink {
        Ink::Free | Ink::Held => Mark::Rect {
            ink,
            at: (at.0, at.1 - 1.5),
            size: (22.0, 3.0),
        },
        _ => Mark::Line {
            ink,
            points: vec![at, (at.0 + 22.0, at.1)],
        },
    }
}
