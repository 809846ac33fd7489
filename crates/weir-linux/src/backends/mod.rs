// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How limits are put in force: `cpu.max`, or weir's own scheduler (sched_ext).

pub(crate) mod cpu_max;
pub(crate) mod sched_ext;
