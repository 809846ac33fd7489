// SPDX-License-Identifier: Apache-2.0 OR MIT
//! All tables for a terminal.

use super::figures::{AllFigures, ShownCell};
use std::fmt::Write;
use weir_hw::type2::paper::{TableCache, TablePlace};
use weir_hw::type2::{DeviceOp, LineHome};

/// The tables.
pub fn text(all: &AllFigures) -> String {
    let mut text = format!(
        "CXL Type-2 device: profile {}, {}\n",
        all.profile, all.machine
    );
    stages(&mut text, all);
    states(&mut text, all);
    figures(&mut text, all);
    let lines = &all.llc_lines_per_page;
    let _ = writeln!(
        text,
        "\nLines that compressing a page brings into the LLC: software {} (page, result, table), \
         accelerator with NC-rd {}, with CS-rd {}.",
        lines.software, lines.nc_read, lines.cs_read
    );
    let _ = writeln!(
        text,
        "Table IV: {}; the unit is set by the FPGA's 2.9, and the Arm core's 5.5 is the paper's.",
        all.compute()
    );
    text
}

fn stages(text: &mut String, all: &AllFigures) {
    let _ = writeln!(text, "\nStages, ns");
    for stage in &all.stages {
        let _ = writeln!(
            text,
            "  {:18}{:>8.1}  {:10}{}",
            stage.name, stage.ns, stage.from, stage.why
        );
    }
}

/// Changes in one cell of the table, without repetitions.
pub fn cell(all: &AllFigures, op: &str, cache: &str, place: &str) -> (String, bool) {
    let here = |cell: &&ShownCell| cell.op == op && cell.cache == cache && cell.place == place;
    let mut changes: Vec<String> = Vec::new();
    let mut is_met = true;
    for cell in all.table_iii.iter().filter(here) {
        is_met &= cell.is_met;
        let change = cell.change();
        if !changes.contains(&change) {
            changes.push(change);
        }
    }
    (changes.join(" "), is_met)
}

fn states(text: &mut String, all: &AllFigures) {
    let _ = writeln!(
        text,
        "\nTable III: states before → after an access to {}",
        LineHome::HostMemory.name()
    );
    for cache in TableCache::ALL {
        let mut head = format!("  {:7}", cache.name());
        for place in TablePlace::ALL {
            let _ = write!(head, "{:22}", place.name());
        }
        let _ = writeln!(text, "{}", head.trim_end());
        for op in DeviceOp::ALL {
            let mut row = format!("  {:7}", op.name());
            for place in TablePlace::ALL {
                let (changes, is_met) = cell(all, op.name(), cache.name(), place.name());
                let mark = if is_met { "" } else { " MISSED" };
                let _ = write!(row, "{:22}", format!("{changes}{mark}"));
            }
            let _ = writeln!(text, "{}", row.trim_end());
        }
    }
    let met = all.table_iii.iter().filter(|cell| cell.is_met).count();
    let _ = writeln!(
        text,
        "  {met} of {} transitions are the paper's",
        all.table_iii.len()
    );
}

fn figures(text: &mut String, all: &AllFigures) {
    let mut section = "";
    for figure in &all.figures {
        if figure.section != section {
            section = figure.section;
            let heads = format!(
                "{section:66}{:>18}{:>9}{:>21}",
                "paper", "ours", "deviation"
            );
            let _ = writeln!(text, "\n{heads}");
        }
        let missed = if figure.is_met { "" } else { "  MISSED" };
        let _ = writeln!(
            text,
            "  {:64}{:>18}{:>9}  {:9}{:>10}  {}{missed}",
            figure.what,
            figure.paper(),
            figure.number(figure.ours),
            figure.unit,
            figure.shown_deviation(),
            figure.kind,
        );
    }
    let missed: Vec<_> = all
        .figures
        .iter()
        .filter_map(|figure| Some((figure.what.as_str(), figure.note?)))
        .collect();
    for (index, alike) in missed.chunk_by(|a, b| a.1 == b.1).enumerate() {
        let title = if index == 0 { "\nMissed:\n" } else { "" };
        let names: Vec<&str> = alike.iter().map(|(what, _)| *what).collect();
        let _ = writeln!(text, "{title}  {}: {}.", names.join("; "), alike[0].1);
    }
}
