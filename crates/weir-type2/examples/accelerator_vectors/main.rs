// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `accelerator_vectors COUNT SEED`: requests for the accelerator and what is to come of them, by the twins
//! of its engines, for the bench of its RTL (`rtl/sim/accelerator.cpp`), on standard output. The units are of
//! 4 positions a clock.
//!
//! All numbers have 32 bits, little endian. A case is: operation, bytes of the source, flags, bytes of the
//! destination; low and high word of the addresses of source, second page and destination; the line of the
//! source whose read fails (2^32 - 1: none); status, bytes of the result, low and high word of the value,
//! clocks of the engines (0: not said); then source, second page and result, each after its length.

#[path = "../lz4_vectors/cases.rs"]
mod cases;
mod requests;

use requests::{AcceleratorCase, draw};
use std::error::Error;
use std::io::{self, BufWriter, Write};

fn write_case(file: &mut impl Write, case: &AcceleratorCase) -> io::Result<()> {
    let words = |number: u64| [number as u32, (number >> 32) as u32];
    let [source, second, destination] = [case.source, case.second, case.destination].map(words);
    let value = words(case.value);
    let bytes = [&case.page, &case.other, &case.result];
    let numbers = [
        &[
            case.op,
            case.source_bytes,
            case.flags,
            case.destination_bytes,
        ][..],
        &source,
        &second,
        &destination,
        &[case.broken_line.unwrap_or(u32::MAX), case.status],
        &[case.result.len() as u32],
        &value,
        &[case.engine_clocks as u32],
    ];
    for number in numbers.concat() {
        file.write_all(&number.to_le_bytes())?;
    }
    for bytes in bytes {
        file.write_all(&(bytes.len() as u32).to_le_bytes())?;
        file.write_all(bytes)?;
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [count, seed] = &arguments[..] else {
        return Err("usage: accelerator_vectors COUNT SEED".into());
    };
    let mut random = cases::Xorshift::new(seed.parse()?);
    let mut file = BufWriter::new(io::stdout().lock());
    for number in 0..count.parse()? {
        write_case(&mut file, &draw(&mut random, number)?)?;
    }
    Ok(file.flush()?)
}
