// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weir bench interference`: what streams of memory and storage traffic do to each other here.
//!
//! ```text
//! names ─► plan (which, in which order) ─► measurement (weir-bench) ─► cells ─► document (weir-report)
//! site, disk, program (where, what) ──────────┘                          conditions (facts, caveats) ──┘
//! ```
//!
//! `plan` and `cells` are pure. A signal at any time leaves what was measured in whole repetitions.

mod cells;
mod conditions;
mod cross_check;
mod disk;
mod measurement;
pub mod names;
mod plan;
mod program;
mod progress;
mod result;
mod site;

use super::calibrate::{check_no_limits, watch};
use super::cli::BenchInterferenceArgs;
use crate::cli::exit::{Exit, print, print_json};
use crate::output::text::harmless;
use anyhow::{Context, Result, bail, ensure};
use cells::PairSamples;
use conditions::{HostFacts, HostMoment, OTHERS_MAX_CPUS, SeenFrequency};
use disk::DiskChoice;
use measurement::{BenchSetup, PairRig};
use names::{StreamOperation, StreamTarget};
use plan::{PairPlan, PlannedStream, TimePlan};
use program::ProgramGroups;
use progress::{BenchProgress, time};
use regex::Regex;
use site::BenchSite;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant, SystemTime};
use weir_bench::storage::Engine;
use weir_linux::Roots;
use weir_report::interference::document::InterferenceDocument;
use weir_report::results::Caveat;

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
    let host = guard(args, roots, &site, &is_stopped)?;
    let time = TimePlan::of(&pairs, args.quick, args.seconds, args.repeats);
    let progress = BenchProgress::new(pairs.len());
    announce(&progress, &site, &pairs, &time);
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
    let setup = BenchSetup {
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
        seed: args.seed,
        is_stopped,
    };
    let mut run = Run {
        setup: &setup,
        roots,
        progress,
        frequency: SeenFrequency::default(),
        caveats: Vec::new(),
        missing: begin.missing,
        samples: Vec::new(),
    };
    let (before, clock) = (HostMoment::read(roots), Instant::now());
    let was_stopped = run.all(&begin.pairs)?;
    let mut caveats = host.caveats.clone();
    caveats.extend(HostMoment::read(roots).caveats(&before, clock.elapsed().as_secs_f64()));
    caveats.append(&mut run.caveats);
    let mut facts = host.facts.clone();
    facts.insert("frequency_seen".into(), run.frequency.fact());
    facts.insert("io_engine".into(), setup.engine.name().into());
    groups.facts(&mut facts);
    let checks = match args.cross_check && !was_stopped {
        true => cross_check::run(&setup, progress),
        false => Vec::new(),
    };
    let document = result::document(&result::Parts {
        args,
        roots,
        site,
        disk: disk.as_deref(),
        begun: begin.begun,
        time,
        cpu_model: &host.cpu_model,
        facts,
        caveats,
        missing: run.missing,
        samples: &run.samples,
        checks: &checks,
    });
    if was_stopped && run.samples.is_empty() {
        bail!("stopped before one repetition was whole: nothing is kept");
    }
    shown(args, &document, &checks)?;
    Ok(if was_stopped {
        Exit::Trouble
    } else {
        Exit::Done
    })
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
                ours.clone().into_iter().map(move |stream| match is_victim {
                    true => [program.clone(), stream],
                    false => [stream, program.clone()],
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
    ensure!(
        args.force || others <= OTHERS_MAX_CPUS,
        "others keep {others:.2} CPUs busy, and figures would be theirs too: end them (`top` shows them), or measure \
         all the same with --force"
    );
    Ok(host)
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
        time(plan.left_seconds(pairs, 0, 0, 0.0))
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

/// The run over all pairs.
struct Run<'a> {
    setup: &'a BenchSetup<'a>,
    roots: &'a Roots,
    progress: &'a BenchProgress,
    frequency: SeenFrequency,
    caveats: Vec<Caveat>,
    missing: BTreeMap<String, String>,
    samples: Vec<PairSamples>,
}

impl Run<'_> {
    /// True if it was stopped.
    fn all(&mut self, pairs: &[PairPlan]) -> Result<bool> {
        let begun = Instant::now();
        for (place, pair) in pairs.iter().enumerate() {
            match self.pair(pairs, place, pair, begun) {
                Ok(false) => {}
                Ok(true) => return Ok(true),
                // One pair that fails (a disk, a program) leaves the others as they are.
                Err(why) if pairs.len() > 1 => {
                    let why = harmless(&format!("{why:#}"));
                    self.progress.say(&format!("{}: {why}", pair.label()));
                    self.missing.insert(pair.label(), why);
                }
                Err(why) => return Err(why.context(pair.label())),
            }
            if (self.setup.is_stopped)() {
                return Ok(true);
            }
        }
        if self.samples.is_empty() {
            let all: Vec<String> = self
                .missing
                .iter()
                .map(|(name, why)| format!("{name}: {why}"))
                .collect();
            bail!("no pair could be measured: {}", all.join("; "));
        }
        Ok(false)
    }

    fn pair(
        &mut self,
        pairs: &[PairPlan],
        place: usize,
        pair: &PairPlan,
        begun: Instant,
    ) -> Result<bool> {
        let setup = self.setup;
        let end = setup.time.end_seconds(place, pairs.len());
        let end = end.map(|seconds| begun + Duration::from_secs_f64(seconds));
        let rig = PairRig::prepare(setup, pair)?;
        let (progress, roots, label) = (self.progress, self.roots, pair.label());
        let left = |done: usize| {
            let done = u32::try_from(done).unwrap_or(u32::MAX);
            setup
                .time
                .left_seconds(pairs, place, done, begun.elapsed().as_secs_f64())
        };
        let frequency = &mut self.frequency;
        let cpus = setup.site.all_cpus();
        let mut after = |samples: &PairSamples| {
            frequency.look(roots, &cpus);
            let done = samples.repetitions.len();
            progress.repetition(place, &label, done, samples.half_width_ratio(), left(done));
        };
        let found = rig.run(place, end, &mut after)?;
        let done = found.samples.repetitions.len();
        let all = usize::try_from(setup.time.repeats)?;
        progress.pair(
            place,
            &label,
            done,
            found.samples.half_width_ratio(),
            left(all),
        );
        self.caveats.extend(
            found
                .caveats
                .into_iter()
                .map(|why| Caveat::new(label.clone(), why)),
        );
        if done > 0 {
            self.samples.push(found.samples);
        }
        Ok(found.was_stopped)
    }
}
