// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Commands as they go over the command bus.

use crate::part::timing::Clock;

/// What a request asks of the channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BurstKind {
    Read,
    Write,
}

impl BurstKind {
    pub const BOTH: [BurstKind; 2] = [BurstKind::Read, BurstKind::Write];

    /// 0 for reads, 1 for writes.
    pub fn index(self) -> usize {
        self as usize
    }

    pub fn other(self) -> BurstKind {
        match self {
            BurstKind::Read => BurstKind::Write,
            BurstKind::Write => BurstKind::Read,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DramCommand {
    /// Opens a row of a bank.
    Activate {
        /// The bank, counted over all ranks.
        bank: u32,
        row: u32,
    },
    /// Closes the row of a bank.
    Precharge {
        /// The bank, counted over all ranks.
        bank: u32,
    },
    /// Closes all rows of a rank.
    PrechargeAll { rank: u32 },
    /// Moves a burst of the open row.
    Column {
        /// The bank, counted over all ranks.
        bank: u32,
        /// Row that must be open.
        row: u32,
        kind: BurstKind,
        /// Whether the row closes afterwards by itself.
        is_auto: bool,
    },
    /// Refreshes all banks of a rank.
    Refresh { rank: u32 },
    /// Refreshes one bank of each group of a rank.
    RefreshSameBank {
        rank: u32,
        /// Bank of each group.
        bank_of_group: u32,
    },
}

/// A command and its first clock on the bus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IssuedCommand {
    /// First clock on the command bus.
    pub at: Clock,
    pub command: DramCommand,
}
