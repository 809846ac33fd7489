// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Where cells stand in matrices: a row for each victim, a column for each background, a matrix for each
//! target of backgrounds. Streams are told apart by no more than is needed, so that names stay short and
//! machines with different numbers of CPUs can be compared.

use crate::interference::document::{InterferenceCell, InterferenceStream};
use std::collections::HashSet;

/// What streams are told apart by; each has all of the one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Precision {
    Operation,
    /// Whether storage streams pass by the page cache, too.
    Cache,
    /// Block and depth of storage streams, too.
    Storage,
    /// The width of an access, too.
    Width,
    /// Everything, with the number of threads.
    Threads,
}

impl Precision {
    const ALL: [Precision; 5] = [
        Precision::Operation,
        Precision::Cache,
        Precision::Storage,
        Precision::Width,
        Precision::Threads,
    ];

    /// The least at which no two of each document's cells are one.
    pub fn least(documents: &[&[InterferenceCell]]) -> Precision {
        let is_unique = |precision: &Precision| {
            documents.iter().all(|cells| {
                let mut seen = HashSet::new();
                cells.iter().all(|cell| seen.insert(precision.key(cell)))
            })
        };
        let mut all = Precision::ALL.into_iter();
        all.find(is_unique).unwrap_or(Precision::Threads)
    }

    /// A stream without what is beyond this precision.
    pub fn stream(self, stream: &InterferenceStream) -> InterferenceStream {
        let mut stream = stream.clone();
        if self < Precision::Threads {
            stream.threads = 0;
        }
        if self < Precision::Width {
            stream.width_bytes = None;
        }
        if self < Precision::Storage {
            (stream.block_bytes, stream.depth) = (None, None);
        }
        if self < Precision::Cache {
            stream.direct = None;
        }
        stream
    }

    /// What a cell is known by.
    pub fn key(self, cell: &InterferenceCell) -> StreamPair {
        (self.stream(&cell.victim), self.stream(&cell.background))
    }
}

pub type StreamPair = (InterferenceStream, InterferenceStream);

/// The backgrounds on one target.
#[derive(Clone, Debug, PartialEq)]
pub struct GridBlock {
    pub target: String,
    pub backgrounds: Vec<InterferenceStream>,
    pub victims: Vec<InterferenceStream>,
    /// Index of the pair by row and column, where there is one.
    pub cells: Vec<Vec<Option<usize>>>,
}

/// The blocks of some pairs, each in the order in which they first appear.
pub fn blocks(pairs: &[StreamPair]) -> Vec<GridBlock> {
    let mut blocks: Vec<GridBlock> = Vec::new();
    for (index, (victim, background)) in pairs.iter().enumerate() {
        let at = blocks.iter().position(|b| b.target == background.target);
        let at = at.unwrap_or_else(|| {
            blocks.push(GridBlock {
                target: background.target.clone(),
                backgrounds: Vec::new(),
                victims: Vec::new(),
                cells: Vec::new(),
            });
            blocks.len() - 1
        });
        let block = &mut blocks[at];
        let column = place(&mut block.backgrounds, background);
        let row = place(&mut block.victims, victim);
        if row == block.cells.len() {
            block.cells.push(Vec::new());
        }
        let cells = &mut block.cells[row];
        cells.resize(cells.len().max(column + 1), None);
        cells[column] = Some(index);
    }
    for block in &mut blocks {
        let columns = block.backgrounds.len();
        block
            .cells
            .iter_mut()
            .for_each(|row| row.resize(columns, None));
    }
    blocks
}

/// Where a stream is in a list, at whose end it is put if it is not there.
fn place(list: &mut Vec<InterferenceStream>, stream: &InterferenceStream) -> usize {
    list.iter().position(|s| s == stream).unwrap_or_else(|| {
        list.push(stream.clone());
        list.len() - 1
    })
}

/// A background's name below its target's: without the target.
pub fn column_name(background: &InterferenceStream) -> String {
    let whole = super::words::stream(background);
    let without = whole.strip_prefix(&format!("{} ", background.target));
    without.map_or(whole.clone(), str::to_owned)
}
