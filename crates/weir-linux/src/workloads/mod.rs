// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which workloads there are, what they may be called, what memory they have where, and the CPU time they
//! used.

pub(crate) mod cgroups;
pub(crate) mod classify;
pub(crate) mod cond_resched;
pub(crate) mod cpu_time;
pub(crate) mod discovery;
pub(crate) mod discovery_thread;
pub(crate) mod exclude;
pub(crate) mod nice_boost;
pub(crate) mod operator_names;
pub(crate) mod processes;
pub(crate) mod task_iter;
pub(crate) mod view;

#[cfg(test)]
mod residents_tests;
