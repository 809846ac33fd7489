// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weir groups`: monitoring groups as NUMA nodes. [`acpi`] makes them, [`check`] compares them with the
//! firmware's tables, [`list`] shows them, [`bind`] puts workloads into them, [`resize`] moves memory
//! between them.

mod acpi;
mod bind;
mod check;
pub mod cli;
mod list;
mod resize;

use crate::cli::exit::Exit;
use anyhow::Result;
use cli::{Groups, GroupsArgs};
use weir_linux::Roots;

/// Does it.
///
/// # Errors
/// The command cannot be carried out.
pub fn groups(args: &GroupsArgs, roots: &Roots) -> Result<Exit> {
    match &args.what {
        Groups::List(args) => list::list(args, roots),
        Groups::Bind(args) => bind::bind(args, roots),
        Groups::Resize(args) => resize::resize(args, roots),
        Groups::Acpi(args) => match &args.check {
            Some(overlay) => check::check(args, overlay, roots),
            None => acpi::acpi(args, roots),
        },
    }
}
