// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Pages of `docs/reference` with a part that is generated: comparing, writing, and Markdown.

use std::path::{Path, PathBuf};

pub const BEGIN: &str = "<!-- generated from here by `cargo xtask generate`: edit the definitions in the code instead -->";
pub const END: &str = "<!-- end of what is generated -->";
/// Variable of the environment that makes the test write.
const WRITE: &str = "WEIR_WRITE_REFERENCE";
/// Columns of a line of text.
pub const WIDTH: usize = 110;

/// The name of a page, and what makes its generated part.
pub type Page = (&'static str, fn() -> String);

/// Compares the pages with the program, or writes them where [`WRITE`] is set.
///
/// # Panics
/// A page is not what the program says.
pub fn all_are_fresh(pages: &[Page]) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference");
    let is_to_write = std::env::var_os(WRITE).is_some();
    let stale = refresh(&folder, pages, is_to_write).expect("pages of the reference");
    assert!(
        stale.is_empty(),
        "not what the program says; run `cargo xtask generate`:\n  {}",
        stale.join("\n  ")
    );
}

/// Compares the pages in `folder` with the program, or writes those that differ. What is left to be written,
/// one line a page.
pub fn refresh(folder: &Path, pages: &[Page], is_to_write: bool) -> anyhow::Result<Vec<String>> {
    let mut stale = Vec::new();
    for (name, section) in pages {
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
pub fn with_section(page: &str, section: &str) -> Result<String, String> {
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

pub fn first_difference(found: &str, wanted: &str) -> String {
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
pub fn plain(text: &str) -> String {
    let is_code = |index: usize| index % 2 == 1;
    let parts = text.split('`').enumerate().map(|(index, part)| {
        if is_code(index) {
            part.to_owned()
        } else {
            part.replace('*', r"\*")
                .replace('<', "&lt;")
                .replace('[', r"\[")
        }
    });
    parts.collect::<Vec<_>>().join("`")
}

/// The same for a cell of a table.
pub fn cell(text: &str) -> String {
    plain(text).replace('|', r"\|")
}

/// Code, in a cell of a table too.
pub fn code(text: &str) -> String {
    format!("`{}`", text.replace('|', r"\|"))
}

/// A table with these titles.
pub fn table(titles: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
    let titles: Vec<String> = titles.iter().map(|title| (*title).to_owned()).collect();
    let rule = format!("|{}\n", "---|".repeat(titles.len()));
    let rows = rows.into_iter().map(|cells| line(&cells));
    line(&titles) + &rule + &rows.collect::<String>()
}

/// A paragraph, or an entry of a list, at most [`WIDTH`] wide; lines after the first begin with `indent`.
pub fn wrapped(first: &str, indent: &str, text: &str) -> String {
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
