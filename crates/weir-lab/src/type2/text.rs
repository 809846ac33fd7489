// SPDX-License-Identifier: Apache-2.0 OR MIT
//! All tables for a terminal.

use super::figures::AllFigures;
use super::page;
use std::fmt::Write;
use weir_figures::{CellKind, Setting, Table, terminal_table};

pub fn text(all: &AllFigures) -> String {
    let mut text = format!(
        "CXL Type-2 device: profile {}, {}\n",
        all.profile, all.machine
    );
    let mut stages = page::stage_table(all);
    // A reason of some words stands behind its stage, and not below it.
    let reasons = stages.rows.iter_mut().filter_map(|row| row.last_mut());
    reasons.for_each(|reason| reason.kind = CellKind::Words);
    put(&mut text, &stages);
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

fn put(text: &mut String, table: &Table) {
    *text += &format!("\n{}", terminal_table(table, Setting::WIDE));
}

fn states(text: &mut String, all: &AllFigures) {
    *text += "\nTable III: states before → after an access to host memory\n";
    page::state_tables(all).for_each(|table| put(text, &table));
    let met = all.table_iii.iter().filter(|cell| cell.is_met).count();
    let count = all.table_iii.len();
    let _ = writeln!(text, "{met} of {count} transitions are the paper's");
}

fn figures(text: &mut String, all: &AllFigures) {
    for mut table in page::figure_tables(all) {
        // Reasons follow below, once for all figures that have the same one.
        table.heads.pop();
        put(text, &table);
    }
    let missed: Vec<_> = all
        .figures
        .iter()
        .filter_map(|figure| Some((figure.what.as_str(), figure.note.as_deref()?)))
        .collect();
    for (index, alike) in missed.chunk_by(|a, b| a.1 == b.1).enumerate() {
        let title = if index == 0 { "\nMissed:\n" } else { "" };
        let names: Vec<&str> = alike.iter().map(|(what, _)| *what).collect();
        let _ = writeln!(text, "{title}  {}: {}.", names.join("; "), alike[0].1);
    }
}
