// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How beats come in: a beat lies in a register, from which 16 bytes a clock move on.

use super::MOVE_BYTES;
use crate::engines::BEAT_BYTES;

/// Loads the input of an engine when the source always has a beat: the command comes in clock 0, the first
/// beat in clock 1, its first 16 bytes in clock 2.
#[derive(Clone, Copy, Debug)]
pub(super) struct Loading {
    input_bytes: usize,
    /// Moved on by the clocks before this one.
    pub(super) loaded_bytes: usize,
    clock: u64,
}

impl Loading {
    pub(super) fn new(input_bytes: usize) -> Loading {
        Loading {
            input_bytes,
            loaded_bytes: 0,
            clock: 0,
        }
    }

    /// One clock passes; whether 16 bytes may move on in it.
    pub(super) fn clock(&mut self, moves: bool) {
        self.clock += 1;
        if moves && self.clock > 2 && self.loaded_bytes < self.input_bytes {
            self.loaded_bytes = self.input_bytes.min(self.loaded_bytes + MOVE_BYTES);
        }
    }

    /// Beats that have not been taken by the clocks before this one. The next is taken with the last 16
    /// bytes of its predecessor.
    pub(super) fn beats_outstanding(&self) -> u64 {
        let taken = match self.clock {
            0 | 1 => 0,
            _ => self.loaded_bytes / BEAT_BYTES + 1,
        };
        (self.input_bytes.div_ceil(BEAT_BYTES)).saturating_sub(taken) as u64
    }

    pub(super) fn clocks(&self) -> u64 {
        self.clock
    }
}
