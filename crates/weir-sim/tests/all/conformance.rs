// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The simulated host keeps what every world behind `Platform` promises.

use weir_core::seam::conformance::{act, dry_run, watch};
use weir_core::{CpuShare, Platform, PlatformError};
use weir_sim::{Attribution, Backend, Scenario, SimPlatform, WeirOptions};

fn world(text: &str, options: &WeirOptions) -> SimPlatform {
    let mut scenario = Scenario::parse(text, "test").expect("a sound scenario");
    scenario.control.settle_sec = 0.0;
    scenario.control.measure_sec = 3.0;
    SimPlatform::new(&scenario, options, 1).expect("a host")
}

const SCENARIOS: [&str; 3] = [
    include_str!("../../../../scenarios/sim/thesis-limit.toml"),
    include_str!("../../../../scenarios/sim/two-devices.toml"),
    include_str!("../../../../scenarios/sim/phases.toml"),
];

fn options() -> Vec<WeirOptions> {
    let sampled = WeirOptions {
        attribution: Some(Attribution::Sampling),
        sees_latency: true,
        waits_for_refill: false,
        ..WeirOptions::default()
    };
    let scheduler = |backend| WeirOptions {
        backend,
        ..WeirOptions::default()
    };
    let schedulers = Backend::SCHEDULERS.map(scheduler);
    [WeirOptions::default(), sampled]
        .into_iter()
        .chain(schedulers)
        .collect()
}

#[test]
fn it_conforms() {
    for text in SCENARIOS {
        for options in options() {
            let found = watch(&mut world(text, &options), 20);
            assert!(found.is_empty(), "{found:?}");
            let found = act(&mut world(text, &options), 5, CpuShare::new(0.5));
            assert!(found.is_empty(), "{found:?}");
            let (found, _) = dry_run(world(text, &options));
            assert!(found.is_empty(), "{found:?}");
        }
    }
}

#[test]
fn a_run_ends() {
    let mut world = world(SCENARIOS[0], &WeirOptions::default());
    let observations = std::iter::from_fn(|| world.observe().ok()).count();
    assert!(
        (55..=60).contains(&observations),
        "3 s in steps of 50 ms: {observations}"
    );
    assert!(matches!(world.observe(), Err(PlatformError::End)));
    assert_eq!(world.now().0, 3_000_000_000);
}
