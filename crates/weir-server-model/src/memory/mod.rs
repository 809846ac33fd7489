// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Where a line lies: the pages of programs, and the way from a core to the memory that has them.

pub(crate) mod pages;
pub(crate) mod route;
