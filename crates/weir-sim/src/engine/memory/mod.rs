// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What memory gives: [`memory_model`] (latency and throughput), [`dram_mix`] and [`cxl_rates`] (rates of
//! sources and groups), [`dma`] (disks), and [`fluid`], the speed of all tasks between two events.

pub(crate) mod cxl_rates;
pub(crate) mod dma;
pub(crate) mod dram_mix;
pub(crate) mod fluid;
pub(crate) mod memory_model;
