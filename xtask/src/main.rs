// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `cargo xtask generate [--check]`: renders the views of `contract/` and the generated parts of
//! `docs/reference`, or compares them.
//!
//! Exit status: 0 done, 1 something is stale or the map is wrong, 2 wrong usage.

use std::process::ExitCode;

const USAGE: &str = "usage: cargo xtask generate [--check]";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let check = match words.as_slice() {
        ["generate"] => false,
        ["generate", "--check"] => true,
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    let root = xtask::repository_root();
    match xtask::generate(&root, check).and_then(|()| xtask::generate_reference(&root, check)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}
