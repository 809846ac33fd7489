// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `lz4_vectors ENGINE COUNT SEED [CORPUS]`: what the twin of an LZ4 engine answers, for the bench of its RTL
//! (`rtl/sim/lz4.cpp`), on standard output. Engines: lz4-decoder, and lz4-encoder-1, -2, -4, -8 (positions a
//! clock). A corpus gives its pages instead of drawn ones; the decoder gets their blocks, by turns liblz4's
//! and the encoder's of 4 positions.
//!
//! A case is five numbers of 32 bits, little endian, then input and output: bytes of input, limit, flaw
//! (0: none), clocks, bytes of output.

mod cases;

use cases::{Xorshift, hostile_block, liblz4_block, mixed_page};
use std::error::Error;
use std::io::{self, BufWriter, Write};
use weir_type2::engines::lz4::{DecodeRefusal, EncodeRefusal, Positions, decode, encode};
use weir_type2::engines::{EngineRun, PAGE_BYTES};

/// The flaw of an encoder's refusal.
const INCOMPRESSIBLE: u32 = 1;

#[derive(Clone, Copy)]
enum Engine {
    Decoder,
    Encoder(Positions),
}

impl Engine {
    fn named(name: &str) -> Option<Engine> {
        Some(match name {
            "lz4-decoder" => Engine::Decoder,
            "lz4-encoder-1" => Engine::Encoder(Positions::One),
            "lz4-encoder-2" => Engine::Encoder(Positions::Two),
            "lz4-encoder-4" => Engine::Encoder(Positions::Four),
            "lz4-encoder-8" => Engine::Encoder(Positions::Eight),
            _ => return None,
        })
    }
}

struct Answer {
    flaw: u32,
    run: EngineRun,
}

impl Answer {
    fn refused(flaw: u32, clocks: u64) -> Answer {
        let bytes = Vec::new();
        let run = EngineRun { bytes, clocks };
        Answer { flaw, run }
    }
}

fn decoded(block: &[u8], limit_bytes: usize) -> Result<Answer, Box<dyn Error>> {
    match decode(block, limit_bytes) {
        Ok(run) => Ok(Answer { flaw: 0, run }),
        Err(DecodeRefusal::Malformed { flaw, clocks }) => Ok(Answer::refused(flaw as u32, clocks)),
        Err(refusal) => Err(refusal.into()),
    }
}

fn encoded(page: &[u8], positions: Positions) -> Result<Answer, Box<dyn Error>> {
    match encode(page, positions) {
        Ok(run) => Ok(Answer { flaw: 0, run }),
        Err(EncodeRefusal::Incompressible { clocks }) => {
            Ok(Answer::refused(INCOMPRESSIBLE, clocks))
        }
        Err(refusal) => Err(refusal.into()),
    }
}

fn write_case(
    file: &mut impl Write,
    input: &[u8],
    limit_bytes: usize,
    answer: &Answer,
) -> io::Result<()> {
    let output = &answer.run.bytes;
    let (input_bytes, output_bytes) = (input.len() as u32, output.len() as u32);
    let clocks = answer.run.clocks as u32;
    for number in [
        input_bytes,
        limit_bytes as u32,
        answer.flaw,
        clocks,
        output_bytes,
    ] {
        file.write_all(&number.to_le_bytes())?;
    }
    file.write_all(input)?;
    file.write_all(output)
}

/// A page for the encoder; for the decoder liblz4's block of it, if that is no longer than a page, or a
/// hostile one.
fn write_page(
    file: &mut impl Write,
    engine: Engine,
    page: &[u8],
    hostile: Option<&mut Xorshift>,
) -> Result<(), Box<dyn Error>> {
    match engine {
        Engine::Encoder(positions) => {
            write_case(file, page, page.len(), &encoded(page, positions)?)?;
        }
        Engine::Decoder => {
            let (block, limit_bytes) = match hostile {
                Some(random) => hostile_block(random),
                None => (liblz4_block(page), page.len()),
            };
            if block.len() <= PAGE_BYTES {
                write_case(file, &block, limit_bytes, &decoded(&block, limit_bytes)?)?;
            }
        }
    }
    Ok(())
}

/// The page of a corpus for the encoder; for the decoder a block of it: the encoder's in every other case,
/// else or if that is refused liblz4's, and none if that is longer than a page.
fn write_corpus_page(
    file: &mut impl Write,
    engine: Engine,
    page: &[u8],
    case: usize,
) -> Result<(), Box<dyn Error>> {
    let is_ours = matches!(engine, Engine::Decoder) && case % 2 == 1;
    match is_ours.then(|| encode(page, Positions::Four)) {
        Some(Ok(EngineRun { bytes, .. })) => {
            write_case(file, &bytes, page.len(), &decoded(&bytes, page.len())?)?;
        }
        _ => write_page(file, engine, page, None)?,
    }
    Ok(())
}

/// Pages of all lengths, one in four as long as can be; two blocks in three are hostile.
fn write_drawn(
    file: &mut impl Write,
    engine: Engine,
    count: usize,
    seed: u64,
) -> Result<(), Box<dyn Error>> {
    let mut random = Xorshift::new(seed);
    for case in 0..count {
        let bytes = match case % 4 {
            0 => PAGE_BYTES,
            1 => 1 + random.below(PAGE_BYTES),
            _ => 1 + random.below(300),
        };
        let fresh_percent = random.below(101);
        let page = mixed_page(&mut random, bytes, fresh_percent);
        let hostile = (case % 3 != 0).then_some(&mut random);
        write_page(file, engine, &page, hostile)?;
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [engine, count, seed, corpus @ ..] = &arguments[..] else {
        return Err("usage: lz4_vectors ENGINE COUNT SEED [CORPUS]".into());
    };
    let engine = Engine::named(engine).ok_or_else(|| format!("{engine} is no LZ4 engine"))?;
    let count = count.parse()?;
    let mut file = BufWriter::new(io::stdout().lock());
    match corpus.first() {
        Some(corpus) => {
            let corpus = std::fs::read(corpus)?;
            for (case, page) in corpus.chunks_exact(PAGE_BYTES).take(count).enumerate() {
                write_corpus_page(&mut file, engine, page, case)?;
            }
        }
        None => write_drawn(&mut file, engine, count, seed.parse()?)?,
    }
    Ok(file.flush()?)
}
