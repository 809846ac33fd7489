// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What is to be expected of a figure next: its trend in the last phase, a season that repeats, and a
//! forecast with intervals by exponential smoothing (Holt-Winters: level, trend where there is one, season
//! where there is one).
//!
//! Seasons are split off by STL (stlrs), and levels are smoothed by ETS (augurs-ets).

use super::figures::{FigureValues, PhaseFigure};
use super::regular::last_run;
use super::step::Scatter;
use augurs_core::Predict;
use augurs_ets::model::{ErrorComponent, ModelType, SeasonalComponent, TrendComponent, Unfit};
use serde::Serialize;
use stlrs::{MstlParams, MstlResult};
use weir_core::Window;

/// Windows without which nothing is said of the future.
const RUN_MIN: usize = 16;
/// Windows that a forecast is made of.
const RUN_MAX: usize = 512;
/// Windows that are forecast, at most; at most a quarter of those that it is made of.
const HORIZON_MAX: usize = 24;
/// Part of future windows that intervals are to hold. Of made-up series they hold 86 to 95 %
/// (docs/evidence/phases.md). Random walks and seasons are at the lower end, because a model that is fitted
/// to few windows is surer of itself than it should be.
pub const LEVEL: f64 = 0.9;
/// Windows in which a season is looked for.
const SEASON_RUN_MAX: usize = 2048;
/// Windows of a season, at least.
const SEASON_MIN: usize = 4;
/// Times that a season must have come round.
const SEASON_ROUNDS_MIN: usize = 4;
/// Autocorrelation at a season, and at two of them.
const SEASON_ALIKE_MIN: [f64; 2] = [0.5, 0.4];
/// Part of what is left beside the trend that a season must explain (Hyndman's strength).
const SEASON_STRENGTH_MIN: f64 = 0.64;
/// Quantile of the normal distribution for intervals of 99 %: Φ⁻¹(0.995).
const QUANTILE: f64 = 2.5758;
/// A trend below this part of the level over the whole run is none.
const TREND_RATIO_MIN: f64 = 0.02;

/// Why nothing is said of the future.
#[derive(Clone, Debug, PartialEq, Serialize, thiserror::Error)]
#[serde(rename_all = "snake_case", tag = "reason")]
pub enum NoOutlook {
    #[error("{known} windows without a gap at the end of the last phase, and {RUN_MIN} are needed")]
    TooFewWindows {
        /// Windows at the end of the last phase in which the figure is known and no time is missing.
        known: usize,
    },
    /// It was the same in all of them.
    #[error("it is the same in all windows")]
    Constant,
    /// The library found no model.
    #[error("no model fits: {why}")]
    NoModel { why: String },
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct PhaseTrend {
    /// Change from window to window, in the figure's unit.
    pub per_window: f64,
    /// Half of its interval of 99 %.
    pub error: f64,
    /// Windows that the trend was fitted to: the last ones of the last phase.
    pub windows: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Season {
    /// Windows after which it comes round.
    pub windows: usize,
    /// Part of what is left beside the trend that it explains, 0 to 1.
    pub strength: f64,
    /// Half of what lies between its lowest and its highest value.
    pub amplitude: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ForecastPoint {
    pub mean: f64,
    /// Below it with a probability of 5 %.
    pub low: f64,
    /// Above it with a probability of 5 %.
    pub high: f64,
}

/// What is expected of the next windows.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Forecast {
    /// Part of the windows that lies within, by the model.
    pub level: f64,
    pub made_of_windows: usize,
    /// The next windows, in order.
    pub points: Vec<ForecastPoint>,
}

/// What is to be expected of a figure.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Outlook {
    /// Its trend in the last phase; nothing where it cannot be told from none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trend: Option<PhaseTrend>,
    /// What repeats; nothing where nothing does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub season: Option<Season>,
    pub forecast: Result<Forecast, NoOutlook>,
}

/// The outlook of a figure whose last phase begins with window `last`.
pub fn outlook(windows: &[Window], all: &FigureValues, adjoining: &[bool], last: usize) -> Outlook {
    let whole = last_run(&all.values, adjoining, 0);
    let whole = &whole[whole.len().saturating_sub(SEASON_RUN_MAX)..];
    let run = last_run(&all.values, adjoining, last.min(windows.len()));
    let run = &run[run.len().saturating_sub(RUN_MAX)..];
    let season = season(whole);
    let trend = trend(run);
    let forecast = match season {
        Some(season) => {
            let of_seasons = season.windows * (RUN_MAX / season.windows).max(SEASON_ROUNDS_MIN);
            seasonal(&whole[whole.len().saturating_sub(of_seasons)..], season)
        }
        None => smoothed(run, trend),
    };
    Outlook {
        trend,
        season,
        forecast: forecast.map(|forecast| within(forecast, all.figure)),
    }
}

/// The slope of a straight line by least squares, where its interval does not hold 0.
///
/// Windows that are alike say less: n of them with autocorrelation a are worth n · (1 − a) ÷ (1 + a). What is
/// left beside a line that was fitted is less alike than the values are, so 4 ÷ n is added to its
/// autocorrelation.
fn trend(run: &[f64]) -> Option<PhaseTrend> {
    if run.len() < RUN_MIN {
        return None;
    }
    let n = run.len() as f64;
    let mean = run.iter().sum::<f64>() / n;
    let middle = (n - 1.0) / 2.0;
    let times = || (0..run.len()).map(|place| place as f64 - middle);
    let of_time: f64 = times().map(|time| time * time).sum();
    let slope = times()
        .zip(run)
        .map(|(time, value)| time * (value - mean))
        .sum::<f64>()
        / of_time;
    let left: Vec<f64> = times()
        .zip(run)
        .map(|(time, value)| value - mean - slope * time)
        .collect();
    let squares: f64 = left.iter().map(|value| value * value).sum();
    let next: f64 = left.windows(2).map(|pair| pair[0] * pair[1]).sum();
    let alike = if squares > 0.0 { next / squares } else { 0.0 };
    let alike = (alike + 4.0 / n)
        .max(Scatter::of(run, None).alike)
        .clamp(0.0, 0.95);
    let worth = (1.0 - alike) / (1.0 + alike);
    let error = QUANTILE * (squares / (n - 2.0) / of_time / worth).sqrt();
    let is_large = slope.abs() * n >= TREND_RATIO_MIN * mean.abs();
    (error.is_finite() && slope.abs() > error && is_large).then_some(PhaseTrend {
        per_window: slope,
        error,
        windows: run.len(),
    })
}

/// What comes round after the same number of windows, time and again.
fn season(run: &[f64]) -> Option<Season> {
    let longest = run.len() / SEASON_ROUNDS_MIN;
    if longest <= SEASON_MIN {
        return None;
    }
    let n = run.len() as f64;
    let mean = run.iter().sum::<f64>() / n;
    let squares: f64 = run.iter().map(|value| (value - mean).powi(2)).sum();
    let alike = |lag: usize| -> f64 {
        let pairs = run.iter().zip(run.get(lag..).unwrap_or_default());
        let sum: f64 = pairs.map(|(a, b)| (a - mean) * (b - mean)).sum();
        // There are fewer pairs, the further apart they are.
        sum / squares * n / (n - lag as f64)
    };
    let all: Vec<f64> = (0..=2 * longest + 1).map(alike).collect();
    // Values near each other are alike without any season: it begins behind the first place where they are
    // not.
    let first = all
        .iter()
        .position(|alike| *alike < SEASON_ALIKE_MIN[1] / 2.0)?;
    let is_peak = |lag: &usize| {
        let near = all.get(lag - 1..=lag + 1);
        near.is_some_and(|near| near[1] >= near[0] && near[1] >= near[2])
    };
    let peaks = (first.max(SEASON_MIN)..=longest).filter(is_peak);
    let mut peaks = peaks.filter(|lag| {
        let twice = all.get(2 * lag - 1..=2 * lag + 1).unwrap_or_default();
        let twice = twice.iter().copied().fold(f64::MIN, f64::max);
        all[*lag] >= SEASON_ALIKE_MIN[0] && twice >= SEASON_ALIKE_MIN[1]
    });
    let windows = peaks.next()?;
    let (scaled, scale) = scaled(run)?;
    let split = split(&scaled, windows).ok()?;
    let strength = *split.seasonal_strength().first()?;
    let round = last_round(&split, windows)?;
    let (low, high) = round
        .iter()
        .fold((f64::MAX, f64::MIN), |(low, high), value| {
            (low.min(*value), high.max(*value))
        });
    (strength >= SEASON_STRENGTH_MIN).then_some(Season {
        windows,
        strength,
        amplitude: (high - low) / 2.0 * scale,
    })
}

/// Season, trend, and the rest.
fn split(values: &[f64], season: usize) -> Result<MstlResult<f64>, NoOutlook> {
    let split = MstlParams::new().fit(values, &[season]);
    split.map_err(|why| no_model(&why))
}

/// The season as it came round last.
fn last_round(split: &MstlResult<f64>, season: usize) -> Option<&[f64]> {
    let all = split.seasonal().first()?;
    all.get(all.len().checked_sub(season)?..)
}

/// Values less their mean, ÷ their deviation: a library that counts in f32 or has absolute tolerances sees
/// them all alike. And the deviation; nothing where there is none.
fn scaled(run: &[f64]) -> Option<(Vec<f64>, f64)> {
    let n = run.len() as f64;
    let mean = run.iter().sum::<f64>() / n;
    let deviation = (run.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / n).sqrt();
    let is_of_use = deviation.is_finite() && deviation > mean.abs() * 1e-9;
    is_of_use.then(|| {
        let scaled = run.iter().map(|value| (value - mean) / deviation);
        (scaled.collect(), deviation)
    })
}

fn no_model(why: &dyn std::fmt::Display) -> NoOutlook {
    let why = crate::figure::printable(&why.to_string());
    NoOutlook::NoModel { why }
}

/// Exponential smoothing of scaled values, with a trend where there is one. Errors are additive: intervals
/// are by formula then, and those of others would be drawn at random.
fn smoothed_on(values: &[f64], has_trend: bool) -> Result<augurs_core::Forecast, NoOutlook> {
    let kind = ModelType {
        error: ErrorComponent::Additive,
        trend: if has_trend {
            TrendComponent::Additive
        } else {
            TrendComponent::None
        },
        season: SeasonalComponent::None,
    };
    let fitted = Unfit::new(kind).fit(values).map_err(|why| no_model(&why))?;
    let made = fitted.predict(horizon(values.len()), LEVEL);
    made.map_err(|why| no_model(&why))
}

fn smoothed(run: &[f64], trend: Option<PhaseTrend>) -> Result<Forecast, NoOutlook> {
    if run.len() < RUN_MIN {
        return Err(NoOutlook::TooFewWindows { known: run.len() });
    }
    let (values, _) = scaled(run).ok_or(NoOutlook::Constant)?;
    unscaled(run, smoothed_on(&values, trend.is_some())?)
}

/// What is left without the season, smoothed; the season as it came round last is added.
fn seasonal(run: &[f64], season: Season) -> Result<Forecast, NoOutlook> {
    let (values, _) = scaled(run).ok_or(NoOutlook::Constant)?;
    let split = split(&values, season.windows)?;
    let round = last_round(&split, season.windows).unwrap_or_default();
    let rest: Vec<f64> = split
        .trend()
        .iter()
        .zip(split.remainder())
        .map(|(a, b)| a + b)
        .collect();
    let mut made = smoothed_on(&rest, false)?;
    let add = |values: &mut Vec<f64>| {
        let seasons = values.iter_mut().zip(round.iter().cycle());
        seasons.for_each(|(value, season)| *value += season);
    };
    // The season is a mean of as many rounds, and errs by that.
    let rounds = run.len() as f64 / season.windows as f64;
    let wider = (1.0 + 1.0 / rounds).sqrt();
    if let Some(intervals) = &mut made.intervals {
        for side in [&mut intervals.lower, &mut intervals.upper] {
            let ends = side.iter_mut().zip(&made.point);
            ends.for_each(|(end, point)| *end = point + (*end - point) * wider);
            add(side);
        }
    }
    add(&mut made.point);
    unscaled(run, made)
}

fn horizon(windows: usize) -> usize {
    (windows / 4).min(HORIZON_MAX)
}

/// The forecast in the figure's own unit.
fn unscaled(run: &[f64], made: augurs_core::Forecast) -> Result<Forecast, NoOutlook> {
    let (_, deviation) = scaled(run).ok_or(NoOutlook::Constant)?;
    let mean = run.iter().sum::<f64>() / run.len() as f64;
    let own = |value: &f64| mean + value * deviation;
    let intervals = made
        .intervals
        .ok_or_else(|| no_model(&"it has no intervals"))?;
    let sides = intervals.lower.iter().zip(&intervals.upper);
    let points = made
        .point
        .iter()
        .zip(sides)
        .map(|(mean, (low, high))| ForecastPoint {
            mean: own(mean),
            low: own(low),
            high: own(high),
        });
    let points: Vec<ForecastPoint> = points.collect();
    let is_known = |point: &ForecastPoint| {
        [point.mean, point.low, point.high]
            .iter()
            .all(|value| value.is_finite())
    };
    if points.iter().all(is_known) {
        Ok(Forecast {
            level: LEVEL,
            made_of_windows: run.len(),
            points,
        })
    } else {
        Err(no_model(&"its forecast is no number"))
    }
}

/// No figure is below 0, and no share above 1.
fn within(mut forecast: Forecast, figure: PhaseFigure) -> Forecast {
    let most = if figure.is_share() { 1.0 } else { f64::MAX };
    for point in &mut forecast.points {
        point.mean = point.mean.clamp(0.0, most);
        point.low = point.low.clamp(0.0, most);
        point.high = point.high.clamp(0.0, most);
    }
    forecast
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::phases::tests::{MadeUp, windows};

    fn of(values: &[f64]) -> Outlook {
        let windows = windows(values);
        let known = values.iter().copied().map(Some).collect();
        let all = FigureValues {
            figure: PhaseFigure::CxlLinesPerSec,
            values: known,
        };
        outlook(
            &windows,
            &all,
            &super::super::regular::adjoining(&windows),
            0,
        )
    }

    #[test]
    fn a_season_comes_round() {
        let mut draws = MadeUp::new(11);
        for rounds in [12usize, 25, 60] {
            let wave =
                |place: usize| 10.0 * (place as f64 / rounds as f64 * std::f64::consts::TAU).sin();
            let noise = draws.noise(6 * rounds, 0.0);
            let values: Vec<f64> = (0..6 * rounds)
                .map(|n| 100.0 + wave(n) + noise[n])
                .collect();
            let outlook = of(&values);
            let season = outlook.season.unwrap();
            assert!(season.windows.abs_diff(rounds) <= 1, "{season:?} {rounds}");
            assert!((8.0..14.0).contains(&season.amplitude), "{season:?}");
            let next = outlook.forecast.unwrap().points[0].mean;
            assert!((next - 100.0).abs() < 8.0, "{next}");
        }
    }

    /// Drifting loads have no season: 200 recordings, of which 2 may seem to.
    #[test]
    fn what_drifts_has_no_season() {
        let mut draws = MadeUp::new(12);
        let mut found = 0;
        for likeness in [0.0, 0.5, 0.9, 0.99] {
            for _ in 0..50 {
                let values: Vec<f64> = draws
                    .noise(120, likeness)
                    .iter()
                    .map(|x| 100.0 + x)
                    .collect();
                found += usize::from(of(&values).season.is_some());
            }
        }
        assert!(found <= 2, "{found}");
    }

    #[test]
    fn a_trend_is_told_from_none() {
        let mut draws = MadeUp::new(13);
        let noise = draws.noise(60, 0.2);
        let rising: Vec<f64> = (0..60).map(|n| 100.0 + n as f64 + 2.0 * noise[n]).collect();
        let trend = of(&rising).trend.unwrap();
        assert!(
            (trend.per_window - 1.0).abs() < trend.error + 0.1,
            "{trend:?}"
        );
        let mut found = 0;
        for _ in 0..100 {
            let values: Vec<f64> = draws.noise(60, 0.5).iter().map(|x| 20.0 + x).collect();
            found += usize::from(of(&values).trend.is_some());
        }
        assert!(found <= 5, "{found}");
    }

    #[test]
    fn what_cannot_be_forecast_says_why() {
        let said = |values: &[f64]| of(values).forecast.unwrap_err().to_string();
        assert!(said(&[1.0, 2.0, 3.0]).contains("3 windows without a gap"));
        assert!(said(&[5.0; 40]).contains("the same in all windows"));
    }
}
