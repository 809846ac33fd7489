// SPDX-License-Identifier: Apache-2.0 OR MIT
//! weir-profile on counts of others: a paper's table, and a public recording; and what a report costs.
#![allow(clippy::unwrap_used)] // In helpers of tests, which clippy takes for code.

mod emerald_rapids;
mod hostile;
mod import;
mod memory;
mod perf_corpus;
mod table7;
