// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Errors of many figures as a few numbers.

use serde::Serialize;

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ErrorSummary {
    /// Figures with an estimate.
    pub figures: usize,
    /// Figures that the profiler refused.
    pub refused: usize,
    /// Half of the errors are smaller.
    pub median_ratio: f64,
    pub mean_ratio: f64,
    /// Of a hundred errors, 95 are smaller than this.
    pub p95_ratio: f64,
}

impl ErrorSummary {
    /// Summary of errors, with so many refusals beside them. Without any error all ratios are 0.
    pub fn of(mut errors: Vec<f64>, refused: usize) -> ErrorSummary {
        errors.sort_by(f64::total_cmp);
        let at = |part: f64| {
            let place = (errors.len() as f64 * part).ceil() as usize;
            errors.get(place.saturating_sub(1)).copied().unwrap_or(0.0)
        };
        ErrorSummary {
            figures: errors.len(),
            refused,
            median_ratio: at(0.5),
            mean_ratio: errors.iter().fold(0.0, |sum, error| sum + error)
                / errors.len().max(1) as f64,
            p95_ratio: at(0.95),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_summed_up_by_rank() {
        let errors: Vec<f64> = (1..=100).rev().map(f64::from).collect();
        let summary = ErrorSummary::of(errors, 3);
        assert_eq!((summary.median_ratio, summary.p95_ratio), (50.0, 95.0));
        assert_eq!(
            (summary.mean_ratio, summary.figures, summary.refused),
            (50.5, 100, 3)
        );
        assert_eq!(ErrorSummary::of(Vec::new(), 0), ErrorSummary::default());
    }
}
