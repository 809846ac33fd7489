// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `lz4_vectors FILE COUNT SEED [CORPUS]`: what the twins of the LZ4 engines answer, for the bench of their RTL
//! (`rtl/sim/lz4.cpp`). `COUNT` cases for each engine; a corpus gives its pages instead of drawn ones.
//!
//! A case is six numbers of 32 bits, little endian, then input and output: engine (0 the decoder, else positions of
//! the encoder), bytes of input, limit, flaw (0: none), clocks, bytes of output.

mod cases;

use cases::{Xorshift, hostile_block, liblz4_block, mixed_page};
use std::error::Error;
use std::io::{self, BufWriter, Write};
use weir_hw::engines::lz4::{DecodeRefusal, EncodeRefusal, Positions, decode, encode};
use weir_hw::engines::{EngineRun, PAGE_BYTES};

/// The flaw of an encoder's refusal.
const INCOMPRESSIBLE: u32 = 1;

const ENCODERS: [Positions; 4] = [
    Positions::One,
    Positions::Two,
    Positions::Four,
    Positions::Eight,
];

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
    head: [u32; 3],
    input: &[u8],
    answer: &Answer,
) -> io::Result<()> {
    let clocks = answer.run.clocks as u32;
    let output = &answer.run.bytes;
    let tail = [answer.flaw, clocks, output.len() as u32];
    for number in head.into_iter().chain(tail) {
        file.write_all(&number.to_le_bytes())?;
    }
    file.write_all(input)?;
    file.write_all(output)
}

fn write_page(file: &mut impl Write, page: &[u8]) -> Result<(), Box<dyn Error>> {
    for positions in ENCODERS {
        let head = [positions as u32, page.len() as u32, 0];
        write_case(file, head, page, &encoded(page, positions)?)?;
    }
    Ok(())
}

fn write_block(file: &mut impl Write, block: &[u8], limit: usize) -> Result<(), Box<dyn Error>> {
    let head = [0, block.len() as u32, limit as u32];
    Ok(write_case(file, head, block, &decoded(block, limit)?)?)
}

/// Pages of all lengths, few of them as long as can be; blocks of which two in three are hostile.
fn write_drawn(file: &mut impl Write, count: usize, seed: u64) -> Result<(), Box<dyn Error>> {
    let mut random = Xorshift::new(seed);
    for case in 0..count {
        let bytes = match case % 4 {
            0 => PAGE_BYTES,
            1 => 1 + random.below(PAGE_BYTES),
            _ => 1 + random.below(300),
        };
        let fresh_percent = random.below(101);
        let page = mixed_page(&mut random, bytes, fresh_percent);
        write_page(file, &page)?;
        let (block, limit) = match (case % 3, liblz4_block(&page)) {
            (0, block) if block.len() <= PAGE_BYTES => (block, page.len()),
            _ => hostile_block(&mut random),
        };
        write_block(file, &block, limit)?;
    }
    Ok(())
}

fn write_corpus(file: &mut impl Write, count: usize, corpus: &[u8]) -> Result<(), Box<dyn Error>> {
    for page in corpus.chunks_exact(PAGE_BYTES).take(count) {
        write_page(file, page)?;
        let block = liblz4_block(page);
        if block.len() <= PAGE_BYTES {
            write_block(file, &block, PAGE_BYTES)?;
        }
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [path, count, seed, corpus @ ..] = &arguments[..] else {
        return Err("usage: lz4_vectors FILE COUNT SEED [CORPUS]".into());
    };
    let mut file = BufWriter::new(std::fs::File::create(path)?);
    match corpus.first() {
        Some(corpus) => write_corpus(&mut file, count.parse()?, &std::fs::read(corpus)?)?,
        None => write_drawn(&mut file, count.parse()?, seed.parse()?)?,
    }
    Ok(file.flush()?)
}
