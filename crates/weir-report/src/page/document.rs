// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A longer page than that of one run: sections with words, tables, pictures and commands, in the same style.
//! It too is one file that loads nothing and follows the reader's own choice of light or dark.

use crate::page;
use crate::picture::canvas::{Picture, svg};
use crate::text::{escape, line};
use std::fmt::Write;

/// One cell of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cell {
    /// What stands in it.
    pub text: String,
    /// How it is shown.
    pub kind: CellKind,
}

/// How a cell is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CellKind {
    /// Words, from the left.
    Words,
    /// A number, from the right.
    Number,
    /// A number that explains another.
    Faint,
    /// Something that was met.
    Met,
    /// Something that was missed, or does not agree.
    Missed,
    /// Words that may need several lines.
    Long,
}

impl Cell {
    /// A cell.
    pub fn new(text: impl Into<String>, kind: CellKind) -> Self {
        let text = text.into();
        Cell { text, kind }
    }
}

/// A table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Table {
    /// What it shows.
    pub title: String,
    /// Heads of the columns.
    pub heads: Vec<String>,
    /// The rows.
    pub rows: Vec<Vec<Cell>>,
}

/// A part of a section, in the order in which it is read.
#[derive(Clone, Debug)]
pub enum Part {
    /// A paragraph.
    Words(String),
    /// A table.
    Table(Table),
    /// A picture.
    Picture(Picture),
    /// A command line that makes the same again.
    Command(String),
}

/// A section.
#[derive(Clone, Debug)]
pub struct Section {
    /// Its place in the page, for links: letters, digits and `-`.
    pub id: String,
    /// Its title.
    pub title: String,
    /// What is in it.
    pub parts: Vec<Part>,
}

/// A page.
#[derive(Clone, Debug)]
pub struct Document {
    /// Its title.
    pub title: String,
    /// What it is, in a paragraph each.
    pub about: Vec<String>,
    /// Its sections.
    pub sections: Vec<Section>,
}

/// The page as HTML.
pub fn html(document: &Document) -> String {
    let mut html = page::head(&line(&document.title, 200));
    let _ = writeln!(html, "<h1>{}</h1>", escape(&line(&document.title, 200)));
    for words in &document.about {
        let _ = writeln!(html, "<p>{}</p>", escape(words));
    }
    html += "<ul class=\"muted\">\n";
    for section in &document.sections {
        let (id, title) = (escape(&section.id), escape(&section.title));
        let _ = writeln!(html, "<li><a href=\"#{id}\">{title}</a></li>");
    }
    html += "</ul>\n";
    for section in &document.sections {
        let (id, title) = (escape(&section.id), escape(&section.title));
        let _ = writeln!(html, "<h2 id=\"{id}\">{title}</h2>");
        section.parts.iter().for_each(|part| html += &of_part(part));
    }
    html + "</body>\n</html>\n"
}

fn of_part(part: &Part) -> String {
    match part {
        Part::Words(words) => format!("<p>{}</p>\n", escape(words)),
        Part::Picture(picture) => format!("<div class=\"wide\">{}</div>\n", svg(picture)),
        Part::Command(command) => format!("<pre>{}</pre>\n", escape(command)),
        Part::Table(table) => of_table(table),
    }
}

/// Tables of more columns than this do not fit on a narrow screen.
const WIDE_FROM: usize = 4;
/// Tables of so many columns are set smaller, to fit on a page of 1280 pixels.
const DENSE_FROM: usize = 13;

fn of_table(table: &Table) -> String {
    let mut html = String::new();
    if !table.title.is_empty() {
        let _ = writeln!(html, "<h3>{}</h3>", escape(&table.title));
    }
    // A table that is wider than a narrow screen has its cells below each other there, each with its head.
    let is_wide = table.heads.len() > WIDE_FROM;
    let class = match table.heads.len() {
        DENSE_FROM.. => " class=\"stack dense\"",
        _ if is_wide => " class=\"stack\"",
        _ => "",
    };
    let _ = write!(html, "<div class=\"wide\"><table{class}>\n<thead><tr>");
    for (i, head) in table.heads.iter().enumerate() {
        let kind = table.rows.first().and_then(|r| r.get(i)).map(|c| c.kind);
        let left = matches!(kind, Some(CellKind::Words | CellKind::Long));
        let class = if left { "" } else { " class=\"v\"" };
        let _ = write!(html, "<th{class}>{}</th>", escape(head));
    }
    html += "</tr></thead>\n<tbody>\n";
    for row in &table.rows {
        html += "<tr>";
        for (i, cell) in row.iter().enumerate() {
            let head = table.heads.get(i).filter(|h| is_wide && !h.is_empty());
            let head = head.map_or(String::new(), |h| format!(" data-h=\"{}\"", escape(h)));
            let class = match cell.kind {
                CellKind::Words => "n",
                CellKind::Number => "v",
                CellKind::Faint => "v change",
                CellKind::Met => "v met",
                CellKind::Missed => "v missed",
                CellKind::Long => "why",
            };
            let _ = write!(
                html,
                "<td class=\"{class}\"{head}>{}</td>",
                escape(&cell.text)
            );
        }
        html += "</tr>\n";
    }
    html + "</tbody></table></div>\n"
}
