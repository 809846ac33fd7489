// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the repository does to itself: code generation from `contract/`, and (as tests) the checks
//! that keep it tidy.
//!
//! - [`map`]: the register map of the access counters as data, checked; [`accelerator`]: the accelerator's
//!   contract;
//! - [`view`]: either as its renderers see it; [`render`]: views in Rust and C; [`render_scala`]: for the
//!   RTL;
//! - [`generate`]: writes the views, or says which are stale;
//! - [`generate_reference`]: the same for the generated parts of `docs/reference`.
//!
//! The checks are tests, so that `cargo test -p xtask` is all there is to remember. In `tests/all`:
//! `generated.rs` (views are fresh), `dependencies.rs` (which crate may use which), `tidy.rs` (sizes, licence
//! lines, what must not stand in a file), `clocks.rs` (no verdict of a test hangs on a clock), `docs.rs`
//! (links lead somewhere, pages are short).

pub mod accelerator;
pub mod access_counters;
mod layout;
pub mod map;
pub mod render;
pub mod render_scala;
pub mod view;

use anyhow::{Context, bail};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The root of the checkout this was built in.
pub fn repository_root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_path_buf()
}

/// A contract's view and the files that it is rendered into: Rust, C, Scala.
struct Rendered {
    view: view::View,
    files: [&'static str; 3],
}

fn contracts(root: &Path) -> anyhow::Result<[Rendered; 2]> {
    let read = |name: &str| {
        let path = root.join(name);
        fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))
    };
    let counters = "contract/registers.toml";
    let map = map::parse(&read(counters)?).context(counters)?;
    let accelerator = "contract/accelerator.toml";
    let contract = accelerator::parse(&read(accelerator)?).context(accelerator)?;
    Ok([
        Rendered {
            view: access_counters::view(&map),
            files: [
                "crates/weir-hw/src/access_counters/regmap.rs",
                "kernel/access_counters/weir_regs.h",
                "rtl/src/main/scala/weir/access_counters/RegisterMap.scala",
            ],
        },
        Rendered {
            view: contract.view(),
            files: [
                "crates/weir-type2/src/engines/accelerator_regs.rs",
                "kernel/accelerator/weir_accel_regs.h",
                "rtl/src/main/scala/weir/accelerator/AcceleratorMap.scala",
            ],
        },
    ])
}

/// Renders all views of the contracts below `root`. With `check` nothing is written.
///
/// # Errors
/// A contract is wrong, a file cannot be read or written, or (with `check`) a view is stale.
pub fn generate(root: &Path, check: bool) -> anyhow::Result<()> {
    let mut stale = Vec::new();
    for Rendered { view, files } in contracts(root)? {
        let texts = [
            render::rust(&view),
            render::c(&view),
            render_scala::scala(&view),
        ];
        for (name, wanted) in files.into_iter().zip(texts) {
            let path = root.join(name);
            let found = fs::read_to_string(&path).unwrap_or_default();
            if found == wanted {
                continue;
            }
            if check {
                let difference = first_difference(&found, &wanted);
                stale.push(format!("{name}{difference} ({})", view.source));
            } else {
                fs::write(&path, wanted)
                    .with_context(|| format!("cannot write {}", path.display()))?;
                println!("wrote {name}");
            }
        }
    }
    if !stale.is_empty() {
        bail!(
            "not what the contract says; run `cargo xtask generate`:\n  {}",
            stale.join("\n  ")
        );
    }
    Ok(())
}

/// Writes the generated parts of `docs/reference`, or with `check` compares them. They are made of what is
/// compiled into `weir` and `weir-lab`, so tests of these programs make them: the programs themselves do not
/// carry the generator.
///
/// # Errors
/// cargo cannot be run, the test does not build, or (with `check`) a page is stale.
pub fn generate_reference(root: &Path, check: bool) -> anyhow::Result<()> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut test = Command::new(cargo);
    test.args([
        "test",
        "--quiet",
        "--release",
        "-p",
        "weir",
        "-p",
        "weir-lab",
        "--lib",
        "--bins",
    ])
    .args([
        "reference_pages_are_what_the_program_says",
        "--",
        "--nocapture",
    ])
    .current_dir(root);
    if !check {
        test.env("WEIR_WRITE_REFERENCE", "1");
    }
    let status = test.status().context("cannot run cargo")?;
    if !status.success() {
        bail!("docs/reference is not what the program says, or it does not build: see above");
    }
    Ok(())
}

fn first_difference(found: &str, wanted: &str) -> String {
    if found.is_empty() {
        return ": missing or empty".into();
    }
    let same = found
        .lines()
        .zip(wanted.lines())
        .take_while(|(a, b)| a == b)
        .count();
    let at = |text: &str| text.lines().nth(same).unwrap_or("(end of file)").to_owned();
    format!(
        ":{}: has `{}`, should have `{}`",
        same + 1,
        at(found),
        at(wanted)
    )
}
