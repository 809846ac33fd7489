// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The table's cells as text, for the live screen and for plain output alike.

use super::model::{Model, TopRow};
use super::{empty, headline};
use crate::cli::output::{labels, set_point};
use crate::run::screens::waits_in::WaitsIn;
use std::fmt::Write as _;
use unicode_width::UnicodeWidthStr;
use weir_core::rates::attribution::Provenance;
use weir_figures::text;

/// Columns besides the name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TopColumn {
    /// Device bandwidth; `~` marks an estimate.
    Bandwidth,
    /// Part of the devices' traffic.
    Share,
    /// κ.
    Intensity,
    Cpu,
    Limit,
    /// Throttled time per time.
    Throttled,
    /// How the bandwidth is known.
    Source,
    /// The stage in which it stalls most, and for which part of its time.
    WaitsIn,
    /// Why it has the limit it has.
    Why,
}

/// Width from which on there is room for all columns but the source.
const FULL: usize = 80;
/// Width from which on there is room for all columns.
const WIDE: usize = 100;

/// Names get at least this much where there is room.
const NAME_LEAST: usize = 20;
/// Width from which on the reason is a sentence.
const WHY_LONG: usize = 40;

/// The columns that fit on a screen of this width. While a profile runs, where workloads wait takes the place
/// of others.
fn columns(width: usize, is_profiled: bool) -> &'static [TopColumn] {
    use TopColumn::{Bandwidth, Cpu, Intensity, Limit, Share, Source, Throttled, WaitsIn, Why};
    if is_profiled {
        return match width {
            0..56 => &[Bandwidth, WaitsIn],
            56..FULL => &[Bandwidth, Share, Cpu, WaitsIn, Why],
            FULL..WIDE => &[Bandwidth, Share, Cpu, Limit, WaitsIn, Why],
            _ => &[
                Bandwidth, Share, Intensity, Cpu, Limit, Throttled, WaitsIn, Why,
            ],
        };
    }
    match width {
        0..56 => &[Bandwidth, Cpu, Limit],
        56..FULL => &[Bandwidth, Share, Cpu, Limit, Why],
        FULL..WIDE => &[Bandwidth, Share, Intensity, Cpu, Limit, Throttled, Why],
        _ => &[
            Bandwidth, Share, Intensity, Cpu, Limit, Throttled, Source, Why,
        ],
    }
}

impl TopColumn {
    /// Width in cells of the terminal.
    pub fn width(self) -> usize {
        match self {
            TopColumn::Bandwidth => 11,
            TopColumn::Share | TopColumn::Cpu | TopColumn::Limit => 5,
            TopColumn::Intensity | TopColumn::Throttled => 9,
            TopColumn::Source => 8,
            TopColumn::WaitsIn => 13,
            TopColumn::Why => 11,
        }
    }

    /// The column's title, with the unit where the cells have none.
    pub fn title(self) -> &'static str {
        match self {
            TopColumn::Bandwidth => "BANDWIDTH",
            TopColumn::Share => "SHARE",
            TopColumn::Intensity => "MiB/CPU·s",
            TopColumn::Cpu => "CPU",
            TopColumn::Limit => "LIMIT",
            TopColumn::Throttled => "THROTTLED",
            TopColumn::Source => "SOURCE",
            TopColumn::WaitsIn => "WAITS IN",
            TopColumn::Why => "WHY",
        }
    }

    /// The cell's text, not yet aligned. Missing is a dash, never a zero.
    pub fn cell(self, row: &TopRow) -> String {
        let verdict = &row.verdict;
        let or_dash = |text: Option<String>| text.unwrap_or_else(|| "–".to_owned());
        if let (TopColumn::Why, Some(branch)) = (self, &row.branch) {
            return match branch.limited {
                0 => format!("{} in it", branch.workloads),
                limited => format!("{limited} of {}", branch.workloads),
            };
        }
        if let (TopColumn::Why, Some(_)) = (self, &row.inside) {
            return "by CPU".to_owned();
        }
        match self {
            TopColumn::Bandwidth => {
                let mark = match verdict.bandwidth.provenance {
                    Provenance::Counted | Provenance::Unknown => "",
                    Provenance::Sampled | Provenance::Apportioned => "~",
                };
                or_dash(
                    row.bandwidth
                        .map(|rate| format!("{mark}{}", text::rate(rate))),
                )
            }
            TopColumn::Share => or_dash(row.share.map(text::whole_percent)),
            TopColumn::Intensity => {
                or_dash(verdict.intensity_bytes_per_cpu_sec.map(text::intensity))
            }
            TopColumn::Cpu => or_dash(row.cpu.map(text::cpus)),
            TopColumn::Limit => or_dash(verdict.limit_cpus.map(text::cpus)),
            TopColumn::Throttled => {
                let held = row.held.get();
                or_dash((held > 0.0).then(|| text::whole_percent(held)))
            }
            TopColumn::Source if row.is_page_migration => "vmstat".to_owned(),
            TopColumn::Source => labels::provenance(verdict.bandwidth.provenance).to_owned(),
            TopColumn::WaitsIn => or_dash(row.waits_in.as_ref().map(waits_in)),
            TopColumn::Why => labels::verdict_short(verdict).to_owned(),
        }
    }
}

/// A stage, and the part of the time: `device 61 %`. The name is another program's.
fn waits_in(waits: &WaitsIn) -> String {
    let ratio = waits
        .time_ratio
        .map(|ratio| format!(" {}", text::whole_percent(ratio)));
    text::harmless(&waits.stage) + &ratio.unwrap_or_default()
}

/// The widths of a screen's columns. The name takes what the others leave, up to a bound. Cells above the
/// bound show the reason at length.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    columns: &'static [TopColumn],
    name: usize,
    why: usize,
}

impl Layout {
    /// The layout for a screen of this width and names of at most `longest` cells.
    pub fn new(width: usize, longest: usize, is_profiled: bool) -> Layout {
        let columns = columns(width, is_profiled);
        let others: usize = columns.iter().map(|column| column.width() + 1).sum();
        let room = width.saturating_sub(others);
        let name = room.min(longest.max(NAME_LEAST));
        let has_why = columns.last() == Some(&TopColumn::Why);
        let why = if has_why {
            TopColumn::Why.width() + room - name
        } else {
            0
        };
        Layout {
            columns,
            name: if has_why { name } else { room },
            why,
        }
    }

    /// Exactly as wide as names of `longest` cells and all columns need.
    pub fn on_paper(longest: usize, is_profiled: bool) -> Layout {
        let columns = columns(WIDE, is_profiled);
        Layout {
            columns,
            name: longest.clamp(NAME_LEAST, WIDE),
            why: TopColumn::Why.width(),
        }
    }

    pub fn title(&self) -> String {
        let mut line = text::left("WORKLOAD", self.name);
        for column in self.columns {
            line.push(' ');
            line += &self.align(*column, column.title());
        }
        line
    }

    pub fn line(&self, row: &TopRow) -> String {
        let mut line = text::left_keeping(&row.label, row.keep, self.name);
        for column in self.columns {
            line.push(' ');
            line += &match column {
                TopColumn::Why if self.why >= WHY_LONG => self.align(*column, &self.why(row)),
                _ => self.align(*column, &column.cell(row)),
            };
        }
        line
    }

    /// The reason at length where there is room for it: cut in its middle it would say nothing.
    fn why(&self, row: &TopRow) -> String {
        let long = why_long(row);
        if long.width() <= self.why {
            long
        } else {
            TopColumn::Why.cell(row)
        }
    }

    /// Numbers to the right, words to the left.
    fn align(&self, column: TopColumn, text: &str) -> String {
        match column {
            TopColumn::Why => text::left(text, self.why),
            TopColumn::Source | TopColumn::WaitsIn => text::left(text, column.width()),
            _ => text::right(text, column.width()),
        }
    }
}

/// Why it has the limit it has; of an inner cgroup, how many have one; of a process, how its bytes are known.
pub fn why_long(row: &TopRow) -> String {
    if row.inside.is_some() {
        return "its part of the workload's bytes, by CPU time".to_owned();
    }
    if row.is_page_migration {
        return "never limited: the kernel migrates pages".to_owned();
    }
    let Some(branch) = &row.branch else {
        return labels::verdict_long(&row.verdict);
    };
    let all = branch.workloads;
    let workloads = if all == 1 { "workload" } else { "workloads" };
    match branch.limited {
        0 => format!("{all} {workloads}, none limited"),
        limited => format!("{limited} of {all} {workloads} limited"),
    }
}

/// The longest name on the screen, in cells.
pub fn longest_name(rows: &[TopRow]) -> usize {
    let names = rows.iter().map(|row| row.label.width());
    names.max().unwrap_or(0)
}

/// Most lines about what was not read, below the table.
const NOTES: usize = 8;

/// What a device without counts shows.
const UNKNOWN: &str = "traffic not known, `weir doctor` says why";

/// The table on paper: no colours, no cursor, all rows.
pub(super) fn plain(model: &Model, source: &str) -> String {
    let mut out = String::new();
    // Writing into a String cannot fail.
    let _ = writeln!(out, "weir: {}", headline(model.snapshot(), source));
    for device in model.devices() {
        let rate = device
            .bandwidth
            .map_or_else(|| UNKNOWN.to_owned(), text::rate);
        let _ = write!(
            out,
            "{} {}: {rate}",
            device.state.id,
            text::harmless(&device.name)
        );
        if let Some(set) = device.state.set_point_bytes_per_sec {
            let _ = write!(out, ", set-point {}", text::rate(set));
        }
        if let Some(capacity) = device.capacity {
            let _ = write!(out, ", capacity {}", text::rate(capacity));
        }
        if let Ok(mean) = device.latency {
            let (source, age) = &device.latency_from;
            let by = match *source {
                "latency" => String::new(),
                source => format!(" by {source}"),
            };
            let _ = write!(out, ", latency {mean}{by}{age}");
        }
        if let Some(load) = device.load {
            let _ = write!(out, ", load {}", load.name());
        }
        out.push('\n');
        if let Some(why) = set_point::not_held(&device.state) {
            let _ = writeln!(out, "{}: {why}", device.state.id);
        }
    }
    let layout = Layout::on_paper(longest_name(model.rows()), model.is_profiled());
    let mut add = |line: String| {
        let _ = writeln!(out, "{}", line.trim_end());
    };
    add(layout.title());
    for row in model.rows() {
        add(layout.line(row));
    }
    if model.is_empty() {
        add(empty::reason(model.snapshot()));
    } else if let Some(why) = empty::unseen(model.snapshot()) {
        add(why);
    }
    let skipped = model.snapshot().map_or(&[][..], |s| &s.skipped);
    for skipped in skipped.iter().take(NOTES) {
        let (what, why) = (text::harmless(&skipped.what), skipped.why.to_string());
        add(format!("{what}: {}", text::harmless(&why)));
    }
    if let Some(more) = skipped.len().checked_sub(NOTES).filter(|more| *more > 0) {
        add(format!("{more} more: weir top --json"));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::top::testing::snapshot;

    #[test]
    fn lines_have_the_screens_width_whatever_the_name() {
        let mut model = Model::default();
        model.add(snapshot(0, 200.0));
        for (width, is_profiled) in (40..220).flat_map(|width| [(width, false), (width, true)]) {
            let layout = Layout::new(width, longest_name(model.rows()), is_profiled);
            assert_eq!(layout.title().width(), width);
            for row in model.rows() {
                let line = layout.line(row);
                assert_eq!(line.width(), width, "{line:?}");
                assert!(!line.contains(['\u{1b}', '\n']), "{line:?}");
            }
        }
    }

    #[test]
    fn a_reason_is_whole_or_a_word() {
        let mut model = Model::default();
        model.add(snapshot(0, 200.0));
        let is_heavy = |row: &&TopRow| row.verdict.id.as_str().contains("fio-heavy");
        let heavy = model.rows().iter().find(is_heavy).unwrap();
        for (width, wanted) in [
            (130, " limited"),
            (220, "when no limit held it back, 1 min 3 s ago"),
        ] {
            let line = Layout::new(width, longest_name(model.rows()), false).line(heavy);
            assert!(line.trim_end().ends_with(wanted), "{width}: {line}");
        }
    }

    #[test]
    fn what_is_not_known_is_a_dash() {
        let mut model = Model::default();
        model.add(snapshot(0, 200.0));
        let weir = model
            .rows()
            .iter()
            .find(|row| row.verdict.id.as_str() == "/weir")
            .unwrap();
        assert_eq!(TopColumn::Bandwidth.cell(weir), "–");
        assert_eq!(TopColumn::Cpu.cell(weir), "–");
    }
}
