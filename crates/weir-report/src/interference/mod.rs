// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What streams of memory and storage traffic do to each other: the result of `weir bench interference` and
//! of `weir sim interference`, and what a person reads of it.
//!
//! ```text
//! bench, model ─► document ─► json ─► file ─► read ─┐
//!                    │                              │
//!                    ├─► grid ┬─► terminal          ├─► comparison ┬─► terminal
//!                    │        └─► page (heat maps)  │              └─► page
//!                    └─► worst (one sentence) ◄─────┘
//! ```

pub mod class;
pub mod document;

mod cell_card;
mod comparison;
mod explained;
mod grid;
mod page;
mod read;
mod sweep_plot;
mod terminal;
#[cfg(test)]
mod tests;
mod words;
mod worst;

pub use comparison::page::comparison_page;
pub use comparison::placement::{APART_RATIO, ROUND_TRIP_FACT};
pub use comparison::terminal::comparison_terminal;
pub use comparison::{ComparedCell, ComparedSide, Comparison, FactDifference, compare};
pub use explained::{explained, json};
pub use page::page;
pub use read::{parse, read};
pub use terminal::terminal;
pub use worst::worst;
