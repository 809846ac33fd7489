// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the repository keeps to: one program, a module for each kind of rule.

mod clocks;
mod dependencies;
mod docs;
mod driver_cover;
mod evidence;
mod evidence_age;
mod file_access;
mod floors;
mod fuzz_targets;
mod generated;
mod names;
mod prose;
mod snapshot_shape;
mod testplan;
mod tidy;
mod unit_graph;
