// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The pure core in a closed loop, step by step and twice: one program, a module for each question.

mod parts;
mod plant;
mod steady;

mod closed_loop;
mod conformance;
mod decisions;
mod determinism;
mod device_bytes;
mod division;
mod dominant;
mod goals;
mod owners;
mod task_counts;
mod weights;
mod writes;
