// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Our values of what the thesis prints: one definition for the tables of the page and for runs in which an
//! assumption is varied.

use super::context::{of_run, over_seeds};
use weir::lab::batch::{Batch, Made};
use weir_core::units::GIB;
use weir_scenario::figures::nearest_rank;
use weir_scenario::simulated::Role;
use weir_sim::WorkloadSeries;

const MIB: f64 = 1_048_576.0;
/// What each reader of 6.2.2 reads.
const READER_MIB: f64 = 512.0;

/// Lowest, mean and highest of the seeds of a figure, by its name in [`super::published_figures`].
pub fn value(batch: &Batch, choice: usize, figure: &str) -> Option<[f64; 3]> {
    let run = |of: fn(&weir_report::results::Run) -> Option<f64>| of_run(batch, choice, of);
    let micros = |of: fn(&Made) -> Option<f64>| {
        over_seeds(batch, choice, move |made| of(made).map(|ns| ns / 1e3))
    };
    match figure {
        "mean_gib_per_sec" => run(|r| Some(r.bandwidth.mean_bytes_per_sec / GIB)),
        "stddev_gib_per_sec" => run(|r| Some(r.bandwidth.stddev_bytes_per_sec / GIB)),
        "rmse_gib_per_sec" => {
            run(|r| Some(r.bandwidth.rmse_ratio * r.set_point_bytes_per_sec / GIB))
        }
        "q1_gib_per_sec" => windows_at(batch, choice, 0.25),
        "q3_gib_per_sec" => windows_at(batch, choice, 0.75),
        "mean_us" => micros(|m| m.measures.limited_readers.mean_ns),
        "stddev_us" => micros(|m| m.measures.limited_readers.stddev_ns),
        "q1_us" => micros(|m| m.measures.limited_blocks.quantile_ns(0.25)),
        "q3_us" => micros(|m| m.measures.limited_blocks.quantile_ns(0.75)),
        "cpu_sec_per_gib" => run(|r| r.cpu_sec_per_gib),
        "throughput_gain_percent" => gain(batch, choice),
        "loop_mean_ms" => over_seeds(batch, choice, |m| mean(&m.measures.loop_ms)),
        "controller_cpu_percent" => {
            over_seeds(batch, choice, |m| Some(m.measures.controller_cpus? * 1e2))
        }
        "limit_variation_ratio" => limit_variation(batch, choice),
        _ => of_reader(batch, choice, figure).or_else(|| of_estimate(batch, choice, figure)),
    }
}

/// Mean of what is there.
pub fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// A quantile of the windows of the measured time, in GiB/s.
fn windows_at(batch: &Batch, choice: usize, part: f64) -> Option<[f64; 3]> {
    let from = batch.scenario.control.settle_sec * 1e3;
    let to = batch.scenario.run_sec() * 1e3;
    over_seeds(batch, choice, |made| {
        let points = made.measures.series.iter();
        let inside = points.filter(|p| p.at_ms >= from && p.at_ms < to);
        let mut values: Vec<f64> = inside.map(|p| p.bytes_per_sec / GIB).collect();
        values.sort_by(f64::total_cmp);
        nearest_rank(&values, part)
    })
}

/// Work beside against the run without control, in percent.
fn gain(batch: &Batch, choice: usize) -> Option<[f64; 3]> {
    let free = batch.choices.iter().position(|c| c.name == "none")?;
    let base = of_run(batch, free, |r| r.throughput_ops_per_sec)?[1];
    let with = of_run(batch, choice, |r| r.throughput_ops_per_sec)?;
    Some(with.map(|ops| (ops / base - 1.0) * 1e2))
}

/// The readers that may be limited.
pub fn heavy(made: &Made) -> impl Iterator<Item = &WorkloadSeries> {
    let all = made.measures.workloads.iter();
    all.filter(|w| w.role == Role::Heavy)
}

/// A reader's windows of the measured time that are finite.
pub fn inside<'a>(batch: &Batch, made: &'a Made, values: &'a [f64]) -> Vec<f64> {
    let from = batch.scenario.control.settle_sec * 1e3;
    let points = made.measures.series.iter().zip(values);
    let inside = points.filter(|(p, v)| p.at_ms >= from && v.is_finite());
    inside.map(|(_, v)| *v).collect()
}

/// Mean over the measured time of one reader's series.
pub fn of_series(
    batch: &Batch,
    choice: usize,
    reader: &str,
    pick: fn(&WorkloadSeries) -> &[f64],
) -> Option<[f64; 3]> {
    over_seeds(batch, choice, |made| {
        let series = heavy(made).find(|w| w.name == reader)?;
        mean(&inside(batch, made, pick(series)))
    })
}

/// A figure of one reader of figure 12, such as `fio-1_used_cpus`.
fn of_reader(batch: &Batch, choice: usize, figure: &str) -> Option<[f64; 3]> {
    let (reader, which) = figure.split_once('_')?;
    match which {
        "used_cpus" => of_series(batch, choice, reader, |w| &w.cpus),
        "limit_cpus" => of_series(batch, choice, reader, |w| &w.limit_cpus),
        _ => None,
    }
}

/// How much limits change in the measured time: standard deviation ÷ mean of each reader's limit, mean of the
/// readers.
fn limit_variation(batch: &Batch, choice: usize) -> Option<[f64; 3]> {
    over_seeds(batch, choice, |made| {
        let of = |w: &WorkloadSeries| {
            let limits = inside(batch, made, &w.limit_cpus);
            let middle = mean(&limits)?;
            let squares: Vec<f64> = limits.iter().map(|l| (l - middle).powi(2)).collect();
            Some(mean(&squares)?.sqrt() / middle)
        };
        let all: Vec<f64> = heavy(made).filter_map(of).collect();
        mean(&all)
    })
}

/// Figures 7 and 8: of the reader that is estimated higher in a run, and of the other.
fn of_estimate(batch: &Batch, choice: usize, figure: &str) -> Option<[f64; 3]> {
    let (which, what) = figure.split_once('_')?;
    let nth = ["higher", "lower"].iter().position(|w| *w == which)?;
    over_seeds(batch, choice, |made| {
        let from = batch.scenario.control.settle_sec * 1e3;
        let points = || {
            made.measures
                .estimates
                .iter()
                .filter(move |p| p.at_ms >= from)
        };
        let mut readers: Vec<(f64, f64, f64)> = Vec::new();
        for w in heavy(made) {
            let mine: Vec<_> = points().filter(|p| p.workload == w.name).collect();
            let combined = mine.iter().map(|p| p.combined_bytes_per_sec / MIB);
            let sampled = mine.iter().map(|p| p.sampled_bytes_per_sec / MIB);
            let off = combined.clone().map(|c| (c - READER_MIB).powi(2));
            readers.push((
                mean(&combined.collect::<Vec<_>>())?,
                mean(&sampled.collect::<Vec<_>>())?,
                mean(&off.collect::<Vec<_>>())?.sqrt(),
            ));
        }
        readers.sort_by(|a, b| b.0.total_cmp(&a.0));
        let (combined, sampled, rmse) = readers.get(nth)?;
        match what {
            "mib_per_sec" => Some(*combined),
            "sampled_mib_per_sec" => Some(*sampled),
            "rmse_mib_per_sec" => Some(*rmse),
            _ => None,
        }
    })
}
