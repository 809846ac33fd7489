// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What phases are right in, on made-up series of which all is known.
#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "of made-up values, which are small and not negative"
)]

use super::*;
use crate::counts::tests::count;
use proptest::prelude::*;
use weir_core::Missing;
use weir_core::random::SplitMix;

pub(crate) struct MadeUp(SplitMix);

impl MadeUp {
    pub fn new(seed: u64) -> MadeUp {
        MadeUp(SplitMix::new(seed))
    }

    /// A random number from 0 to 1.
    pub fn uniform(&mut self) -> f64 {
        self.0.unit()
    }

    /// A random number of the normal distribution with mean 0 and deviation 1.
    pub fn normal(&mut self) -> f64 {
        self.0.normal()
    }

    /// Random numbers of deviation 1, each with this correlation to the one before.
    pub fn noise(&mut self, n: usize, alike: f64) -> Vec<f64> {
        let mut last = self.normal();
        let mut all = Vec::with_capacity(n);
        for _ in 0..n {
            last = alike * last + (1.0 - alike * alike).sqrt() * self.normal();
            all.push(last);
        }
        all
    }

    pub fn between(&mut self, low: usize, high: usize) -> usize {
        low + ((high - low + 1) as f64 * self.uniform()) as usize
    }
}

/// Windows of a second each with so many thousand lines from CXL memory; those that are no number are absent.
pub(crate) fn windows(values: &[f64]) -> Vec<Window> {
    let window = |(place, value): (usize, &f64)| {
        let mut lines = count("sq.reads.cxl.lines", (value * 1000.0) as u64);
        if value.is_nan() {
            lines.value = Err(Missing::Lost("no counter".into()));
        }
        Window {
            from: Nanos(place as u64 * 1_000_000_000),
            to: Nanos((place as u64 + 1) * 1_000_000_000),
            machine: vec![lines],
            ..Window::default()
        }
    };
    values.iter().enumerate().map(window).collect()
}

fn found(values: &[f64]) -> Vec<usize> {
    let windows = windows(values);
    let found = phases(&windows, &Followed::new(&windows, None)).unwrap();
    let starts = found.phases.iter().skip(1);
    starts.map(|phase| phase.first_window - 1).collect()
}

/// How the values scatter.
#[derive(Clone, Copy, Debug)]
enum Scatter {
    Normal,
    /// Each with a correlation of 0.3 to the one before.
    Alike,
    /// The exponential of normal numbers of deviation 0.5, scaled to deviation 1.
    Skewed,
    /// Normal, and one of thirty ten times as far out.
    Odd,
}

impl Scatter {
    const ALL: [Scatter; 4] = [
        Scatter::Normal,
        Scatter::Alike,
        Scatter::Skewed,
        Scatter::Odd,
    ];

    fn draw(self, draws: &mut MadeUp, n: usize) -> Vec<f64> {
        match self {
            Scatter::Normal => draws.noise(n, 0.0),
            Scatter::Alike => draws.noise(n, 0.3),
            Scatter::Skewed => {
                let all = draws.noise(n, 0.0);
                // Mean and deviation of such a lognormal distribution: 1.133 and 0.604.
                all.iter()
                    .map(|x| ((0.5 * x).exp() - 1.133) / 0.604)
                    .collect()
            }
            Scatter::Odd => {
                let odd = |x: f64, draws: &mut MadeUp| {
                    if draws.uniform() < 1.0 / 30.0 {
                        10.0 * x
                    } else {
                        x
                    }
                };
                (0..n)
                    .map(|_| {
                        let x = draws.normal();
                        odd(x, draws)
                    })
                    .collect()
            }
        }
    }
}

/// A series with changes of `low` to `high` deviations, which are 5 % of the level or more, and where they
/// are. Some windows are absent.
fn with_changes(
    draws: &mut MadeUp,
    scatter: Scatter,
    [low, high]: [f64; 2],
) -> (Vec<f64>, Vec<usize>) {
    let (mut levels, mut changes) = (Vec::new(), Vec::new());
    let mut level = 50.0;
    for phase in 0..draws.between(2, 5) {
        if phase > 0 {
            changes.push(levels.len());
            let size = low + (high - low) * draws.uniform();
            level += if draws.uniform() < 0.5 { -size } else { size };
        }
        let windows = draws.between(10, 60);
        levels.extend(std::iter::repeat_n(level, windows));
    }
    let noise = scatter.draw(draws, levels.len());
    let absent = |place: usize, draws: &mut MadeUp| {
        let is_at_change = changes.iter().any(|change| change.abs_diff(place) < 2);
        !is_at_change && draws.uniform() < 0.02
    };
    let values = (0..levels.len()).map(|n| {
        if absent(n, draws) {
            f64::NAN
        } else {
            levels[n] + noise[n]
        }
    });
    (values.collect(), changes)
}

/// Changes, those of them that were found within one window, and what was found besides.
fn accuracy(series: usize, sizes: [f64; 2], seed: u64) -> (usize, usize, usize) {
    let mut draws = MadeUp::new(seed);
    let (mut all, mut hit, mut besides) = (0, 0, 0);
    for number in 0..series {
        let scatter = Scatter::ALL[number % 4];
        let (values, changes) = with_changes(&mut draws, scatter, sizes);
        let found = found(&values);
        let is_found = |change: &&usize| found.iter().any(|start| start.abs_diff(**change) <= 1);
        let hits = changes.iter().filter(is_found).count();
        all += changes.len();
        hit += hits;
        besides += found.len() - hits.min(found.len());
    }
    (all, hit, besides)
}

/// The aim: 95 % of the changes of 50 series within one window.
#[test]
fn known_changes_are_found_within_one_window() {
    for sizes in [[3.0, 5.0], [4.0, 6.0], [5.0, 8.0]] {
        let (all, hit, besides) = accuracy(50, sizes, 1);
        println!("{sizes:?} deviations: {hit} of {all}, {besides} besides");
    }
    let (all, hit, besides) = accuracy(50, [6.0, 12.0], 1);
    println!("6 to 12 deviations: {hit} of {all}, {besides} besides");
    assert!(
        all > 80 && hit as f64 >= 0.95 * all as f64,
        "{hit} of {all}"
    );
    assert!(besides * 50 <= all, "{besides} besides");
}

/// The aim: one false change in 1000 stationary windows at most. 40 recordings of 1000 windows each, and 400
/// of 50.
#[test]
fn what_stays_shows_no_changes() {
    let mut draws = MadeUp::new(2);
    for scatter in Scatter::ALL {
        let mut false_in = |recordings: usize, windows: usize| -> usize {
            let one = |_| {
                let noise = scatter.draw(&mut draws, windows);
                found(&noise.iter().map(|x| 40.0 + 3.0 * x).collect::<Vec<_>>()).len()
            };
            (0..recordings).map(one).sum()
        };
        let (long, short) = (false_in(10, 1000), false_in(100, 50));
        println!("{scatter:?}: {long} in 10 000 windows, {short} in 5000 by fifties");
        assert!(long <= 10 && short <= 5, "{scatter:?}: {long}, {short}");
    }
}

/// The aim: of the windows that come, 85 to 95 % lie in intervals of 90 %.
#[test]
fn intervals_hold_what_comes() {
    let mut draws = MadeUp::new(3);
    let mut shown = |name: &str, make: &mut dyn FnMut(&mut MadeUp, usize) -> Vec<f64>| {
        let (mut within, mut all) = (0, 0);
        for number in 0..60 {
            let known = [24, 60, 200][number % 3];
            let values = make(&mut draws, known + 24);
            let all_windows = windows(&values[..known]);
            let followed = Followed::new(&all_windows, None);
            let found = phases(&all_windows, &followed).unwrap();
            let Ok(forecast) = &found.figures[0].outlook.forecast else {
                continue;
            };
            for (point, came) in forecast.points.iter().zip(&values[known..]) {
                all += 1;
                let came = came * 1000.0;
                within += usize::from((point.low..=point.high).contains(&came));
            }
        }
        println!("{name}: {within} of {all}");
        (within, all)
    };
    let mut sums = (0, 0);
    let mut add = |(within, all)| sums = (sums.0 + within, sums.1 + all);
    add(shown("stationary", &mut |draws, n| {
        draws.noise(n, 0.0).iter().map(|x| 50.0 + x).collect()
    }));
    add(shown("alike", &mut |draws, n| {
        draws.noise(n, 0.5).iter().map(|x| 50.0 + x).collect()
    }));
    add(shown("trend", &mut |draws, n| {
        let noise = draws.noise(n, 0.0);
        (0..n)
            .map(|place| 50.0 + 0.05 * place as f64 + noise[place])
            .collect()
    }));
    add(shown("drift", &mut |draws, n| {
        let mut level = 80.0;
        let mut step = |draws: &mut MadeUp| {
            level += 0.3 * draws.normal();
            level + draws.normal()
        };
        (0..n).map(|_| step(draws)).collect()
    }));
    add(shown("season", &mut |draws, n| {
        let noise = draws.noise(n, 0.0);
        let wave = |place: usize| 5.0 * (place as f64 / 6.0 * std::f64::consts::TAU).sin();
        (0..n)
            .map(|place| 50.0 + wave(place) + noise[place])
            .collect()
    }));
    let part = sums.0 as f64 / sums.1 as f64;
    assert!((0.85..=0.95).contains(&part), "{part}");
}

#[test]
fn short_and_empty_recordings_say_why() {
    let said = |windows: &[Window]| {
        let why = phases(windows, &Followed::new(windows, None)).unwrap_err();
        why.to_string()
    };
    assert!(said(&[]).contains("0 windows, and 12 are needed"));
    assert!(said(&windows(&[1.0; 11])).contains("11 windows, and 12"));
    let none = vec![Window::default(); 20];
    assert!(said(&none).contains("no count of the figures"));
    let mut few = windows(&[f64::NAN; 20]);
    few[..5].clone_from_slice(&windows(&[1.0; 5]));
    assert!(said(&few).contains("known in 5 windows at most"));
}

/// A day of windows: blocks find the changes, and windows say where they are.
#[test]
fn long_recordings_are_looked_at_in_blocks_and_placed_by_windows() {
    let mut draws = MadeUp::new(4);
    let noise = draws.noise(20_000, 0.2);
    let level = |n: usize| match n {
        0..5003 => 100.0,
        5003..12_345 => 130.0,
        _ => 90.0,
    };
    let values: Vec<f64> = (0..20_000).map(|n| level(n) + 4.0 * noise[n]).collect();
    assert_eq!(found(&values), [5003, 12_345]);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]
    #[test]
    fn any_values_are_survived(
        values in prop::collection::vec(
            prop_oneof![Just(f64::NAN), Just(0.0), Just(1e16), 0.0..1e3, Just(5.0)],
            0..90,
        ),
        gap in any::<prop::sample::Index>(),
        length in 0u64..3,
    ) {
        let mut windows = windows(&values);
        if !windows.is_empty() {
            let at = gap.index(windows.len());
            windows[at].to = Nanos(windows[at].from.0 + length * 400_000_000);
        }
        let followed = Followed::new(&windows, None);
        if let Ok(found) = phases(&windows, &followed) {
            let sum: usize = found.phases.iter().map(|phase| phase.windows).sum();
            prop_assert_eq!(sum, windows.len());
            for phase in &found.phases[1..] {
                prop_assert!(!phase.changes.is_empty() && phase.windows >= 4);
                prop_assert!(phase.changes.iter().all(|change| change.chance_max <= SIGNIFICANCE));
            }
            prop_assert!(serde_json::to_string(&found).is_ok());
        }
    }
}
