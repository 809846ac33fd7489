// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weir bench interference`: what streams of memory and storage traffic do to each other here.
//!
//! ```text
//! names ─► plan (which, in which order) ─► measurement (weir-bench) ─► cells ─► document (weir-report)
//! site, disk, program (where, what) ──────────┘                          conditions (facts, caveats) ──┘
//! ```
//!
//! `plan`, `placement` and `cells` are pure; `rounds` says what is measured next. A signal at any time leaves
//! what was measured in whole repetitions.

mod cells;
mod cross_check;
mod measurement;
pub mod names;
mod plan;
mod program;
mod progress;
mod result;
mod rounds;
mod setup;
mod site;
mod width;

use super::calibrate::{check_no_limits, watch};
use super::cli::BenchInterferenceArgs;
use crate::cli::exit::{Exit, print, print_json};
use anyhow::{Context, Result, bail, ensure};
use measurement::PairRig;
use names::{StreamOperation, StreamTarget};
use plan::{PairPlan, PlannedStream, TimePlan};
use program::groups::ProgramGroups;
use progress::{BenchProgress, time};
use regex_lite::Regex;
use rounds::PairRounds;
use setup::BenchSetup;
use site::BenchSite;
use site::conditions::{HostFacts, HostMoment, NOT_KNOWN, OTHERS_MAX_CPUS};
use site::disk::{self, DiskChoice};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant, SystemTime};
use weir_bench::storage::Engine;
use weir_figures::text::harmless;
use weir_linux::Roots;
use weir_report::interference::document::InterferenceDocument;

/// How long others are watched before the first measurement.
const WATCH: Duration = Duration::from_secs(1);

/// Measures.
///
/// # Errors
/// Nothing can be measured here, an argument names what is not there, or a file cannot be written.
pub fn interference(args: &BenchInterferenceArgs, roots: &Roots) -> Result<Exit> {
    check_no_limits(&roots.run)?;
    let begun = SystemTime::now();
    let figure = args
        .figure
        .as_deref()
        .map(Regex::new)
        .transpose()
        .context("--figure")?;
    if let Some(out) = &args.out {
        result::check_directory(out)?;
    }
    let stop = watch()?;
    let is_stopped = || stop.load(Ordering::Relaxed) > 0;
    let site = BenchSite::choose(args, roots)?;
    let mut missing = BTreeMap::new();
    let disk = disk::choose(args, roots)?;
    let pairs = pairs(args, &site, &disk, &mut missing)?;
    let kept_widths = width::kept(args.width, &pairs)?;
    let host = guard(args, roots, &site, &is_stopped)?;
    let time = TimePlan::of(&pairs, args.quick, args.seconds, args.repeats, 0.0);
    let progress = BenchProgress::new();
    announce(&progress, &site, &pairs, &time);
    if let Some(kept) = kept_widths {
        progress.say(&kept);
    }
    // If memory runs out all the same, the kernel kills this process first.
    if weir_bench::memory::prefer_oom_kill().is_err() {
        progress.say("oom_score_adj cannot be set: should memory run out, the kernel may choose another process");
    }
    let disk = open_disk(args, &pairs, disk, &progress, &is_stopped)?;
    let begin = RunBegin {
        begun,
        figure,
        site,
        pairs,
        disk,
        host,
        missing,
        time,
    };
    measured(args, roots, begin, &progress, &is_stopped)
}

/// What is known before the first measurement.
struct RunBegin {
    begun: SystemTime,
    figure: Option<Regex>,
    site: BenchSite,
    pairs: Vec<PairPlan>,
    disk: Option<Arc<weir_bench::storage::IoTarget>>,
    host: HostFacts,
    missing: BTreeMap<String, String>,
    time: TimePlan,
}

/// Measures all pairs and shows the result.
fn measured(
    args: &BenchInterferenceArgs,
    roots: &Roots,
    begin: RunBegin,
    progress: &BenchProgress,
    is_stopped: &dyn Fn() -> bool,
) -> Result<Exit> {
    let (site, disk, host, time) = (&begin.site, begin.disk, begin.host, begin.time);
    let mut groups = ProgramGroups::make(args, roots, progress);
    let mut setup = BenchSetup {
        site,
        width_bytes: args.width,
        disk: disk.clone(),
        block_bytes: args.block.0,
        depth: args.depth,
        engine: Engine::found(),
        io_node: args.io_node.unwrap_or(site.mmem),
        figure: begin.figure,
        cgroups: groups.paths(),
        time,
        is_virtual: host.is_virtual,
        seed: args.seed,
        is_stopped,
    };
    setup.time = with_preparation(args, &setup, &begin.pairs);
    let (before, clock) = (HostMoment::read(roots), Instant::now());
    let end = PairRounds::new(&setup, roots, progress, &begin.pairs)?.run()?;
    let mut caveats = host.caveats.clone();
    caveats.extend(HostMoment::read(roots).caveats(&before, clock.elapsed().as_secs_f64()));
    caveats.extend(end.caveats);
    let mut facts = host.facts.clone();
    facts.insert("frequency_seen".into(), end.frequency.fact());
    facts.insert("io_engine".into(), setup.engine.name().into());
    end.placements.facts(&mut facts);
    groups.facts(&mut facts);
    if end.was_stopped && end.samples.is_empty() {
        bail!("stopped before one repetition was whole: nothing is kept");
    }
    let checks = if args.cross_check && !end.was_stopped {
        cross_check::run(&setup, progress)
    } else {
        Vec::new()
    };
    let mut missing = begin.missing;
    missing.extend(end.missing);
    let document = result::document(&result::Parts {
        args,
        roots,
        site,
        disk: disk.as_deref(),
        begun: begin.begun,
        time: setup.time,
        cpu_model: &host.cpu_model,
        facts,
        caveats,
        missing,
        samples: &end.samples,
        checks: &checks,
    });
    shown(args, &document, &checks)?;
    Ok(if end.was_stopped {
        Exit::Trouble
    } else {
        Exit::Done
    })
}

/// The time plan, with what making streams takes here: those of the first pair are made and ended.
fn with_preparation(
    args: &BenchInterferenceArgs,
    setup: &BenchSetup<'_>,
    pairs: &[PairPlan],
) -> TimePlan {
    let begun = Instant::now();
    for pair in pairs.iter().take(1) {
        // What fails here fails again in the first round, where it is said.
        let _ = PairRig::prepare(setup, pair, &mut Vec::new());
    }
    let seconds = begun.elapsed().as_secs_f64();
    TimePlan::of(pairs, args.quick, args.seconds, args.repeats, seconds)
}

fn shown(
    args: &BenchInterferenceArgs,
    document: &InterferenceDocument,
    checks: &[cross_check::ToolCheck],
) -> Result<()> {
    if let Some(out) = &args.out {
        for file in result::write(out, document)? {
            eprintln!("wrote {}", harmless(&file.display().to_string()));
        }
    }
    let table = cross_check::table(checks);
    if args.json {
        eprint!("{table}");
        return print_json(&weir_report::interference::explained(document)?);
    }
    print(&format!(
        "{}{table}",
        weir_report::interference::terminal(document)
    ))
}

/// What is to be measured. What this machine cannot do goes to `missing`.
fn pairs(
    args: &BenchInterferenceArgs,
    site: &BenchSite,
    disk: &Result<DiskChoice, String>,
    missing: &mut BTreeMap<String, String>,
) -> Result<Vec<PairPlan>> {
    let mut targets = vec![StreamTarget::Mmem];
    match &site.cxl {
        Ok(_) => targets.push(StreamTarget::Cxl),
        Err(why) => drop(missing.insert("cxl".into(), why.clone())),
    }
    match disk {
        Ok(_) => targets.push(StreamTarget::Ssd),
        Err(why) => drop(missing.insert("ssd".into(), why.clone())),
    }
    let ways = args.ssd_io.ways();
    let wanted = match (&args.pair[..], &args.victim_run, &args.background_run) {
        ([], None, None) => plan::matrix(&targets, &args.ops, ways),
        ([], victim, background) => {
            with_programs(args, &targets, victim.as_ref(), background.as_ref())
        }
        (names, ..) => plan::named(names, ways),
    };
    let mut pairs = Vec::new();
    for sides in wanted {
        let lacking: Vec<(String, String)> = sides
            .iter()
            .filter_map(|stream| lack(args, stream, &targets, disk, missing))
            .collect();
        if lacking.is_empty() {
            let planned = plan::with_threads(sides, site.cpus.each(), args.quick);
            pairs.push(planned.map_err(anyhow::Error::msg)?);
        }
        missing.extend(lacking);
    }
    if pairs.is_empty() {
        let all: Vec<String> = missing
            .iter()
            .map(|(name, why)| format!("{name}: {why}"))
            .collect();
        bail!("nothing can be measured here: {}", all.join("; "));
    }
    Ok(pairs)
}

/// What stands in the way of a stream, by its name.
fn lack(
    args: &BenchInterferenceArgs,
    stream: &PlannedStream,
    targets: &[StreamTarget],
    disk: &Result<DiskChoice, String>,
    missing: &BTreeMap<String, String>,
) -> Option<(String, String)> {
    let PlannedStream::Ours { name, .. } = stream else {
        return None;
    };
    if !targets.contains(&name.target) {
        let target = name.target.name();
        let why = missing.get(target).cloned().unwrap_or_default();
        return Some((target.to_owned(), why));
    }
    let why = match name.operation {
        StreamOperation::Memory(operation) => operation.kernel(args.width).err()?.to_string(),
        StreamOperation::Storage(_) => match (plan::writes_storage(stream), disk) {
            (true, Ok(DiskChoice::Device(path, false))) => format!(
                "{} is only read: --write-device with its name once more allows writes",
                harmless(&path.display().to_string())
            ),
            _ => return None,
        },
    };
    Some((stream.label(), why))
}

/// Programs as streams: beside each other, or beside each operation on the slowest memory that is there.
fn with_programs(
    args: &BenchInterferenceArgs,
    targets: &[StreamTarget],
    victim: Option<&String>,
    background: Option<&String>,
) -> Vec<[PlannedStream; 2]> {
    let victim = victim.cloned().map(PlannedStream::VictimProgram);
    let background = background.cloned().map(PlannedStream::BackgroundProgram);
    match (victim, background) {
        (Some(victim), Some(background)) => vec![[victim, background]],
        (victim, background) => {
            let is_victim = victim.is_some();
            let program = victim.or(background).into_iter();
            let ours: Vec<PlannedStream> = plan::singles(targets, &args.ops, args.ssd_io.ways());
            let beside = |program: PlannedStream| {
                ours.clone().into_iter().map(move |stream| {
                    if is_victim {
                        [program.clone(), stream]
                    } else {
                        [stream, program.clone()]
                    }
                })
            };
            program.flat_map(beside).collect()
        }
    }
}

/// Facts of the machine. Refuses where others load it.
fn guard(
    args: &BenchInterferenceArgs,
    roots: &Roots,
    site: &BenchSite,
    is_stopped: &dyn Fn() -> bool,
) -> Result<HostFacts> {
    let host = HostFacts::read(roots, &site.all_cpus());
    let (before, clock) = (HostMoment::read(roots), Instant::now());
    while clock.elapsed() < WATCH && !is_stopped() {
        std::thread::sleep(Duration::from_millis(20));
    }
    ensure!(!is_stopped(), "stopped before anything was measured");
    let others = HostMoment::read(roots).others_cpus(&before, clock.elapsed().as_secs_f64());
    match others {
        _ if args.force => Ok(host),
        None => bail!("{NOT_KNOWN}; measure all the same with --force"),
        Some(others) if others > OTHERS_MAX_CPUS => bail!(
            "others keep {others:.2} CPUs busy, and figures would be theirs too: end them (`top` shows them), or \
             measure all the same with --force"
        ),
        Some(_) => Ok(host),
    }
}

fn announce(progress: &BenchProgress, site: &BenchSite, pairs: &[PairPlan], plan: &TimePlan) {
    let cxl = site
        .cxl
        .as_ref()
        .map_or_else(|_| "none".into(), |node| format!("node{node}"));
    progress.say(&format!(
        "mmem node{}, cxl {cxl}; {} threads a stream with {} MiB each; {} pairs, up to {}; other programs are slow \
         meanwhile",
        site.mmem,
        site.cpus.each(),
        site.thread_bytes >> 20,
        pairs.len(),
        time(plan.left_seconds(pairs.iter().map(|pair| (plan.repetition_seconds(pair), 0)), 0.0))
    ));
}

/// The SSD, where a pair needs it.
fn open_disk(
    args: &BenchInterferenceArgs,
    pairs: &[PairPlan],
    choice: Result<DiskChoice, String>,
    progress: &BenchProgress,
    is_stopped: &dyn Fn() -> bool,
) -> Result<Option<Arc<weir_bench::storage::IoTarget>>> {
    let is_used = |pair: &PairPlan| {
        pair.sides
            .iter()
            .any(|s| s.target() == Some(StreamTarget::Ssd))
    };
    let (true, Ok(choice)) = (pairs.iter().any(is_used), choice) else {
        return Ok(None);
    };
    if let DiskChoice::FileIn(dir) = &choice {
        let (dir, mib) = (dir.display(), args.ssd_size.0 >> 20);
        progress.say(&format!(
            "ssd: a file of {mib} MiB in {dir}, without a name: it is gone when weir ends"
        ));
    }
    Ok(Some(Arc::new(disk::open(
        &choice,
        args.ssd_size.0,
        is_stopped,
    )?)))
}
