// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What really happened: sums that no counter of the machine has.

mod contention;
mod report;
mod sums;

pub(crate) use contention::Contention;
pub use report::{CpuTruth, HeldTruth, LinesTruth, PlaceTruth, StallTruth, TruthWindow, WaitTruth};
pub(crate) use report::{RowNames, TruthReader};
pub(crate) use sums::GroundTruth;
