// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What screens get: the snapshot of a tick ([`snapshot_builder`]), in a file for other processes
//! ([`publish`]), what weir changed ([`changes`]), and where workloads wait while a profile runs
//! ([`waits_in`]).

pub mod changes;
pub mod latest_windows;
pub mod publish;
pub mod snapshot_builder;
pub mod waits_in;
