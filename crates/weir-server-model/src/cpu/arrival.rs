// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What caches say to threads.

use crate::words::Target;

pub(crate) enum Found {
    InL1,
    Request { number: u32, is_new: bool },
}

/// A line that has come into L1D, and what waited for it.
pub(crate) struct Arrival {
    pub request: u32,
    pub cpu: u16,
    pub slots: u32,
    pub supplier: Target,
    pub has_store: bool,
}
