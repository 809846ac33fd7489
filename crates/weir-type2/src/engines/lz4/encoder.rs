// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Makes a block from a page: a search for matches, and beside it what writes them.

use super::closing_clocks;
use super::emitter::{Emitted, Emitter};
use super::loading::Loading;
use super::search::Search;
use crate::engines::{EngineRun, PageLengthError, check_length};

/// Positions of the page that the encoder looks up in a clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Positions {
    /// The smallest encoder: one position a clock.
    One = 1,
    /// Half of the accelerator's.
    Two = 2,
    Four = 4,
    /// The largest encoder: eight positions a clock.
    Eight = 8,
}

/// Why there is no block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EncodeRefusal {
    #[error(transparent)]
    Length(#[from] PageLengthError),
    /// The block would not be smaller than the page.
    #[error("incompressible: the block would not be smaller than the page (after {clocks} clocks)")]
    Incompressible { clocks: u64 },
}

/// Encodes a page of at most 4096 bytes.
///
/// # Errors
/// The block would not be smaller than the page, or the page is empty or longer than 4096 bytes.
pub fn encode(page: &[u8], positions: Positions) -> Result<EngineRun, EncodeRefusal> {
    check_length(page.len())?;
    let mut loading = Loading::new(page.len());
    let mut search = Search::new(page, positions as usize);
    let mut emitter = Emitter::new(page);
    loop {
        let found = if emitter.is_ready() {
            search.clock(loading.loaded_bytes)
        } else {
            None
        };
        let emitted = emitter.clock(found);
        loading.clock(true);
        match emitted {
            Emitted::More => {}
            Emitted::Complete => {
                let clocks = loading.clocks() + closing_clocks(emitter.block.len());
                let bytes = emitter.block;
                return Ok(EngineRun { bytes, clocks });
            }
            Emitted::TooLarge => {
                let clocks = loading.clocks() + 2 + loading.beats_outstanding();
                return Err(EncodeRefusal::Incompressible { clocks });
            }
        }
    }
}
