// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Memory with a pattern in it, read back for as long as the process lives: if another process writes to one
//! of its pages, it sees that. Half of it is given back and taken anew at each round, so that pages come
//! and go.

use std::io::{Error, Result};

const PAGE_WORDS: usize = 512;
/// Words written and read of each page.
const STEP: usize = PAGE_WORDS / 8;

/// Holds `mib` and writes into `file` how many rounds went well, or what did not. Ends only then.
pub fn hold(mib: &str, seed: &str, file: &str) -> Result<()> {
    let number = |text: &str| text.parse::<u64>().map_err(Error::other);
    let (mib, seed) = (number(mib)?, number(seed)?);
    let words = usize::try_from(mib << 17).map_err(Error::other)? / 2;
    let mut kept = vec![0; words];
    fill(&mut kept, seed);
    for round in 1_u64.. {
        let mut fresh = vec![0; words];
        let other = seed.wrapping_add(round << 32);
        fill(&mut fresh, other);
        let said = wrong(&kept, seed).or_else(|| wrong(&fresh, other));
        if let Some(said) = said {
            say(file, &format!("CORRUPT in round {round}: {said}\n"))?;
            return Err(Error::other("memory is not as it was written"));
        }
        say(file, &format!("{round}\n"))?;
    }
    Ok(())
}

/// A reader of the file sees the old line or the new one, never none.
fn say(file: &str, line: &str) -> Result<()> {
    let fresh = format!("{file}.new");
    std::fs::write(&fresh, line)?;
    std::fs::rename(&fresh, file)
}

fn pattern(seed: u64, place: usize) -> u64 {
    (seed ^ place as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1
}

fn fill(words: &mut [u64], seed: u64) {
    for (place, word) in words.iter_mut().enumerate().step_by(STEP) {
        *word = pattern(seed, place);
    }
}

fn wrong(words: &[u64], seed: u64) -> Option<String> {
    let mut all = words.iter().enumerate().step_by(STEP);
    let (place, word) = all.find(|(place, word)| **word != pattern(seed, *place))?;
    let wanted = pattern(seed, place);
    Some(format!("word {place} is {word:#x}, not {wanted:#x}"))
}
