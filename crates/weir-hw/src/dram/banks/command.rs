// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Commands as they go over the command bus.

use crate::dram::part::timing::Clock;

/// What a request asks of the channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BurstKind {
    /// Data from the part.
    Read,
    /// Data to the part.
    Write,
}

impl BurstKind {
    /// Reads, then writes.
    pub const BOTH: [BurstKind; 2] = [BurstKind::Read, BurstKind::Write];

    /// 0 for reads, 1 for writes.
    pub fn index(self) -> usize {
        self as usize
    }

    /// The other kind.
    pub fn other(self) -> BurstKind {
        match self {
            BurstKind::Read => BurstKind::Write,
            BurstKind::Write => BurstKind::Read,
        }
    }
}

/// A command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DramCommand {
    /// Opens a row of a bank.
    Activate {
        /// Bank, over all ranks.
        bank: u32,
        /// Row.
        row: u32,
    },
    /// Closes the row of a bank.
    Precharge {
        /// Bank, over all ranks.
        bank: u32,
    },
    /// Closes all rows of a rank.
    PrechargeAll {
        /// Rank.
        rank: u32,
    },
    /// Moves a burst of the open row.
    Column {
        /// Bank, over all ranks.
        bank: u32,
        /// Row that must be open.
        row: u32,
        /// Read or write.
        kind: BurstKind,
        /// Whether the row closes afterwards by itself.
        is_auto: bool,
    },
    /// Refreshes all banks of a rank.
    Refresh {
        /// Rank.
        rank: u32,
    },
    /// Refreshes one bank of each group of a rank.
    RefreshSameBank {
        /// Rank.
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
    /// The command.
    pub command: DramCommand,
}
