// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The host path: its two forms against each other and against what queueing theory says of any such path,
//! its levers, and what a machine file may say.

mod draw;
mod files;
mod forms;
mod laws;
mod levers;
mod requests;
