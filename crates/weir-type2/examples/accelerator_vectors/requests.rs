// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Requests of every kind, right and wrong.

use crate::cases::{Xorshift, hostile_block, liblz4_block, mixed_page};
use std::error::Error;
use weir_type2::engines::PAGE_BYTES;
use weir_type2::engines::accelerator_regs::{
    FLAG_INTERRUPT, FLAG_VERIFY, OP_COMPARE, OP_LZ4_DECODE, OP_LZ4_ENCODE, OP_XXH64,
    STATUS_BAD_ADDRESS, STATUS_BAD_LENGTH, STATUS_BAD_OP, STATUS_DMA_ERROR, STATUS_DONE,
    STATUS_REFUSED,
};
use weir_type2::engines::lz4::{DecodeRefusal, EncodeRefusal, Positions, decode, encode};
use weir_type2::engines::page_compare::{PagePair, compare_pages};
use weir_type2::engines::xxh64::hash_pages;

const LINE_BYTES: u64 = 64;

/// Addresses that a case has to itself.
const CASE_BYTES: u64 = 0x1_0000;

/// A request, and what is to come of it.
pub struct AcceleratorCase {
    pub op: u32,
    pub source_bytes: u32,
    pub flags: u32,
    pub destination_bytes: u32,
    pub source: u64,
    pub second: u64,
    pub destination: u64,
    pub broken_line: Option<u32>,
    pub status: u32,
    pub value: u64,
    pub engine_clocks: u64,
    /// The source's bytes in memory.
    pub page: Vec<u8>,
    /// The second page's.
    pub other: Vec<u8>,
    /// What the destination is to have.
    pub result: Vec<u8>,
}

/// The room of a result that takes `bytes`: too small one time in four.
fn draw_room(random: &mut Xorshift, bytes: usize) -> u32 {
    let room = match random.below(8) {
        0 => bytes.saturating_sub(1),
        1 => 1 + random.below(100),
        2 => bytes,
        3 => bytes + random.below(70),
        4 => 1_000_000,
        _ => PAGE_BYTES,
    };
    room.max(1) as u32
}

/// A case whose source is `page`; its operation's results are still to come.
fn new_case(random: &mut Xorshift, number: u64, op: u32, page: Vec<u8>) -> AcceleratorCase {
    let source = 0x1_0000_0000 + number * CASE_BYTES;
    // Often the destination begins where the source ends.
    let lines = (page.len() as u64).div_ceil(LINE_BYTES);
    let destination = match random.below(2) {
        0 => source + lines * LINE_BYTES,
        _ => source + 0x4000,
    };
    let interrupt = [0, FLAG_INTERRUPT][random.below(2)];
    AcceleratorCase {
        op,
        source_bytes: page.len() as u32,
        flags: interrupt,
        destination_bytes: 0,
        source,
        second: source + 0x8000,
        destination,
        broken_line: None,
        status: STATUS_DONE,
        value: 0,
        engine_clocks: 0,
        page,
        other: Vec::new(),
        result: Vec::new(),
    }
}

impl AcceleratorCase {
    fn refuse(&mut self, status: u32) {
        self.status = status;
        self.value = 0;
        self.engine_clocks = 0;
        self.result.clear();
    }

    fn encode(&mut self, random: &mut Xorshift) -> Result<(), Box<dyn Error>> {
        let verifies = random.below(2) == 1;
        self.flags |= if verifies { FLAG_VERIFY } else { 0 };
        match encode(&self.page, Positions::Four) {
            Ok(run) => {
                self.destination_bytes = draw_room(random, run.bytes.len());
                self.engine_clocks = run.clocks;
                if run.bytes.len() > self.destination_bytes as usize {
                    self.status = STATUS_REFUSED;
                } else {
                    if verifies {
                        self.engine_clocks += decode(&run.bytes, self.page.len())?.clocks;
                    }
                    self.result = run.bytes;
                }
            }
            Err(EncodeRefusal::Incompressible { clocks }) => {
                self.destination_bytes = PAGE_BYTES as u32;
                self.engine_clocks = clocks;
                self.status = STATUS_REFUSED;
            }
            Err(refusal) => return Err(refusal.into()),
        }
        Ok(())
    }

    fn decode(&mut self, limit_bytes: u32) -> Result<(), Box<dyn Error>> {
        self.destination_bytes = limit_bytes;
        match decode(&self.page, PAGE_BYTES.min(limit_bytes as usize)) {
            Ok(run) => {
                self.engine_clocks = run.clocks;
                self.result = run.bytes;
            }
            Err(DecodeRefusal::Malformed { clocks, .. }) => {
                self.engine_clocks = clocks;
                self.status = STATUS_REFUSED;
            }
            Err(refusal) => return Err(refusal.into()),
        }
        Ok(())
    }

    fn hash(&mut self) -> Result<(), Box<dyn Error>> {
        let run = hash_pages(&[&self.page])?;
        self.value = u64::from_le_bytes(run.bytes.as_slice().try_into()?);
        Ok(())
    }

    fn compare(&mut self, random: &mut Xorshift) -> Result<(), Box<dyn Error>> {
        self.other = self.page.clone();
        if random.below(3) > 0 {
            let at = random.below(self.other.len());
            self.other[at] ^= 1 << random.below(8);
        }
        let pair = PagePair {
            left: &self.page,
            right: &self.other,
        };
        let run = compare_pages(&[pair])?;
        self.value = u64::from_le_bytes(run.bytes.as_slice().try_into()?);
        Ok(())
    }

    fn writes(&self) -> bool {
        [OP_LZ4_ENCODE, OP_LZ4_DECODE].contains(&self.op)
    }

    /// Makes a request that can be done into one that cannot.
    fn spoil(&mut self, random: &mut Xorshift) {
        let lines = u64::from(self.source_bytes).div_ceil(LINE_BYTES);
        let odd = 1 + random.below(63) as u64;
        match random.below(if self.writes() { 10 } else { 5 }) {
            0 => {
                self.op = [0, 5, 0xff, 1 << 31 | OP_XXH64][random.below(4)];
                self.refuse(STATUS_BAD_OP);
            }
            1 => {
                self.source_bytes = [0, 4097, 1 << 20, u32::MAX][random.below(4)];
                self.refuse(STATUS_BAD_LENGTH);
            }
            2 => {
                self.source += odd;
                self.refuse(STATUS_BAD_ADDRESS);
            }
            3 if self.op == OP_COMPARE => {
                self.second += odd;
                self.refuse(STATUS_BAD_ADDRESS);
            }
            // Passes the end of addresses by a line at least, where it has two.
            4 if lines > 2 => {
                let before_end = lines - 1 - random.below(2) as u64;
                self.source = (before_end * LINE_BYTES).wrapping_neg();
                self.refuse(STATUS_BAD_ADDRESS);
            }
            5 => {
                self.destination_bytes = 0;
                self.refuse(STATUS_BAD_LENGTH);
            }
            6 => {
                self.destination += odd;
                self.refuse(STATUS_BAD_ADDRESS);
            }
            // The last line of the source, or the first.
            7 => {
                self.destination = self.source + (lines - 1) * LINE_BYTES;
                self.refuse(STATUS_BAD_ADDRESS);
            }
            8 => {
                self.destination = self.source - LINE_BYTES;
                self.destination_bytes = 65;
                self.refuse(STATUS_BAD_ADDRESS);
            }
            9 => {
                self.destination = 0_u64.wrapping_sub(LINE_BYTES);
                self.destination_bytes = 65 + random.below(5000) as u32;
                self.refuse(STATUS_BAD_ADDRESS);
            }
            _ => {
                self.broken_line = Some(random.below(lines as usize) as u32);
                if self.op == OP_COMPARE {
                    // A comparison may end before it reads the line.
                    self.op = OP_XXH64;
                }
                self.refuse(STATUS_DMA_ERROR);
            }
        }
    }
}

pub fn draw(random: &mut Xorshift, number: u64) -> Result<AcceleratorCase, Box<dyn Error>> {
    let bytes = match random.below(3) {
        0 => PAGE_BYTES,
        1 => 1 + random.below(PAGE_BYTES),
        _ => 1 + random.below(300),
    };
    let fresh_percent = random.below(90);
    let page = mixed_page(random, bytes, fresh_percent);
    let mut case = match random.below(8) {
        0..3 => {
            let mut case = new_case(random, number, OP_LZ4_ENCODE, page);
            case.encode(random)?;
            case
        }
        3 => {
            let (block, limit_bytes) = hostile_block(random);
            let mut case = new_case(random, number, OP_LZ4_DECODE, block);
            case.decode(limit_bytes as u32)?;
            case
        }
        4 | 5 => {
            let mut block = liblz4_block(&page);
            block.truncate(PAGE_BYTES);
            let limit_bytes = draw_room(random, page.len());
            let mut case = new_case(random, number, OP_LZ4_DECODE, block);
            case.decode(limit_bytes)?;
            case
        }
        6 => {
            let mut case = new_case(random, number, OP_XXH64, page);
            case.hash()?;
            case
        }
        _ => {
            let mut case = new_case(random, number, OP_COMPARE, page);
            case.compare(random)?;
            case
        }
    };
    if number % 1000 == 3 {
        // It goes to the last byte of addresses.
        let lines = u64::from(case.source_bytes).div_ceil(LINE_BYTES);
        case.source = (lines * LINE_BYTES).wrapping_neg();
    } else if random.below(6) == 0 {
        case.spoil(random);
    }
    Ok(case)
}
