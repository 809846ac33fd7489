// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What screens get: the snapshot of a tick ([`snapshot_builder`]), in a file for other processes
//! ([`publish`]), and what weir changed ([`changes`]).

pub mod changes;
pub mod publish;
pub mod snapshot_builder;
