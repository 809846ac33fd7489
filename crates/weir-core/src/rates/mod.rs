// SPDX-License-Identifier: Apache-2.0 OR MIT
//! From counts to bytes per second, of devices and of workloads.

pub mod attribution;
pub mod bandwidth;
pub mod count_check;
pub mod counters;
pub mod multiplexing;
pub mod task_counts;
