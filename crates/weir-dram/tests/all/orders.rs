// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What orders make of mixes of sources.

use crate::mixes::{Bench, copy, disk, max_min, mixes, random};
use weir_dram::{DramProfile, OrderKind};

fn bench() -> Bench {
    Bench {
        profile: DramProfile::named("ddr4-3200").expect("built in"),
        windows: 4,
        warm_windows: 1,
        window_clocks: 160_000,
    }
}

#[test]
fn rates_hold_the_ratios_that_they_are_given() {
    let bench = bench();
    for (sources, shares) in [
        ([copy(16), copy(16)], [1.0, 2.0]),
        ([copy(16), copy(64)], [3.0, 1.0]),
        ([random(2), copy(64)], [1.0, 6.0]),
        ([copy(32), disk()], [2.0, 1.0]),
        ([random(16), random(16)], [1.0, 3.0]),
    ] {
        let run = bench.run(&sources, OrderKind::Rates, Some(&shares));
        let error = run.share_error(&shares);
        assert!(
            error <= 0.01,
            "{sources:?} {shares:?}: {error}, {:?}",
            run.rates
        );
        assert!(
            run.scatter <= 0.01,
            "{sources:?} {shares:?}: scatter {}",
            run.scatter
        );
    }
}

#[test]
fn rates_cost_no_bandwidth_at_the_split_of_fr_fcfs() {
    let bench = bench();
    for mix in mixes() {
        let free = bench.run(&mix.sources, OrderKind::FrFcfs, None);
        let run = bench.run(&mix.sources, OrderKind::Rates, Some(&free.rates));
        let kept = run.total() / free.total();
        assert!(kept >= 0.95, "{}: {kept}", mix.name);
        let error = run.share_error(&free.rates);
        assert!(error <= 0.01, "{}: {error}", mix.name);
    }
}

#[test]
fn a_source_that_cannot_use_its_rate_leaves_it_to_others() {
    // Weights alone leave a channel half empty here: the reader with two lines out is always behind.
    let bench = bench();
    let sources = [random(2), copy(64)];
    let free = bench.run(&sources, OrderKind::FrFcfs, None).total();
    let run = bench.run(&sources, OrderKind::Rates, Some(&[1.0, 1.0]));
    assert!(run.total() > 0.5 * free, "{:?} of {free}", run.rates);
}

#[test]
fn fr_fcfs_gives_what_is_asked_for_most() {
    let run = bench().run(&[copy(8), copy(64)], OrderKind::FrFcfs, None);
    assert!(run.share_error(&[1.0, 1.0]) > 0.3, "{:?}", run.rates);
}

#[test]
fn max_min_leaves_small_demands_whole() {
    let parts = max_min(&[1.0, 10.0, 10.0], 9.0);
    assert_eq!(parts, [1.0, 4.0, 4.0]);
    assert_eq!(max_min(&[1.0, 2.0], 9.0), [1.0, 2.0]);
}
