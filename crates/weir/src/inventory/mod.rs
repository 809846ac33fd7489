// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What this machine has: [`devices`] (`--device`: which nodes are CXL memory), [`topology`], [`events`],
//! [`doctor`].

pub mod cli;
pub mod doctor;
pub mod events;
pub mod topology;
