// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Correlation between workloads, now and some windows later: a neighbour's lines from CXL memory with what
//! another workload stalls.
//!
//! Values are taken without what the value before says of them (autoregression of order 1). So two loads
//! which merely drift are not taken to go together. A correlation is given where chance makes as large a one,
//! among all that were looked at, with [`SIGNIFICANCE`] at most.

use super::figures::PhaseFigure;
use super::segments::SIGNIFICANCE;
use super::step::drawn_in;
use super::{Followed, regular};
use crate::figure::printable;
use distrs::Normal;
use serde::Serialize;
use weir_core::{Nanos, Window};

/// Windows that one may be behind the other.
const LAG_MAX: usize = 10;
/// Pairs of known windows that a correlation needs.
const PAIRS_MIN: usize = 30;
/// Weaker ones are not given, however sure.
const CORRELATION_MIN: f64 = 0.3;
/// Workloads that are compared, each with each.
const WORKLOADS_MAX: usize = 32;

/// What a neighbour does, and what of a workload may follow it.
const PAIRS: &[(PhaseFigure, PhaseFigure)] = &[
    (PhaseFigure::CxlLinesPerSec, PhaseFigure::StalledRatio),
    (PhaseFigure::CxlLinesPerSec, PhaseFigure::ReadNs),
    (PhaseFigure::DramLinesPerSec, PhaseFigure::StalledRatio),
];

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LaggedPair {
    pub leader: String,
    pub leads_by: PhaseFigure,
    pub follower: String,
    pub follows_in: PhaseFigure,
    /// The second follows so many windows later; 0 means in the same window.
    pub lag_windows: usize,
    /// The same as time, where windows have a length.
    pub lag: Option<Nanos>,
    /// Correlation, −1 to 1.
    pub correlation: f64,
    /// Pairs of windows that the correlation was computed from.
    pub pairs: usize,
    /// How probably chance makes as large a one among all that were looked at, at most.
    pub chance_max: f64,
}

/// Correlations that are more than chance, the strongest first; of a pair of workloads and figures the
/// strongest.
pub fn lagged(windows: &[Window], all: &[Followed]) -> Vec<LaggedPair> {
    let workloads = all.iter().filter(|one| one.name.is_some());
    let workloads: Vec<&Followed> = workloads.take(WORKLOADS_MAX).collect();
    let adjoining = regular::adjoining(windows);
    let of = |one: &Followed, figure: PhaseFigure| {
        let found = one.figures.iter().find(|values| values.figure == figure)?;
        Some(new_in_each(&found.values, &adjoining))
    };
    let mut compared: Vec<(LaggedPair, f64)> = Vec::new();
    let mut tests = 0.0;
    for (leads_by, follows_in) in PAIRS {
        let sides = |figure: PhaseFigure| -> Vec<_> {
            workloads.iter().map(|one| of(one, figure)).collect()
        };
        let (leaders, followers) = (sides(*leads_by), sides(*follows_in));
        for (a, leader) in leaders.iter().enumerate() {
            for (b, follower) in followers.iter().enumerate().filter(|(b, _)| *b != a) {
                let (Some(leader), Some(follower)) = (leader, follower) else {
                    continue;
                };
                tests += (LAG_MAX + 1) as f64;
                let lags = (0..=LAG_MAX).filter_map(|lag| correlation(leader, follower, lag));
                let Some((lag, correlation, pairs)) =
                    lags.max_by(|a, b| a.1.abs().total_cmp(&b.1.abs()))
                else {
                    continue;
                };
                let name = |place: usize| workloads[place].name.as_deref().map(printable);
                compared.push((
                    LaggedPair {
                        leader: name(a).unwrap_or_default(),
                        leads_by: *leads_by,
                        follower: name(b).unwrap_or_default(),
                        follows_in: *follows_in,
                        lag_windows: lag,
                        lag: length(windows, lag),
                        correlation,
                        pairs,
                        chance_max: 1.0,
                    },
                    chance(correlation, pairs),
                ));
            }
        }
    }
    let sure = compared.into_iter().filter_map(|(mut pair, chance)| {
        pair.chance_max = (chance * tests).min(1.0);
        let is_sure = pair.chance_max <= SIGNIFICANCE;
        (is_sure && pair.correlation.abs() >= CORRELATION_MIN).then_some(pair)
    });
    let mut sure: Vec<LaggedPair> = sure.collect();
    sure.sort_by(|a, b| b.correlation.abs().total_cmp(&a.correlation.abs()));
    sure
}

fn length(windows: &[Window], lag: usize) -> Option<Nanos> {
    let one = windows.first().and_then(Window::length)?;
    Some(Nanos(one.0.saturating_mul(u64::try_from(lag).ok()?)))
}

/// What is new in each window: its value less what the value before says of it, drawn in. Nothing where
/// either is absent or time is missing between them.
fn new_in_each(values: &[Option<f64>], adjoining: &[bool]) -> Vec<Option<f64>> {
    let known: Vec<f64> = values.iter().flatten().copied().collect();
    let Some(drawn) = drawn_in(&known) else {
        return vec![None; values.len()];
    };
    let mean = drawn.iter().sum::<f64>() / drawn.len() as f64;
    let mut drawn = drawn.into_iter();
    let centred: Vec<Option<f64>> = values
        .iter()
        .map(|value| value.and_then(|_| drawn.next()).map(|value| value - mean))
        .collect();
    let pairs = || {
        let pairs = centred.windows(2).zip(adjoining);
        pairs.filter_map(|(pair, is_next)| match pair {
            [Some(a), Some(b)] if *is_next => Some((*a, *b)),
            _ => None,
        })
    };
    let (next, squares) = pairs().fold((0.0, 0.0), |(n, s), (a, b)| (n + a * b, s + a * a));
    let alike = if squares > 0.0 { next / squares } else { 0.0 };
    let new = centred
        .windows(2)
        .zip(adjoining)
        .map(|(pair, is_next)| match pair {
            [Some(a), Some(b)] if *is_next => Some(b - alike * a),
            _ => None,
        });
    std::iter::once(None).chain(new).collect()
}

/// The correlation of what is new in one with what is new in the other so many windows later.
fn correlation(
    leader: &[Option<f64>],
    follower: &[Option<f64>],
    lag: usize,
) -> Option<(usize, f64, usize)> {
    let later = follower.get(lag..)?;
    let pairs: Vec<(f64, f64)> = leader
        .iter()
        .zip(later)
        .filter_map(|(a, b)| Some(((*a)?, (*b)?)))
        .collect();
    let n = pairs.len() as f64;
    let (x, y) = pairs
        .iter()
        .fold((0.0, 0.0), |(x, y), (a, b)| (x + a / n, y + b / n));
    let (mut xx, mut yy, mut xy) = (0.0, 0.0, 0.0);
    for (a, b) in &pairs {
        xx += (a - x).powi(2);
        yy += (b - y).powi(2);
        xy += (a - x) * (b - y);
    }
    let correlation = xy / (xx * yy).sqrt();
    let is_known = pairs.len() >= PAIRS_MIN && correlation.is_finite();
    is_known.then_some((lag, correlation.clamp(-1.0, 1.0), pairs.len()))
}

/// How probably chance makes as large a correlation of so many pairs. By Fisher's transformation, atanh of
/// the correlation of n independent pairs is about normal, with a deviation of 1 ÷ √(n − 3).
fn chance(correlation: f64, pairs: usize) -> f64 {
    let z = correlation.abs().min(1.0 - 1e-12).atanh() * ((pairs as f64 - 3.0).max(1.0)).sqrt();
    2.0 * Normal::cdf(-z, 0.0, 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::phases::figures::FigureValues;
    use crate::phases::tests::{MadeUp, windows};

    fn followed(name: &str, figure: PhaseFigure, values: Vec<Option<f64>>) -> Followed {
        Followed {
            name: Some(name.into()),
            figures: vec![FigureValues { figure, values }],
        }
    }

    /// A workload's stalls follow its neighbour's lines by three windows.
    #[test]
    fn a_follower_is_found_at_its_lag() {
        let mut draws = MadeUp::new(5);
        let lines = draws.noise(200, 0.5);
        let noise = draws.noise(200, 0.0);
        let stalls =
            |place: usize| 0.5 + 0.1 * place.checked_sub(3).map_or(0.0, |before| lines[before]);
        let mut follower: Vec<Option<f64>> = (0..200)
            .map(|place| Some(stalls(place) + 0.03 * noise[place]))
            .collect();
        follower[50] = None;
        let all = [
            followed(
                "stream",
                PhaseFigure::CxlLinesPerSec,
                lines.iter().map(|x| Some(x + 9.0)).collect(),
            ),
            followed("victim", PhaseFigure::StalledRatio, follower),
        ];
        let found = lagged(&windows(&[1.0; 200]), &all);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(
            (found[0].leader.as_str(), found[0].follower.as_str()),
            ("stream", "victim")
        );
        assert_eq!(
            (found[0].lag_windows, found[0].lag),
            (3, Some(Nanos(3_000_000_000)))
        );
        assert!(
            found[0].correlation > 0.9 && found[0].pairs < 199,
            "{found:?}"
        );
    }

    /// Workloads that drift by themselves: 100 recordings, of which one may go together by chance.
    #[test]
    fn workloads_apart_do_not_go_together() {
        let mut draws = MadeUp::new(6);
        let mut found = 0;
        for _ in 0..100 {
            let mut side = |name, figure| {
                followed(
                    name,
                    figure,
                    draws.noise(100, 0.8).into_iter().map(Some).collect(),
                )
            };
            let all = [
                side("a", PhaseFigure::CxlLinesPerSec),
                side("b", PhaseFigure::StalledRatio),
                side("c", PhaseFigure::CxlLinesPerSec),
            ];
            found += lagged(&windows(&[1.0; 100]), &all).len();
        }
        assert!(found <= 1, "{found}");
    }
}
