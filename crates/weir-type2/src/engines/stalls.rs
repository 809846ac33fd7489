// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Clocks in which a source has no beat to offer, or a sink takes no result: drawn alike here and in the
//! bench of the RTL (`rtl/sim/engines.cpp`).

/// Draws what waits in a clock.
#[derive(Clone, Debug)]
pub struct Stalls {
    /// State of the generator (xorshift64, Marsaglia 2003); 0: nothing ever waits.
    state: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stall {
    pub source: bool,
    pub sink: bool,
}

impl Stalls {
    /// Nothing ever waits.
    pub const fn none() -> Stalls {
        Stalls { state: 0 }
    }

    /// Source and sink each wait in half of the clocks; the seed 0 is [`Stalls::none`].
    pub const fn drawn(seed: u32) -> Stalls {
        Stalls {
            state: (seed as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15),
        }
    }

    pub fn clock(&mut self) -> Stall {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        Stall {
            source: self.state >> 20 & 1 == 1,
            sink: self.state >> 40 & 1 == 1,
        }
    }
}
