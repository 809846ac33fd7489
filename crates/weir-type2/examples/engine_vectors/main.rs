// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the engines' twins give, for the bench of the RTL (`rtl/sim/engines.cpp`) to compare with:
//!
//! ```text
//! engine_vectors xxh64|compare RUNS SEED [FILE]
//! ```
//!
//! Pages are drawn, or those of a file. Little-endian words of 32 bits: of a run its seed (of the clocks in
//! which source and sink wait; 0: none) and the number of its pages; of each page its length and its bytes,
//! for `compare` twice; of each result its clock and two words.

mod pages;

use pages::Pages;
use std::cmp::Ordering;
use std::io::{self, BufWriter, Write};
use std::process::ExitCode;
use weir_type2::engines::page_compare::{PagePair, compare_timed};
use weir_type2::engines::stalls::Stalls;
use weir_type2::engines::xxh64::hash_timed;
use weir_type2::engines::{PAGE_BYTES, PageLengthError};

const RUN_PAGES: usize = 64;
const USAGE: &str = "usage: engine_vectors xxh64|compare RUNS SEED [FILE]";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let [engine @ ("xxh64" | "compare"), runs, seed, file @ ..] = words.as_slice() else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    let (Ok(runs), Ok(seed)) = (runs.parse(), seed.parse()) else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    let corpus = match file.first().map(std::fs::read).transpose() {
        Ok(corpus) => corpus.filter(|bytes| !bytes.is_empty()),
        Err(error) => {
            eprintln!("engine_vectors: {}: {error}", file[0]);
            return ExitCode::FAILURE;
        }
    };
    let source = Source {
        pages: Pages::new(seed),
        corpus,
        next: 0,
    };
    match write_runs(engine, runs, source) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("engine_vectors: {error}");
            ExitCode::FAILURE
        }
    }
}

struct Source {
    pages: Pages,
    corpus: Option<Vec<u8>>,
    next: usize,
}

impl Source {
    /// A page of any length, of few bytes or whole; the next of the corpus, if there is one.
    fn page(&mut self) -> Vec<u8> {
        if let Some(corpus) = &self.corpus {
            let from = self.next % corpus.len();
            let to = corpus.len().min(from + PAGE_BYTES);
            self.next = to;
            return corpus[from..to].to_vec();
        }
        let bytes = match self.pages.below(4) {
            0 => PAGE_BYTES,
            1 => 1 + self.pages.below(100),
            2 => 32 * (1 + self.pages.below(PAGE_BYTES / 32)),
            _ => 1 + self.pages.below(PAGE_BYTES),
        };
        self.pages.page(bytes)
    }

    /// Its like: the same, or with a few bytes changed.
    fn like(&mut self, page: &[u8]) -> Vec<u8> {
        let mut other = page.to_vec();
        for _ in 0..self.pages.below(3) {
            let at = self.pages.below(other.len());
            other[at] = self.pages.draw() as u8;
        }
        other
    }
}

fn write_runs(engine: &str, runs: u32, mut source: Source) -> io::Result<()> {
    let mut out = BufWriter::new(io::stdout().lock());
    for run in 0..runs {
        // Every fourth run waits for nothing.
        let seed = if run % 4 == 0 { 0 } else { run };
        words(&mut out, &[seed, RUN_PAGES as u32])?;
        let left: Vec<_> = (0..RUN_PAGES).map(|_| source.page()).collect();
        let results = if engine == "xxh64" {
            left.iter().try_for_each(|page| whole(&mut out, page))?;
            hashes(&left, seed)
        } else {
            let right: Vec<_> = left.iter().map(|page| source.like(page)).collect();
            for (left, right) in left.iter().zip(&right) {
                whole(&mut out, left)?;
                out.write_all(right)?;
            }
            comparisons(&left, &right, seed)
        };
        for result in results.map_err(io::Error::other)? {
            words(&mut out, &result)?;
        }
    }
    out.flush()
}

fn words(out: &mut impl Write, words: &[u32]) -> io::Result<()> {
    words
        .iter()
        .try_for_each(|word| out.write_all(&word.to_le_bytes()))
}

fn whole(out: &mut impl Write, page: &[u8]) -> io::Result<()> {
    words(out, &[page.len() as u32])?;
    out.write_all(page)
}

fn hashes(pages: &[Vec<u8>], seed: u32) -> Result<Vec<[u32; 3]>, PageLengthError> {
    let views: Vec<&[u8]> = pages.iter().map(Vec::as_slice).collect();
    let hashes = hash_timed(&views, Stalls::drawn(seed))?;
    let words = hashes.iter().map(|hash| {
        let (low, high) = (hash.value as u32, (hash.value >> 32) as u32);
        [hash.clock as u32, low, high]
    });
    Ok(words.collect())
}

fn comparisons(
    left: &[Vec<u8>],
    right: &[Vec<u8>],
    seed: u32,
) -> Result<Vec<[u32; 3]>, PageLengthError> {
    let pairs: Vec<_> = left
        .iter()
        .zip(right)
        .map(|(left, right)| PagePair { left, right })
        .collect();
    let found = compare_timed(&pairs, Stalls::drawn(seed))?;
    let words = found.iter().map(|timed| {
        let sign = match timed.comparison.order {
            Ordering::Less => u32::MAX,
            Ordering::Equal => 0,
            Ordering::Greater => 1,
        };
        [timed.clock as u32, timed.comparison.first_difference, sign]
    });
    Ok(words.collect())
}
