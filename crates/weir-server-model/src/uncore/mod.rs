// SPDX-License-Identifier: Apache-2.0 OR MIT
//! All that cores share: CHAs with their slices, DRAM channels, the way to the other socket, ports with their
//! devices, DMA agents.

mod cha;
mod channel;
mod device;
mod dma;
mod port;
mod upi;

pub(crate) use cha::{Cha, Onward};
pub(crate) use channel::Channel;
pub(crate) use dma::DmaAgent;
pub(crate) use port::Port;
pub(crate) use upi::Upi;

use crate::words::Path;

/// Whether a request carries a line to memory, and not from it.
pub(crate) fn is_write(path: Path) -> bool {
    matches!(path, Path::Wb | Path::Nt)
}
