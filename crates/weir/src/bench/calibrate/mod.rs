// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weir calibrate`: the loaded-latency curve and the knee of a device, measured on the running machine.
//! Reading order: [`cli`] what can be said, [`placement`] where it takes place, [`measurement`] what
//! measures, [`search`] which load comes next, [`device_profile`] the profile that is kept, [`render`] what
//! is printed.
//!
//! The knee is [`weir_core::knee`]'s, as in the simulator and in the controller: one definition.

pub mod cli;
mod measurement;
pub mod placement;
mod render;
mod search;

use crate::cli::device_profile::{self, Profile, ProfilePlace, StoredKnee, StoredPoint};
use crate::cli::exit::{Exit, print, print_json};
use crate::cli::output::wall_clock::wall_unix_ms;
use crate::run::platform;
use crate::run::screens::publish;
use anyhow::{Context, Result, bail};
use cli::CalibrateArgs;
use measurement::Measurement;
pub use measurement::idle_latency;
use placement::Placement;
use render::{Decision, Outcome};
use search::Point;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use weir_bench::cpu::{now_ns, spin_step_ns};
use weir_core::BytesPerSec;
use weir_core::knee::NoKnee;
use weir_figures::text;
use weir_linux::{Roots, Traffic};

/// Shorter is no measurement.
const BUDGET_MIN_NS: u64 = 2_000_000_000;
const BUDGET_MAX_NS: u64 = 3_600_000_000_000;
/// The budget is divided by this: one part is for what stands for itself beside the points, and one is what
/// making the buffers may take.
const PARTS: u64 = 8;
/// No point needs longer.
const POINT_MAX_NS: u64 = 5_000_000_000;
/// Others' traffic above this part of the knee is a note; above the next one no profile is kept.
const OTHERS_NOTED: f64 = 0.02;
const OTHERS_MAX: f64 = 0.1;
/// Above this scatter of the idle latency nothing is known.
const SCATTER_MAX: f64 = 0.1;
/// The part of the knee that is recommended. The rest is left for what a controller cannot foresee
/// (`headroom_ratio`'s default).
pub const RECOMMENDED: f64 = 0.9;

/// Measures.
///
/// # Errors
/// There is nothing to measure, or no place for it.
pub fn calibrate(args: &CalibrateArgs, roots: &Roots) -> Result<Exit> {
    let budget_ns = u64::try_from(args.max_duration.0.as_nanos()).unwrap_or(u64::MAX);
    if !(BUDGET_MIN_NS..=BUDGET_MAX_NS).contains(&budget_ns) {
        bail!(
            "--max-duration is {:?}: allowed are 2s to 1h",
            args.max_duration.0
        );
    }
    check_no_limits(&roots.run)?;
    args.mix.mix().check()?;
    let named = args.nodes(roots)?;
    let traffic = Traffic::open(roots, platform::counters(args.counters), &named)
        .map_err(platform::or_simulated)
        .context("cannot calibrate")?;
    let site = Placement::choose(args, roots, &traffic)?;
    let path = match &args.out {
        Some(path) => path.clone(),
        None => device_profile::path(&roots.state, &site.device.name),
    };
    let place = ProfilePlace::ready(&path, args.out.is_none())?;
    let stop = watch()?;
    // If memory runs out all the same, the kernel kills this process first.
    let oom_preference = weir_bench::memory::prefer_oom_kill();
    announce(&site, budget_ns, oom_preference.is_err());
    let outcome = measured(args, &site, traffic, budget_ns, stop)?;
    finish(args, outcome, place)
}

/// Refuses while a weir process limits here: it would limit the load as well.
///
/// # Errors
/// One does.
pub fn check_no_limits(run: &Path) -> Result<()> {
    let other = publish::head(&run.join(publish::FILE_NAME));
    match other.filter(|other| other.limiting && other.is_live(wall_unix_ms())) {
        Some(other) => bail!(
            "weir {pid} limits here, and would limit the load of a measurement: stop it first (kill -TERM {pid})",
            pid = other.writer_pid
        ),
        None => Ok(()),
    }
}

/// Watches for signals that end a command: 1 from the first on.
///
/// # Errors
/// The process cannot watch for them.
pub fn watch() -> Result<Arc<AtomicUsize>> {
    let stop = Arc::new(AtomicUsize::new(0));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register_usize(signal, Arc::clone(&stop), 1)
            .context("cannot watch for signals")?;
    }
    Ok(stop)
}

fn say(line: &str) {
    // A closed stderr is no reason to stop.
    let _ = writeln!(io::stderr(), "{line}");
}

fn announce(site: &Placement, budget_ns: u64, may_oom_others: bool) {
    let mib = |bytes: u64| bytes >> 20;
    let (count, memory) = (site.load_cpus.len(), mib(site.thread_bytes));
    say(&format!(
        "{} ({}) on node {}: {count} threads with {memory} MiB each load it, cpu{} measures on {} MiB; up to {} s, \
         and other users of the device are slow meanwhile",
        site.device.id,
        text::harmless(&site.device.name),
        site.node,
        site.probe_cpu,
        mib(site.ring_bytes),
        budget_ns / 1_000_000_000
    ));
    if may_oom_others {
        say(
            "oom_score_adj cannot be set: should memory run out, the kernel may choose another process",
        );
    }
    match site.cache_bytes {
        Some(cache) if site.ring_bytes < 2 * cache => say(&format!(
            "the last-level cache has {} MiB, and a part of the ring stays in it: latencies come out too low; \
             --memory gives more",
            mib(cache)
        )),
        Some(_) => {}
        None => say(
            "the size of the last-level cache is not known: if it is large, latencies come out too low",
        ),
    }
}

/// The curve and the knee of a place, kept nowhere.
///
/// # Errors
/// There is no memory or CPU, or nothing was known yet when it was stopped.
pub fn curve(
    args: &CalibrateArgs,
    site: &Placement,
    traffic: Traffic,
    stop: Arc<AtomicUsize>,
) -> Result<Outcome> {
    let budget_ns = u64::try_from(args.max_duration.0.as_nanos()).unwrap_or(u64::MAX);
    measured(args, site, traffic, budget_ns, stop)
}

fn measured(
    args: &CalibrateArgs,
    site: &Placement,
    traffic: Traffic,
    budget_ns: u64,
    stop: Arc<AtomicUsize>,
) -> Result<Outcome> {
    let end = now_ns().saturating_add(budget_ns);
    let span_ns = (budget_ns / (search::POINTS_MAX as u64 + PARTS)).min(POINT_MAX_NS);
    let dram = dram_latency(site, span_ns);
    let mut rig = Measurement::ready(site, args.mix.mix(), traffic, stop)?;
    let before = rig.others(span_ns)?;
    let Some(idle) = rig.measure(None, span_ns)? else {
        bail!("stopped before anything was known");
    };
    progress(&idle);
    let mut is_late = false;
    let mut measure = |delay: u64| {
        is_late = now_ns().saturating_add(span_ns) > end;
        if is_late {
            return Ok(None);
        }
        let point = rig.measure(Some(delay), span_ns)?;
        point.iter().for_each(progress);
        Ok(point)
    };
    let points = search::search(idle, spin_step_ns(), &mut measure)?;
    let after = rig.others(span_ns)?;
    let knee = search::knee(&points);
    let was_stopped = rig.is_stopped();
    let profile = Profile {
        node: site.node,
        size_bytes: site.device_bytes,
        threads: u32::try_from(site.load_cpus.len())?,
        mix: args.mix.name().to_owned(),
        bandwidth_from: if rig.is_counted() {
            "counters"
        } else {
            "threads"
        }
        .to_owned(),
        complete: !was_stopped && !is_late,
        idle_latency_ns: idle.latency.mean_ns,
        dram_latency_ns: dram,
        others_bytes_per_sec: before.into_iter().chain(after).reduce(f64::max),
        knee: knee.as_ref().ok().map(|knee| StoredKnee {
            bandwidth_bytes_per_sec: knee.bytes_per_sec.get(),
            latency_ns: knee.latency_ns.0 as f64,
            fit_error_ratio: knee.fit_error_ratio,
        }),
        points: points.iter().map(stored_point).collect(),
        ..Profile::begun(&site.device.name)
    };
    Ok(Outcome {
        verdict: verdict(
            args.allow_other_traffic,
            &profile,
            knee.as_ref().err(),
            was_stopped,
        ),
        profile,
        kept_in: None,
    })
}

fn dram_latency(site: &Placement, span_ns: u64) -> Option<f64> {
    let (node, may_use) = site.cpu_node?;
    let bytes = site.ring_bytes;
    if bytes > may_use {
        say(&format!(
            "node {node} has too little free memory to compare with"
        ));
        return None;
    }
    match measurement::idle_latency(bytes, node, site.probe_cpu, span_ns) {
        Ok(timing) => {
            say(&format!(
                "{:>11}  {:>9.1} ns  node {node}, for comparison",
                "", timing.mean_ns
            ));
            Some(timing.mean_ns)
        }
        Err(why) => {
            say(&format!(
                "node {node} cannot be compared with: {}",
                text::harmless(&format!("{why:#}"))
            ));
            None
        }
    }
}

fn progress(point: &Point) {
    let rate = text::rate(BytesPerSec::new(point.bytes_per_sec));
    let (mean, error) = (point.latency.mean_ns, point.latency.error_ratio * 100.0);
    say(&format!("{rate:>11}  {mean:>9.1} ns  ± {error:.1} %"));
}

fn stored_point(point: &Point) -> StoredPoint {
    StoredPoint {
        bandwidth_bytes_per_sec: point.bytes_per_sec,
        latency_ns: point.latency.mean_ns,
        latency_median_ns: point.latency.median_ns,
        latency_p99_ns: point.latency.p99_ns,
        latency_error_ratio: point.latency.error_ratio,
    }
}

/// What comes of it, and what is to be known beside. Where the latency without load is hardly known, or
/// others move so much that the latencies have them in them, no profile is kept, unless the operator has said
/// that others are there.
fn verdict(busy: bool, profile: &Profile, no_knee: Option<&NoKnee>, was_stopped: bool) -> Decision {
    let mut verdict = Decision::default();
    if was_stopped {
        verdict
            .notes
            .push("it was interrupted: less was measured than was meant to be".to_owned());
    } else if !profile.complete {
        verdict.notes.push(
            "the time was over before the knee was searched closely: give it more --max-duration"
                .to_owned(),
        );
    }
    if profile.bandwidth_from == "threads" {
        verdict.notes.push(
            "no counters: the bandwidth is that of the threads' own accesses, and traffic of others was not seen".to_owned(),
        );
    }
    let Some(knee) = &profile.knee else {
        verdict.lacking = no_knee.map(why_no_knee);
        return verdict;
    };
    let scatter = profile.points.first().map(|idle| idle.latency_error_ratio);
    if let Some(scatter) = scatter.filter(|s| *s > SCATTER_MAX && !busy) {
        verdict.lacking = Some(format!(
            "latency without load is known to ± {} only: repeat it when the CPUs have time, or keep it with --allow-other-traffic",
            text::whole_percent(scatter)
        ));
        return verdict;
    }
    let others = profile.others_bytes_per_sec.unwrap_or(0.0);
    let part = others / knee.bandwidth_bytes_per_sec;
    let note = format!(
        "others moved {} ({}), which the latencies have in them",
        text::rate(BytesPerSec::new(others)),
        text::whole_percent(part)
    );
    if part > OTHERS_MAX && !busy {
        verdict.lacking = Some(format!(
            "{note}: repeat it when the device is quiet, or keep it with --allow-other-traffic"
        ));
    } else if part > OTHERS_NOTED {
        verdict.notes.push(note);
    }
    verdict
}

fn why_no_knee(why: &NoKnee) -> String {
    let shown = |value: &f64| text::rate(BytesPerSec::new(*value));
    match why {
        NoKnee::TooFew { points } => {
            format!("no knee: {points} different loads are too few; give it more --max-duration")
        }
        NoKnee::NotReached { highest } => format!(
            "no knee: latency has not taken off up to {}; more --threads load the device more",
            shown(highest)
        ),
        NoKnee::Passed { lowest } => format!(
            "no knee: latency has taken off at {} already: do others use the device?",
            shown(lowest)
        ),
    }
}

fn finish(args: &CalibrateArgs, mut outcome: Outcome, place: ProfilePlace) -> Result<Exit> {
    // A bad profile must not replace an earlier one. A file of --out is written in any case.
    if outcome.verdict.lacking.is_none() || args.out.is_some() {
        let path = place.keep(&outcome.profile)?;
        outcome.kept_in = Some(path.to_string_lossy().into_owned());
    }
    if args.json {
        print_json(&outcome.json())?;
    } else {
        print(&render::page(&outcome))?;
    }
    Ok(match outcome.verdict.lacking {
        None => Exit::Done,
        Some(_) => Exit::Finding,
    })
}
