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

/// A size as text: in the largest binary unit in which it has at most two decimals.
fn size(bytes: u64) -> String {
    let units = [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)];
    for (unit, shift) in units {
        if bytes >> shift > 0 {
            // Exact below 2^53, and a rounded size above is still right to three digits.
            let value = bytes as f64 / (1_u64 << shift) as f64;
            let text = format!("{value:.2}");
            let text = text.trim_end_matches('0').trim_end_matches('.');
            return format!("{text} {unit}");
        }
    }
    format!("{bytes} B")
}

#[cfg(test)]
mod tests {
    #[test]
    fn sizes_are_short() {
        for (bytes, text) in [
            (0, "0 B"),
            (128 << 20, "128 MiB"),
            (3 << 29, "1.5 GiB"),
            (1 << 40, "1 TiB"),
            ((1 << 30) + (5 << 20), "1 GiB"),
        ] {
            assert_eq!(super::size(bytes), text);
        }
    }
}
