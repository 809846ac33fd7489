// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weir profile`: where accesses to memory wait. weir-profile makes the figures; here are files, and the
//! names of events ([`tables`]), which that crate does not know. [`record`] has counts of this machine,
//! weir-lab those of the synthetic server; [`live`] shows either while it counts, and [`waits_in`] tells
//! `weir top`.

pub mod cli;
mod export;
mod live;
mod moments;
mod need;
mod page;
mod record;
mod tables;

use crate::cli::exit::{Exit, print, print_json};
use crate::cli::quantities::{Rate, Span};
use anyhow::{Context, Result, bail};
use cli::{DiffArgs, ImportArgs, MethodName, ProfileArgs, ProfileCommand, ReportArgs};
use std::collections::BTreeSet;
use std::io::{ErrorKind, Read, Write, stderr, stdin};
use std::path::Path;
use std::time::Duration;
use weir_core::{Nanos, Role, Window};
use weir_figures::text::harmless;
use weir_files::{Access, CreatedFile};
use weir_linux::Roots;
use weir_profile::report::{self, Report, methods, text};
use weir_profile::window_file::{FILE_BYTES_MAX, WindowFile};
use weir_profile::{TimeSpan, diff, perf_stat, recipes};

/// Does it.
///
/// # Errors
/// The command cannot be carried out.
pub fn profile(args: &ProfileArgs, roots: &Roots) -> Result<Exit> {
    match &args.what {
        ProfileCommand::Record(args) => record::record(args, roots),
        ProfileCommand::Live(args) => live::live(args, roots),
        ProfileCommand::Import(args) => import(args, roots),
        ProfileCommand::Need(args) => need::need(args, roots),
        ProfileCommand::Report(args) => show(args),
        ProfileCommand::Sim(words) => words.run("server"),
        ProfileCommand::Diff(args) => compare(args),
        ProfileCommand::Export(args) => export::export(args),
        ProfileCommand::Methods(args) => {
            let methods = methods::methods();
            if args.json {
                print_json(&methods)?
            } else {
                print(&methods::text(&methods))?
            }
            Ok(Exit::Done)
        }
    }
}

/// A set of events counts for so long: a shorter window has one set of many.
const INTERVAL_MIN: Duration = Duration::from_millis(100);
/// Longest interval: with a longer one nothing would be seen of a day.
const INTERVAL_MAX: Duration = Duration::from_secs(3600);

/// The length of windows that are counted.
fn checked_interval(interval: Span) -> Result<Duration> {
    match interval.0 {
        length if (INTERVAL_MIN..=INTERVAL_MAX).contains(&length) => Ok(length),
        length => bail!(
            "--interval {length:?}: 100ms to 1h are possible, as a set of events counts for 100 ms"
        ),
    }
}

/// A path, for a terminal.
pub fn shown(path: &Path) -> String {
    harmless(&path.to_string_lossy())
}

/// All of a file, or of stdin.
fn read(path: &Path) -> Result<Vec<u8>> {
    let source: Box<dyn Read> = if path.as_os_str() == "-" {
        Box::new(stdin().lock())
    } else {
        let file = weir_files::open_regular(path);
        Box::new(file.with_context(|| format!("cannot open {}", shown(path)))?)
    };
    let mut bytes = Vec::new();
    let limited = source.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes);
    limited.with_context(|| format!("cannot read {}", shown(path)))?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        bail!(
            "{} has more than {FILE_BYTES_MAX} bytes: import it in parts",
            shown(path)
        );
    }
    Ok(bytes)
}

fn import(args: &ImportArgs, roots: &Roots) -> Result<Exit> {
    // Names in it need not be UTF-8.
    let content = String::from_utf8_lossy(&read(&args.file)?).into_owned();
    let counted = perf_stat::read_run(&content, args.separator, args.run);
    let counted = counted.with_context(|| format!("cannot read {}", shown(&args.file)))?;
    let events = tables::choose(&counted, args.family.as_deref(), roots)?;
    let length = args
        .duration
        .map(|span| u64::try_from(span.0.as_nanos()).unwrap_or(u64::MAX));
    let naming = |pmu: Option<&str>, inside: &str| events.canonical(pmu, inside);
    let file = recipes::windows(&counted, &events.recipes(), &naming, length.map(Nanos));
    if roles(&file).is_empty() {
        let why = tables::no_role(&counted, &events);
        bail!("{}: {}", shown(&args.file), harmless(&why));
    }
    let content = file.to_text()?;
    match &args.out {
        None => print(&content)?,
        Some(path) => {
            write_new(path, content.as_bytes())?;
            print(&summary(&file))?;
        }
    }
    for note in &file.header.notes {
        // Nothing more can be said where stderr is closed.
        let _ = writeln!(stderr(), "weir: {}", harmless(note));
    }
    Ok(if counted.problem_count > 0 {
        Exit::Finding
    } else {
        Exit::Done
    })
}

/// Roles that something was counted of.
fn roles(file: &WindowFile) -> BTreeSet<Role> {
    let of_window = |window: &Window| -> Vec<Role> {
        let of_workloads = window.workloads.iter().flat_map(|w| &w.counts);
        let counts = window.machine.iter().chain(of_workloads);
        counts.map(|count| count.role).collect()
    };
    file.windows.iter().flat_map(of_window).collect()
}

fn summary(file: &WindowFile) -> String {
    let events = file
        .windows
        .iter()
        .flat_map(|w| &w.unassigned)
        .map(|count| &count.event);
    let events: BTreeSet<&String> = events.collect();
    format!(
        "{} windows, {} roles, {} events without a role; family {}\n",
        file.windows.len(),
        roles(file).len(),
        events.len(),
        file.header.family.as_deref().unwrap_or("not known")
    )
}

/// A file that was not there.
///
/// # Errors
/// It is there, or cannot be made.
pub fn new_file(path: &Path) -> Result<CreatedFile> {
    match weir_files::create_new(path, Access::Shared) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            bail!("{} exists: name a new file, or remove it", shown(path))
        }
        other => other.with_context(|| format!("cannot make {}", shown(path))),
    }
}

/// Writes a file that was not there.
///
/// # Errors
/// It is there, or cannot be written.
pub fn write_new(path: &Path, content: &[u8]) -> Result<()> {
    let mut made = new_file(path)?;
    let written = made.write_all(content);
    written.with_context(|| format!("cannot write {}", shown(path)))
}

/// Windows for figures: those of a recording that is too long for memory are taken together.
fn windows_of(path: &Path) -> Result<WindowFile> {
    let content = read(path)?;
    let file = WindowFile::read_for_report(&content);
    file.with_context(|| format!("cannot read {}", shown(path)))
}

fn all_windows_of(path: &Path) -> Result<WindowFile> {
    let content = read(path)?;
    let file = WindowFile::read(&content);
    let file = file.with_context(|| format!("cannot read {}", shown(path)))?;
    if file.windows.is_empty() {
        let why = file.header.notes.join("; ");
        bail!(
            "{} has no window{}: record again",
            shown(path),
            if why.is_empty() {
                why
            } else {
                format!(" ({})", harmless(&why))
            }
        );
    }
    Ok(file)
}

/// The part of a file that was asked for.
fn part_of(path: &Path, file: WindowFile, span: TimeSpan) -> Result<WindowFile> {
    if span.is_all() {
        Ok(file)
    } else {
        span.of(&file).with_context(|| shown(path))
    }
}

fn show(args: &ReportArgs) -> Result<Exit> {
    let part = &args.part;
    let mut file = part_of(&args.file, windows_of(&args.file)?, part.span())?;
    if let Some(Rate(most)) = args.dram_bandwidth {
        file.header.dram_bytes_per_sec = Some(Nanos::rounded(most.get()).0);
    }
    let idle = part.idle.as_deref().map(windows_of).transpose()?;
    let options = report::Options {
        idle: idle.as_ref(),
        workload: part.workload.as_deref(),
        each: args.shown.each,
        pathfinder: args.shown.method == MethodName::Pathfinder,
        over_time: args.html.is_some(),
        brief: false,
    };
    let made = report::report(&file, &options);
    if let (Some(name), true) = (&part.workload, made.subjects.is_empty()) {
        bail!(workload_not_found(name, &file));
    }
    match &args.html {
        Some(dir) => page::of_report(dir, &args.file, &made),
        None => show_report(&made, args.json),
    }
}

/// What to say where no workload has that in its name.
fn workload_not_found(name: &str, file: &WindowFile) -> String {
    let names = report::workload_names(file);
    let known = if names.is_empty() {
        "no workload: count with --for-each-cgroup, or record with --cgroup".to_owned()
    } else {
        names.join(", ")
    };
    format!(
        "no workload has {:?} in its name; the file has {known}",
        harmless(name)
    )
}

/// Prints a report.
///
/// # Errors
/// It cannot be printed.
pub fn show_report(made: &Report, is_json: bool) -> Result<Exit> {
    if is_json {
        print_json(made)?
    } else {
        print(&text::text(made))?
    }
    Ok(exit_of(made))
}

/// What the program ends with: whether a rule has found something.
pub fn exit_of(made: &Report) -> Exit {
    let is_found = made.rules.iter().any(|rule| rule.found_in.is_some());
    if is_found { Exit::Finding } else { Exit::Done }
}

fn compare(args: &DiffArgs) -> Result<Exit> {
    let [first, second] = [args.before, args.after].map(|span| span.map(|span| span.0));
    if args.second.is_none() && (first.is_none() || second.is_none()) {
        bail!(
            "{} has two sides only with two spans: add --before and --after, or name another file",
            shown(&args.first)
        );
    }
    let path = args.second.as_deref().unwrap_or(&args.first);
    let (before, after) = (windows_of(&args.first)?, windows_of(path)?);
    let [first, second] = [first, second].map(Option::unwrap_or_default);
    let before = part_of(&args.first, before, first)?;
    let after = part_of(path, after, second)?;
    let idle = args.idle.as_deref().map(windows_of).transpose()?;
    let (idle, workload) = (idle.as_ref(), args.workload.as_deref());
    let rows = diff::diff(&before, &after, idle, workload);
    match (&args.html, args.json) {
        (Some(dir), _) => {
            let files = [
                (args.first.as_path(), first, &before),
                (path, second, &after),
            ];
            page::of_diff(dir, files, idle, workload, &rows)?;
        }
        (None, true) => print_json(&rows)?,
        (None, false) => print(&diff::text(&rows, args.all))?,
    }
    let is_same =
        |row: &diff::DiffRow| matches!(row.verdict, diff::DiffVerdict::NotDistinguishable { .. });
    Ok(if rows.iter().all(is_same) {
        Exit::Done
    } else {
        Exit::Finding
    })
}
