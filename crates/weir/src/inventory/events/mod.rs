// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weir events`: performance counters of CXL traffic, by family of CPUs, and which of them this machine
//! has. The tables are weir-events'; weir-linux finds out what is here.

pub mod cli;
mod count;
mod list;
mod page;

use crate::cli::exit::Exit;
use cli::EventsArgs;
use weir_linux::Roots;

/// Lists, or counts.
///
/// # Errors
/// There is no such family, nothing can be counted, or stdout cannot be written.
pub fn events(args: &EventsArgs, roots: &Roots) -> anyhow::Result<Exit> {
    if args.count {
        count::count(args, roots)
    } else {
        list::list(args, roots)
    }
}
