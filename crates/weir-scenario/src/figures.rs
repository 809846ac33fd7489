// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Figures by which a run is evaluated: bandwidth in windows, latencies, settling. Live and simulated runs
//! are compared field by field, so both compute them here. `docs/reference/results.md` says what each figure
//! is.

use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Bandwidth {
    pub mean_bytes_per_sec: f64,
    /// Standard deviation of the windows.
    pub stddev_bytes_per_sec: f64,
    /// Root mean square distance of the windows from the set-point, relative to it.
    pub rmse_ratio: f64,
    /// Mean minus set-point, relative to it.
    pub bias_ratio: f64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    pub mean_ns: Option<f64>,
    /// Standard deviation of the population; left out of files where it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stddev_ns: Option<f64>,
    pub p50_ns: Option<f64>,
    /// 99th percentile.
    pub p99_ns: Option<f64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// Start of the window since the start of the run.
    pub at_ms: f64,
    pub bytes_per_sec: f64,
}

impl Latency {
    /// From single values, any order; all `None` when there are none.
    pub fn of(mut values_ns: Vec<f64>) -> Self {
        values_ns.retain(|v| v.is_finite());
        values_ns.sort_by(f64::total_cmp);
        if values_ns.is_empty() {
            return Latency::default();
        }
        let mean = values_ns.iter().sum::<f64>() / values_ns.len() as f64;
        let rank = |q| nearest_rank(&values_ns, q);
        let squares = values_ns.iter().map(|v| (v - mean).powi(2)).sum::<f64>();
        Latency {
            mean_ns: Some(mean),
            stddev_ns: Some((squares / values_ns.len() as f64).sqrt()),
            p50_ns: rank(0.5),
            p99_ns: rank(0.99),
        }
    }
}

/// The smallest of the values, which must be sorted, that at least the part `q` of all do not exceed.
pub fn nearest_rank(sorted: &[f64], q: f64) -> Option<f64> {
    let rank = (q * sorted.len() as f64).ceil().max(1.0);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // 1 to the length.
    sorted.get(rank as usize - 1).copied()
}

impl Bandwidth {
    /// Makes the figures from windows of equal length.
    pub fn of(windows: &[f64], set_point: f64) -> Self {
        let count = windows.len().max(1) as f64;
        let mean = windows.iter().sum::<f64>() / count;
        let square =
            |about: f64| (windows.iter().map(|w| (w - about).powi(2)).sum::<f64>() / count).sqrt();
        Bandwidth {
            mean_bytes_per_sec: mean,
            stddev_bytes_per_sec: square(mean),
            rmse_ratio: square(set_point) / set_point,
            bias_ratio: mean / set_point - 1.0,
        }
    }
}

/// When a series settles: the first time from which on every mean over 2 s stays within 5 % of the
/// set-point until `until_ms`; and the highest mean over 500 ms after that, above the set-point,
/// relative to it. Single windows are too noisy to decide either.
pub fn settling(series: &[Point], set_point: f64, until_ms: f64) -> (Option<f64>, Option<f64>) {
    let points: Vec<&Point> = series.iter().filter(|p| p.at_ms < until_ms).collect();
    let mean =
        |group: &[&Point]| group.iter().map(|p| p.bytes_per_sec).sum::<f64>() / group.len() as f64;
    let outside = |group: &[&Point]| (mean(group) / set_point - 1.0).abs() > 0.05;
    let long: Vec<bool> = points.windows(20).map(outside).collect();
    let first = long.iter().rposition(|o| *o).map_or(0, |last| last + 1);
    if first >= long.len() {
        return (None, None);
    }
    let highest = points[first..].windows(5).map(mean).fold(0.0, f64::max);
    (
        Some(points[first].at_ms),
        Some((highest / set_point - 1.0).max(0.0)),
    )
}

/// What one workload has of each resource, and what dominant-resource fairness gives it. Ratios are parts of
/// all there is, 0 to 1.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WorkloadShares {
    /// Its weight; 100 is normal.
    pub weight: f64,
    pub cpu_ratio: Option<f64>,
    /// Its part of the DRAM node of which it has the largest part: of what that node gave while it was
    /// saturated, else of its capacity.
    pub dram_ratio: Option<f64>,
    /// Its part of a CXL device, reckoned like that of the DRAM node.
    pub cxl_ratio: Option<f64>,
    /// What disks moved for it, part of the largest memory's figure; counted in that memory's ratio too.
    pub dma_ratio: Option<f64>,
    /// The resource of which it has the largest share: `cpu`, `dram0`, `cxl0`, …
    pub dominant: Option<String>,
    pub dominant_ratio: Option<f64>,
    /// The share that progressive filling gives it, for all weights, demands and measured needs.
    pub target_ratio: Option<f64>,
    /// Share ÷ target − 1.
    pub error_ratio: Option<f64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_nearest_rank() {
        let latency = Latency::of((1..=100).rev().map(f64::from).collect());
        assert_eq!(latency.mean_ns, Some(50.5));
        let stddev = latency.stddev_ns.unwrap();
        assert!(
            (stddev - (9999.0f64 / 12.0).sqrt()).abs() < 1e-9,
            "{stddev}"
        );
        assert_eq!(latency.p50_ns, Some(50.0));
        assert_eq!(latency.p99_ns, Some(99.0));
        assert_eq!(Latency::of(vec![f64::NAN]), Latency::default());
    }

    #[test]
    fn rmse_is_bias_and_spread_together() {
        let b = Bandwidth::of(&[90.0, 130.0], 100.0);
        assert_eq!(b.mean_bytes_per_sec, 110.0);
        assert_eq!(b.stddev_bytes_per_sec, 20.0);
        assert!((b.bias_ratio - 0.1).abs() < 1e-12);
        assert!((b.rmse_ratio - (0.1f64.powi(2) + 0.2f64.powi(2)).sqrt()).abs() < 1e-12);
    }

    #[test]
    fn settling_is_the_last_entry_into_the_band() {
        let at = |i: usize, v: f64| Point {
            at_ms: i as f64 * 100.0,
            bytes_per_sec: v,
        };
        let mut series: Vec<Point> = (0..80).map(|i| at(i, 100.0)).collect();
        for point in &mut series[0..10] {
            point.bytes_per_sec = 240.0;
        }
        // One of twenty windows at 240 lifts the mean by 7 %: settled when the last has left.
        assert_eq!(settling(&series, 100.0, 1e9), (Some(1000.0), Some(0.0)));
        series[40].bytes_per_sec = 150.0;
        let (settle, overshoot) = settling(&series, 100.0, 1e9);
        assert_eq!(settle, Some(1000.0), "one noisy window is not a departure");
        assert!(
            (overshoot.unwrap() - 0.1).abs() < 1e-9,
            "a tenth of the 500 ms around it"
        );
        series[78].bytes_per_sec = 500.0;
        assert_eq!(
            settling(&series, 100.0, 1e9),
            (None, None),
            "it leaves the band at the end"
        );
    }
}
