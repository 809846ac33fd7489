// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reference pages of `docs/reference` that the program's own definitions give: commands and flags from clap,
//! settings from the same flags, events from weir-events' tables, metrics from a page of metrics.
//!
//! Compiled for tests only, so the program does not carry it. A page has a head written by hand; what stands
//! between two marks is generated ([`page`]). The test fails where that is out of date; `cargo xtask
//! generate` has it write the pages instead.

pub mod commands;
mod events;
mod metrics;
pub mod page;
pub mod settings;

use clap::{Arg, Command};
use page::Page;

/// Pages, and what makes their generated part.
const PAGES: [Page; 4] = [
    ("cli.md", || commands::section(crate::commands::command())),
    ("config.md", settings::section),
    ("events.md", events::section),
    ("json-and-metrics.md", metrics::section),
];

#[test]
fn reference_pages_are_what_the_program_says() {
    page::all_are_fresh(&PAGES);
}

#[test]
fn each_command_and_flag_has_an_entry() {
    let text = commands::section(crate::commands::command());
    for heading in [
        "## weir run\n",
        "## weir groups\n",
        "### weir groups resize\n",
        "## weir sim\n",
    ] {
        assert!(text.contains(heading), "no {heading:?}");
    }
    let mut root = crate::commands::command();
    root.build();
    let mut missing = Vec::new();
    every(&root, &mut |arg| {
        if commands::is_shown(arg) && !text.contains(&format!("- `{arg}`: ")) {
            missing.push(arg.to_string());
        }
    });
    assert!(missing.is_empty(), "{missing:?}");
    assert!(!text.contains("--root"), "a hidden flag");
    assert!(text.contains("  - `drf`: "), "values are listed");
    assert!(text.contains(r"\[default: 10]"), "defaults stand there");
    assert!(
        text.contains("Exit codes: 0 weir can limit here"),
        "exit codes stand there"
    );
}

fn every(command: &Command, see: &mut impl FnMut(&Arg)) {
    command.get_arguments().for_each(&mut *see);
    for sub in commands::shown(command) {
        every(sub, see);
    }
}

mod tests {
    use super::page::{BEGIN, END, WIDTH, cell, plain, refresh, with_section, wrapped};
    use super::*;

    #[test]
    fn a_page_that_is_out_of_date_is_named_and_writing_repairs_it() {
        let dir = tempfile::tempdir().unwrap();
        for (name, _) in PAGES {
            let page = format!("# Head\n\n{BEGIN}\nold\n{END}\n\nfoot\n");
            std::fs::write(dir.path().join(name), page).unwrap();
        }
        let stale = refresh(dir.path(), &PAGES, false).unwrap();
        assert_eq!(stale.len(), PAGES.len());
        assert!(
            stale[0].starts_with("docs/reference/cli.md:4: has `old`"),
            "{}",
            stale[0]
        );

        assert!(refresh(dir.path(), &PAGES, true).unwrap().is_empty());
        assert!(refresh(dir.path(), &PAGES, false).unwrap().is_empty());
        let path = dir.path().join("cli.md");
        let page = std::fs::read_to_string(&path).unwrap();
        assert!(
            page.starts_with("# Head\n") && page.ends_with("\nfoot\n"),
            "{page}"
        );
        std::fs::write(&path, page.replacen("--set-point", "--setpoint", 1)).unwrap();
        let stale = refresh(dir.path(), &PAGES, false).unwrap();
        assert!(
            stale[0].contains("`--setpoint") || stale[0].contains("--setpoint"),
            "{stale:?}"
        );
        assert_eq!(stale.len(), 1);
    }

    #[test]
    fn a_page_without_marks_is_refused() {
        assert!(with_section("# Head\n", "x").unwrap_err().contains(BEGIN));
        let open = format!("{BEGIN}\n");
        assert!(with_section(&open, "x").unwrap_err().contains(END));
    }

    #[test]
    fn text_of_the_program_is_no_markup() {
        assert_eq!(
            plain("knee*0.9 or `a*b` <N> [x]"),
            r"knee\*0.9 or `a*b` &lt;N> \[x]"
        );
        assert_eq!(cell("a|b"), r"a\|b");
        let text = "word ".repeat(40);
        let lines = wrapped("- ", "  ", &text);
        assert!(
            lines.lines().all(|line| line.chars().count() <= WIDTH),
            "{lines}"
        );
        assert!(
            lines.lines().skip(1).all(|line| line.starts_with("  word")),
            "{lines}"
        );
    }
}
