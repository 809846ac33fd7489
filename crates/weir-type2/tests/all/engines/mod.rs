// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The engines' twins against other programs' results.

mod page_compare;
#[path = "../../../examples/engine_vectors/pages.rs"]
mod pages;
mod xxh64;
