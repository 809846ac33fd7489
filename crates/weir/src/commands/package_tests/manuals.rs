// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A man page for each command, from clap's definition.

use super::{PackageFile, said, shown_command, silent};
use clap::Command;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, roman};

/// Titles of what stands below the options, in the order of man-pages(7).
const TITLES: [&str; 3] = ["EXIT STATUS", "NOTES", "EXAMPLES"];

/// All pages, `man/weir.1` first.
pub fn pages() -> Vec<PackageFile> {
    let mut root = with_help(shown_command());
    root.build();
    let mut found = Vec::new();
    add(&root, &mut found);
    found
}

/// The generator leaves out the help of a flag that only `--help` describes: each gets a long one.
fn with_help(command: Command) -> Command {
    let command = command.mut_args(|arg| match (arg.get_long_help(), arg.get_help()) {
        (None, Some(help)) => {
            let help = help.clone();
            arg.long_help(help)
        }
        _ => arg,
    });
    command.mut_subcommands(with_help)
}

fn add(command: &Command, found: &mut Vec<PackageFile>) {
    let page = Man::new(command.clone())
        .source(format!("weir {}", env!("CARGO_PKG_VERSION")))
        .manual("weir");
    let name = format!("man/{}", page.get_filename());
    let text = render(&page, command).expect("memory takes what is written");
    found.push((name, text));
    command.get_subcommands().for_each(|sub| add(sub, found));
}

fn render(page: &Man, command: &Command) -> std::io::Result<String> {
    let mut text = b".\\\" SPDX-License-Identifier: Apache-2.0 OR MIT\n".to_vec();
    page.render_title(&mut text)?;
    page.render_name_section(&mut text)?;
    page.render_synopsis_section(&mut text)?;
    page.render_description_section(&mut text)?;
    page.render_options_section(&mut text)?;
    if command.has_subcommands() {
        page.render_subcommands_section(&mut text)?;
    }
    let mut rest = Roff::new();
    let after = command.get_after_help().map(ToString::to_string);
    sections(&mut rest, &after.unwrap_or_default());
    see_also(&mut rest, command);
    rest.to_writer(&mut text)?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// Paragraphs below the options: examples and exit codes get titles of their own.
fn sections(roff: &mut Roff, after: &str) {
    let mut parts: [Vec<String>; 3] = Default::default();
    for paragraph in after.split("\n\n") {
        let (title, text) = titled(paragraph.trim_matches('\n'));
        if let Some(index) = TITLES.iter().position(|known| *known == title) {
            parts[index].push(text);
        }
    }
    for (title, paragraphs) in TITLES.iter().zip(&parts) {
        if paragraphs.iter().all(String::is_empty) {
            continue;
        }
        roff.control("SH", [*title]);
        for (index, text) in paragraphs.iter().enumerate() {
            if index > 0 {
                roff.control("PP", []);
            }
            paragraph(roff, text);
        }
    }
}

/// The section of a paragraph, and the paragraph without the words that say so.
fn titled(text: &str) -> (&'static str, String) {
    let (first, rest) = text.split_once('\n').unwrap_or((text, ""));
    if matches!(first, "Examples:" | "Example:") {
        return ("EXAMPLES", rest.to_owned());
    }
    match text.strip_prefix("Exit codes: ") {
        Some(codes) => ("EXIT STATUS", codes.to_owned()),
        None => ("NOTES", text.to_owned()),
    }
}

/// Lines that are indented stand as they are; others are one text.
fn paragraph(roff: &mut Roff, text: &str) {
    let mut is_literal = false;
    for line in text.lines() {
        if line.starts_with("  ") != is_literal {
            is_literal = !is_literal;
            roff.control(if is_literal { "nf" } else { "fi" }, []);
        }
        roff.text([roman(line.strip_prefix("  ").unwrap_or(line))]);
    }
    if is_literal {
        roff.control("fi", []);
    }
}

fn see_also(roff: &mut Roff, command: &Command) {
    let full = command.get_display_name().unwrap_or(command.get_name());
    roff.control("SH", ["SEE ALSO"]);
    let above = full
        .rsplit_once('-')
        .map(|(above, _)| format!("{above}(1), "));
    roff.text([roman(format!(
        "{}/usr/share/doc/weir/, /etc/weir.toml",
        above.unwrap_or_default()
    ))]);
}

fn page(name: &str) -> String {
    let pages = pages();
    let found = pages.iter().find(|(file, _)| file == name);
    found.unwrap_or_else(|| panic!("no {name}")).1.clone()
}

fn names(command: &Command, above: &str, found: &mut Vec<String>) {
    let full = format!("{above}{}", command.get_name());
    for sub in crate::commands::reference_tests::commands::shown(command) {
        names(sub, &format!("{full}-"), found);
    }
    found.push(format!("man/{full}.1"));
}

#[test]
fn each_command_has_a_page() {
    let mut wanted = Vec::new();
    names(&crate::commands::command(), "", &mut wanted);
    let mut found: Vec<String> = pages().into_iter().map(|(name, _)| name).collect();
    wanted.sort();
    found.sort();
    assert!(found.len() > 20, "{found:?}");
    assert_eq!(found, wanted);
}

#[test]
fn a_page_has_flags_with_help_and_no_hidden_ones() {
    let run = page("man/weir-run.1").replace(r"\-", "-");
    for wanted in [
        "--set-point",
        "Bandwidth to hold on each device",
        "--attribution-event",
        "Count this event for each task, not the best one",
        "max-min: ",
        ".SH EXAMPLES",
        "weir run --config /etc/weir.toml --json",
    ] {
        assert!(run.contains(wanted), "no {wanted} in\n{run}");
    }
    for hidden in ["--root", "thesis-scx", "--version"] {
        assert!(!run.contains(hidden), "{hidden} in\n{run}");
    }
    let doctor = page("man/weir-doctor.1");
    assert!(doctor.contains(".SH \"EXIT STATUS\"\n0 weir can limit here"));
}

#[test]
fn pages_render_without_a_warning() {
    let pages = pages();
    for (name, _) in &pages {
        let args = ["--warnings", "-E", "UTF-8", "-l", name];
        let Some(output) = said("man", "man-db", &args, &pages) else {
            return;
        };
        let shown = silent(name, &output);
        assert!(
            shown.contains("SYNOPSIS") && shown.contains("weir"),
            "{shown}"
        );
    }
}
