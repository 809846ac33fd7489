// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A CXL Type-2 device: an accelerator that shares the host's address space coherently, after Ji and others,
//! *Demystifying a CXL Type-2 Device* (`cxl-type2`), on an Agilex 7.
//!
//! ```text
//! words ─► protocol ─┬─► explore   every interleaving; counterexamples as message charts
//!  (names)  (one     └─► time      the same functions with caches, stages and queues
//!            line)                   └─► paper   figures of the paper beside ours
//! ```
//!
//! What is modelled and what is not: `docs/explanation/type2-model.md`.

#[macro_use]
mod words;

pub mod explore;
pub mod paper;
pub mod protocol;
pub mod time;

pub use words::{Bias, CacheState, DeviceOp, HostOp, Lane, LineHome, Opcode, Party, TimedStage};
