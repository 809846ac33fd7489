// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A longer page than that of one run: sections with words, tables, pictures and commands, in the same style.
//! It too is one file that loads nothing and follows the reader's own choice of light or dark.

use crate::page;
use crate::page::heat::{HeatCell, HeatMap, heat_key, heat_map};
use crate::picture::canvas::{Picture, patterns, svg};
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
    /// A number with a shade, from 0 (none) to 4.
    Shaded(u8),
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
    /// A title below that of the section.
    Title(String),
    /// Terms, each with what is said of it.
    Facts(Vec<(String, String)>),
    /// Parts that the reader opens by their summary.
    Details {
        /// What is inside.
        summary: String,
        /// The parts.
        parts: Vec<Part>,
    },
    /// Parts with one frame around them.
    Card(Vec<Part>),
    /// Parts beside each other; below each other where there is little space.
    Beside(Vec<Vec<Part>>),
    /// A heat map.
    Heat(HeatMap),
    /// What the colours of heat maps mean.
    HeatKey(Vec<HeatCell>),
    /// Parts that are shown when a link leads to them, and in print.
    Choice {
        /// Their place in the page: letters, digits and `-`.
        id: String,
        /// Their title.
        title: String,
        /// The parts.
        parts: Vec<Part>,
        /// Place in the page that leads back.
        back: String,
    },
}

impl Part {
    /// Its pictures, with those of its own parts.
    pub fn pictures(&self) -> Vec<&Picture> {
        match self {
            Part::Picture(picture) => vec![picture],
            Part::Details { parts, .. } | Part::Choice { parts, .. } | Part::Card(parts) => {
                pictures(parts)
            }
            Part::Beside(columns) => columns.iter().flat_map(|parts| pictures(parts)).collect(),
            _ => Vec::new(),
        }
    }
}

fn pictures(parts: &[Part]) -> Vec<&Picture> {
    parts.iter().flat_map(Part::pictures).collect()
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
    /// What a reader must know before all else, in a paragraph each.
    pub answer: Vec<String>,
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
    if !document.answer.is_empty() {
        html += "<div class=\"answer\">\n";
        for words in &document.answer {
            let _ = writeln!(html, "<p>{}</p>", escape(words));
        }
        html += "</div>\n";
    }
    let parts = document.sections.iter().flat_map(|section| &section.parts);
    html += &patterns(parts.flat_map(Part::pictures));
    html += "<nav aria-label=\"Contents\"><ul class=\"muted\">\n";
    for section in &document.sections {
        let (id, title) = (escape(&section.id), escape(&section.title));
        let _ = writeln!(html, "<li><a href=\"#{id}\">{title}</a></li>");
    }
    html += "</ul></nav>\n<main>\n";
    for section in &document.sections {
        let (id, title) = (escape(&section.id), escape(&section.title));
        let _ = writeln!(html, "<h2 id=\"{id}\">{title}</h2>");
        html += &of_parts(&section.parts);
    }
    html + "</main>\n</body>\n</html>\n"
}

fn of_parts(parts: &[Part]) -> String {
    parts.iter().map(of_part).collect()
}

fn of_part(part: &Part) -> String {
    match part {
        Part::Words(words) => format!("<p>{}</p>\n", escape(words)),
        // It can be scrolled, by keys too, where it is wider than the screen.
        Part::Picture(picture) => format!(
            "<div class=\"wide\" tabindex=\"0\" role=\"group\" aria-label=\"{}\">{}</div>\n",
            escape(&picture.label),
            svg(picture)
        ),
        Part::Title(title) => format!("<h3>{}</h3>\n", escape(title)),
        Part::Facts(facts) => {
            let pair = |(term, said): &(String, String)| {
                format!("<dt>{}</dt><dd>{}</dd>\n", escape(term), escape(said))
            };
            let pairs: String = facts.iter().map(pair).collect();
            format!("<dl>\n{pairs}</dl>\n")
        }
        Part::Details { summary, parts } => format!(
            "<details><summary>{}</summary>\n{}</details>\n",
            escape(summary),
            of_parts(parts)
        ),
        Part::Card(parts) => format!("<div class=\"card\">\n{}</div>\n", of_parts(parts)),
        Part::Beside(columns) => {
            let column = |parts: &Vec<Part>| format!("<div>\n{}</div>\n", of_parts(parts));
            let class = if columns.len() > 2 {
                "beside narrow"
            } else {
                "beside"
            };
            let columns: String = columns.iter().map(column).collect();
            format!("<div class=\"{class}\">\n{columns}</div>\n")
        }
        Part::Heat(map) => heat_map(map),
        Part::HeatKey(cells) => heat_key(cells),
        Part::Choice {
            id,
            title,
            parts,
            back,
        } => format!(
            "<section class=\"choice\" id=\"{}\">\n<h3>{}</h3>\n{}<p><a href=\"#{}\">Back</a></p></section>\n",
            escape(id),
            escape(title),
            of_parts(parts),
            escape(back)
        ),
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
        let _ = write!(html, "<th scope=\"col\"{class}>{}</th>", escape(head));
    }
    html += "</tr></thead>\n<tbody>\n";
    for row in &table.rows {
        html += "<tr>";
        for (i, cell) in row.iter().enumerate() {
            let head = table.heads.get(i).filter(|_| is_wide);
            html += &of_cell(cell, i == 0, head.map(String::as_str));
        }
        html += "</tr>\n";
    }
    html + "</tbody></table></div>\n"
}

/// The first cell of a row is its head, if it has words. `column` is the head of its column where cells of a
/// narrow screen need it.
fn of_cell(cell: &Cell, is_first: bool, column: Option<&str>) -> String {
    let column = column.filter(|head| !head.is_empty());
    let column = column.map_or(String::new(), |h| format!(" data-h=\"{}\"", escape(h)));
    let class = match cell.kind {
        CellKind::Words => "n",
        CellKind::Number => "v",
        CellKind::Faint => "v change",
        CellKind::Met => "v met",
        CellKind::Missed => "v missed",
        CellKind::Long => "why",
        CellKind::Shaded(0) => "v",
        CellKind::Shaded(1) => "v s1",
        CellKind::Shaded(2) => "v s2",
        CellKind::Shaded(3) => "v s3",
        CellKind::Shaded(_) => "v s4",
    };
    let text = escape(&cell.text);
    match is_first && cell.kind == CellKind::Words {
        true => format!("<th scope=\"row\" class=\"{class}\"{column}>{text}</th>"),
        false => format!("<td class=\"{class}\"{column}>{text}</td>"),
    }
}
