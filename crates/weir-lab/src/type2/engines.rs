// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weir sim type2 --engine NAME FILE…`: what an engine of the accelerator makes of a file, page by page, and
//! how many clocks it takes (`weir_type2::engines`, equal to the RTL).

use super::cli::{Engine, Type2Args};
use super::lz4_frame::{FrameWriter, FramedBlock, read_frame};
use anyhow::{Context, Result, bail, ensure};
use serde::Serialize;
use std::io::{self, IsTerminal, Write};
use std::path::Path;
use weir::lab::Exit;
use weir::lab::builtin_scenarios::bytes_at_most;
use weir_figures::text::harmless;
use weir_files::Access;
use weir_type2::engines::lz4::{EncodeRefusal, Positions, decode, encode};
use weir_type2::engines::page_compare::{PagePair, compare_pages};
use weir_type2::engines::xxh64::hash_pages;
use weir_type2::engines::{EngineRun, PAGE_BYTES};

/// The largest file that is read.
const FILE_BYTES_MAX: u64 = 1 << 28;

#[derive(Serialize)]
struct EngineFigures {
    engine: &'static str,
    pages: usize,
    pages_refused: usize,
    bytes_in: usize,
    bytes_out: usize,
    clocks: u64,
    page_clocks_mean: f64,
    page_clocks_worst: u64,
    page_clocks: Vec<u64>,
}

/// What an engine made of all pages.
struct EngineOutput {
    bytes: Vec<u8>,
    /// Clocks of all pages in one run.
    clocks: u64,
    /// Clocks of each page by itself.
    page_clocks: Vec<u64>,
    /// Pages that the encoder refused, or that were stored because it had.
    pages_refused: usize,
}

impl EngineFigures {
    fn of(engine: Engine, bytes_in: usize, made: &EngineOutput) -> EngineFigures {
        let pages = made.page_clocks.len();
        EngineFigures {
            engine: engine.name(),
            pages,
            pages_refused: made.pages_refused,
            bytes_in,
            bytes_out: made.bytes.len(),
            clocks: made.clocks,
            page_clocks_mean: made.page_clocks.iter().sum::<u64>() as f64 / pages.max(1) as f64,
            page_clocks_worst: made.page_clocks.iter().copied().max().unwrap_or(0),
            page_clocks: made.page_clocks.clone(),
        }
    }
}

/// A page that does not get smaller is trouble, and with `--json` its clocks are said before that.
fn with_figures(args: &Type2Args, bytes_in: usize, refusal: anyhow::Error) -> anyhow::Error {
    let Some(EncodeRefusal::Incompressible { clocks }) = refusal.downcast_ref() else {
        return refusal;
    };
    let made = EngineOutput {
        bytes: Vec::new(),
        clocks: *clocks,
        page_clocks: vec![*clocks],
        pages_refused: 1,
    };
    let figures = EngineFigures::of(Engine::Lz4Encode, bytes_in, &made);
    match args.json.then(|| say(args, &figures)) {
        Some(Err(error)) => error,
        _ => refusal,
    }
}

/// Runs an engine.
///
/// # Errors
/// A file cannot be read, is empty or too large, files to compare differ in length, the engine refuses what
/// it is given, or the result cannot be written.
pub fn run(args: &Type2Args, engine: Engine) -> Result<Exit> {
    if args.out.is_none() && io::stdout().is_terminal() {
        bail!("the result is bytes, and stdout is a terminal: give --out FILE, or a pipe");
    }
    let wanted = if engine == Engine::Compare { 2 } else { 1 };
    if args.files.len() != wanted {
        bail!(
            "--engine {} takes {wanted} FILE, and {} are given",
            engine.name(),
            args.files.len()
        );
    }
    let inputs: Vec<Vec<u8>> = args
        .files
        .iter()
        .map(|path| read(path))
        .collect::<Result<_>>()?;
    let input = &inputs[0];
    let made = match engine {
        Engine::Xxh64 => hashed(input)?,
        Engine::Compare => compared(input, &inputs[1])?,
        Engine::Lz4Encode => match encoded(input, args.positions) {
            Ok(made) => made,
            Err(refusal) => return Err(with_figures(args, input.len(), refusal)),
        },
        Engine::Lz4Decode => decoded(input)?,
    };
    let figures = EngineFigures::of(engine, input.len(), &made);
    write(args, &made.bytes)?;
    say(args, &figures)?;
    Ok(Exit::Done)
}

fn too_large(name: &str) -> String {
    format!("{name} is larger than {FILE_BYTES_MAX} bytes: split it")
}

fn read(path: &Path) -> Result<Vec<u8>> {
    let name = harmless(&path.display().to_string());
    let length = std::fs::metadata(path).map_or(0, |metadata| metadata.len());
    ensure!(length <= FILE_BYTES_MAX, too_large(&name));
    let bytes =
        bytes_at_most(path, FILE_BYTES_MAX + 1).with_context(|| format!("cannot read {name}"))?;
    if bytes.is_empty() {
        bail!("{name} is empty: an engine takes at least one byte");
    }
    ensure!(bytes.len() as u64 <= FILE_BYTES_MAX, too_large(&name));
    Ok(bytes)
}

/// The clocks of each page by itself.
fn alone(runs: impl Iterator<Item = Result<EngineRun>>) -> Result<Vec<u64>> {
    runs.map(|run| Ok(run?.clocks)).collect()
}

fn hashed(input: &[u8]) -> Result<EngineOutput> {
    let pages: Vec<&[u8]> = input.chunks(PAGE_BYTES).collect();
    let run = hash_pages(&pages)?;
    Ok(EngineOutput {
        bytes: run.bytes,
        clocks: run.clocks,
        page_clocks: alone(pages.iter().map(|page| Ok(hash_pages(&[page])?)))?,
        pages_refused: 0,
    })
}

fn compared(left: &[u8], right: &[u8]) -> Result<EngineOutput> {
    if left.len() != right.len() {
        bail!(
            "the files have {} and {} bytes: pages of one length are compared, so cut the longer file",
            left.len(),
            right.len()
        );
    }
    let pages = left.chunks(PAGE_BYTES).zip(right.chunks(PAGE_BYTES));
    let pairs: Vec<PagePair<'_>> = pages
        .map(|(left, right)| PagePair { left, right })
        .collect();
    let run = compare_pages(&pairs)?;
    Ok(EngineOutput {
        bytes: run.bytes,
        clocks: run.clocks,
        page_clocks: alone(pairs.iter().map(|pair| Ok(compare_pages(&[*pair])?)))?,
        pages_refused: 0,
    })
}

/// One page becomes a block; more become a frame, in which a refused page is stored.
fn encoded(input: &[u8], positions: Positions) -> Result<EngineOutput> {
    if input.len() <= PAGE_BYTES {
        let run = encode(input, positions)?;
        return Ok(EngineOutput {
            bytes: run.bytes,
            clocks: run.clocks,
            page_clocks: vec![run.clocks],
            pages_refused: 0,
        });
    }
    let (mut frame, mut page_clocks, mut pages_refused) = (FrameWriter::default(), Vec::new(), 0);
    for page in input.chunks(PAGE_BYTES) {
        page_clocks.push(match encode(page, positions) {
            Ok(run) => {
                frame.block(&run.bytes);
                run.clocks
            }
            Err(EncodeRefusal::Incompressible { clocks }) => {
                frame.stored(page);
                pages_refused += 1;
                clocks
            }
            Err(error) => return Err(error.into()),
        });
    }
    Ok(EngineOutput {
        bytes: frame.end(),
        clocks: page_clocks.iter().sum(),
        page_clocks,
        pages_refused,
    })
}

/// A block, or a frame of them: no block begins as a frame does.
fn decoded(input: &[u8]) -> Result<EngineOutput> {
    let blocks = match read_frame(input)? {
        Some(blocks) => blocks,
        None => vec![FramedBlock::Lz4(input)],
    };
    let (mut bytes, mut page_clocks, mut pages_refused) = (Vec::new(), Vec::new(), 0);
    for (index, block) in blocks.into_iter().enumerate() {
        match block {
            FramedBlock::Lz4(block) => {
                let run = decode(block, PAGE_BYTES).with_context(|| format!("block {index}"))?;
                bytes.extend(run.bytes);
                page_clocks.push(run.clocks);
            }
            FramedBlock::Stored(page) => {
                bytes.extend(page);
                pages_refused += 1;
            }
        }
    }
    Ok(EngineOutput {
        bytes,
        clocks: page_clocks.iter().sum(),
        page_clocks,
        pages_refused,
    })
}

/// Bytes go to `--out`, else to stdout.
fn write(args: &Type2Args, bytes: &[u8]) -> Result<()> {
    let Some(path) = &args.out else {
        let mut out = io::stdout().lock();
        out.write_all(bytes)?;
        return Ok(out.flush()?);
    };
    let name = harmless(&path.display().to_string());
    weir_files::replace(path, bytes, Access::Shared).with_context(|| format!("cannot write {name}"))
}

/// Figures go to stdout where the bytes do not, else to stderr.
fn say(args: &Type2Args, figures: &EngineFigures) -> Result<()> {
    let text = if args.json {
        serde_json::to_string_pretty(figures)?
    } else {
        format!(
            "{}: {} pages ({} refused), {} bytes in, {} out, {} clocks; a page by itself {:.1}, at most {}",
            figures.engine,
            figures.pages,
            figures.pages_refused,
            figures.bytes_in,
            figures.bytes_out,
            figures.clocks,
            figures.page_clocks_mean,
            figures.page_clocks_worst
        )
    };
    if args.out.is_some() {
        writeln!(io::stdout(), "{text}")?;
    } else {
        writeln!(io::stderr(), "{text}")?;
    }
    Ok(())
}
