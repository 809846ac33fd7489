// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What each lever leaves of a victim and of its background: one curve a lever. A lever that shares time
//! moves along the straight line between "background alone stops" and "no lever"; one that slows requests can
//! leave the line at the knee, where the pool is no longer full.

use super::ask::PathModel;
use super::paper::{THREADS, VictimBeside, beside};
use anyhow::{Context, Result};
use serde::Serialize;
use weir_hw::host_path::{Lever, MbaLaw, StreamOp};

/// MMEM kept that a lever is judged at: the paper's quota.
const JUDGED_AT: f64 = 0.92;
/// MMEM kept that counts as all.
const WHOLE: f64 = 0.97;
/// Steps of a curve.
const STEPS: u32 = 20;

#[derive(Clone, Copy, Debug, Serialize)]
pub struct TradePoint {
    pub value: f64,
    /// Part of its bandwidth that the background keeps, of that beside the victim without a lever.
    pub background_kept: f64,
    /// Part of its bandwidth alone that the victim keeps.
    pub victim_kept: f64,
}

#[derive(Clone, Debug, Serialize)]
pub struct TradeCurve {
    pub lever: &'static str,
    /// What it does: shares time, slows requests, changes the machine.
    pub how: &'static str,
    pub points: Vec<TradePoint>,
    /// The most that the victim lies off the straight line, in points of its bandwidth alone.
    pub off_line_points: f64,
    /// The most that the background keeps while the victim keeps 97 %.
    pub background_at_97_percent: Option<f64>,
    /// The most that the background keeps while the victim keeps 92 %.
    pub background_at_92_percent: Option<f64>,
}

/// All curves, of 16 readers of DRAM beside 16 writers of CXL memory.
#[derive(Clone, Debug, Serialize)]
pub struct Trade {
    /// The victim alone, bytes per second.
    pub victim_alone_bytes_per_sec: f64,
    /// The background beside the victim without a lever, bytes per second.
    pub background_bytes_per_sec: f64,
    /// What the victim keeps without a lever.
    pub victim_kept_without: f64,
    /// One for each lever.
    pub curves: Vec<TradeCurve>,
}

const SHARES_TIME: &str = "shares time";
const SLOWS: &str = "slows requests";
const CHANGES: &str = "changes the machine";

/// Levers with their values at a part from above 0 to 1.
type Values = Vec<(f64, Vec<Lever>)>;

fn parts() -> impl Iterator<Item = f64> {
    (1..=STEPS).map(|step| f64::from(step) / f64::from(STEPS))
}

fn by_part(lever: impl Fn(f64) -> Vec<Lever>) -> Values {
    parts().map(|part| (part, lever(part))).collect()
}

fn curves(model: &PathModel, most_bytes_per_sec: f64) -> Vec<(&'static str, &'static str, Values)> {
    let least = model.machine.levers.mba_least;
    let mba = |law| {
        let values = parts().filter(|part| *part >= least);
        values
            .map(|part| (part, vec![Lever::Mba(part, Some(law))]))
            .collect()
    };
    let (low, high) = (model.machine.levers.least_ghz, model.machine.cores.ghz);
    let rate = |lever: fn(f64) -> Lever| {
        let values = parts().map(|part| part * 1.1 * most_bytes_per_sec);
        values.map(|rate| (rate, vec![lever(rate)])).collect()
    };
    let ghz = parts().map(|part| low + part * (high - low));
    let own = [16.0, 32.0, 64.0, 128.0, 256.0, 512.0];
    vec![
        (
            "quota",
            SHARES_TIME,
            by_part(|part| vec![Lever::Quota(part)]),
        ),
        (
            "quota, one at a time",
            SHARES_TIME,
            by_part(|part| vec![Lever::Staggered(1.0), Lever::Quota(part)]),
        ),
        (
            "staggered, 1 to 16",
            SHARES_TIME,
            (1..=THREADS)
                .map(|threads| {
                    (
                        f64::from(threads),
                        vec![Lever::Staggered(f64::from(threads))],
                    )
                })
                .collect(),
        ),
        ("mba-linear", SLOWS, mba(MbaLaw::Linear)),
        ("mba-steps", SLOWS, mba(MbaLaw::Steps)),
        ("mba-floor", SLOWS, mba(MbaLaw::Floor)),
        ("smba", SLOWS, rate(Lever::Smba)),
        (
            "frequency",
            SLOWS,
            ghz.map(|ghz| (ghz, vec![Lever::Frequency(ghz)])).collect(),
        ),
        (
            "device-regulator-before",
            CHANGES,
            rate(Lever::RegulatorBefore),
        ),
        (
            "device-regulator-after",
            CHANGES,
            rate(Lever::RegulatorAfter),
        ),
        (
            "own-pool",
            CHANGES,
            own.map(|count| (count, vec![Lever::OwnPool(count)])).into(),
        ),
    ]
}

fn mix(model: &PathModel, levers: &[Lever]) -> Result<VictimBeside> {
    let victim = ("mmem", StreamOp::Ld, THREADS);
    beside(model, victim, ("cxl", StreamOp::Ntst, THREADS), levers)
}

/// All curves.
///
/// # Errors
/// The machine has no mmem or no cxl, or fewer than 32 cores.
pub fn trade(model: &PathModel) -> Result<Trade> {
    let base = mix(model, &[]).context("the curves are of mmem:ld:16+cxl:ntst:16")?;
    let background = base.together.streams[1].bytes_per_sec();
    let without = base.kept();
    let mut all = Vec::new();
    for (lever, how, values) in curves(model, background) {
        let mut points = Vec::with_capacity(values.len());
        for (value, levers) in values {
            let with = mix(model, &levers)?;
            points.push(TradePoint {
                value,
                background_kept: with.together.streams[1].bytes_per_sec() / background,
                victim_kept: with.kept(),
            });
        }
        all.push(TradeCurve {
            lever,
            how,
            off_line_points: off_line(&points, without),
            background_at_97_percent: most_at(&points, WHOLE, how),
            background_at_92_percent: most_at(&points, JUDGED_AT, how),
            points,
        });
    }
    Ok(Trade {
        victim_alone_bytes_per_sec: base.alone.streams[0].bytes_per_sec(),
        background_bytes_per_sec: background,
        victim_kept_without: without,
        curves: all,
    })
}

/// The straight line: a background that runs for a part of the time takes this part of what it takes.
pub fn line(background_kept: f64, victim_kept_without: f64) -> f64 {
    1.0 - background_kept * (1.0 - victim_kept_without)
}

fn off_line(points: &[TradePoint], without: f64) -> f64 {
    let off = points
        .iter()
        .map(|p| (p.victim_kept - line(p.background_kept, without)).abs() * 1e2);
    off.fold(0.0, f64::max)
}

/// The most that the background keeps while the victim keeps so much. Of a lever that shares time also what
/// lies between two values, by a straight line.
fn most_at(points: &[TradePoint], victim_kept: f64, how: &str) -> Option<f64> {
    let enough = points.iter().filter(|p| p.victim_kept >= victim_kept);
    let best = enough.max_by(|a, b| a.background_kept.total_cmp(&b.background_kept));
    if how != SHARES_TIME {
        return best.map(|point| point.background_kept);
    }
    // A background that never runs costs the victim nothing.
    let from = best.map_or((0.0, 1.0), |p| (p.background_kept, p.victim_kept));
    let above = points.iter().filter(|p| p.background_kept > from.0);
    let next = above.min_by(|a, b| a.background_kept.total_cmp(&b.background_kept));
    let Some(next) = next else {
        return Some(from.0);
    };
    let part = (from.1 - victim_kept) / (from.1 - next.victim_kept);
    Some(from.0 + part * (next.background_kept - from.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(background_kept: f64, victim_kept: f64) -> TradePoint {
        TradePoint {
            value: 0.0,
            background_kept,
            victim_kept,
        }
    }

    #[test]
    fn a_straight_line_is_on_the_line() {
        let points = [point(0.5, 0.55), point(1.0, 0.1)];
        assert!(off_line(&points, 0.1) < 1e-9);
        let at = most_at(&points, 0.91, SHARES_TIME).unwrap();
        assert!((at - 0.1).abs() < 1e-9, "{at}");
        assert_eq!(most_at(&points, 0.91, SLOWS), None);
        assert_eq!(most_at(&points, 0.55, SLOWS), Some(0.5));
        assert!((off_line(&[point(0.5, 1.0)], 0.1) - 45.0).abs() < 1e-9);
    }
}
