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

mod access_counters;
mod calibration;
mod closed_network;
mod event_sim;
mod host_path;
mod profile;
