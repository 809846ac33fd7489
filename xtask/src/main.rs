// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `cargo xtask generate [--check]`: renders the views of `contract/`, or compares them.
//!
//! Exit status: 0 done, 1 a view is stale or the map is wrong, 2 wrong usage.

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
    match xtask::generate(&xtask::repository_root(), check) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}
