// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `cargo run -p weir-hw --release --example calibrate [-- --write]`: fits the profiles to the
//! measured curves, prints what is left of error per curve, and with `--write` replaces the files
//! in `crates/weir-hw/profiles/`. The same data gives the same files.

mod fit;
mod measured;
mod simplex;
mod thesis;

use measured::{Verdict, active_threads, assess, curves};
use std::path::Path;
use weir_hw::memory_device::Profile;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let write = match std::env::args().skip(1).collect::<Vec<_>>().as_slice() {
        [] => false,
        [flag] if flag == "--write" => true,
        _ => return Err("usage: calibrate [--write]".into()),
    };
    let all = curves();
    for (device, name) in [("cxl", "asic-x16"), ("ddr5", "ddr5-2ch")] {
        let base = Profile::named(name)?;
        let fitted = fit::fit(&base, device, &all);
        if write {
            let path = Path::new(env!("CARGO_MANIFEST_DIR"))
                .join("profiles")
                .join(format!("{name}.toml"));
            std::fs::write(&path, document(&fitted)?)?;
            eprintln!("wrote profiles/{name}.toml");
        } else if fitted != base {
            eprintln!("profiles/{name}.toml is not what the data gives; run with --write");
        }
        println!(
            "\n### `{name}` (serial share {})\n",
            fitted.host.serial_share
        );
        println!("{}", Verdict::head());
        for curve in all.iter().filter(|c| c.device == device) {
            println!("{}", assess(&fitted, curve, active_threads(curve, &all)));
        }
    }
    let profile = Profile::named("asic-x16")?;
    println!("\n### `asic-x16` at thread counts that it was not fitted to\n");
    println!("{}", Verdict::head());
    for curve in measured::held_out() {
        println!("{}", assess(&profile, &curve, f64::from(curve.threads)));
    }
    thesis::report()?;
    Ok(())
}

fn document(profile: &Profile) -> Result<String, Box<dyn std::error::Error>> {
    let head = "# SPDX-License-Identifier: Apache-2.0 OR MIT\n\
        # Written by `cargo run -p weir-hw --release --example calibrate -- --write`; \
        meaning of the keys: docs/explanation/device-model.md.\n";
    Ok(format!("{head}{}", pairs_on_one_line(&profile.to_toml()?)))
}

/// The TOML writer puts each number on a line of its own; pairs read better as pairs.
fn pairs_on_one_line(text: &str) -> String {
    let mut out = String::new();
    let mut in_pair = false;
    for line in text.lines() {
        match (line.trim(), line.starts_with("    [")) {
            ("[", true) => {
                in_pair = true;
                out.push_str("    [");
            }
            ("],", _) if in_pair => {
                in_pair = false;
                out.truncate(out.trim_end_matches([',', ' ']).len());
                out.push_str("],\n");
            }
            (number, _) if in_pair => {
                out.push_str(number);
                out.push(' ');
            }
            _ => {
                out.push_str(line);
                out.push('\n');
            }
        }
    }
    out
}
