// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the repository does to itself: code generation from `contract/`, and (as tests) the checks
//! that keep it tidy.
//!
//! - [`map`]: the register map as data, checked;
//! - [`render`]: its Rust and C views; [`render_scala`]: the one for the RTL;
//! - [`generate`]: writes the views, or says which are stale;
//! - [`generate_reference`]: the same for the generated parts of `docs/reference`.
//!
//! The checks are tests, so that `cargo test -p xtask` is all there is to remember. In `tests/all`:
//! `generated.rs` (views are fresh), `dependencies.rs` (which crate may use which), `tidy.rs` (sizes, licence
//! lines, what must not stand in a file), `clocks.rs` (no verdict of a test hangs on a clock), `docs.rs`
//! (links lead somewhere, pages are short).

mod layout;
pub mod map;
pub mod render;
pub mod render_scala;

use anyhow::{Context, bail};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const SOURCE: &str = "contract/registers.toml";

/// The root of the checkout this was built in.
pub fn repository_root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_path_buf()
}

/// Renders all views of the register map below `root`. With `check` nothing is written.
///
/// # Errors
/// The map is wrong, a file cannot be read or written, or (with `check`) a view is stale.
pub fn generate(root: &Path, check: bool) -> anyhow::Result<()> {
    let source = root.join(SOURCE);
    let text =
        fs::read_to_string(&source).with_context(|| format!("cannot read {}", source.display()))?;
    let map = map::parse(&text)?;
    let views = [
        (
            "crates/weir-hw/src/access_counters/regmap.rs",
            render::rust(&map),
        ),
        ("kernel/access_counters/weir_regs.h", render::c(&map)),
        (
            "rtl/src/main/scala/weir/access_counters/RegisterMap.scala",
            render_scala::scala(&map),
        ),
    ];
    let mut stale = Vec::new();
    for (name, wanted) in views {
        let path = root.join(name);
        let found = fs::read_to_string(&path).unwrap_or_default();
        if found == wanted {
            continue;
        }
        if check {
            stale.push(format!("{name}{}", first_difference(&found, &wanted)));
        } else {
            fs::write(&path, wanted).with_context(|| format!("cannot write {}", path.display()))?;
            println!("wrote {name}");
        }
    }
    if !stale.is_empty() {
        bail!(
            "not what {SOURCE} says; run `cargo xtask generate`:\n  {}",
            stale.join("\n  ")
        );
    }
    Ok(())
}

/// Writes the generated parts of `docs/reference`, or with `check` compares them. They are made of what is
/// compiled into `weir` and `weir-eval`, so tests of these programs make them: the programs themselves do not
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
        "weir-eval",
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
