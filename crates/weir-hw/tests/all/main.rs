// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The models of hardware against measurements and against each other: one program, a module for each question.

// The example calibrates, and its modules are judged here.
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

mod calibration;
mod counters;
mod loaded;
mod profile;
mod reference;
mod stream;
