// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weir sim dram`: a trace through a DRAM channel, beside the bounds that no channel exceeds.

pub mod cli;
mod figures;

use anyhow::{Context, Result, bail};
use cli::DramArgs;
use figures::DramRun;
use rustix::time::{ClockId, clock_gettime};
use std::path::Path;
use weir::lab::builtin_scenarios::{one_line, read_at_most};
use weir::lab::perhaps;
use weir::lab::{Exit, print, print_json};
use weir_dram::{
    ChannelSettings, DramChannel, DramProfile, PEERS_SEED, PatternTrace, ReplaySpan, TraceLine,
    TracePattern, read_trace, replay,
};
use weir_figures::text::harmless;

/// Requests of a made pattern.
const REQUESTS: u64 = 1_000_000;
/// Largest profile and largest trace, bytes.
const PROFILE_BYTES_MAX: u64 = 1 << 20;
const TRACE_BYTES_MAX: u64 = 1 << 30;

/// Replays the trace and prints its figures.
///
/// # Errors
/// A name is not known, a file cannot be read or is malformed, or two arguments contradict each other.
pub fn dram(args: &DramArgs) -> Result<Exit> {
    let profile = profile(&args.profile)?;
    let settings = ChannelSettings {
        mapping: args.mapping,
        page: args.page,
        entries: args.queue,
        bank_entries: args.bank_queue,
        ..ChannelSettings::PEERS
    };
    let order = args.order.order(&profile, args.queue);
    let mut channel = DramChannel::new(&profile, settings, order);
    let requests = args.requests;
    let (span, seconds) = match TracePattern::named(&args.trace) {
        Some(pattern) => {
            let writes = args.writes.unwrap_or(0);
            let seed = args.seed.unwrap_or(PEERS_SEED);
            let lines = PatternTrace::new(pattern, &profile.organisation, writes, seed);
            timed(&mut channel, lines, requests.unwrap_or(REQUESTS))?
        }
        None => {
            let lines = trace(args)?;
            let requests = requests.unwrap_or(lines.len() as u64);
            timed(&mut channel, lines.into_iter().cycle(), requests)?
        }
    };
    let run = DramRun::new(args, &profile, &channel, span, seconds);
    if args.json {
        print_json(&run)?;
    } else {
        print(&run.text(&profile))?;
    }
    Ok(Exit::Done)
}

/// Replays so many requests; how long that took, in seconds of CPU time.
fn timed(
    channel: &mut DramChannel,
    lines: impl Iterator<Item = TraceLine>,
    requests: u64,
) -> Result<(ReplaySpan, f64)> {
    let begun = cpu_seconds();
    let span = replay(channel, lines.take(usize::try_from(requests)?));
    Ok((span, cpu_seconds() - begun))
}

/// CPU time of this thread so far, seconds.
fn cpu_seconds() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

/// Whether a name looks like the path of a file.
fn is_path(name: &str) -> bool {
    name.contains('/') || name.contains('.') || Path::new(name).is_file()
}

fn profile(name: &str) -> Result<DramProfile> {
    let known = DramProfile::names();
    if known.contains(&name) {
        return Ok(DramProfile::named(name)?);
    }
    if !is_path(name) {
        bail!(
            "no DRAM profile is called `{}`{}: use one of {}, or the path of a TOML file",
            harmless(name),
            perhaps(name, &known),
            known.join(", ")
        );
    }
    let text = read_at_most(Path::new(name), PROFILE_BYTES_MAX)
        .with_context(|| format!("cannot read the profile {}", harmless(name)))?;
    match DramProfile::parse(&text, name) {
        Ok(profile) => Ok(profile),
        Err(error) => bail!("{}", one_line(&error.to_string())),
    }
}

fn trace(args: &DramArgs) -> Result<Vec<TraceLine>> {
    let name = &args.trace;
    if !is_path(name) {
        let known = TracePattern::ALL.map(|(name, _)| name);
        bail!(
            "no trace is called `{}`{}: use one of {}, or the path of a file",
            harmless(name),
            perhaps(name, &known),
            known.join(", ")
        );
    }
    if args.writes.is_some() {
        bail!("--writes is for made patterns: a file says of each request whether it is a write");
    }
    if args.seed.is_some() {
        bail!("--seed is for made patterns: a file has its addresses");
    }
    let text = read_at_most(Path::new(name), TRACE_BYTES_MAX)
        .with_context(|| format!("cannot read the trace {}", harmless(name)))?;
    Ok(read_trace(&text, name)?)
}
