// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The machine in virtual time, whatever schedules its tasks: [`machine`] (the loop over events),
//! [`event_queue`], [`program`] and [`task_exec`] (what tasks do), [`dma`] (what disks do), [`fluid`] (the
//! speed of all tasks between two events) with [`memory_model`], [`dram_mix`] and [`cxl_rates`],
//! [`cpu_speed`], [`accounting`].

pub(crate) mod accounting;
pub(crate) mod cpu_speed;
pub(crate) mod cxl_rates;
pub(crate) mod dma;
pub(crate) mod dram_mix;
pub(crate) mod event_queue;
pub(crate) mod fluid;
pub(crate) mod histogram;
pub(crate) mod machine;
pub(crate) mod memory_model;
pub(crate) mod program;
pub(crate) mod rng;
pub(crate) mod task_exec;
