// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The Type-2 device against the paper, and the engines' twins against other programs: one program, a module
//! for each question.
#![allow(clippy::unwrap_used)] // In helpers of tests, which clippy takes for code.

// The cases that the RTL of the LZ4 engines is run with too.
#[path = "../../examples/lz4_vectors/cases.rs"]
mod lz4_cases;

mod engines;
mod lz4;
mod type2;
