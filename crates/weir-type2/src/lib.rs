// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A CXL Type-2 device: an accelerator that shares the host's address space coherently, after Ji and others,
//! *Demystifying a CXL Type-2 Device* (`cxl-type2`), on an Agilex 7.
//!
//! ```text
//! words ─► protocol ─┬─► explore ─► table_three   every interleaving; counterexamples as message charts
//!  (names)  (one     └─► time      the same functions with caches, stages and queues
//!            line)
//! ```
//!
//! [`engines`] are the accelerator's: compression, hash, comparison, clock by clock as the RTL.
//!
//! What is modelled and what is not: `docs/explanation/type2-model.md`.

#[macro_use]
mod words;

pub mod engines;
pub mod explore;
pub mod protocol;
pub mod table_three;
pub mod time;

pub use words::{Bias, CacheState, DeviceOp, HostOp, Lane, LineHome, Opcode, Party, TimedStage};
