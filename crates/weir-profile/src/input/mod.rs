// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What others counted, on its way to windows: lines of `perf stat`, events made to roles, and the file.

pub mod perf_stat;
pub mod recipes;
pub mod time_span;
pub mod window_file;
