// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Cells out of samples. Pure: the statistics are weir-bench's, the document is weir-report's.

use super::plan::{PairPlan, PairTask, PlannedStream};
use std::collections::BTreeMap;
use weir_bench::paired::{self, Effect, Influence, Pair};
use weir_core::units::geometric_mean;
use weir_report::interference::class::InfluenceClass;
use weir_report::interference::document::{
    InterferenceCell, InterferenceStream, PlacementPoint, StreamFigures, SweepPoint, WaitCounters,
};

/// Half-width of the 95 % interval, relative, at which repetitions end.
pub const HALF_WIDTH_RATIO: f64 = 0.02;
const NO_COUNTERS: &str = "this version of weir reads no counters of waiting requests";
const BLOCKED: &str =
    "the victim moved nothing together in most repetitions: 0 has no logarithm, so no interval";
const NOTHING_ALONE: &str =
    "the victim moved nothing alone in most repetitions: give a longer --seconds";

/// What one repetition measured: figures of both sides, for each measurement. An idle side has none.
pub type RepetitionSample = BTreeMap<PairTask, [StreamFigures; 2]>;

#[derive(Clone, Debug)]
pub struct PairSamples {
    pub plan: PairPlan,
    /// The streams as documents describe them, with their numbers of threads as victims.
    pub streams: [InterferenceStream; 2],
    /// Whole repetitions, of one placement of the CPUs.
    pub repetitions: Vec<RepetitionSample>,
    /// Round trip and whole repetitions of each placement.
    pub placements: Vec<(f64, Vec<RepetitionSample>)>,
    /// Why figures of a side are not known, by their names.
    pub missing: [BTreeMap<String, String>; 2],
}

impl PairSamples {
    /// Alone and together of a victim at a point, one a repetition.
    fn pairs(&self, victim: usize, point: [u32; 2]) -> Vec<Pair> {
        pairs_of(&self.repetitions, victim, point)
    }

    /// A cell's effect by placement, where there is one.
    fn placement_points(&self, victim: usize, point: [u32; 2]) -> Vec<PlacementPoint> {
        let points = self.placements.iter().map(|(round_trip_ns, repetitions)| {
            let pairs = pairs_of(repetitions, victim, point);
            let (ratio, ratio_low, ratio_high, repeats) = parts(paired::effect(&pairs), &pairs);
            PlacementPoint {
                round_trip_ns: *round_trip_ns,
                ratio,
                ratio_low,
                ratio_high,
                repeats,
            }
        });
        points.filter(|point| point.ratio.is_some()).collect()
    }

    /// Whether each victim is known well enough at each point.
    pub fn is_enough(&self) -> bool {
        self.plan.victims().into_iter().all(|victim| {
            let mut points = self.plan.points(victim).into_iter();
            points.all(|point| paired::is_enough(&self.pairs(victim, point), HALF_WIDTH_RATIO))
        })
    }

    /// The widest half-width of an interval so far, relative.
    pub fn half_width_ratio(&self) -> Option<f64> {
        let widths = self.plan.victims().into_iter().flat_map(|victim| {
            let points = self.plan.points(victim).into_iter();
            points.map(move |point| {
                let effect = paired::effect(&self.pairs(victim, point))?;
                Some((effect.high / effect.low).sqrt() - 1.0)
            })
        });
        widths
            .collect::<Option<Vec<f64>>>()?
            .into_iter()
            .reduce(f64::max)
    }

    /// Means of a side's figures in a measurement.
    fn mean(&self, side: usize, task: PairTask) -> StreamFigures {
        let all = self
            .repetitions
            .iter()
            .filter_map(|sample| sample.get(&task));
        let all: Vec<StreamFigures> = all.map(|sides| sides[side]).collect();
        let of =
            |figure: fn(&StreamFigures) -> Option<f64>| mean_or_zero(all.iter().filter_map(figure));
        StreamFigures {
            bytes_per_sec: of(|f| f.bytes_per_sec),
            latency_ns: of(|f| f.latency_ns),
            ops_per_sec: of(|f| f.ops_per_sec),
            cpu_ns_per_op: of(|f| f.cpu_ns_per_op),
            latency_p99_ns: of(|f| f.latency_p99_ns),
        }
    }

    fn stream(&self, side: usize, threads: u32) -> InterferenceStream {
        InterferenceStream {
            threads,
            ..self.streams[side].clone()
        }
    }

    fn cell(&self, victim: usize, verdict: &Influence) -> InterferenceCell {
        let points = self.plan.points(victim);
        let background = 1 - victim;
        let shown = points
            .get(verdict.greatest)
            .copied()
            .unwrap_or(self.plan.full);
        let sweep = match points.len() {
            0 | 1 => Vec::new(),
            _ => points
                .iter()
                .map(|point| self.sweep_point(victim, *point))
                .collect(),
        };
        let (ratio, ratio_low, ratio_high, repeats) =
            parts(verdict.effect, &self.pairs(victim, shown));
        let alone = self.mean(victim, PairTask::Alone(victim));
        let mut cell = InterferenceCell {
            victim: self.stream(victim, shown[victim]),
            background: self.stream(background, shown[background]),
            alone,
            together: self.mean(victim, PairTask::Together(shown)),
            ratio,
            ratio_low,
            ratio_high,
            repeats,
            interferes: verdict.interferes,
            class: match (verdict.effect, ratio) {
                (Some(effect), _) => InfluenceClass::between(effect.low, effect.high),
                (None, Some(blocked)) => vec![InfluenceClass::of(blocked)],
                (None, None) => Vec::new(),
            },
            counters: WaitCounters::default(),
            sweep,
            placements: self.placement_points(victim, shown),
            place: None,
            missing: BTreeMap::new(),
        };
        cell.missing = self.reasons(victim, &cell);
        cell
    }

    fn sweep_point(&self, victim: usize, point: [u32; 2]) -> SweepPoint {
        let pairs = self.pairs(victim, point);
        let (ratio, ratio_low, ratio_high, repeats) = parts(paired::effect(&pairs), &pairs);
        SweepPoint {
            victim_threads: point[victim],
            background_threads: point[1 - victim],
            ratio,
            ratio_low,
            ratio_high,
            repeats,
            alone: self.mean(victim, PairTask::Alone(victim)),
            together: self.mean(victim, PairTask::Together(point)),
        }
    }

    /// A reason for each null of a cell.
    fn reasons(&self, victim: usize, cell: &InterferenceCell) -> BTreeMap<String, String> {
        let mut reasons: BTreeMap<String, String> = BTreeMap::new();
        for name in [
            "admission_wait_ns",
            "tracker_residence_ddr_ns",
            "tracker_residence_cxl_ns",
            "l2_miss_latency_ns",
            "l3_miss_latency_ns",
        ] {
            reasons.insert(format!("counters.{name}"), NO_COUNTERS.into());
        }
        for (part, figures) in [("alone", &cell.alone), ("together", &cell.together)] {
            let absent = [
                ("bytes_per_sec", figures.bytes_per_sec.is_none()),
                ("latency_ns", figures.latency_ns.is_none()),
                ("ops_per_sec", figures.ops_per_sec.is_none()),
                ("cpu_ns_per_op", figures.cpu_ns_per_op.is_none()),
            ];
            for (name, _) in absent.into_iter().filter(|(_, is_absent)| *is_absent) {
                let known = self.missing[victim].get(name);
                let why = known.map_or_else(
                    || usual_reason(&self.plan.sides[victim], name),
                    Clone::clone,
                );
                reasons.insert(format!("{part}.{name}"), why);
            }
        }
        let undecided = match cell.ratio_low {
            Some(_) => {
                "the interval neither excludes 1 after Holm's correction nor lies within 5 % of it"
            }
            None => {
                "repetitions without a byte are too few for the sign test after Holm's correction"
            }
        };
        match (cell.ratio, cell.interferes) {
            (None, _) => {
                let why = match judged(&cell.alone) {
                    Some(0.0) => NOTHING_ALONE.into(),
                    _ => format!(
                        "{} whole repetitions are too few for an interval",
                        self.repetitions.len()
                    ),
                };
                for name in ["ratio", "ratio_low", "ratio_high", "interferes"] {
                    reasons.insert(name.into(), why.clone());
                }
            }
            (_, None) => drop(reasons.insert("interferes".into(), undecided.into())),
            _ => {}
        }
        if cell.ratio.is_some() && cell.ratio_low.is_none() {
            for name in ["ratio_low", "ratio_high"] {
                reasons.insert(name.into(), BLOCKED.into());
            }
        }
        if cell.victim.width_bytes.is_none() {
            reasons.insert(
                "victim.width_bytes".into(),
                "it is no stream of memory accesses".into(),
            );
        }
        if cell.background.width_bytes.is_none() {
            reasons.insert(
                "background.width_bytes".into(),
                "it is no stream of memory accesses".into(),
            );
        }
        reasons
    }
}

/// Alone and together of a victim at a point, one a repetition.
fn pairs_of(repetitions: &[RepetitionSample], victim: usize, point: [u32; 2]) -> Vec<Pair> {
    let figure = |sample: &RepetitionSample, task| {
        sample.get(&task).and_then(|sides| judged(&sides[victim]))
    };
    let pair = |sample: &RepetitionSample| {
        let alone = figure(sample, PairTask::Alone(victim))?;
        Some((alone, figure(sample, PairTask::Together(point))?))
    };
    repetitions.iter().filter_map(pair).collect()
}

fn usual_reason(stream: &PlannedStream, name: &str) -> String {
    let is_program = !matches!(stream, PlannedStream::Ours { .. });
    match (is_program, name) {
        (true, _) => "a program has only the figure that it prints".into(),
        (false, "ops_per_sec" | "cpu_ns_per_op") => {
            "a stream of memory accesses has no I/Os".into()
        }
        (false, _) => {
            "it was not measured: nothing took part that has it, or nothing ended in the span"
                .into()
        }
    }
}

/// What a victim is judged by.
fn judged(figures: &StreamFigures) -> Option<f64> {
    figures.bytes_per_sec.or(figures.ops_per_sec)
}

/// Ratio, ends of its interval, repetitions.
fn parts(effect: Option<Effect>, pairs: &[Pair]) -> (Option<f64>, Option<f64>, Option<f64>, u32) {
    match (effect, paired::blocked(pairs)) {
        (Some(e), _) => (Some(e.ratio), Some(e.low), Some(e.high), e.repeats),
        (None, Some(repeats)) => (Some(0.0), None, None, repeats),
        (None, None) => (None, None, None, 0),
    }
}

/// The mean of the values, or 0 where most values are 0. Together ÷ alone of such means is the mean of the
/// ratios.
fn mean_or_zero(values: impl Iterator<Item = f64>) -> Option<f64> {
    let usable: Vec<f64> = values.filter(|v| v.is_finite() && *v >= 0.0).collect();
    let moved: Vec<f64> = usable.iter().copied().filter(|v| *v > 0.0).collect();
    if 2 * moved.len() < usable.len() {
        return Some(0.0);
    }
    geometric_mean(moved)
}

/// The cells of all pairs, in their order. Holm's correction is over all of them.
pub fn cells(samples: &[PairSamples], seed: u64) -> Vec<InterferenceCell> {
    let all: Vec<(&PairSamples, usize)> = samples
        .iter()
        .flat_map(|pair| {
            pair.plan
                .victims()
                .into_iter()
                .map(move |victim| (pair, victim))
        })
        .collect();
    let points: Vec<Vec<Vec<Pair>>> = all
        .iter()
        .map(|(pair, victim)| {
            let points = pair.plan.points(*victim).into_iter();
            points.map(|point| pair.pairs(*victim, point)).collect()
        })
        .collect();
    let verdicts = paired::sweep_verdicts(&points, seed);
    let both = all.iter().zip(&verdicts);
    both.map(|((pair, victim), verdict)| pair.cell(*victim, verdict))
        .collect()
}

#[cfg(test)]
mod tests;
