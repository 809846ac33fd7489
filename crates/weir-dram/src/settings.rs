// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Settings of a memory controller.

use crate::part::mapping::AddressMapping;

/// What becomes of a row after a column command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PagePolicy {
    Open,
    /// It is closed by each column command.
    Closed,
    /// It is closed after so many column commands: by the next one, or by a precharge as soon as there can be
    /// one.
    Capped(u32),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChannelSettings {
    pub mapping: AddressMapping,
    pub page: PagePolicy,
    /// Entries of the read queue, and of the write queue. As in Ramulator a request leaves its queue when its
    /// row is opened.
    pub entries: u32,
    /// Entries of a queue for each bank behind these two, in the order of their own (see
    /// [`crate::queues::front`]); without it requests wait in the two queues themselves.
    pub bank_entries: Option<u32>,
    /// Writes are drained above this part of the write queue, percent.
    pub drain_above_percent: u32,
    /// Writes go on down to this part of the queue, if reads wait, percent.
    pub drain_below_percent: u32,
}

impl ChannelSettings {
    /// The peers' settings: RoBaRaCoCh, open pages, 32 entries, writes drained from 80 % to 20 %.
    pub const PEERS: ChannelSettings = ChannelSettings {
        mapping: AddressMapping::RoBaRaCoCh,
        page: PagePolicy::Open,
        entries: 32,
        bank_entries: None,
        drain_above_percent: 80,
        drain_below_percent: 20,
    };
}
