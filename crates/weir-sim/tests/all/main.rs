// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The simulated host against formulas, measurements and the thesis: one program, a module for each question.

mod conformance;
mod contention;
mod cpu_max;
mod equals;
mod fair_runs;
mod full;
mod harm;
mod partial;
mod physics;
mod scenarios;
mod share_bounds;
mod shares;
mod speed;
mod thesis;
