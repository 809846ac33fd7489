// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a command shows, as a value: sections with words, tables, pictures and commands. It says nothing of
//! where it is shown: [`crate::html`] makes a page of it, [`crate::terminal`] lines.

use crate::canvas::Picture;
use crate::heat::{HeatCell, HeatMap};
use crate::text::{self, NONE};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cell {
    pub text: String,
    pub kind: CellKind,
}

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
    pub fn new(text: impl Into<String>, kind: CellKind) -> Self {
        let text = text.into();
        Cell { text, kind }
    }

    /// A cell of words, which stand at the left.
    pub fn words(text: impl Into<String>) -> Self {
        Cell::new(text, CellKind::Words)
    }

    /// A cell of words that may need several lines, as reasons do.
    pub fn long(text: impl Into<String>) -> Self {
        Cell::new(text, CellKind::Long)
    }

    /// A cell of a number, which stands at the right.
    pub fn number(text: impl Into<String>) -> Self {
        Cell::new(text, CellKind::Number)
    }
}

/// A cell with a number of so many decimals; a value that is not there is a dash.
pub fn decimals(value: impl Into<Option<f64>>, decimals: usize) -> Cell {
    let known = value.into().filter(|value| value.is_finite());
    let shown = |value| text::decimals(value, decimals);
    Cell::number(known.map_or(NONE.into(), shown))
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Table {
    pub title: String,
    /// Heads of the columns.
    pub heads: Vec<String>,
    pub rows: Vec<Vec<Cell>>,
}

impl Table {
    pub fn new(
        title: impl Into<String>,
        heads: &[&str],
        rows: impl IntoIterator<Item = Vec<Cell>>,
    ) -> Self {
        Table {
            title: title.into(),
            heads: heads.iter().map(ToString::to_string).collect(),
            rows: rows.into_iter().collect(),
        }
    }
}

/// A part of a section, in the order in which it is read.
#[derive(Clone, Debug)]
pub enum Part {
    Words(String),
    Table(Table),
    Picture(Picture),
    /// A picture for pages, and the same one for the screens of phones.
    Fitted([Picture; 2]),
    /// A command line that makes the same again, or the text of a file.
    Command(String),
    /// Sentences that do not follow from each other.
    List(Vec<String>),
    /// Files beside the page, each with what it has.
    Files(Vec<(String, String)>),
    /// A title below that of the section.
    Title(String),
    /// Terms, each with what is said of it.
    Facts(Vec<(String, String)>),
    /// Parts that the reader opens by their summary.
    Details {
        summary: String,
        parts: Vec<Part>,
    },
    /// Parts with one frame around them.
    Card(Vec<Part>),
    /// Parts beside each other; below each other where there is little space.
    Beside(Vec<Vec<Part>>),
    Heat(HeatMap),
    /// What the colours of heat maps mean.
    HeatKey(Vec<HeatCell>),
    /// Parts that are shown when a link leads to them, and in print.
    Choice {
        /// Their place in the page: letters, digits and `-`.
        id: String,
        title: String,
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
            Part::Fitted(both) => both.iter().collect(),
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

#[derive(Clone, Debug)]
pub struct Section {
    /// Its place in the page, for links: letters, digits and `-`.
    pub id: String,
    pub title: String,
    pub parts: Vec<Part>,
}

impl Section {
    pub fn new(id: &str, title: impl Into<String>, parts: Vec<Part>) -> Self {
        Section {
            id: id.into(),
            title: title.into(),
            parts,
        }
    }
}

#[derive(Clone, Debug)]
pub struct Document {
    pub title: String,
    /// What it is, in a paragraph each.
    pub about: Vec<String>,
    /// What a reader must know before all else, in a paragraph each.
    pub answer: Vec<String>,
    pub sections: Vec<Section>,
}
