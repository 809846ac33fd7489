// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weir sim type2`: the model of a CXL Type-2 device (`weir_type2`) beside the paper's figures.
//!
//! ```text
//! cli ─┬─► figures ─► text, JSON, page     all tables
//!      ├─► follow ──► chart                one access with its times
//!      ├─► explored ► counts or a chart    every interleaving
//!      └─► engines ─► bytes and clocks     an engine on a file
//! ```

pub mod cli;
mod engines;
mod explored;
mod figures;
mod follow;
mod lz4_frame;
mod page;
mod paper;
mod text;

use anyhow::{Context, Result, anyhow};
use cli::Type2Args;
use figures::AllFigures;
use weir::lab::builtin_scenarios::{one_line, read_at_most};
use weir::lab::process_cpu;
use weir::lab::{Exit, print, print_json};
use weir_figures::text::harmless;
use weir_type2::time::{Type2Machine, Type2Profile};
use weir_type2::{DeviceOp, LineHome};

/// Does it.
///
/// # Errors
/// The profile cannot be read or is wrong, the states exclude each other, a file cannot be read or written,
/// or an engine refuses it.
pub fn type2(args: &Type2Args) -> Result<Exit> {
    if let Some(engine) = args.engine {
        return engines::run(args, engine);
    }
    if args.explore {
        return explored::explore(args);
    }
    let profile = profile(args)?;
    if let Some(op) = args.op {
        return follow::follow(args, op, &profile);
    }
    let all = AllFigures::new(&profile)?;
    if let Some(dir) = &args.out {
        for file in page::write(dir, &profile, &all)? {
            eprintln!("wrote {}", harmless(&file.display().to_string()));
        }
    }
    if args.json {
        print_json(&all)?;
    } else {
        print(&text::text(&all))?;
        say_speed(&profile);
    }
    Ok(Exit::Done)
}

/// The largest profile that is read.
const PROFILE_BYTES_MAX: u64 = 1 << 20;

fn profile(args: &Type2Args) -> Result<Type2Profile> {
    let Some(path) = &args.profile else {
        return Ok(Type2Profile::agilex7()?);
    };
    let name = harmless(&path.display().to_string());
    let text =
        read_at_most(path, PROFILE_BYTES_MAX).with_context(|| format!("cannot read {name}"))?;
    Type2Profile::parse(&text, &name).map_err(|error| anyhow!(one_line(&error.to_string())))
}

/// Accesses of the measurement of speed.
const SPEED_ACCESSES: u32 = 1_000_000;

/// How fast the model is here: no figure of the model, so it goes where messages go.
fn say_speed(profile: &Type2Profile) {
    let mut machine = Type2Machine::new(profile);
    let before = process_cpu();
    for n in 0..SPEED_ACCESSES {
        let op = DeviceOp::ALL[n as usize % DeviceOp::ALL.len()];
        let at = f64::from(n) * profile.pace.accelerator_clock_ns;
        let line = u64::from(n.wrapping_mul(2_654_435_761) >> 12);
        machine.device_access(at, op, LineHome::HostMemory, line);
    }
    let seconds = process_cpu().0.saturating_sub(before.0) as f64 / 1e9;
    let millions = f64::from(SPEED_ACCESSES) / seconds / 1e6;
    eprintln!("the model follows {millions:.1} million accesses in a CPU-second of this machine");
}
