// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Recordings, written, read, followed and damaged: one program, a module for each question.
#![allow(clippy::unwrap_used)] // In helpers of tests, which clippy takes for code.

mod made;

mod cuts;
mod flips;
mod format;
mod hostile;
mod live;
mod recording;
