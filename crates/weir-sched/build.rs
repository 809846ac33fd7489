// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Builds the scheduler's arithmetic for this machine, and makes Rust constants of its settings.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

fn main() {
    // Relative to the package, where cargo runs this: the same in a checkout that was moved.
    let sched = Path::new("../../bpf/sched");
    let (header, host) = (sched.join("weir_sched.h"), sched.join("host.c"));
    for file in [&header, &host, &sched.join("dove_tail.h")] {
        println!("cargo:rerun-if-changed={}", file.display());
    }
    cc::Build::new()
        .file(host)
        .include(sched)
        .warnings(true)
        .compile("weir_sched_host");
    let out = PathBuf::from(std::env::var_os("OUT_DIR").unwrap_or_default());
    let done = std::fs::read_to_string(&header)
        .map_err(|e| e.to_string())
        .and_then(|text| settings(&text))
        .and_then(|rust| std::fs::write(out.join("settings.rs"), rust).map_err(|e| e.to_string()));
    if let Err(why) = done {
        eprintln!("{}: {why}", header.display());
        std::process::exit(1);
    }
}

/// Rust constants of the header's block of settings: each a comment of one line and a decimal number.
fn settings(header: &str) -> Result<String, String> {
    let block = header
        .lines()
        .skip_while(|line| !line.starts_with(" * Settings of the scheduler"))
        .skip_while(|line| !line.starts_with("/* "))
        .take_while(|line| !line.is_empty());
    let (mut rust, mut doc) = (String::new(), None);
    for line in block {
        if let Some(text) = line.strip_prefix("/* ").and_then(|l| l.strip_suffix(" */")) {
            doc = Some(text);
            continue;
        }
        let setting = line.strip_prefix("#define WEIR_").zip(doc.take());
        let parts = setting.and_then(|(s, doc)| Some((s.split_once('\t')?, doc)));
        let ((name, value), doc) = parts.ok_or_else(|| format!("not a setting: {line}"))?;
        let value = value.trim().trim_end_matches("ULL");
        let value: u64 = value
            .parse()
            .map_err(|_| format!("no decimal number: {line}"))?;
        // Writing into a String cannot fail.
        let _ = writeln!(rust, "/// {doc}\npub const {name}: u64 = {value};");
    }
    if rust.is_empty() {
        return Err("its block of settings is missing".into());
    }
    Ok(rust)
}
