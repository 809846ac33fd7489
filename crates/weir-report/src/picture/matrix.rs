// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A matrix: rows and columns with names, each cell shaded by its value, which stands in it.

use crate::picture::chart::words;
use weir_figures::text::line;
use weir_figures::{Anchor, Mark, Picture};
use weir_figures::{FULLEST, Ink};

const LEFT: f32 = 250.0;
/// Above the names of the columns.
const HEAD: f32 = 72.0;
/// Height of a character of a name that runs upwards, about.
const CHARACTER: f32 = 7.2;
const ROW: f32 = 30.0;
const COLUMN_MAX: f32 = 110.0;
const COLUMN_MIN: f32 = 62.0;
/// Characters of a column's name.
const NAME_CHARS: usize = 22;
const WIDTH: f32 = 1200.0;
/// Room for what stands behind a row.
const RIGHT: f32 = 200.0;
/// Characters of the note behind a row.
const NOTE_CHARS: usize = 24;

#[derive(Clone, Debug)]
pub struct Matrix {
    pub title: String,
    /// What rows and columns are.
    pub axes: String,
    /// Names of the columns.
    pub columns: Vec<String>,
    /// Name of each row, its cells, and what stands behind it.
    pub rows: Vec<MatrixRow>,
}

#[derive(Clone, Debug)]
pub struct MatrixRow {
    pub name: String,
    /// Each cell: how dark, from 0 to 1, and what stands in it.
    pub cells: Vec<(f64, String)>,
    /// What stands behind it.
    pub note: String,
}

/// The ink of a value from 0 to 1.
pub fn fill_ink(value: f64) -> Ink {
    let levels = f64::from(FULLEST);
    Ink::Fill((value.clamp(0.0, 1.0) * levels).round() as u8)
}

pub fn matrix(matrix: &Matrix) -> Picture {
    let columns = matrix.columns.len().max(1) as f32;
    let column = ((WIDTH - LEFT - RIGHT) / columns).clamp(COLUMN_MIN, COLUMN_MAX);
    let title = line(&matrix.title, 110);
    let bold = |at, size, text| words(Ink::Text, at, Anchor::Start, size, true, text);
    let mut marks = vec![bold((24.0, 30.0), 17.0, title.clone())];
    let axes = line(&matrix.axes, 130);
    let at = (24.0, 52.0);
    marks.push(words(Ink::Muted, at, Anchor::Start, 13.0, false, axes));
    let longest = matrix.columns.iter().map(|name| name.chars().count());
    let top = HEAD + CHARACTER * longest.max().unwrap_or(0).min(NAME_CHARS) as f32;
    for (place, name) in matrix.columns.iter().enumerate() {
        marks.push(Mark::Text {
            ink: Ink::Text,
            at: (LEFT + column * (place as f32 + 0.5) + 4.0, top - 8.0),
            anchor: Anchor::Start,
            size: 12.0,
            bold: false,
            upwards: true,
            text: line(name, NAME_CHARS),
        });
    }
    for (place, row) in matrix.rows.iter().enumerate() {
        row_marks(&mut marks, row, top + ROW * place as f32, column);
    }
    Picture {
        size: (
            WIDTH.max(LEFT + column * columns + RIGHT),
            top + ROW * matrix.rows.len() as f32 + 16.0,
        ),
        label: title,
        marks,
    }
}

fn row_marks(marks: &mut Vec<Mark>, row: &MatrixRow, top: f32, column: f32) {
    let middle = top + ROW / 2.0 + 4.5;
    let name = line(&row.name, 34);
    let at = (LEFT - 10.0, middle);
    marks.push(words(Ink::Text, at, Anchor::End, 13.0, false, name));
    for (place, (value, text)) in row.cells.iter().enumerate() {
        let left = LEFT + column * place as f32;
        marks.push(Mark::Rect {
            ink: fill_ink(*value),
            at: (left + 1.0, top + 1.0),
            size: (column - 2.0, ROW - 2.0),
        });
        let at = (left + column / 2.0, middle);
        let text = line(text, 12);
        marks.push(words(Ink::Text, at, Anchor::Middle, 12.5, false, text));
    }
    let at = (LEFT + column * row.cells.len() as f32 + 10.0, middle);
    let note = line(&row.note, NOTE_CHARS);
    marks.push(words(Ink::Muted, at, Anchor::Start, 12.0, false, note));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_of_a_row_is_on_the_picture() {
        for columns in 1..=20 {
            let cells = (0..columns).map(|_| (0.5, "6.06 µs".to_owned())).collect();
            let made = matrix(&Matrix {
                title: "Waits".into(),
                axes: String::new(),
                columns: (0..columns).map(|n| format!("workload {n}")).collect(),
                rows: vec![MatrixRow {
                    name: "workload 1".into(),
                    cells,
                    note: "= 0.112 requests waiting, and more".into(),
                }],
            });
            let ends = made.marks.iter().filter_map(|mark| match mark {
                Mark::Text {
                    at,
                    text,
                    size,
                    anchor: Anchor::Start,
                    upwards: false,
                    ..
                } => {
                    // The font's digits are 0.64 of its size wide, and most letters less.
                    Some(at.0 + text.chars().count() as f32 * size * 0.64)
                }
                _ => None,
            });
            let end = ends.fold(0.0, f32::max);
            assert!(
                end > 300.0 && end <= made.size.0,
                "{columns}: {end} of {:?}",
                made.size
            );
        }
    }
}
