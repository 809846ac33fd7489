// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Rows of subjects, their stalls and stages as text, for the live screen and for plain output alike.

use super::frame::LiveRow;
use weir_figures::text::{self, width};

/// Names get at least this much where there is room, and at most.
const NAME: [usize; 2] = [16, 60];
/// Widths of the columns behind the name, and their titles.
const COLUMNS: [(&str, usize); 3] = [("STALLED", 8), ("CXL", 6), ("WAITS IN", 14)];
/// Findings are left out where there is less room than this.
const FINDINGS_LEAST: usize = 12;

#[derive(Clone, Copy, Debug)]
pub struct LiveLayout {
    name: usize,
    findings: usize,
    columns: usize,
}

impl LiveLayout {
    /// The columns for a screen of this width.
    pub fn new(screen: usize, rows: &[&LiveRow]) -> LiveLayout {
        let longest = rows.iter().map(|row| width(&row.name)).max().unwrap_or(0);
        // The last column goes first.
        let mut columns = COLUMNS.len();
        let taken = |columns: usize| {
            COLUMNS
                .iter()
                .take(columns)
                .map(|(_, w)| w + 1)
                .sum::<usize>()
        };
        while columns > 0 && taken(columns) + NAME[0] > screen {
            columns -= 1;
        }
        let room = screen - taken(columns).min(screen);
        let findings = FINDINGS_LEAST + 1;
        let most = match room.checked_sub(NAME[0] + findings) {
            Some(more) => NAME[0] + more,
            None => room,
        };
        let name = longest.clamp(NAME[0], NAME[1]).min(most);
        match room - name {
            rest if rest > FINDINGS_LEAST && columns == COLUMNS.len() => LiveLayout {
                name,
                findings: rest - 1,
                columns,
            },
            _ => LiveLayout {
                name: room,
                findings: 0,
                columns,
            },
        }
    }

    /// The columns as wide as their content.
    pub fn on_paper(rows: &[&LiveRow]) -> LiveLayout {
        let findings = rows.iter().map(|row| width(&findings(row))).max();
        let longest = rows.iter().map(|row| width(&row.name)).max().unwrap_or(0);
        LiveLayout {
            name: longest.clamp(NAME[0], NAME[1]),
            findings: findings.unwrap_or(0).max(FINDINGS_LEAST),
            columns: COLUMNS.len(),
        }
    }

    pub fn title(&self) -> String {
        let [stalled, cxl, waits] = COLUMNS.map(|(title, _)| title.to_owned());
        self.cells("WORKLOAD", [stalled, cxl, waits], "FINDINGS")
    }

    /// A subject's line. What is not known is a dash.
    pub fn line(&self, row: &LiveRow) -> String {
        let dash = || "–".to_owned();
        let waits = row.waits_in.as_ref().map(|waits| {
            let ratio = waits
                .time_ratio
                .map(|ratio| format!(" {}", text::whole_percent(ratio)));
            waits.stage.clone() + &ratio.unwrap_or_default()
        });
        let cells = [
            row.stalled.map_or_else(dash, text::whole_percent),
            row.cxl
                .map_or_else(dash, |(share, _)| text::whole_percent(share)),
            waits.unwrap_or_else(dash),
        ];
        self.cells(&row.name, cells, &findings(row))
    }

    fn cells(&self, name: &str, cells: [String; 3], findings: &str) -> String {
        let mut line = text::left(name, self.name);
        for ((title, width), cell) in COLUMNS.iter().zip(cells).take(self.columns) {
            line.push(' ');
            line += &match *title {
                "WAITS IN" => text::left(&cell, *width),
                _ => text::right(&cell, *width),
            };
        }
        if self.findings > 0 {
            line = line + " " + &text::left(findings, self.findings);
        }
        line
    }
}

fn findings(row: &LiveRow) -> String {
    let words: Vec<String> = row
        .findings
        .iter()
        .map(|rule| rule.replace('_', " "))
        .collect();
    words.join(", ")
}

/// The parts of its stalls, with a title.
pub fn stalls(row: &LiveRow) -> Vec<String> {
    let title = format!(" {:22} {:>9}", "STALLS", "% of them");
    let lines = row.parts.iter().map(|(place, share, error)| {
        let (share, error) = (share * 100.0, error * 100.0);
        format!(" {place:22} {share:5.1} ±{error:>2.0}")
    });
    std::iter::once(title).chain(lines).collect()
}

/// Its queues, with a title.
pub fn stages(row: &LiveRow) -> Vec<String> {
    let title = format!(
        "{:20} {:>8} {:>7} {:>5}",
        "STAGES", "stay ns", "wait ns", "full"
    );
    let lines = row.queues.iter().map(|queue| {
        let wait = queue
            .waiting_ns
            .map_or_else(|| "–".to_owned(), |ns| format!("{ns:.0}"));
        let full = queue
            .pressure
            .map_or_else(|| "–".to_owned(), text::whole_percent);
        format!(
            "{:20} {:>8.0} {wait:>7} {full:>5}",
            queue.role, queue.residence_ns
        )
    });
    std::iter::once(title).chain(lines).collect()
}
