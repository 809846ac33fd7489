// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The line of keys, and the page that explains them.

use super::model::Model;
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Clear, Paragraph};
use weir_figures::text;

/// Style of what is less important.
pub const DIM: Style = Style::new().add_modifier(Modifier::DIM);
/// Style of what is more important.
pub const BOLD: Style = Style::new().add_modifier(Modifier::BOLD);

pub fn typing_line(filter: &str) -> Line<'static> {
    Line::from(vec![
        Span::styled(" filter: ", BOLD),
        Span::raw(text::harmless(filter)),
        Span::styled(" ", Style::new().add_modifier(Modifier::REVERSED)),
        Span::styled("   Enter keeps it, Esc shows all", DIM),
    ])
}

/// The keys that are used most, or the filter while it is typed.
pub fn keys_line(model: &Model) -> Line<'static> {
    if model.typing {
        return typing_line(model.filter());
    }
    let key = |key: &'static str| Span::styled(key, BOLD);
    let mut spans = vec![
        key(" q"),
        Span::raw(" quit  "),
        key("s"),
        Span::raw(format!(" sort: {}  ", model.sort().name())),
        key("p"),
        Span::raw(if model.paused { " go on  " } else { " pause  " }),
    ];
    if model.is_recorded {
        spans.extend([
            key(", ."),
            Span::raw(" step  "),
            key("[ ]"),
            Span::raw(" 10 s  "),
        ]);
    }
    spans.extend([
        key("/"),
        Span::raw(" filter  "),
        key("?"),
        Span::raw(" help  "),
        key("↑↓←→"),
    ]);
    let place = match model.rows().len() {
        0 => String::new(),
        all => format!("   {} of {all}", model.selected() + 1),
    };
    spans.push(Span::styled(place, DIM));
    if !model.filter().is_empty() {
        let filter = text::fit(&text::harmless(model.filter()), 20);
        spans.push(Span::raw(format!("   only: {}", filter.trim_end())));
    }
    Line::from(spans)
}

const COLUMNS: [&str; 16] = [
    "BANDWIDTH  device reads and writes, mean of a second;",
    "           ~ marks an estimate, – what is not known",
    "SHARE      part of all CXL traffic",
    "MiB/CPU·s  intensity: device bytes per CPU second",
    "CPU        CPUs in use",
    "LIMIT      CPUs that weir allows",
    "THROTTLED  throttled time per time; 100 % is one CPU",
    "WHY        limited: over its part of the set-point",
    "           below share: below its part, not limited",
    "           headroom: all fit; no data: traffic not known",
    "           releasing: an earlier limit is being removed",
    "           floor: the least that every workload keeps",
    "Rows stand in steps of a tenth, so that they keep still.",
    "Inner cgroups: sums; WHY is how many of all are limited.",
    "The bar's ┃ is the set-point; two columns of the curve",
    "are a second, the newest at the right.",
];
const KEYS: [&str; 4] = [
    "s sort  / filter  t tree or list  p pause  q Esc quit",
    "↑↓ j k PgUp PgDn Home End choose",
    "← → Enter fold and unfold, and processes of a workload",
    "- + fold and unfold all   any key closes this",
];
const WAITS_IN: &str = "WAITS IN   stage of most stalls, and their part of its time";
const IN_TIME: &str = ", . step   [ ] 10 s   { } 1 min   g G start and end";

pub fn draw(frame: &mut Frame, area: Rect, model: &Model) {
    let mut lines: Vec<&str> = COLUMNS.to_vec();
    if model.is_profiled() {
        lines.push(WAITS_IN);
    }
    lines.push("");
    if model.is_recorded {
        lines.push(IN_TIME);
    }
    lines.extend(KEYS);
    page(frame, area, " weir top ", &lines);
}

/// Lines in a box in the middle of the screen.
pub fn page(frame: &mut Frame, area: Rect, title: &'static str, lines: &[&str]) {
    let height = u16::try_from(lines.len())
        .unwrap_or(u16::MAX)
        .saturating_add(2)
        .min(area.height);
    let width = 60.min(area.width);
    let x = area.x + (area.width - width) / 2;
    let y = area.y + (area.height - height) / 2;
    let place = Rect {
        x,
        y,
        width,
        height,
    };
    let lines: Vec<Line> = lines
        .iter()
        .map(|line| Line::raw(format!(" {line}")))
        .collect();
    frame.render_widget(Clear, place);
    let page = Paragraph::new(lines).block(Block::bordered().title(title));
    frame.render_widget(page, place);
}
