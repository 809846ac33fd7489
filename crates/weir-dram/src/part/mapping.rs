// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which bank, row and column an address has.

use crate::part::profile::Organisation;

/// How addresses are laid over ranks, banks, rows and columns. Names go from high to low bits, as Ramulator
/// has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressMapping {
    /// Row, bank, bank group, rank, column: a row is filled before the next bank group begins.
    RoBaRaCoCh,
    /// Rank, bank group, bank, row, column: a bank is filled before the next one begins.
    ChRaBaRoCo,
    /// Four bursts, then the next rank and bank group, and the bank numbers and the row XORed with the upper
    /// bits of the column (minimalist open page, Kaseridis et al., MICRO 2011).
    Mop4ClXor,
}

/// Place of a burst in a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BurstPlace {
    /// Number of the bank over all ranks and groups: rank, then group, then bank.
    pub bank: u32,
    pub row: u32,
    pub column: u32,
}

/// Takes the lowest bits off, one count after the other.
struct Bits(u64);

impl Bits {
    fn below(&mut self, count: u32) -> u32 {
        let bits = count.trailing_zeros();
        let value = self.0 & (u64::from(count) - 1);
        self.0 >>= bits;
        value as u32
    }
}

impl AddressMapping {
    pub const ALL: [(&'static str, AddressMapping); 3] = [
        ("RoBaRaCoCh", AddressMapping::RoBaRaCoCh),
        ("ChRaBaRoCo", AddressMapping::ChRaBaRoCo),
        ("MOP4CLXOR", AddressMapping::Mop4ClXor),
    ];

    /// The name, as in `--mapping`.
    pub fn name(self) -> &'static str {
        let found = Self::ALL.iter().find(|(_, mapping)| *mapping == self);
        found.map_or("", |(name, _)| name)
    }

    /// The mapping of this name, in any case of its letters.
    pub fn named(name: &str) -> Option<AddressMapping> {
        let found = Self::ALL
            .iter()
            .find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map(|(_, mapping)| *mapping)
    }

    /// Place of the burst with this number (address ÷ bytes of a burst). Bits above the channel's capacity
    /// count for nothing.
    pub fn place(self, parts: &Organisation, burst: u64) -> BurstPlace {
        let mut bits = Bits(burst);
        let (rank, group, bank, row, column);
        match self {
            AddressMapping::RoBaRaCoCh => {
                column = bits.below(parts.bursts_per_row);
                rank = bits.below(parts.ranks);
                group = bits.below(parts.bank_groups);
                bank = bits.below(parts.banks_per_group);
                row = bits.below(parts.rows);
            }
            AddressMapping::ChRaBaRoCo => {
                column = bits.below(parts.bursts_per_row);
                row = bits.below(parts.rows);
                bank = bits.below(parts.banks_per_group);
                group = bits.below(parts.bank_groups);
                rank = bits.below(parts.ranks);
            }
            AddressMapping::Mop4ClXor => {
                let near = parts.bursts_per_row.min(4);
                let low = bits.below(near);
                let plain_rank = bits.below(parts.ranks);
                let plain_group = bits.below(parts.bank_groups);
                let plain_bank = bits.below(parts.banks_per_group);
                column = low + near * bits.below(parts.bursts_per_row / near);
                let plain_row = bits.below(parts.rows);
                let mut mask = Bits(u64::from(column));
                rank = plain_rank ^ mask.below(parts.ranks);
                group = plain_group ^ mask.below(parts.bank_groups);
                bank = plain_bank ^ mask.below(parts.banks_per_group);
                row = plain_row ^ mask.below(parts.rows);
            }
        }
        let bank = (rank * parts.bank_groups + group) * parts.banks_per_group + bank;
        BurstPlace { bank, row, column }
    }
}
