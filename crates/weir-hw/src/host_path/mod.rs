// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The host path: what threads that load and store, and an SSD's DMA, do to each other between the cores and
//! the memories. One mechanism, in steady state.
//!
//! ```text
//!  core ──► admission ──► tracker pool ──► memory ──► data
//!  (buffers,  (in order     (T entries,      (capacity,
//!   own time)  of arrival)   one a line)      idle time)
//!
//!  held   (loads, fetches for a store, DMA reads)    the buffer is free again when the data is back
//!  posted (nt stores, write-backs, DMA writes)       the buffer is free again at admission; the tracker is
//!                                                    kept until the memory has done the write
//! ```
//!
//! [`HostMachine`] holds the figures, [`StreamOp`] says which requests an access is made of, [`compile`]
//! makes [`Flow`]s of streams. Two forms answer the same question and share no formula: [`solve`] (equations)
//! and [`simulate`] (line by line). [`Lever`]s change machine and streams before either.
//! `docs/explanation/interference-model.md` has the equations, `docs/reference/machine-file.md` the figures.
//!
//! Left out: the mesh's own bandwidth, cache hits of memory streams, DRAM banks, prefetches that are dropped.

mod compile;
mod events;
mod flow;
mod levers;
mod machine;
mod op;
mod outcome;
mod relations;
mod solver;
mod ssd;
mod tally;

pub use compile::{HostStream, MixError, StorageMode, compile};
pub use events::{EventPlan, simulate};
pub use flow::{Flow, Leg, PathNetwork};
pub use levers::{Lever, LeverError, LeverPhase, MbaLaw};
pub use machine::{
    HostMachine, KindFigures, LeverFigures, MemoryFigures, MemoryRates, TrackerFigures,
};
pub use op::{Keeping, StreamOp};
pub use outcome::{FlowOutcome, PathOutcome};
pub use solver::solve;
pub use ssd::SsdFigures;
