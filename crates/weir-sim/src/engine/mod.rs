// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The machine in virtual time, whatever schedules its tasks: [`machine`] (the loop over events),
//! [`event_queue`], [`program`] and [`task_exec`] (what tasks do), [`memory`] (how fast they do it),
//! [`cpu_speed`], [`accounting`].

pub(crate) mod accounting;
pub(crate) mod cpu_speed;
pub(crate) mod event_queue;
pub(crate) mod histogram;
pub(crate) mod machine;
pub(crate) mod memory;
pub(crate) mod program;
pub(crate) mod rng;
pub(crate) mod task_exec;
