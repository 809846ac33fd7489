// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `cpu.max` against measurements on a real kernel (Linux 6.18, HZ=250, 2 CPUs, one spinning task):
//! how much of a CPU a quota gives when the same value is written again and again.
//!
//! Two measured tables. The first is the one that started this (one run of 3 s a cell). Where a second
//! measurement on the same kernel, two runs a cell, differs from it by more than 10 %, the second
//! counts: the first machine was not alone.

use weir_sim::{CpuMax, Rewriting, spin};

const MS: u64 = 1_000_000;

/// Quota and period in ms; percent without rewriting, and rewritten each 200, 50 and 10 ms: the first
/// table, then the extremes of the second.
type Row = (u64, u64, [f64; 4], [[f64; 2]; 4]);

const MEASURED: [Row; 5] = [
    (
        10,
        100,
        [9.9, 15.1, 27.9, 70.7],
        [[10.1, 10.1], [15.9, 15.9], [29.4, 33.4], [96.2, 93.8]],
    ),
    (
        1,
        100,
        [1.0, 1.9, 6.2, 28.1],
        [[1.0, 1.0], [2.2, 2.2], [7.1, 6.8], [29.7, 30.0]],
    ),
    (
        1,
        10,
        [9.9, 11.3, 14.9, 35.2],
        [[10.0, 10.0], [11.6, 11.4], [15.3, 14.2], [33.3, 33.5]],
    ),
    (
        5,
        10,
        [50.0, 53.1, 57.4, 95.9],
        [[50.0, 50.0], [51.7, 51.8], [56.8, 56.2], [80.4, 69.8]],
    ),
    (
        1,
        2,
        [47.2, 47.8, 50.3, 57.6],
        [[36.4, 42.8], [42.9, 43.2], [43.8, 45.0], [47.9, 46.4]],
    ),
];
/// Nominal, and as measured: a sleep and a write take longer than the sleep.
const EVERY: [Option<f64>; 4] = [None, Some(200.4), Some(50.6), Some(10.3)];

fn used(quota_ms: u64, period_ms: u64, every_ms: Option<f64>) -> f64 {
    let limit = CpuMax {
        quota_ns: quota_ms * MS,
        period_ns: period_ms * MS,
    };
    let rewriting = Rewriting {
        every_ns: every_ms.map(|ms| (ms * 1e6) as u64),
        jitter_ns: 100_000,
    };
    let runs = (1..=4).map(|seed| spin(limit, rewriting, 250, 20 * 1000 * MS, seed));
    runs.sum::<f64>() / 4.0 * 100.0
}

#[test]
fn quotas_give_what_was_measured() {
    let mut wrong = Vec::new();
    for (quota, period, first, second) in MEASURED {
        for ((every, first), second) in EVERY.into_iter().zip(first).zip(second) {
            let found = used(quota, period, every);
            let (low, high) = (second[0].min(second[1]), second[0].max(second[1]));
            let near = |value: f64| (found / value - 1.0).abs() <= 0.10;
            let is_between = (low..=high).contains(&found);
            println!(
                "{quota}/{period} ms, rewritten each {every:?} ms: {found:.1} % (measured {first}; {second:?})"
            );
            if !(near(first) || near(low) || near(high) || is_between) {
                wrong.push(format!(
                    "{quota}/{period} each {every:?}: {found:.1} instead of {first} or {second:?}"
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn finer_ticks_give_shorter_overruns() {
    let limit = CpuMax {
        quota_ns: MS,
        period_ns: 10 * MS,
    };
    let each_50 = Rewriting {
        every_ns: Some(50 * MS),
        jitter_ns: 0,
    };
    let coarse = spin(limit, each_50, 100, 20 * 1000 * MS, 1);
    let fine = spin(limit, each_50, 1000, 20 * 1000 * MS, 1);
    assert!(
        coarse > fine,
        "debts of {coarse} are forgiven at HZ=100, of {fine} at HZ=1000"
    );
    assert!((0.10..0.14).contains(&fine), "{fine}");
}
