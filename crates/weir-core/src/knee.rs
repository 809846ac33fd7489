// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The knee of a device: the bandwidth above which latency rises steeply, from measured points of its
//! loaded-latency curve.
//!
//! *Definition.* The knee is the load at which bandwidth ÷ latency is largest (Kleinrock's *power*):
//! up to it one more percent of bandwidth costs less than one percent of latency, above it more. It
//! needs no threshold, does not depend on units, and is the thesis's "point with the best ratio of
//! bandwidth and latency" (6.3).
//!
//! *Finding it.* Power is flat around its maximum, so the largest of some noisy points says little of where
//! the maximum is. Latency has two parts of known shape: what rises from the start and queueing, L(B) = L₀ +
//! a·√u + s·u/(2(1 − u)) with u = B/C, a form that fits measured CXL curves within a percent or two below 97
//! % of their peak. For each capacity C of a fine grid the three factors follow by linear least squares, on
//! relative errors and not below zero; the C with the smallest error wins, and the maximum of power follows
//! from the curve. Where the curve is steep a small error of the bandwidth is a large one of the latency:
//! such points weigh less. Points past the peak, where bandwidth no longer rises with load, bound C and take
//! no part in the fit.
//!
//! *Where to measure.* A device with nearly no queue has a wall, and its knee lies at the wall. Loads far
//! apart there leave it anywhere between them, whatever is fitted; so [`next_load`] gives one more between.

use crate::units::{BytesPerSec, Nanos};
use serde::{Deserialize, Serialize};

/// One measured point of a loaded-latency curve.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct LoadPoint {
    /// Device bandwidth, reads and writes, in bytes per second.
    pub bytes_per_sec: BytesPerSec,
    /// Mean latency of an access at that load.
    pub latency_ns: Nanos,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Knee {
    pub bytes_per_sec: BytesPerSec,
    /// Latency there, on the fitted curve.
    pub latency_ns: Nanos,
    /// Root mean square error of the fitted curve, relative to the measured latencies.
    pub fit_error_ratio: f64,
}

impl Knee {
    /// Latency at another load, between the points it was found from, in nanoseconds.
    pub fn latency_at(&self, points: &[LoadPoint], bytes_per_sec: f64) -> f64 {
        let rising = rising_part(points);
        let above = rising.iter().position(|(b, _)| *b >= bytes_per_sec);
        match above {
            Some(0) => rising[0].1,
            Some(i) => {
                let ((b0, l0), (b1, l1)) = (rising[i - 1], rising[i]);
                l0 + (l1 - l0) * (bytes_per_sec - b0) / (b1 - b0)
            }
            None => self.latency_ns.0 as f64,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum NoKnee {
    #[error("{points} usable points: a curve needs at least {POINTS_MIN} different loads")]
    TooFew { points: usize },
    /// Latency does not take off in what was measured: the knee lies above.
    #[error(
        "latency has not taken off up to {}: the knee lies above, measure at more load",
        BytesPerSec::new(*highest)
    )]
    NotReached {
        /// The highest load measured, in bytes per second.
        highest: f64,
    },
    /// Latency has taken off everywhere: the knee lies below what was measured.
    #[error(
        "latency has taken off at {} already: the knee lies below, measure at less load",
        BytesPerSec::new(*lowest)
    )]
    Passed {
        /// The lowest load measured, in bytes per second.
        lowest: f64,
    },
}

/// Fewer loads than this are no curve.
pub const POINTS_MIN: usize = 5;

/// A point is past the peak if its latency is this many times that of a point with more bandwidth. It bounds
/// the capacity of the device and takes no part in the fit.
const PAST: f64 = 1.15;

/// Two loads that differ by less than this part are one load, and their latencies are averaged.
const SAME_LOAD: f64 = 0.01;

/// The number of capacities that are tried, from the highest bandwidth seen to twice that. For each of them
/// the rest of the fit is linear, so that a grid is quick and finds no local minimum.
const GRID: usize = 160;

/// The knee of the curve that `points` lie on, in any order. Points that are not positive and finite are
/// passed over.
///
/// A knee above all that was measured is believed in two cases alone: the device was seen past its peak, so
/// that there is a wall, or power has clearly fallen within the points, so that the fit is what is wrong. In
/// both the best measured load is the knee.
///
/// # Errors
///
/// [`NoKnee`]: too few points, or none above the knee.
pub fn find(points: &[LoadPoint]) -> Result<Knee, NoKnee> {
    let rising = rising_part(points);
    let Some(highest) = rising
        .last()
        .map(|p| p.0)
        .filter(|_| rising.len() >= POINTS_MIN)
    else {
        return Err(NoKnee::TooFew {
            points: rising.len(),
        });
    };
    let weights = weights(&rising);
    let fits = (1..=GRID).map(|i| {
        // Finer near the highest load, where the wall most often is.
        let part = i as f64 / GRID as f64;
        Fit::with_capacity(highest * (1.0 + 0.002 + part * part), &rising, &weights)
    });
    let best = fits.min_by(|a, b| a.error.total_cmp(&b.error));
    let Some(best) = best else {
        return Err(NoKnee::NotReached { highest });
    };
    let mut knee = best.most_power();
    if knee > highest {
        if !has_crest(points, &rising) && !has_fallen(&rising) {
            return Err(NoKnee::NotReached { highest });
        }
        // A wall: up to the crest latency hardly rose, and more load brought latency instead of bandwidth.
        knee = best_measured(&rising);
    }
    let lowest = rising[0].0;
    if knee < lowest {
        return Err(NoKnee::Passed { lowest });
    }
    Ok(Knee {
        bytes_per_sec: BytesPerSec::new(knee),
        latency_ns: Nanos::rounded(best.latency_ns(knee)),
        fit_error_ratio: best.error,
    })
}

/// Loads beside the best one that lie further apart than this leave the position of the knee open: the curve
/// between them is not known, and a wall there looks like a slope.
const GAP: f64 = 0.04;

/// The load that one more measurement should be made at: in the middle of the wider gap beside the point with
/// the largest power. Nothing when both gaps are narrow, or there is no curve yet.
pub fn next_load(points: &[LoadPoint]) -> Option<BytesPerSec> {
    let rising = rising_part(points);
    let power = |p: &(f64, f64)| p.0 / p.1;
    let by_power = |a: &usize, b: &usize| power(&rising[*a]).total_cmp(&power(&rising[*b]));
    let best = (0..rising.len()).max_by(by_power)?;
    let gap = |low: usize| Some((rising.get(low)?.0, rising.get(low + 1)?.0));
    let beside = [best.checked_sub(1).and_then(gap), gap(best)];
    let wide = beside.into_iter().flatten();
    let (low, high) = wide.max_by(|a, b| (a.1 / a.0).total_cmp(&(b.1 / b.0)))?;
    (high > low * (1.0 + GAP)).then(|| BytesPerSec::new((low * high).sqrt()))
}

/// The load of the point with the largest power.
fn best_measured(rising: &[(f64, f64)]) -> f64 {
    let power = |p: &&(f64, f64)| p.0 / p.1;
    let best = rising.iter().max_by(|a, b| power(a).total_cmp(&power(b)));
    best.map_or(0.0, |p| p.0)
}

/// Bandwidth and latency, ordered by bandwidth: one point a load, and nothing that has less
/// bandwidth at a higher latency than another point (the other side of the peak).
fn rising_part(points: &[LoadPoint]) -> Vec<(f64, f64)> {
    let mut all: Vec<(f64, f64)> = points
        .iter()
        .map(|p| (p.bytes_per_sec.get(), p.latency_ns.0 as f64))
        .filter(|(b, l)| b.is_finite() && *b > 0.0 && *l > 0.0)
        .collect();
    all.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
    // From the top: what has a far higher latency than a point with more bandwidth is past the peak.
    let mut lowest = f64::INFINITY;
    let mut kept = Vec::with_capacity(all.len());
    for point in all.into_iter().rev() {
        if point.1 <= PAST * lowest {
            lowest = lowest.min(point.1);
            kept.push(point);
        }
    }
    kept.reverse();
    merged(&kept)
}

/// Whether the device was seen past its highest bandwidth: with far more latency and no more bandwidth.
fn has_crest(points: &[LoadPoint], rising: &[(f64, f64)]) -> bool {
    let Some(&(highest, latency)) = rising.last() else {
        return false;
    };
    points.iter().any(|p| {
        let (b, l) = (p.bytes_per_sec.get(), p.latency_ns.0 as f64);
        b.is_finite() && b > PAST_PEAK * highest && l > PAST * latency
    })
}

/// Power that has fallen by this factor up to the highest load does not rise to a new maximum above it.
///
/// Loading threads that had fallen into step made points on no curve; the fit put the knee beyond the
/// capacity of the device, and `weir calibrate` found none, in one of four runs of the testbed.
const FALLEN: f64 = 1.5;

/// Whether the largest power lies within what was measured, whatever the fit says: a few points that are off,
/// as where threads fall into step with each other, can put its maximum above all of them.
fn has_fallen(rising: &[(f64, f64)]) -> bool {
    let powers = rising.iter().map(|(b, l)| b / l);
    let last = rising.last().map_or(0.0, |(b, l)| b / l);
    powers.fold(0.0, f64::max) > FALLEN * last
}

/// Past the peak a device gives a little less; much less at a high latency is something else.
const PAST_PEAK: f64 = 0.8;

/// Loads that are the same are averaged.
fn merged(sorted: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let mut out: Vec<(f64, f64, f64)> = Vec::new();
    for &(b, l) in sorted {
        match out.last_mut() {
            Some((sum_b, sum_l, n)) if b <= *sum_b / *n * (1.0 + SAME_LOAD) => {
                *sum_b += b;
                *sum_l += l;
                *n += 1.0;
            }
            _ => out.push((b, l, 1.0)),
        }
    }
    out.into_iter().map(|(b, l, n)| (b / n, l / n)).collect()
}

/// Weights of the points in the fit, by the steepness of the curve at each: percent of latency per percent of
/// bandwidth. Where the curve is steep a small error of the bandwidth is a large one of the latency. The
/// weight is the cosine of the curve's angle, and so makes of an error in latency the distance from the
/// curve, both on logarithmic axes.
fn weights(points: &[(f64, f64)]) -> Vec<f64> {
    let steepness = |i: usize| {
        let (from, to) = (
            points[i.saturating_sub(1)],
            points[(i + 1).min(points.len() - 1)],
        );
        (to.1 / from.1).ln() / (to.0 / from.0).ln()
    };
    (0..points.len())
        .map(|i| 1.0 / f64::hypot(1.0, steepness(i)))
        .collect()
}

/// L(B) = Σ factors · shapes(B/C).
#[derive(Clone, Copy, Debug)]
struct Fit {
    capacity: f64,
    factors: [f64; 3],
    error: f64,
}

fn shapes(u: f64) -> [f64; 3] {
    [1.0, u.sqrt(), u / (2.0 * (1.0 - u))]
}

impl Fit {
    fn with_capacity(capacity: f64, points: &[(f64, f64)], weights: &[f64]) -> Fit {
        // Relative errors: each row is divided by its latency, and the right side is 1.
        let row = |(&(b, l), &weight): (&(f64, f64), &f64)| {
            let [one, root, queue] = shapes(b / capacity).map(|x| x / l * weight);
            [one, root, queue, weight]
        };
        let rows: Vec<Row> = points.iter().zip(weights).map(row).collect();
        let (factors, square) = not_negative(&rows);
        let all: f64 = weights.iter().map(|w| w * w).sum();
        let error = (square / all.max(f64::MIN_POSITIVE)).sqrt();
        Fit {
            capacity,
            factors,
            error,
        }
    }

    /// Latency of the fitted curve. It has no bound at the capacity, so that loads from 0.9999 of it on have
    /// one latency.
    fn latency_ns(&self, bandwidth: f64) -> f64 {
        let u = (bandwidth / self.capacity).clamp(0.0, 0.9999);
        let parts = shapes(u);
        parts.iter().zip(&self.factors).map(|(x, f)| x * f).sum()
    }

    /// The bandwidth with the largest power. ln B − ln L has one maximum on this family of curves: L
    /// grows ever faster relative to B.
    fn most_power(&self) -> f64 {
        let power = |u: f64| u / self.latency_ns(u * self.capacity).max(f64::MIN_POSITIVE);
        let (mut low, mut high) = (0.0, 0.9999);
        for _ in 0..100 {
            let third = (high - low) / 3.0;
            if power(low + third) < power(high - third) {
                low += third;
            } else {
                high -= third;
            }
        }
        0.5 * (low + high) * self.capacity
    }
}

/// Three columns and the right side.
type Row = [f64; 4];

/// Least squares with x ≥ 0: of all subsets of the three columns that have the first, the one with the
/// smallest error among those with a solution that is not negative; and that error, squared and summed.
/// Without any, all zero. The first is the idle latency: noise must not make it zero, which would put the
/// knee at no load.
fn not_negative(rows: &[Row]) -> ([f64; 3], f64) {
    let mut best = ([0.0; 3], f64::INFINITY);
    for subset in [0b001_u8, 0b011, 0b101, 0b111] {
        let used: Vec<usize> = (0..3).filter(|i| subset & (1 << i) != 0).collect();
        let Some(x) = least_squares(rows, &used) else {
            continue;
        };
        if x.iter().any(|f| *f < 0.0) {
            continue;
        }
        let error = |row: &Row| {
            let sum: f64 = row.iter().zip(&x).map(|(a, f)| a * f).sum();
            (sum - row[3]).powi(2)
        };
        let error: f64 = rows.iter().map(error).sum();
        if error < best.1 {
            best = (x, error);
        }
    }
    best
}

/// Least squares over the columns that are used, by their normal equations: at most three unknowns. Pivots
/// are chosen by size. Columns that depend on each other have no solution, and nothing is returned for them.
fn least_squares(rows: &[Row], used: &[usize]) -> Option<[f64; 3]> {
    let n = used.len();
    let mut m = [[0.0; 4]; 3];
    for row in rows {
        for (i, &a) in used.iter().enumerate() {
            for (j, &b) in used.iter().enumerate() {
                m[i][j] += row[a] * row[b];
            }
            m[i][3] += row[a] * row[3];
        }
    }
    for i in 0..n {
        let pivot = (i..n).max_by(|&a, &b| m[a][i].abs().total_cmp(&m[b][i].abs()))?;
        m.swap(i, pivot);
        let lead = m[i];
        if lead[i].abs() < 1e-300 {
            return None;
        }
        for (j, row) in m.iter_mut().enumerate().take(n) {
            if j != i {
                let factor = row[i] / lead[i];
                for (cell, top) in row.iter_mut().zip(lead) {
                    *cell -= factor * top;
                }
            }
        }
    }
    let mut x = [0.0; 3];
    for (i, &column) in used.iter().enumerate() {
        x[column] = m[i][3] / m[i][i];
    }
    x.iter().all(|f| f.is_finite()).then_some(x)
}

#[cfg(test)]
mod tests;
