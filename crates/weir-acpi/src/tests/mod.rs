// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tables built by hand from the standard's layouts, split, and read again; and malformed
//! ones.

mod builders;
mod linux_tolerance;
mod malformed;
mod valid_tables;
