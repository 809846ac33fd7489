// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weir events`: what performance counters tell of CXL traffic, by family of CPUs, and which of it
//! this machine has. The tables are weir-events'; what is here is weir-linux's to say.

pub mod cli;
mod count;
mod list;
mod page;

use crate::exit::Exit;
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
