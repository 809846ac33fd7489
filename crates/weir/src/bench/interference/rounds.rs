// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The order of a run: round after round, each with one repetition of each pair in random order. So the
//! repetitions of a cell lie all over the run, and what changes within minutes (neighbours on the host,
//! frequency, a disk's cache) is inside its interval. Each repetition has memory of its own.

use super::cells::{PairSamples, RepetitionSample};
use super::measurement::{PairRig, ProbeRing, RUN_RATIO_MIN, Repetition, RepetitionEnd};
use super::plan::{PairPlan, shuffled};
use super::progress::BenchProgress;
use super::setup::BenchSetup;
use super::site::conditions::SeenFrequency;
use super::site::placement::Placements;
use anyhow::{Result, bail};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;
use weir_figures::text::harmless;
use weir_linux::Roots;
use weir_report::results::Caveat;

/// Repetitions that a pair has even if there is no time left.
const REPEATS_MIN: u32 = 2;
/// Rounds at most, in repetitions: those of another placement do not count.
const ROUNDS_PER_REPEAT: u32 = 3;

struct RoundPair<'a> {
    plan: &'a PairPlan,
    /// The samples of the pair; its repetitions are kept apart, in `repetitions`, until the run ends.
    samples: PairSamples,
    repetitions: Vec<Repetition>,
    /// What each repetition took, those that were lost among them.
    took_seconds: Vec<f64>,
    has_failed: bool,
}

impl RoundPair<'_> {
    /// What a repetition takes: as those took, of which one may have had to start programs; `planned` before.
    fn each_seconds(&self, planned: f64) -> f64 {
        match self.took_seconds.len() {
            0 => planned,
            count => self.took_seconds.iter().sum::<f64>() / count as f64,
        }
    }

    fn figures(&self, is_meant: impl Fn(&Repetition) -> bool) -> Vec<RepetitionSample> {
        let all = self.repetitions.iter().filter(|one| is_meant(one));
        all.map(|one| one.figures.clone()).collect()
    }

    /// The repetitions of the placement that cells use, and those of each placement.
    fn kept(&self, placements: &Placements) -> PairSamples {
        let of = |[least, median, most]: [f64; 3]| {
            let range = least..=most;
            let is_meant =
                |one: &Repetition| one.round_trip_ns.is_some_and(|ns| range.contains(&ns));
            (median, self.figures(is_meant))
        };
        PairSamples {
            repetitions: self.figures(|one| placements.has(one.round_trip_ns)),
            placements: placements.all().map(of).collect(),
            ..self.samples.clone()
        }
    }
}

pub struct RoundsEnd {
    /// Samples by pair; those without a repetition are left out.
    pub samples: Vec<PairSamples>,
    /// What is to be said of it.
    pub caveats: Vec<Caveat>,
    pub missing: BTreeMap<String, String>,
    /// Where the host had put the CPUs.
    pub placements: Placements,
    pub frequency: SeenFrequency,
    /// A signal came.
    pub was_stopped: bool,
}

pub struct PairRounds<'a> {
    setup: &'a BenchSetup<'a>,
    roots: &'a Roots,
    progress: &'a BenchProgress,
    begun: Instant,
    pairs: Vec<RoundPair<'a>>,
    probes: Vec<ProbeRing>,
    frequency: SeenFrequency,
    /// Streams with memory that was moved.
    moved: BTreeSet<(String, String)>,
    missing: BTreeMap<String, String>,
    /// Repetitions in which CPUs were moved.
    lost: usize,
    /// The part of the time that our threads had their CPUs, of each measurement.
    run_ratios: Vec<f64>,
}

impl<'a> PairRounds<'a> {
    /// Nothing is measured yet.
    ///
    /// # Errors
    /// A stream cannot be described: the CPU lacks its instruction.
    pub fn new(
        setup: &'a BenchSetup<'a>,
        roots: &'a Roots,
        progress: &'a BenchProgress,
        plans: &'a [PairPlan],
    ) -> Result<PairRounds<'a>> {
        let pair = |plan: &'a PairPlan| -> Result<RoundPair<'a>> {
            Ok(RoundPair {
                plan,
                samples: setup.samples(plan)?,
                repetitions: Vec::new(),
                took_seconds: Vec::new(),
                has_failed: false,
            })
        };
        Ok(PairRounds {
            setup,
            roots,
            progress,
            begun: Instant::now(),
            pairs: plans.iter().map(pair).collect::<Result<_>>()?,
            probes: Vec::new(),
            frequency: SeenFrequency::default(),
            moved: BTreeSet::new(),
            missing: BTreeMap::new(),
            lost: 0,
            run_ratios: Vec::new(),
        })
    }

    /// All rounds.
    ///
    /// # Errors
    /// No pair could be measured.
    pub fn run(mut self) -> Result<RoundsEnd> {
        let mut was_stopped = false;
        'run: for round in 0..ROUNDS_PER_REPEAT.saturating_mul(self.setup.time.repeats) {
            let wanted = self.wanted();
            if wanted.is_empty() {
                break;
            }
            for place in shuffled(wanted, self.setup.seed, u64::from(round)) {
                if round >= REPEATS_MIN && self.is_late() {
                    break 'run;
                }
                was_stopped = self.repetition(place, round)?;
                if was_stopped {
                    break 'run;
                }
            }
            self.say(round);
        }
        self.end(was_stopped)
    }

    fn is_late(&self) -> bool {
        let total = self.setup.time.total_seconds;
        total.is_some_and(|total| self.begun.elapsed().as_secs_f64() >= total)
    }

    fn placements(&self) -> Placements {
        let all = self.pairs.iter().flat_map(|pair| &pair.repetitions);
        Placements::of(all.filter_map(|one| one.round_trip_ns))
    }

    /// Pairs that are not known well enough. In a limited time all go on as long as one is not.
    fn wanted(&self) -> Vec<usize> {
        let placements = self.placements();
        let repeats = usize::try_from(self.setup.time.repeats).unwrap_or(usize::MAX);
        let (mut wanted, mut has_open) = (Vec::new(), false);
        for (place, pair) in self
            .pairs
            .iter()
            .enumerate()
            .filter(|(_, pair)| !pair.has_failed)
        {
            let kept = pair.kept(&placements);
            let is_enough = kept.is_enough();
            let has_room = kept.repetitions.len() < repeats;
            has_open |= has_room && !is_enough;
            if has_room && (self.setup.time.total_seconds.is_some() || !is_enough) {
                wanted.push(place);
            }
        }
        if has_open { wanted } else { Vec::new() }
    }

    /// One repetition of a pair. True if it was stopped.
    fn repetition(&mut self, place: usize, round: u32) -> Result<bool> {
        let plan = self.pairs[place].plan;
        let begun = Instant::now();
        let measured = self.measured(place, round);
        self.pairs[place]
            .took_seconds
            .push(begun.elapsed().as_secs_f64());
        match measured {
            Ok(None) => return Ok(true),
            Ok(Some(end)) => {
                self.run_ratios.extend(&end.run_ratios);
                let moved = end.moved.into_iter();
                self.moved.extend(moved.map(|why| (plan.label(), why)));
                match end.repetition {
                    Some(repetition) => self.pairs[place].repetitions.push(repetition),
                    None => self.lost += 1,
                }
            }
            // One pair that fails (a disk, a program) leaves the others as they are.
            Err(why) if self.pairs.len() > 1 => {
                let why = harmless(&format!("{why:#}"));
                self.progress.say(&format!("{}: {why}", plan.label()));
                self.missing.insert(plan.label(), why);
                self.pairs[place].has_failed = true;
            }
            Err(why) => return Err(why.context(plan.label())),
        }
        self.frequency.look(self.roots, &self.setup.site.all_cpus());
        self.progress
            .repetition(round, &plan.label(), self.left_seconds());
        Ok((self.setup.is_stopped)())
    }

    fn measured(&mut self, place: usize, round: u32) -> Result<Option<RepetitionEnd>> {
        let plan = self.pairs[place].plan;
        PairRig::prepare(self.setup, plan, &mut self.probes)?.repetition(place, round)
    }

    /// What is left at most.
    fn left_seconds(&self) -> f64 {
        let plan = &self.setup.time;
        let going_on = self.pairs.iter().filter(|pair| !pair.has_failed);
        let done = going_on.map(|pair| {
            let planned = plan.repetition_seconds(pair.plan);
            (pair.each_seconds(planned), pair.repetitions.len())
        });
        plan.left_seconds(done, self.begun.elapsed().as_secs_f64())
    }

    /// A round is over.
    fn say(&self, round: u32) {
        let placements = self.placements();
        let all = self.pairs.iter().filter(|pair| !pair.has_failed);
        let kept: Vec<PairSamples> = all.map(|pair| pair.kept(&placements)).collect();
        let enough = kept.iter().filter(|samples| samples.is_enough()).count();
        let widest = kept.iter().map(PairSamples::half_width_ratio);
        let widest = widest
            .collect::<Option<Vec<f64>>>()
            .and_then(|all| all.into_iter().reduce(f64::max));
        self.progress
            .round(round, enough, kept.len(), widest, self.left_seconds());
    }

    fn end(mut self, was_stopped: bool) -> Result<RoundsEnd> {
        let placements = self.placements();
        let samples = self.pairs.iter().map(|pair| pair.kept(&placements));
        let samples: Vec<PairSamples> = samples
            .filter(|pair| !pair.repetitions.is_empty())
            .collect();
        if samples.is_empty() && !was_stopped {
            let all: Vec<String> = self
                .missing
                .iter()
                .map(|(name, why)| format!("{name}: {why}"))
                .collect();
            bail!(
                "no pair could be measured: {}; in {} repetitions the host moved the CPUs",
                all.join("; "),
                self.lost
            );
        }
        for pair in self.pairs.iter().filter(|pair| !pair.has_failed) {
            if pair.kept(&placements).repetitions.is_empty() {
                let why = "no repetition was whole, or none was of the placement that cells are of";
                self.missing.insert(pair.plan.label(), why.into());
            }
        }
        let moved = self.moved.into_iter();
        let mut caveats: Vec<Caveat> = moved.map(|(label, why)| Caveat::new(label, why)).collect();
        caveats.extend(placements.caveat(self.lost));
        caveats.extend(run_caveat(&self.run_ratios));
        Ok(RoundsEnd {
            samples,
            caveats,
            missing: self.missing,
            placements,
            frequency: self.frequency,
            was_stopped,
        })
    }
}

/// What is to be said of measurements in which others had our CPUs, though they were made again.
fn run_caveat(run_ratios: &[f64]) -> Option<Caveat> {
    let short = run_ratios.iter().filter(|ratio| **ratio < RUN_RATIO_MIN);
    let count = short.clone().count();
    let least = short.copied().reduce(f64::min)?;
    Some(Caveat::new(
        "CPU time",
        format!(
            "in {count} of {} measurements others had a CPU of a stream for more than {:.0} % of the time, at most {:.0} %",
            run_ratios.len(),
            (1.0 - RUN_RATIO_MIN) * 100.0,
            (1.0 - least) * 100.0
        ),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn measurements_without_their_cpus_are_counted() {
        assert_eq!(run_caveat(&[1.0, 0.98]), None);
        let said = run_caveat(&[1.0, 0.5, 0.9, 1.0]).unwrap().reason;
        assert!(
            said.contains("2 of 4") && said.contains("at most 50 %"),
            "{said}"
        );
    }
}
