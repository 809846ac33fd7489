// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The engines' twins against other programs' results.

mod page_compare;
mod pages;
mod xxh64;
