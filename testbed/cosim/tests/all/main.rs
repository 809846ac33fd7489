// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The server of the simulated RTL as a process: one program, a module for each question.

mod common;

mod counting;
mod refusals;
