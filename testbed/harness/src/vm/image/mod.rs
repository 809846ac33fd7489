// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a guest starts from: its initrd, tables of firmware before it, files that follow, and the snapshot
//! that is kept of a booted one.

pub mod files;
pub mod firmware;
pub(super) mod initrd;
pub(super) mod snapshot;
