// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The models of hardware against measurements and against each other: one program, a module for each
//! question.
#![allow(clippy::unwrap_used)] // In helpers of tests, which clippy takes for code.

// The modules of the calibration example, tested here.
#[path = "../../examples/calibrate/fit.rs"]
#[allow(dead_code)]
mod fit;
#[path = "../../examples/calibrate/measured.rs"]
#[allow(dead_code)]
mod measured;
#[path = "../../examples/calibrate/simplex.rs"]
mod simplex;
#[path = "../../examples/calibrate/thesis.rs"]
#[allow(dead_code)]
mod thesis;

// The mixes of the comparison of DRAM orders.
#[path = "../../examples/dram_orders/mixes.rs"]
#[allow(dead_code)]
mod mixes;

// The cases that the RTL of the LZ4 engines is run with too.
#[path = "../../examples/lz4_vectors/cases.rs"]
mod lz4_cases;

mod access_counters;
mod calibration;
mod closed_network;
mod dram;
mod engines;
mod event_sim;
mod host_path;
mod lz4;
mod profile;
mod server;
mod type2;
