// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Inside a crate, a folder that lies below others must not use them.

use crate::dependencies::{Paths, rust_files};
use std::path::Path;

/// A folder or file inside of a crate that must not use others of the same crate.
struct Floor {
    place: &'static str,
    /// Modules of the crate that lie above it or beside it.
    above: &'static [&'static str],
    why: &'static str,
}

/// Floors that must stay below others.
const FLOORS: &[Floor] = &[
    Floor {
        place: "crates/weir-linux/src/leases",
        above: &[
            "backends",
            "counters",
            "inventory",
            "platform",
            "task_traffic",
            "workloads",
        ],
        why: "each room registers how its changes are undone (trait Undo); leases know none of them",
    },
    Floor {
        place: "crates/weir-linux/src/inventory",
        above: &[
            "counters",
            "workloads",
            "task_traffic",
            "backends",
            "platform",
        ],
        why: ROOMS,
    },
    Floor {
        place: "crates/weir-linux/src/counters",
        above: &["workloads", "task_traffic", "backends", "platform"],
        why: ROOMS,
    },
    Floor {
        place: "crates/weir-linux/src/workloads",
        above: &["task_traffic", "backends", "platform"],
        why: ROOMS,
    },
    Floor {
        place: "crates/weir-linux/src/task_traffic",
        above: &["backends", "platform"],
        why: ROOMS,
    },
    Floor {
        place: "crates/weir-linux/src/backends",
        above: &["platform"],
        why: ROOMS,
    },
    Floor {
        place: "crates/weir-linux/src/backends/cpu_max",
        above: &["backends::sched_ext"],
        why: BACK_ENDS,
    },
    Floor {
        place: "crates/weir-linux/src/backends/sched_ext",
        above: &["backends::cpu_max"],
        why: BACK_ENDS,
    },
    Floor {
        place: "crates/weir-linux/src/backends/eligibility.rs",
        above: &["backends::cpu_max", "backends::sched_ext"],
        why: BACK_ENDS,
    },
    Floor {
        place: "crates/weir-linux/src/backends/process_home.rs",
        above: &["backends::cpu_max", "backends::sched_ext"],
        why: BACK_ENDS,
    },
    Floor {
        place: "crates/weir-linux/src/backends/target.rs",
        above: &["backends::cpu_max", "backends::sched_ext"],
        why: BACK_ENDS,
    },
];
const ROOMS: &str = "kernel, leases, inventory, counters, workloads, task_traffic, backends, platform: each room uses those \
     before it";
const BACK_ENDS: &str = "no back end knows another, and what they share knows none";

/// Modules above that a file names: as `crate::…`, or by way of `super`. `module` is the path of the file's
/// own module.
fn steps_up(source: &str, above: &[&str], module: &[&str]) -> syn::Result<Vec<String>> {
    let is_above = |path: &String| {
        let mut words: Vec<&str> = path.split("::").collect();
        let supers = words.iter().take_while(|word| **word == "super").count();
        let base: &[&str] = match (words.first(), module.len().checked_sub(supers)) {
            (Some(&"crate"), _) => {
                words.remove(0);
                &[]
            }
            (_, Some(stay)) if supers > 0 => {
                words.drain(..supers);
                &module[..stay]
            }
            _ => return false,
        };
        let whole = format!("{}::", [base, words.as_slice()].concat().join("::"));
        let mut modules = above.iter().map(|module| format!("{module}::"));
        modules.any(|module| whole.starts_with(&module))
    };
    Ok(Paths::of(source)?.into_iter().filter(is_above).collect())
}

/// The path of the module in a file of a crate.
fn module_of(file: &Path) -> Vec<&str> {
    let below = file.components().skip_while(|c| c.as_os_str() != "src");
    let words = below.skip(1).filter_map(|c| c.as_os_str().to_str());
    let mut module: Vec<&str> = words.map(|word| word.trim_end_matches(".rs")).collect();
    module.pop_if(|last| *last == "mod");
    module
}

#[test]
fn floors_lie_on_each_other() {
    let root = xtask::repository_root();
    for floor in FLOORS {
        let mut files = Vec::new();
        if floor.place.ends_with(".rs") {
            files.push(root.join(floor.place))
        } else {
            rust_files(&root.join(floor.place), &mut files)
        }
        assert!(!files.is_empty(), "{} has no source", floor.place);
        for file in files {
            // Tests see what the rooms above make of it.
            let name = file.to_string_lossy();
            if name.ends_with("_tests.rs") || name.ends_with("/tests.rs") {
                continue;
            }
            let below = file.strip_prefix(&root).expect("below the root");
            let source = std::fs::read_to_string(&file).expect("a readable file");
            let found = steps_up(&source, floor.above, &module_of(below));
            let found = found.unwrap_or_else(|e| panic!("{}: {e}", file.display()));
            let (name, why) = (file.display(), floor.why);
            assert!(found.is_empty(), "{name} uses {found:?} from above: {why}");
        }
    }
}

#[test]
fn steps_up_are_found_however_they_are_written() {
    let found = |source| {
        let module = module_of(Path::new("crates/weir-linux/src/leases/undo.rs"));
        steps_up(source, &["backends", "workloads"], &module).expect("Rust")
    };
    assert_eq!(
        found("use crate::{error::E, backends::cpu_max::Lease};"),
        ["crate::backends::cpu_max::Lease"]
    );
    assert_eq!(
        found("use super::super::workloads as w;"),
        ["super::super::workloads"]
    );
    assert_eq!(
        found("fn f() { crate::backends::limits(); }"),
        ["crate::backends::limits"]
    );
    assert_eq!(
        found("struct S(crate::workloads::View);"),
        ["crate::workloads::View"]
    );
    assert_eq!(found("use crate::workloads;"), ["crate::workloads"]);
    assert_eq!(found("pub use crate::backends::*;"), ["crate::backends::*"]);
    assert!(found("use crate::kernel::files; use super::workloads;").is_empty());
    assert!(found("#[cfg(test)] mod tests { use crate::backends::X; }").is_empty());
    let beside = |source| {
        let module = module_of(Path::new("crates/weir-linux/src/backends/sched_ext/mod.rs"));
        steps_up(source, &["backends::cpu_max"], &module).expect("Rust")
    };
    assert_eq!(
        beside("use super::cpu_max::lease;"),
        ["super::cpu_max::lease"]
    );
    assert_eq!(
        beside("use crate::backends::{cpu_max::lease, target};"),
        ["crate::backends::cpu_max::lease"]
    );
    assert!(beside("use super::{target, cpu_max_of}; use super::super::kernel;").is_empty());
}
