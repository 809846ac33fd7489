// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reference pages of `docs/reference` that the program's own definitions give: commands and flags from clap,
//! settings from the same flags, events from weir-events' tables, metrics from a page of metrics.
//!
//! Compiled for tests only, so the program does not carry it. A page has a head written by hand; what stands
//! between [`BEGIN`] and [`END`] is generated. The test fails where that is out of date; `cargo xtask
//! generate` runs it with [`WRITE`] set, and it writes the pages instead.

mod commands;
mod events;
mod metrics;
mod settings;

use std::path::{Path, PathBuf};

const BEGIN: &str = "<!-- generated from here by `cargo xtask generate`: edit the definitions in the code instead -->";
const END: &str = "<!-- end of what is generated -->";
/// Variable of the environment that makes the test write.
const WRITE: &str = "WEIR_WRITE_REFERENCE";
/// Columns of a line of text.
const WIDTH: usize = 110;

/// Makes the generated part of a page.
type Section = fn() -> String;

/// Pages, and what makes their generated part.
const PAGES: [(&str, Section); 4] = [
    ("cli.md", commands::section),
    ("config.md", settings::section),
    ("events.md", events::section),
    ("json-and-metrics.md", metrics::section),
];

#[test]
fn reference_pages_are_what_the_program_says() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference");
    let is_to_write = std::env::var_os(WRITE).is_some();
    let stale = refresh(&folder, is_to_write).expect("pages of the reference");
    assert!(
        stale.is_empty(),
        "not what the program says; run `cargo xtask generate`:\n  {}",
        stale.join("\n  ")
    );
}

/// Compares the pages in `folder` with the program, or writes those that differ. What is left to be written,
/// one line a page.
fn refresh(folder: &Path, is_to_write: bool) -> anyhow::Result<Vec<String>> {
    let mut stale = Vec::new();
    for (name, section) in PAGES {
        let path: PathBuf = folder.join(name);
        let found = std::fs::read_to_string(&path)
            .map_err(|error| anyhow::anyhow!("{}: {error}", path.display()))?;
        let wanted =
            with_section(&found, &section()).map_err(|why| anyhow::anyhow!("{name}: {why}"))?;
        if found == wanted {
            continue;
        }
        if is_to_write {
            std::fs::write(&path, wanted)?;
            println!("wrote docs/reference/{name}");
        } else {
            stale.push(format!(
                "docs/reference/{name}{}",
                first_difference(&found, &wanted)
            ));
        }
    }
    Ok(stale)
}

/// The page with this text between its two marks.
fn with_section(page: &str, section: &str) -> Result<String, String> {
    let (head, rest) = page
        .split_once(BEGIN)
        .ok_or_else(|| format!("no line `{BEGIN}`"))?;
    let (_, foot) = rest
        .split_once(END)
        .ok_or_else(|| format!("no line `{END}`"))?;
    Ok(format!(
        "{head}{BEGIN}\n\n{}\n\n{END}{foot}",
        section.trim()
    ))
}

fn first_difference(found: &str, wanted: &str) -> String {
    let pairs = found.lines().zip(wanted.lines());
    let same = pairs.take_while(|(a, b)| a == b).count();
    let at = |text: &str| text.lines().nth(same).unwrap_or("(end of file)").to_owned();
    format!(
        ":{}: has `{}`, should have `{}`",
        same + 1,
        at(found),
        at(wanted)
    )
}

/// Text of the program as Markdown: what would be markup outside of code is text.
fn plain(text: &str) -> String {
    let is_code = |index: usize| index % 2 == 1;
    let parts = text
        .split('`')
        .enumerate()
        .map(|(index, part)| match is_code(index) {
            true => part.to_owned(),
            false => part
                .replace('*', r"\*")
                .replace('<', "&lt;")
                .replace('[', r"\["),
        });
    parts.collect::<Vec<_>>().join("`")
}

/// The same for a cell of a table.
fn cell(text: &str) -> String {
    plain(text).replace('|', r"\|")
}

/// Code, in a cell of a table too.
fn code(text: &str) -> String {
    format!("`{}`", text.replace('|', r"\|"))
}

/// A table with these titles.
fn table(titles: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
    let titles: Vec<String> = titles.iter().map(|title| (*title).to_owned()).collect();
    let rule = format!("|{}\n", "---|".repeat(titles.len()));
    let rows = rows.into_iter().map(|cells| line(&cells));
    line(&titles) + &rule + &rows.collect::<String>()
}

/// A paragraph, or an entry of a list, at most [`WIDTH`] wide; lines after the first begin with `indent`.
fn wrapped(first: &str, indent: &str, text: &str) -> String {
    let mut out = String::new();
    let mut line = first.to_owned();
    let mut is_empty = true;
    for word in text.split_whitespace() {
        let chars = line.chars().count() + word.chars().count() + 1;
        if !is_empty && chars > WIDTH {
            out += line.trim_end();
            out.push('\n');
            indent.clone_into(&mut line);
            is_empty = true;
        }
        if !is_empty {
            line.push(' ');
        }
        line += word;
        is_empty = false;
    }
    out + line.trim_end() + "\n"
}

mod tests {
    use super::*;

    #[test]
    fn a_page_that_is_out_of_date_is_named_and_writing_repairs_it() {
        let dir = tempfile::tempdir().unwrap();
        for (name, _) in PAGES {
            let page = format!("# Head\n\n{BEGIN}\nold\n{END}\n\nfoot\n");
            std::fs::write(dir.path().join(name), page).unwrap();
        }
        let stale = refresh(dir.path(), false).unwrap();
        assert_eq!(stale.len(), PAGES.len());
        assert!(
            stale[0].starts_with("docs/reference/cli.md:4: has `old`"),
            "{}",
            stale[0]
        );

        assert!(refresh(dir.path(), true).unwrap().is_empty());
        assert!(refresh(dir.path(), false).unwrap().is_empty());
        let path = dir.path().join("cli.md");
        let page = std::fs::read_to_string(&path).unwrap();
        assert!(
            page.starts_with("# Head\n") && page.ends_with("\nfoot\n"),
            "{page}"
        );
        std::fs::write(&path, page.replacen("--set-point", "--setpoint", 1)).unwrap();
        let stale = refresh(dir.path(), false).unwrap();
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
