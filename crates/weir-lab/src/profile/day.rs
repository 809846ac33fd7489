// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weir-lab profile-day`: a recording as long as a day, as `weir profile record` writes one, to measure
//! what its report costs. Counts of a simulated server's window are scaled to a second and repeated, with
//! scatter and with changes of load. Nothing of it is a measurement, and it has no truth.

use crate::server::{ServerRuns, record_server};
use anyhow::{Context, Result, bail};
use clap::Args;
use std::io::{BufWriter, Write};
use std::path::PathBuf;
use weir::lab::{Exit, print, whole};
use weir_core::random::SplitMix;
use weir_core::window::role::{AccessPath, Quantity, Stage, Target};
use weir_core::window::{Count, CountScope, WorkloadCounts};
use weir_core::{Nanos, Role, Window, WorkloadId};
use weir_figures::text::harmless;
use weir_files::Access;
use weir_profile::WindowFile;
use weir_profile::window_file::{Header, WindowEncoder};

/// Length of a window.
const SECOND: u64 = 1_000_000_000;
/// Counts of a workload and of the machine, as a recording on Sapphire Rapids has about.
const COUNTS_OF_WORKLOAD: usize = 60;
const COUNTS_OF_MACHINE: usize = 150;
/// Load in each sixth of the time: five changes.
const LOADS: [f64; 6] = [1.0, 1.4, 0.7, 1.2, 0.5, 1.0];
/// Scatter of a count from window to window, and how many draws of it there are.
const SCATTER: f64 = 0.02;
const DRAWS: usize = 32;
/// A workload's sets of events take turns: each counts for a tenth of the time.
const TURNS: u64 = 10;

/// `weir-lab profile-day`.
#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub struct ProfileDayArgs {
    /// Write into this new file
    #[arg(long, value_name = "NEW")]
    pub out: PathBuf,

    /// How long it is, in hours; a window is a second
    #[arg(long, default_value_t = 24, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=240))]
    pub hours: u16,

    /// How many workloads
    #[arg(long, default_value_t = 8, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64))]
    pub workloads: u16,

    /// Seed of machine and scatter
    #[arg(long, default_value_t = 3, value_name = "N", value_parser = whole::<u64>)]
    pub seed: u64,
}

const HELP: &str = "\
Examples:
  weir-lab profile-day --out day.windows
  weir profile report day.windows --html day
  weir-lab profile-day --hours 1 --workloads 2 --out hour.windows

The same seed gives the same file, byte for byte. A file that exists is not overwritten.";

/// A count that is repeated.
struct DaySeries {
    /// The count, with its value of a second.
    count: Count,
    /// Clocks do not follow the load.
    is_steady: bool,
    /// Factors of the draws.
    scatter: [f64; DRAWS],
}

/// All series: the machine's, then each workload's.
struct Day {
    machine: Vec<DaySeries>,
    workloads: Vec<(WorkloadId, Vec<DaySeries>)>,
    random: SplitMix,
}

/// Makes the file and says how large it is.
///
/// # Errors
/// The file exists or cannot be written, or would be longer than a reader takes.
pub fn profile_day(args: &ProfileDayArgs) -> Result<Exit> {
    let name = harmless(&args.out.to_string_lossy());
    let mut day = Day::new(args.workloads, args.seed)?;
    let file = weir_files::create_new(&args.out, Access::Shared);
    let file = file.with_context(|| format!("cannot make {name}"))?;
    let windows = u64::from(args.hours) * 3600;
    let mut out = BufWriter::new(file);
    day.write(windows, &mut out)
        .with_context(|| format!("cannot write {name}"))?;
    let counts = day.counts();
    let all = windows * counts as u64;
    print(&format!(
        "{windows} windows of {counts} counts, {all} in all, in {name}\n"
    ))?;
    Ok(Exit::Done)
}

impl Day {
    /// A day made of the first window of a machine that the seed draws.
    fn new(workloads: u16, seed: u64) -> Result<Day> {
        let scenario = ServerRuns::named("random")?.scenario(seed)?;
        let file = record_server(&scenario, seed)?.file;
        let (Some(window), mut random) = (first(&file), SplitMix::new(seed)) else {
            bail!("the simulated server has no window");
        };
        let length = window.length().unwrap_or(Nanos(SECOND));
        let factor = SECOND as f64 / length.0 as f64;
        let machine = of_machine(&window.machine).into_iter();
        let machine = machine.map(|count| DaySeries::new(count, factor, &mut random));
        let machine = machine.collect();
        let mut all = Vec::new();
        for number in 0..workloads {
            let place = usize::from(number) % window.workloads.len().max(1);
            let Some(own) = window.workloads.get(place) else {
                bail!("the simulated server has no workload");
            };
            let counts = of_workload(own, number).into_iter();
            let series = counts.map(|count| DaySeries::new(count, factor, &mut random));
            let name = format!("/system.slice/w{number}.service");
            all.push((WorkloadId::new(name), series.collect()));
        }
        Ok(Day {
            machine,
            workloads: all,
            random,
        })
    }

    /// Counts of a window.
    fn counts(&self) -> usize {
        let of_workloads = self.workloads.iter().map(|(_, series)| series.len());
        self.machine.len() + of_workloads.sum::<usize>()
    }

    fn write(&mut self, windows: u64, out: &mut impl Write) -> Result<()> {
        let mut encoder = WindowEncoder::new(&Header::new("weir-lab profile-day: made up"))?;
        out.write_all(&encoder.begin()?)?;
        for number in 0..windows {
            let phase = number * LOADS.len() as u64 / windows;
            let phase = usize::try_from(phase).unwrap_or(0);
            let load = LOADS.get(phase).copied().unwrap_or(1.0);
            let Some(bytes) = encoder.add(&self.window(number, load))? else {
                bail!("a reader takes no longer file: fewer --hours or --workloads");
            };
            out.write_all(&bytes)?;
        }
        out.write_all(&encoder.finish()?)?;
        out.flush()?;
        Ok(())
    }

    fn window(&mut self, number: u64, load: f64) -> Window {
        let draw = usize::try_from(self.random.below(DRAWS as u64)).unwrap_or(0);
        let counts = |all: &[DaySeries]| all.iter().map(|one| one.count(load, draw)).collect();
        Window {
            from: Nanos(number * SECOND),
            to: Nanos((number + 1) * SECOND),
            machine: counts(&self.machine),
            workloads: self
                .workloads
                .iter()
                .map(|(id, series)| WorkloadCounts {
                    id: id.clone(),
                    counts: counts(series),
                })
                .collect(),
            unassigned: Vec::new(),
        }
    }
}

fn first(file: &WindowFile) -> Option<&Window> {
    file.windows.first()
}

impl DaySeries {
    fn new(count: Count, factor: f64, random: &mut SplitMix) -> DaySeries {
        let is_steady = matches!(count.role.quantity, Quantity::Clock | Quantity::TimeNs);
        let value = count.value.unwrap_or(0) as f64 * factor;
        DaySeries {
            count: Count {
                value: Ok(Nanos::rounded(value).0),
                ..count
            },
            is_steady,
            scatter: std::array::from_fn(|_| (1.0 + SCATTER * random.normal()).max(0.0)),
        }
    }

    fn count(&self, load: f64, draw: usize) -> Count {
        let mut count = self.count.clone();
        let factor = load * self.scatter.get(draw).copied().unwrap_or(1.0);
        if let (Ok(value), false) = (&mut count.value, self.is_steady) {
            *value = Nanos::rounded(*value as f64 * factor).0;
        }
        count
    }
}

/// Counts of a workload that are nearest to the core, in turns.
fn of_workload(workload: &WorkloadCounts, number: u16) -> Vec<Count> {
    let rank = |role: Role| match (role.stage, role.target) {
        (Stage::Core | Stage::L1d | Stage::StoreBuffer | Stage::FillBuffer, _) => 0,
        (Stage::SuperQueue, Target::Any | Target::Miss | Target::Own) => 1,
        (Stage::SuperQueue, Target::DramOwn | Target::CxlOwn) => 1,
        (Stage::L2, _) => 2,
        _ => 3,
    };
    let known = workload.counts.iter().filter(|count| count.value.is_ok());
    let mut counts: Vec<Count> = known.cloned().collect();
    counts.sort_by_key(|count| rank(count.role));
    counts.truncate(COUNTS_OF_WORKLOAD);
    for count in &mut counts {
        count.enabled_ns = Nanos(SECOND);
        // Sets of workloads begin at different times.
        count.running_ns = Nanos(SECOND / TURNS + u64::from(number));
    }
    counts
}

/// Counts of sockets, ports and devices: boxes of a socket stand in one sum, and parts before sums of parts.
fn of_machine(all: &[Count]) -> Vec<Count> {
    let mut counts: Vec<Count> = Vec::new();
    for count in all {
        let Ok(value) = count.value else { continue };
        let of = match count.of {
            CountScope::Port(_) | CountScope::Device(_) => count.of,
            _ => CountScope::Socket(0),
        };
        let is_it = |known: &&mut Count| (known.role, known.of) == (count.role, of);
        match counts.iter_mut().find(is_it) {
            Some(sum) => {
                sum.value = sum.value.clone().map(|sum| sum.saturating_add(value));
                sum.enabled_ns = Nanos(sum.enabled_ns.0 + SECOND);
                sum.running_ns = sum.enabled_ns;
            }
            None => counts.push(Count {
                of,
                enabled_ns: Nanos(SECOND),
                running_ns: Nanos(SECOND),
                ..count.clone()
            }),
        }
    }
    let is_of_core = |stage| {
        use Stage::{Core, FillBuffer, L1d, L2, StoreBuffer, SuperQueue};
        matches!(
            stage,
            Core | FillBuffer | L1d | L2 | StoreBuffer | SuperQueue
        )
    };
    counts.retain(|count| !is_of_core(count.role.stage));
    let is_sum = |target| {
        matches!(
            target,
            Target::Dram | Target::DramRemote | Target::CxlRemote
        )
    };
    counts.sort_by_key(|count| {
        let role = count.role;
        (is_sum(role.target), role.path == AccessPath::PfLlc)
    });
    counts.truncate(COUNTS_OF_MACHINE);
    counts
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_profile::report::{Options, report};

    #[test]
    fn a_day_is_read_back_with_its_changes_of_load() {
        let made = || {
            let mut bytes = Vec::new();
            let mut day = Day::new(2, 3).unwrap();
            day.write(240, &mut bytes).unwrap();
            (bytes, day.counts())
        };
        let (bytes, counts) = made();
        assert_eq!(bytes, made().0, "the same seed, the same file");
        assert_eq!(counts, COUNTS_OF_MACHINE + 2 * COUNTS_OF_WORKLOAD);
        let file = WindowFile::read(&bytes).unwrap();
        assert_eq!(file.windows.len(), 240);
        assert_eq!(file.windows[239].to, Nanos(240 * SECOND));
        let options = Options {
            brief: true,
            ..Options::default()
        };
        let said = report(&file, &options);
        for subject in said.subjects.iter().filter(|one| one.name.starts_with('/')) {
            let phases = subject.phases.as_ref().unwrap();
            assert_eq!(phases.phases.len(), LOADS.len(), "{}", subject.name);
            assert!(
                subject.figures.stalls.is_ok(),
                "{:?}",
                subject.figures.stalls
            );
        }
    }
}
