// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How long lines of DRAM would take if those of CXL memory came from there too. DRAM would be busier, and
//! workloads that wait for it ask for less: the time at which both agree is looked for.
//!
//! ```text
//! time of a line ─► model of each workload ─► lines a second ─► utilization ─► wait ─► time of a line
//! ```
//!
//! The wait is that of a queue with one server, `k · ρ ÷ (1 − ρ)`, with a `k` that gives today's wait at
//! today's utilization, and not less than that of requests which come at random: half of a line's time.

use super::ways::in_table;
use super::what_if::ModelledTime;
use crate::counts::Counts;
use crate::culprit::{Sharer, moved};
use crate::figure::sources::Sources;
use crate::quality::Refusal;
use weir_core::Role;
use weir_core::window::role::{AccessPath, Quantity, Stage, Target};

/// Bytes of a line.
const LINE_BYTES: f64 = 64.0;
/// Workloads of which the model is run: those that move most lines. They stand for all.
const MODELLED_MAX: usize = 24;
/// Halvings of the interval in which the time is.
const STEPS: usize = 14;
/// A line does not take longer than this.
const NS_MAX: f64 = 20_000.0;
/// DRAM is not busier than this.
const BUSY_MAX: f64 = 0.98;

/// What is known of a machine whose lines of CXL memory are to come from DRAM.
///
/// At first DRAM was taken to be no busier then. Of the times lost to CXL memory, 62.4 % were within ten
/// points of a run with all pages in DRAM; with this model it is 82.9 % (docs/evidence/stalls.md).
pub struct DramScene<'a> {
    /// All workloads, each with the counts of its machine.
    pub sharers: Vec<(Sharer<'a>, Sources<'a>)>,
    pub machine: &'a Counts,
    /// Counts of the idle machine.
    pub idle: &'a Counts,
    /// The most that DRAM gives.
    pub bytes_per_sec: f64,
}

/// Nanoseconds that a line of DRAM takes then, behind the last-level cache.
///
/// # Errors
/// Lines or residences of DRAM were not counted.
pub fn dram_ns(scene: &DramScene) -> Result<f64, Refusal> {
    let length = scene.machine.length().ok_or(Refusal::NoTime)?.secs_f64();
    let most = scene.bytes_per_sec / LINE_BYTES * length;
    let residence = |counts: &Counts| {
        let sources = Sources::alone(counts);
        let table = in_table(&sources, Target::DramOwn)?;
        let hit = in_table(&sources, Target::Own).map_or(0.0, |hit| hit.value);
        Ok::<f64, Refusal>((table.value - hit).max(0.0))
    };
    let (now_ns, idle_ns) = (residence(scene.machine)?, residence(scene.idle)?);
    if idle_ns <= 0.0 {
        return Err(Refusal::NotCalibrated);
    }
    let lines = |stage, path, target| {
        let lines = scene
            .machine
            .get(Role::new(stage, path, target, Quantity::Lines));
        lines.map(|lines| lines.value)
    };
    let both = |stage, target| {
        let read = lines(stage, AccessPath::Reads, target)?;
        Ok::<f64, Refusal>(read + lines(stage, AccessPath::Wb, target).unwrap_or(0.0))
    };
    let in_dram = both(Stage::Imc, Target::DramOwn)?;
    let in_cxl = both(Stage::Port, Target::Cxl).or_else(|_| both(Stage::Device, Target::Cxl))?;
    let demands = demands(scene);
    let known: f64 = demands.iter().map(|(lines, _)| lines).sum();
    if known <= 0.0 {
        return Ok(now_ns);
    }
    let scale = (in_dram + in_cxl) / known;
    let busy_now = (in_dram / most).clamp(0.01, BUSY_MAX);
    let wait_now = (now_ns - idle_ns).max(0.0);
    let channels = channels(scene.machine, length);
    let service_ns = LINE_BYTES * channels / scene.bytes_per_sec * 1e9;
    let k = (wait_now * (1.0 - busy_now) / busy_now).max(service_ns / 2.0);
    let wait = |ns: f64| {
        let faster = |(lines, modelled): &(f64, Option<ModelledTime>)| {
            // One that does not stall is as fast as before.
            lines * modelled.as_ref().map_or(1.0, |one| one.speedup_in_dram(ns))
        };
        let busy = scale * demands.iter().map(faster).sum::<f64>() / most;
        if busy < BUSY_MAX {
            k * busy / (1.0 - busy)
        } else {
            f64::INFINITY
        }
    };
    let (mut low, mut high) = (idle_ns, NS_MAX);
    for _ in 0..STEPS {
        let middle = (low * high).sqrt();
        if idle_ns + wait(middle) > middle {
            low = middle
        } else {
            high = middle
        }
    }
    Ok(high)
}

/// Channels of DRAM: boxes that counted their clock. One where that is not known.
fn channels(machine: &Counts, length: f64) -> f64 {
    let clock = Role::new(Stage::Imc, AccessPath::Any, Target::Any, Quantity::Clock);
    let ns = machine.enabled_ns(clock).unwrap_or(0.0);
    (ns / 1e9 / length).round().max(1.0)
}

/// What workloads move from and to DRAM and CXL memory, most first.
fn demands<'a>(scene: &DramScene<'a>) -> Vec<(f64, Option<ModelledTime<'a>>)> {
    let lines = |one: &Sharer| {
        let all = moved(one.counts, Stage::Imc) + moved(one.counts, Stage::Device);
        all * one.memory_part
    };
    let mut all: Vec<(f64, &Sources<'a>)> = scene
        .sharers
        .iter()
        .map(|(sharer, sources)| (lines(sharer), sources))
        .filter(|(lines, _)| *lines > 0.0)
        .collect();
    all.sort_by(|a, b| b.0.total_cmp(&a.0));
    all.truncate(MODELLED_MAX);
    let modelled = all.into_iter();
    modelled
        .map(|(lines, sources)| (lines, ModelledTime::new(sources).ok()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::tests::chain;
    use super::*;
    use crate::counts::tests::counts;

    /// Workloads on the machine.
    const CHAINS: u32 = 30;

    /// The machine of chains of a million loads each from each kind of memory, in a second.
    fn machine(dram_cycles: u64) -> Counts {
        let lines = u64::from(CHAINS) * 1_000_000;
        counts(&[
            ("tor.any.any.clock", 2_000_000_000),
            ("tor.drd.dram-own.occupancy", dram_cycles * lines),
            ("tor.drd.dram-own.inserts", lines),
            ("tor.drd.cxl-own.occupancy", 640 * lines),
            ("tor.drd.cxl-own.inserts", lines),
            ("imc.any.any.clock", 1_000_000_000),
            ("imc.reads.dram-own.lines", lines),
            ("port.reads.cxl.lines", lines),
        ])
    }

    fn made(own: &Counts, dram_cycles: u64, bytes_per_sec: f64) -> f64 {
        let (machine, idle) = (machine(dram_cycles), machine(140));
        let sharer = Sharer {
            name: "chain",
            counts: own,
            memory_part: 1.0,
            cores_part: 1.0,
        };
        let sources = Sources {
            own,
            peers: own,
            machine: &machine,
            fill_buffers: None,
        };
        let scene = DramScene {
            sharers: (0..CHAINS).map(|_| (sharer, sources)).collect(),
            machine: &machine,
            idle: &idle,
            bytes_per_sec,
        };
        dram_ns(&scene).unwrap()
    }

    #[test]
    fn dram_with_room_is_as_fast_as_idle_and_full_dram_takes_what_it_can_give() {
        let own = chain(1_000_000, 1_000_000);
        let ns = made(&own, 140, 1e12);
        assert!((ns - 70.0).abs() < 0.5, "{ns}");
        // 60 million lines a second are 3.84 GB/s now. With all loads from idle DRAM they would be 8.6. Of
        // 6 GB/s nearly all are given: 1.53 times as much as now, by 294 cycles a load, 60 of them before
        // the table. A line has the bus for 11 ns.
        let ns = made(&own, 140, 6e9);
        assert!((ns - 117.0).abs() < 12.0, "{ns}");
        let less = made(&own, 140, 4.5e9);
        assert!(less > ns + 20.0, "{less}");
    }

    #[test]
    fn dram_that_is_waited_for_already_is_waited_for_more() {
        let own = chain(1_000_000, 1_000_000);
        // 10 ns are waited for where 9.6 % of it is busy, as bursts are; with 4.3 times as much, 64.
        let ns = made(&own, 160, 2e10);
        assert!(ns > 95.0 && ns < 140.0, "{ns}");
    }

    #[test]
    fn without_lines_nothing_changes() {
        assert_eq!(made(&counts(&[]), 150, 1e9), 75.0);
        let nothing = counts(&[]);
        let scene = DramScene {
            sharers: Vec::new(),
            machine: &nothing,
            idle: &nothing,
            bytes_per_sec: 1e9,
        };
        assert!(dram_ns(&scene).is_err());
    }

    #[test]
    fn an_idle_machine_whose_dram_takes_no_time_is_refused() {
        let hits = ("tor.drd.own.occupancy", 140_000_000);
        let idle = counts(&[
            ("tor.any.any.clock", 2_000_000_000),
            ("tor.drd.dram-own.occupancy", 140_000_000),
            ("tor.drd.dram-own.inserts", 1_000_000),
            hits,
            ("tor.drd.own.inserts", 1_000_000),
        ]);
        let machine = machine(140);
        let scene = DramScene {
            sharers: Vec::new(),
            machine: &machine,
            idle: &idle,
            bytes_per_sec: 1e9,
        };
        assert_eq!(dram_ns(&scene), Err(Refusal::NotCalibrated));
    }
}
