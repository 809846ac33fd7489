// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The live screen: a pure function of the model. From top to bottom: where the windows are, the first lines
//! of the report, a row for each subject, the chosen one's stalls and stages, the keys.

use super::frame::{LiveFrame, LiveRow};
use super::model::LiveModel;
use super::table;
use crate::top::draw::textwrap;
use crate::top::help::{self, BOLD, DIM};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;
use weir_figures::text;

/// Below this height the chosen subject has no lines of its own.
const DETAIL_HEIGHT: u16 = 16;
/// Width from which on stalls and stages stand side by side.
const BESIDE: u16 = 76;

/// Draws everything. Without colours, what they say is said by other means too.
pub fn draw(frame: &mut Frame, model: &LiveModel, source: &str, has_colours: bool) {
    let area = frame.area();
    let rows = u16::try_from(model.rows().len()).unwrap_or(u16::MAX);
    let first = first_lines(model, usize::from(area.width), area.height);
    let answer = u16::try_from(first.len()).unwrap_or(0);
    let rest = area.height.saturating_sub(answer + 2);
    let detail = if area.height < DETAIL_HEIGHT {
        0
    } else {
        rest.saturating_sub(rows + 1).max(rest / 2)
    };
    let [head, answer, subjects, detail, keys] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(answer),
        Constraint::Min(2),
        Constraint::Length(detail),
        Constraint::Length(1),
    ])
    .areas(area);
    frame.render_widget(head_line(model, source, usize::from(head.width)), head);
    frame.render_widget(Paragraph::new(first), answer);
    draw_rows(frame, subjects, model, has_colours);
    draw_detail(frame, detail, model);
    frame.render_widget(keys_line(model), keys);
    if model.help {
        help::page(
            frame,
            area,
            " weir profile live ",
            &super::help_lines(model.is_recorded),
        );
    }
}

fn head_line(model: &LiveModel, source: &str, width: usize) -> Line<'static> {
    let mut facts = Vec::new();
    if model.paused {
        facts.push("PAUSED".to_owned());
    }
    if model.is_over {
        facts.push("ENDED: nothing is left to count for".to_owned());
    }
    match &model.frame {
        Some(frame) => facts.push(frame.place.clone()),
        None => facts.push("waiting for the first window".to_owned()),
    }
    facts.push(text::harmless(source));
    const NAME: &str = " weir profile ";
    let room = width.saturating_sub(NAME.len());
    Line::from(vec![
        Span::styled(NAME, BOLD.add_modifier(Modifier::REVERSED)),
        Span::raw(text::fit(&format!(" {}", facts.join(" · ")), room)),
    ])
}

/// The report's first lines, broken at blanks: all of the first, and of the others what there is room for.
fn first_lines(model: &LiveModel, width: usize, height: u16) -> Vec<Line<'static>> {
    let Some(frame) = &model.frame else {
        return Vec::new();
    };
    let most = match height {
        0..10 => [1, 0, 0],
        10..20 => [2, 0, 1],
        20..30 => [2, 1, 1],
        _ => [3, 3, 2],
    };
    let mut all = Vec::new();
    for ((line, most), style) in frame
        .headline
        .iter()
        .zip(most)
        .zip([BOLD, Style::new(), DIM])
    {
        let wrapped = textwrap(line, width.saturating_sub(1));
        let is_cut = wrapped.len() > most;
        for (place, mut part) in wrapped.into_iter().take(most).enumerate() {
            if is_cut && place + 1 == most {
                part = text::left(&part, width.saturating_sub(1))
                    .trim_end()
                    .to_owned()
                    + "…";
            }
            all.push(Line::styled(part, style));
        }
    }
    all
}

fn draw_rows(frame: &mut Frame, area: Rect, model: &LiveModel, has_colours: bool) {
    let width = usize::from(area.width);
    let visible = usize::from(area.height.saturating_sub(1));
    let rows = model.rows();
    let (selected, layout) = (model.selected(), table::LiveLayout::new(width, &rows));
    let skip = (selected + 1).saturating_sub(visible);
    let title = Style::new().add_modifier(Modifier::REVERSED | Modifier::DIM);
    let mut lines = vec![Line::styled(layout.title(), title)];
    for (place, row) in rows.iter().enumerate().skip(skip).take(visible) {
        let style = row_style(row, place == selected, has_colours);
        lines.push(Line::styled(layout.line(row), style));
    }
    if rows.is_empty() {
        let why = match model.filter.as_str() {
            "" => "nothing was counted so far",
            _ => "no name has that in it; Esc shows all",
        };
        lines.push(Line::styled(format!(" {why}"), DIM));
    }
    frame.render_widget(Paragraph::new(lines), area);
}

fn row_style(row: &LiveRow, is_chosen: bool, has_colours: bool) -> Style {
    let mut style = Style::new();
    if !row.findings.is_empty() {
        style = if has_colours {
            style.fg(Color::Yellow)
        } else {
            style.add_modifier(Modifier::BOLD)
        };
    }
    match (is_chosen, has_colours) {
        (false, _) => style,
        (true, true) => style.bg(Color::DarkGray),
        (true, false) => style.add_modifier(Modifier::REVERSED),
    }
}

fn draw_detail(frame: &mut Frame, area: Rect, model: &LiveModel) {
    let rows = model.rows();
    let Some(row) = rows.get(model.selected()).filter(|_| area.height > 1) else {
        return;
    };
    let width = usize::from(area.width);
    let mut lines = vec![Line::styled("─".repeat(width), DIM)];
    let said = subject_line(row, model.frame.as_ref());
    lines.push(Line::styled(
        format!(" {}", text::fit(&said, width.saturating_sub(2))),
        BOLD,
    ));
    frame.render_widget(Paragraph::new(lines), Rect { height: 2, ..area });
    let below = Rect {
        y: area.y + 2,
        height: area.height - 2,
        ..area
    };
    let (stalls, stages) = (table::stalls(row), table::stages(row));
    let paragraph = |lines: Vec<String>, width: u16| {
        let cells = usize::from(width);
        let lines = lines.into_iter().enumerate().map(|(place, line)| {
            let style = if place == 0 { DIM } else { Style::new() };
            Line::styled(text::left(&line, cells), style)
        });
        Paragraph::new(lines.collect::<Vec<Line>>())
    };
    if area.width >= BESIDE {
        let [left, right] =
            Layout::horizontal([Constraint::Percentage(46), Constraint::Min(0)]).areas(below);
        frame.render_widget(paragraph(stalls, left.width), left);
        frame.render_widget(paragraph(stages, right.width), right);
    } else {
        let half = usize::from(below.height / 2);
        let all: Vec<String> = stalls.into_iter().take(half).chain(stages).collect();
        frame.render_widget(paragraph(all, below.width), below);
    }
}

fn subject_line(row: &LiveRow, frame: Option<&LiveFrame>) -> String {
    let name = text::fit(&row.name, 40);
    if let Some(why) = &row.why {
        return format!("{name}: its stalls are not split: {why}");
    }
    let mut said = match row.stalled {
        Some(stalled) => format!(
            "{name} stalls for {} of its time",
            text::whole_percent(stalled)
        ),
        None => name,
    };
    if let Some((cxl, error)) = row.cxl {
        let (cxl, error) = (cxl * 100.0, error * 100.0);
        said += &format!(", {cxl:.0} ± {error:.0} % of that for CXL memory [modelled]");
    }
    match frame.and_then(|frame| frame.sums.as_ref()) {
        Some(sums) => format!("{said} · {sums}"),
        None => said,
    }
}

fn keys_line(model: &LiveModel) -> Line<'static> {
    if model.typing {
        return help::typing_line(&model.filter);
    }
    let key = |key: &'static str| Span::styled(key, BOLD);
    let pause = if model.paused { " go on  " } else { " pause  " };
    let mut spans = vec![key(" q"), Span::raw(" quit  "), key("p"), Span::raw(pause)];
    if model.is_recorded {
        spans.extend([
            key(", ."),
            Span::raw(" step  "),
            key("[ ]"),
            Span::raw(" 10 windows  "),
        ]);
    }
    spans.extend([
        key("/"),
        Span::raw(" filter  "),
        key("?"),
        Span::raw(" help  "),
        key("↑↓"),
    ]);
    let place = match model.rows().len() {
        0 => String::new(),
        all => format!("   {} of {all}", model.selected() + 1),
    };
    spans.push(Span::styled(place, DIM));
    if !model.filter.is_empty() {
        let filter = text::fit(&text::harmless(&model.filter), 20);
        spans.push(Span::raw(format!("   only: {filter}")));
    }
    Line::from(spans)
}
