// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What streams of memory and storage traffic do to each other: the result of `weir bench interference` and of
//! `weir sim interference`, and what a person reads of it.
//!
//! ```text
//! bench, model ──► document ──┬─► page (heat map, sweeps)
//!                             └─► compare (two documents)
//! ```

pub mod class;
pub mod document;
