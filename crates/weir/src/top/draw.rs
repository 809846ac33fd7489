// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The live screen: a pure function of the model. From top to bottom: one line about weir, a block
//! per device (figures, bar with the set-point marked, curve), the table, the chosen workload in
//! words, the keys.

use super::help::{self, BOLD, DIM};
use super::model::{DeviceRow, Model, TopRow};
use super::table;
use crate::cli::output::{labels, set_point};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Paragraph, Sparkline};
use weir_core::seam::snapshot::Snapshot;
use weir_figures::text;

/// Above the set-point by more than this ratio is shown in red, any amount above it in yellow.
const OVER: f64 = 0.05;
/// Height from which on curves are higher.
const TALL: u16 = 36;

/// Width from which on a device with a single line has its curve there.
const CURVE_BESIDE: u16 = 60;
/// Width from which on the last line shows both the scheduler's statistics and the source of the bandwidth.
const BOTH: usize = 150;

/// Draws everything. `source` says where the figures come from; `now_unix_ms` is the wall clock.
pub fn draw(frame: &mut Frame, model: &Model, source: &str, now_unix_ms: u64) {
    let area = frame.area();
    let devices = model.devices();
    let block = device_height(area.height, devices.len());
    let blocks = u16::try_from(devices.len())
        .unwrap_or(u16::MAX)
        .saturating_mul(block);
    let [head, device_area, table_area, detail, keys] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(blocks.min(area.height / 2)),
        Constraint::Min(2),
        Constraint::Length(if area.height >= 18 { 5 } else { 0 }),
        Constraint::Length(1),
    ])
    .areas(area);
    frame.render_widget(head_line(model, source, usize::from(head.width)), head);
    for (place, device) in device_area.rows().step_by(usize::from(block)).zip(&devices) {
        let height = block.min(device_area.bottom() - place.y);
        draw_device(frame, Rect { height, ..place }, device);
    }
    draw_table(frame, table_area, model);
    draw_detail(frame, detail, model, now_unix_ms);
    frame.render_widget(help::keys_line(model), keys);
    if model.help {
        help::draw(frame, area, model);
    }
}

fn device_height(height: u16, devices: usize) -> u16 {
    let wanted = if height >= TALL { 6 } else { 3 };
    let room = usize::from(height / 3);
    if devices * usize::from(wanted) <= room {
        wanted
    } else {
        1
    }
}

fn head_line(model: &Model, source: &str, width: usize) -> Line<'static> {
    let mode = match model.snapshot() {
        Some(Snapshot {
            limiting: true,
            policy,
            ..
        }) => {
            format!("limiting · {}", text::harmless(policy))
        }
        Some(_) => "observing only".to_owned(),
        None => "waiting for the first tick".to_owned(),
    };
    let mut facts = vec![mode];
    if let Some(snapshot) = model.snapshot() {
        facts.push(format!("{} ms", snapshot.interval_ms));
        facts.push(source.to_owned());
        if let Some(cost) = snapshot.self_cost {
            facts.push(format!(
                "costs {:.1} % CPU",
                cost.process_cpus.get() * 100.0
            ));
        }
        if snapshot.skipped_total > 0 {
            facts.push(format!("{} skips", snapshot.skipped_total));
        }
    }
    if model.paused {
        facts.insert(0, "PAUSED".to_owned());
    }
    let name = Span::styled(" weir ", BOLD.add_modifier(Modifier::REVERSED));
    Line::from(vec![
        name,
        Span::raw(text::fit(
            &format!(" {}", facts.join(" · ")),
            width - 6.min(width),
        )),
    ])
}

fn draw_device(frame: &mut Frame, area: Rect, device: &DeviceRow) {
    let [figures, bar, curve] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Min(0),
    ])
    .areas(area);
    let style = device_style(device);
    let mut figures = figures;
    if area.height == 1 && area.width >= CURVE_BESIDE {
        // Only one line high: the curve is beside the figures.
        let [left, _, right] = Layout::horizontal([
            Constraint::Min(0),
            Constraint::Length(1),
            Constraint::Length(area.width / 4),
        ])
        .areas(area);
        figures = left;
        draw_curve(frame, right, device, style);
    }
    frame.render_widget(
        device_line(device, style, usize::from(figures.width)),
        figures,
    );
    frame.render_widget(bar_line(device, style, usize::from(bar.width)), bar);
    // Inside the bar's two ends.
    let width = curve.width.saturating_sub(2);
    let x = curve.x + 1.min(curve.width);
    draw_curve(frame, Rect { x, width, ..curve }, device, style);
}

/// The newest point stands at the right edge.
fn draw_curve(frame: &mut Frame, area: Rect, device: &DeviceRow, style: Style) {
    let count = device.history.len().min(usize::from(area.width));
    let newest = device.history.iter().skip(device.history.len() - count);
    // Out of thousand: the widget takes whole numbers.
    let points = newest.map(|point| point.map(|rate| permille(rate / device.scale)));
    let points: Vec<Option<u64>> = points.collect();
    let width = u16::try_from(count).unwrap_or(0);
    let x = area.right().saturating_sub(width);
    let inner = Rect { x, width, ..area };
    frame.render_widget(
        Sparkline::default()
            .data(points)
            .absent_value_symbol("·")
            .max(1000)
            .style(style),
        inner,
    );
}

fn permille(ratio: f64) -> u64 {
    // In range by the clamp, and never negative.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let value = (ratio.clamp(0.0, 1.0) * 1000.0) as u64;
    value
}

fn device_style(device: &DeviceRow) -> Style {
    let set_point = device.state.set_point_bytes_per_sec;
    let color = match (device.bandwidth, set_point) {
        (Some(rate), Some(set)) if rate.get() > set.get() * (1.0 + OVER) => Color::Red,
        (Some(rate), Some(set)) if rate > set => Color::Yellow,
        (Some(_), _) => Color::Green,
        (None, _) => Color::DarkGray,
    };
    Style::new().fg(color)
}

fn device_line(device: &DeviceRow, style: Style, width: usize) -> Line<'static> {
    let rate = device
        .bandwidth
        .map_or_else(|| "not known".to_owned(), text::rate);
    let (mut bound, mut percent, mut rest) = (String::new(), String::new(), String::new());
    if let Some(set) = device.state.set_point_bytes_per_sec {
        bound = format!(", set-point {}", text::rate(set));
        if let Some(rate) = device.bandwidth {
            percent = format!(" ({})", text::whole_percent(rate.ratio(set)));
        }
    } else if let Some(capacity) = device.capacity {
        bound = format!(" of {} capacity", text::rate(capacity));
    }
    if let Some(found) = &device.state.unenforceable {
        let of = found.largest.workload.as_ref();
        let of = of.map_or("no workload", |id| id.as_str());
        rest += &format!(" · cannot be held, for {}", text::harmless(of));
    } else if let Some(found) = &device.state.saturation {
        rest += &format!(" · not reached ({})", set_point::bias(found));
    }
    match &device.latency {
        Ok(mean) => {
            let (source, age) = &device.latency_from;
            rest += &format!(" · {source} {mean}{age}");
        }
        Err(Some(why)) => rest += &format!(" · latency {}", text::harmless(why)),
        Err(None) => {}
    }
    if let Some(load) = device.load {
        rest += &format!(" · load {}", load.name());
    }
    if let (Some(read), Some(write)) = (
        device.state.read_bytes_per_sec,
        device.state.write_bytes_per_sec,
    ) && read + write > weir_core::BytesPerSec::ZERO
    {
        rest += &format!(" · {} reads", text::whole_percent(read.ratio(read + write)));
    }
    let name = format!(" {} {} ", device.state.id, text::harmless(&device.name));
    let width_of = |text: &str| unicode_width::UnicodeWidthStr::width(text);
    let room = width.saturating_sub(width_of(&name) + rate.len());
    // The bar shows the percentage too: it is the first to go.
    let whole = format!("{bound}{percent}{rest}");
    let rest = if width_of(&whole) <= room {
        whole
    } else {
        bound + &rest
    };
    Line::from(vec![
        Span::styled(name, BOLD),
        Span::styled(rate, style.add_modifier(Modifier::BOLD)),
        Span::raw(text::fit(&rest, room)),
    ])
}

/// A bar with eighths of a cell, and the set-point as a line across it.
fn bar_line(device: &DeviceRow, style: Style, width: usize) -> Line<'static> {
    const EIGHTHS: [char; 8] = [' ', '▏', '▎', '▍', '▌', '▋', '▊', '▉'];
    let cells = width.saturating_sub(2);
    let at =
        |rate: f64| usize::try_from(permille(rate / device.scale)).unwrap_or(0) * cells * 8 / 1000;
    let filled = device.bandwidth.map_or(0, |rate| at(rate.get()));
    let mark = device
        .state
        .set_point_bytes_per_sec
        .map(|set| at(set.get()) / 8);
    let mut spans = vec![Span::styled("▕", DIM)];
    for cell in 0..cells {
        let part = filled.saturating_sub(cell * 8).min(8);
        if mark == Some(cell) {
            let over = if part == 8 {
                style.add_modifier(Modifier::REVERSED)
            } else {
                Style::new()
            };
            spans.push(Span::styled("┃", over.add_modifier(Modifier::BOLD)));
        } else if part == 8 {
            spans.push(Span::styled("█", style));
        } else if part == 0 {
            spans.push(Span::styled("─", DIM));
        } else {
            spans.push(Span::styled(EIGHTHS[part].to_string(), style));
        }
    }
    spans.push(Span::styled("▏", DIM));
    Line::from(spans)
}

fn draw_table(frame: &mut Frame, area: Rect, model: &Model) {
    let width = usize::from(area.width);
    let visible = usize::from(area.height.saturating_sub(1));
    let layout = table::Layout::new(
        width,
        table::longest_name(model.rows()),
        model.is_profiled(),
    );
    let selected = model.selected();
    let skip = (selected + 1).saturating_sub(visible);
    let title = Style::new().add_modifier(Modifier::REVERSED | Modifier::DIM);
    let mut lines = vec![Line::styled(layout.title(), title)];
    for (place, row) in model.rows().iter().enumerate().skip(skip).take(visible) {
        let style = row_style(row);
        let style = if place == selected {
            style.bg(Color::DarkGray)
        } else {
            style
        };
        lines.push(Line::styled(layout.line(row), style));
    }
    if let Some(why) = super::empty::unseen(model.snapshot()).filter(|_| !model.is_empty()) {
        lines.extend(
            textwrap(&why, width)
                .into_iter()
                .map(|line| Line::styled(line, DIM)),
        );
    }
    if model.is_empty() {
        let why = match model.filter() {
            "" => format!(" {}", super::empty::reason(model.snapshot())),
            _ => " no name has that in it; Esc shows all".to_owned(),
        };
        // It gets as many lines as it needs.
        let lines_of = textwrap(&why, width);
        lines.extend(lines_of.into_iter().map(|line| Line::styled(line, DIM)));
    }
    frame.render_widget(Paragraph::new(lines), area);
}

/// A sentence in lines of at most so many cells, broken at blanks.
pub fn textwrap(sentence: &str, cells: usize) -> Vec<String> {
    use unicode_width::UnicodeWidthStr;
    let mut lines = vec![String::new()];
    for word in sentence.trim().split(' ') {
        let last = lines.last().map_or(0, |line| line.width());
        if last > 0 && last + 1 + word.width() > cells {
            lines.push(String::new());
        }
        if let Some(line) = lines.last_mut() {
            line.push(' ');
            line.push_str(word);
        }
    }
    lines
}

fn row_style(row: &TopRow) -> Style {
    use weir_core::seam::plan::Why;
    if row.branch.is_some() {
        return BOLD;
    }
    if row.inside.is_some() {
        return DIM;
    }
    match row.verdict.why {
        Why::Limited { .. } | Why::AtFloor => Style::new().fg(Color::Yellow),
        Why::NotEnforced { .. } => Style::new().fg(Color::Red),
        Why::Excluded { .. } => DIM,
        _ => Style::new(),
    }
}

fn limit_line(row: &TopRow, known_since_unix_ms: Option<u64>, now_unix_ms: u64) -> String {
    if let Some(inside) = &row.inside {
        let seen = inside.age.map_or_else(String::new, |age| {
            format!(", seen {:.1} s ago", age.secs_f64())
        });
        return format!("weir limits workloads, not single processes{seen}");
    }
    if row.branch.is_some() {
        return "sums of the workloads in it; weir limits each workload by itself".to_owned();
    }
    if row.is_page_migration {
        return "weir limits workloads, not the kernel".to_owned();
    }
    let mut limit = match row.verdict.limit_cpus {
        Some(cpus) => format!("limit {} CPU", text::cpus(cpus)),
        None => "no limit by weir".to_owned(),
    };
    if let Some(since) = row.limited_since_unix_ms {
        // After a jump it is not known what stood before.
        let more = match known_since_unix_ms {
            Some(known) if since <= known => "more than ",
            _ => "",
        };
        let span = text::ago(now_unix_ms.saturating_sub(since));
        limit += &format!(" for {more}{span}");
    }
    limit += &labels::weight(&row.verdict);
    if let Some(allowed) = row.verdict.allowed_bytes_per_sec {
        limit += &format!(" · budget {}", text::rate(allowed));
    }
    limit
}

fn draw_detail(frame: &mut Frame, area: Rect, model: &Model, now_unix_ms: u64) {
    let Some(row) = model.rows().get(model.selected()) else {
        return;
    };
    if area.height == 0 {
        return;
    }
    let verdict = &row.verdict;
    let width = usize::from(area.width).saturating_sub(2);
    let limit = limit_line(row, model.known_since_unix_ms, now_unix_ms);
    let figure = match row.inside {
        Some(_) => "an estimate, the workload's shared out by CPU time",
        None if row.is_page_migration => {
            "pages that the kernel counts in /proc/vmstat, up to what the devices count"
        }
        None => labels::provenance_long(verdict.bandwidth.provenance),
    };
    let name = match &row.inside {
        Some(inside) => inside.what.clone(),
        None => model.tag(verdict) + &text::harmless(verdict.id.as_str()),
    };
    let mut last = format!("bandwidth: {figure}");
    if let Some(stats) = &row.scheduled {
        let scheduled = labels::scheduled_short(stats);
        last = if width < BOTH {
            scheduled
        } else {
            format!("{scheduled} · {last}")
        };
    }
    let lines = vec![
        Line::styled("─".repeat(usize::from(area.width)), DIM),
        Line::styled(format!(" {}", text::fit(&name, width)), BOLD),
        Line::raw(format!(" {}", text::fit(&table::why_long(row), width))),
        Line::raw(format!(" {}", text::fit(&limit, width))),
        Line::styled(format!(" {}", text::fit(&last, width)), DIM),
    ];
    frame.render_widget(Paragraph::new(lines), area);
}
