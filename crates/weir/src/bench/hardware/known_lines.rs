// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Lines that weir reads itself, so that it is known how many they are, against what each source counts.

use super::check::{HardwareCheck, HardwareFigure, HardwarePromise, Harm};
use super::site::{HardwareSite, no_cxl};
use crate::run::probe;
use serde::Serialize;
use serde_json::json;
use std::time::{Duration, Instant};
use weir_core::Missing;
use weir_core::seam::topology::CountedBy;
use weir_core::units::LINE_BYTES;
use weir_figures::Bound;
use weir_linux::pmu::{self, Counting, Target};
use weir_linux::{CounterSource, Options, Traffic};

/// Others move bytes in bursts: the attempt beside the least traffic counts.
const TRIES: usize = 3;
/// Shortest sample of what others move.
const QUIET: Duration = Duration::from_millis(20);
/// Where others moved more than this part of what was read, nothing can be said.
const OTHERS_MAX: f64 = 0.5;

#[derive(Clone, Debug, Serialize)]
pub struct SourceCount {
    /// `access counters`, or a scope of performance counters.
    pub source: String,
    /// Counted, less what others moved, ÷ what was read.
    pub ratio: f64,
    /// What others moved ÷ what was read.
    pub others_ratio: f64,
}

/// What all sources counted of the same reads.
#[derive(Clone, Debug, Serialize)]
pub struct CountedLines {
    /// Bytes that were read.
    pub read_bytes: u64,
    /// Nearest to the device first.
    pub counts: Vec<SourceCount>,
    /// Sources that could not count, and why.
    pub refused: Vec<String>,
}

/// The device counts what was read from it.
pub struct KnownLines;

impl HardwareCheck for KnownLines {
    fn name(&self) -> &'static str {
        "known-lines"
    }

    fn promise(&self) -> HardwarePromise {
        HardwarePromise {
            feature: "counters, bandwidth, attribution",
            words: "of 4 MiB that weir reads past the caches, the nearest source counts 90 to 110 %",
            unit: "of what was read",
            bound: Bound::Within(0.9, 1.1),
            page: "docs/explanation/attribution.md",
            quote: "weir reads about 4 MB of the device in a thread of its own, and compares the event with \
                    the device's counters",
        }
    }

    fn harm(&self) -> Harm {
        Harm::Loads
    }

    fn measure(&self, site: &mut HardwareSite) -> Result<HardwareFigure, Missing> {
        let counted = counted(site)?;
        let Some(first) = counted.counts.first() else {
            return Err(Missing::NotSupported(match &counted.refused[..] {
                [] => "nothing on this machine counts CXL traffic: `weir events` says why".into(),
                refused => refused.join("; "),
            }));
        };
        Ok(HardwareFigure {
            value: first.ratio,
            detail: format!(
                "by {}; others moved {:.3} of it meanwhile",
                first.source, first.others_ratio
            ),
            data: Some(json!(counted)),
        })
    }
}

/// Sources that count the same thing agree.
pub struct SourcesAgree;

impl HardwareCheck for SourcesAgree {
    fn name(&self) -> &'static str {
        "sources-agree"
    }

    fn promise(&self) -> HardwarePromise {
        HardwarePromise {
            feature: "traffic by perf events",
            words: "sources that count the same reads (driver, CXL PMU, ports, sockets) differ by at most 10 %",
            unit: "of the most",
            bound: Bound::AtMost(0.1),
            page: "docs/explanation/attribution.md",
            quote: "within 10 %",
        }
    }

    fn harm(&self) -> Harm {
        Harm::Loads
    }

    fn measure(&self, site: &mut HardwareSite) -> Result<HardwareFigure, Missing> {
        let counted = counted(site)?;
        let ratios = || counted.counts.iter().map(|count| count.ratio);
        if counted.counts.len() < 2 {
            let names: Vec<&str> = counted.counts.iter().map(|c| c.source.as_str()).collect();
            return Err(Missing::NotSupported(format!(
                "one source is needed beside the first, and there {}{}",
                match names[..] {
                    [] => "is none".to_owned(),
                    _ => format!("is only {}", names.join(", ")),
                },
                match &counted.refused[..] {
                    [] => String::new(),
                    refused => format!("; {}", refused.join("; ")),
                }
            )));
        }
        let least = ratios().fold(f64::INFINITY, f64::min);
        let most = ratios().fold(0.0, f64::max);
        if most <= 0.0 {
            return Err(Missing::Lost(
                "no source counted anything of what was read".into(),
            ));
        }
        let one = |c: &SourceCount| format!("{} {:.3}", c.source, c.ratio);
        let all: Vec<String> = counted.counts.iter().map(one).collect();
        Ok(HardwareFigure::new(1.0 - least / most, all.join(", ")))
    }
}

fn counted(site: &mut HardwareSite) -> Result<CountedLines, Missing> {
    if site.counted.is_none() {
        let node = site.node()?;
        let options = site.options.clone();
        // A thread of its own: it stays pinned to a CPU.
        let thread = std::thread::spawn(move || measured(&options, node));
        let panicked = |_| Err(Missing::Lost("the thread that reads has panicked".into()));
        site.counted = Some(thread.join().unwrap_or_else(panicked));
    }
    site.counted.clone().unwrap_or_else(|| Err(no_cxl()))
}

/// Something that gives bytes read so far.
enum ByteSource {
    Files(Traffic, u32),
    Events(Vec<Counting>, Option<u32>),
}

impl ByteSource {
    fn read(&mut self) -> Result<u64, Missing> {
        let mut sum = 0_u64;
        match self {
            ByteSource::Files(traffic, node) => {
                let groups = traffic.read();
                let places = traffic.groups();
                for group in groups.iter().filter(|reading| {
                    let mine = places.iter().find(|place| place.id == reading.id);
                    mine.is_some_and(|place| place.node.is_none_or(|at| at.0 == *node))
                }) {
                    sum = sum.wrapping_add(group.read_bytes.value.clone()?.0);
                }
            }
            ByteSource::Events(counting, node) => {
                for one in counting {
                    let is_other = matches!((one.target.node, *node), (Some(a), Some(b)) if a != b);
                    if !is_other {
                        sum = sum.wrapping_add(one.read().read?);
                    }
                }
            }
        }
        Ok(sum)
    }
}

/// Sources that are open, and why others are not.
fn open(options: &Options, node: u32) -> (Vec<(String, ByteSource)>, Vec<String>) {
    let (mut open, mut refused) = (Vec::new(), Vec::new());
    match Traffic::open(&options.roots, CounterSource::Driver, &options.nodes) {
        Ok(traffic) if is_by_driver(&traffic) => {
            open.push((
                "access counters".to_owned(),
                ByteSource::Files(traffic, node),
            ));
        }
        Ok(_) => {}
        Err(why) => refused.push(why.to_string()),
    }
    for (scope, targets) in pmu::here_by_scope(&options.roots, &options.nodes) {
        let name = format!("perf events of the {}", scope_words(scope));
        let counting: Result<Vec<Counting>, Missing> =
            targets.into_iter().map(Target::open).collect();
        match counting {
            Ok(counting) => open.push((name, ByteSource::Events(counting, Some(node)))),
            Err(why) => refused.push(format!("{name}: {why}")),
        }
    }
    (open, refused)
}

fn is_by_driver(traffic: &Traffic) -> bool {
    let by = |device: &weir_core::seam::topology::Device| {
        matches!(device.counted_by, CountedBy::AccessCounters)
    };
    traffic.is_counted() && traffic.devices().iter().any(by)
}

fn scope_words(scope: weir_events::Scope) -> &'static str {
    match scope {
        weir_events::Scope::Group => "driver",
        weir_events::Scope::Device => "CXL device",
        weir_events::Scope::Port => "CXL ports",
        weir_events::Scope::Socket => "sockets",
        weir_events::Scope::Cpu | weir_events::Scope::L3 => "CPUs",
    }
}

/// Reads, counts, and keeps of each source the attempt beside the least traffic of others.
fn measured(options: &Options, node: u32) -> Result<CountedLines, Missing> {
    let mut work = probe::reads(&options.roots, node)?;
    let (mut sources, mut refused) = open(options, node);
    let mut best: Vec<Option<SourceCount>> = sources.iter().map(|_| None).collect();
    let mut bytes = 0_u64;
    let mut took = QUIET;
    for _ in 0..TRIES {
        let at_first = read_all(&mut sources);
        let quiet = Instant::now();
        std::thread::sleep(took.max(QUIET));
        let before = read_all(&mut sources);
        let quiet = quiet.elapsed();
        let begun = Instant::now();
        bytes = work() * LINE_BYTES;
        took = begun.elapsed();
        let after = read_all(&mut sources);
        // Of what others moved before, as much as would be in the time of the reads.
        let part = took.as_secs_f64() / quiet.as_secs_f64() / bytes as f64;
        for (place, slot) in best.iter_mut().enumerate() {
            let (Ok(a), Ok(b), Ok(c)) = (&at_first[place], &before[place], &after[place]) else {
                continue;
            };
            let others = b.wrapping_sub(*a) as f64 * part;
            let count = SourceCount {
                source: sources[place].0.clone(),
                ratio: c.wrapping_sub(*b) as f64 / bytes as f64 - others,
                others_ratio: others,
            };
            if slot.as_ref().is_none_or(|kept| others < kept.others_ratio) {
                *slot = Some(count);
            }
        }
    }
    let unread = sources
        .iter()
        .zip(&best)
        .filter(|(_, count)| count.is_none());
    refused.extend(unread.map(|((name, _), _)| format!("{name}: could not be read")));
    let counts: Vec<SourceCount> = best.into_iter().flatten().collect();
    if !counts.is_empty() && counts.iter().all(|count| count.others_ratio > OTHERS_MAX) {
        return Err(Missing::Lost(
            "others use the device too much meanwhile: repeat it when the device is quiet".into(),
        ));
    }
    Ok(CountedLines {
        read_bytes: bytes,
        counts,
        refused,
    })
}

fn read_all(sources: &mut [(String, ByteSource)]) -> Vec<Result<u64, Missing>> {
    sources
        .iter_mut()
        .map(|(_, source)| source.read())
        .collect()
}
