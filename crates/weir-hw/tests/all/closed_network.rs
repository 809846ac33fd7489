// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Properties of every closed network, for any requesters.

use proptest::prelude::*;
use weir_hw::memory_device::Profile;
use weir_hw::memory_device::{DevLoad, Equilibrium, LoadedDevice, Requester};

fn reader(cores: f64, busy_ns: f64) -> Requester {
    Requester {
        cores,
        window_lines: 1e9,
        busy_ns,
        write_ratio: 0.0,
        is_non_temporal: false,
        threads_per_core: 1.0,
    }
}

fn solve(device: &mut LoadedDevice, requesters: &[Requester]) -> Equilibrium {
    let mut out = Equilibrium::default();
    device.solve(requesters, &mut out);
    out
}

fn profiles() -> Vec<Profile> {
    let named = |name: &&str| Profile::named(name).expect("built in");
    Profile::names().iter().map(named).collect()
}

fn any_requester() -> impl Strategy<Value = Requester> {
    let number = || prop_oneof![proptest::num::f64::ANY, 0.0..100.0, Just(1e6), Just(0.0)];
    (number(), number(), number(), number(), any::<bool>()).prop_map(
        |(cores, window_lines, busy_ns, write_ratio, is_non_temporal)| Requester {
            cores,
            window_lines,
            busy_ns,
            write_ratio,
            is_non_temporal,
            threads_per_core: 1.0,
        },
    )
}

#[test]
fn without_requesters_latency_is_idle() {
    for profile in profiles() {
        let mut device = LoadedDevice::new(&profile);
        for requesters in [vec![], vec![reader(0.0, 0.0)]] {
            let out = solve(&mut device, &requesters);
            assert_eq!(out.latency_ns, profile.device.idle_ns, "{}", profile.name);
            assert_eq!(out.read_bytes_per_sec + out.write_bytes_per_sec, 0.0);
            assert_eq!(out.devload, DevLoad::Light);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn any_input_gives_finite_figures(
        all in prop::collection::vec(prop::collection::vec(any_requester(), 0..7), 1..5),
        health in proptest::num::f64::ANY,
    ) {
        for profile in profiles() {
            let mut device = LoadedDevice::new(&profile);
            device.set_health(health);
            for requesters in &all {
                let out = solve(&mut device, requesters);
                let figures = [
                    out.latency_ns,
                    out.read_bytes_per_sec,
                    out.write_bytes_per_sec,
                    out.utilization,
                    out.outstanding_lines,
                    device.latency_quantile_ns(&out, 0.999),
                ];
                for figure in figures.iter().chain(&out.lines_per_sec) {
                    prop_assert!(figure.is_finite() && *figure >= 0.0, "{out:?}");
                }
                prop_assert!(out.latency_ns >= profile.device.idle_ns);
                prop_assert!(out.utilization <= 1.0);
                prop_assert_eq!(out.lines_per_sec.len(), requesters.len());
            }
        }
    }

    #[test]
    fn the_way_to_a_load_does_not_matter(
        first in 0.0f64..200.0, second in 0.0f64..200.0, busy_ns in 0.0f64..300.0,
    ) {
        for profile in profiles() {
            let stores = Requester { write_ratio: 0.5, ..reader(first, 30.0) };
            let of_one = [reader(second, busy_ns)];
            let of_two = [reader(second, busy_ns), stores];
            for (requesters, within) in [(&of_one[..], 1e-7), (&of_two[..], 1e-3)] {
                let mut warm = LoadedDevice::new(&profile);
                solve(&mut warm, &[reader(first, 0.0)]);
                // Where there are several mixes the last solution is the first guess.
                let warm = solve(&mut warm, requesters);
                let cold = solve(&mut LoadedDevice::new(&profile), requesters);
                prop_assert!((warm.latency_ns / cold.latency_ns - 1.0).abs() < within);
            }
        }
    }

    #[test]
    fn more_cores_never_wait_less(
        cores in 0.0f64..300.0, more in 0.0f64..50.0, busy_ns in 0.0f64..200.0,
        write_ratio in 0.0f64..0.5,
    ) {
        for profile in profiles() {
            let mut device = LoadedDevice::new(&profile);
            let of = |cores| Requester { write_ratio, ..reader(cores, busy_ns) };
            let few = solve(&mut device, &[of(cores)]);
            let many = solve(&mut device, &[of(cores + more)]);
            prop_assert!(many.latency_ns >= few.latency_ns * (1.0 - 1e-9));
        }
    }

    /// Only reads are tried: with stores the mix decides what a window holds.
    #[test]
    fn more_readers_get_no_more_each(
        cores in 0.1f64..300.0, more in 0.0f64..50.0, busy_ns in 0.0f64..200.0,
    ) {
        for profile in profiles() {
            let mut device = LoadedDevice::new(&profile);
            let few = solve(&mut device, &[reader(cores, busy_ns)]);
            let many = solve(&mut device, &[reader(cores + more, busy_ns)]);
            prop_assert!(many.lines_per_sec[0] <= few.lines_per_sec[0] * (1.0 + 1e-9));
        }
    }

    #[test]
    fn less_work_between_lines_never_waits_less(
        cores in 0.1f64..100.0, busy_ns in 0.0f64..300.0, less in 0.0f64..1.0,
    ) {
        for profile in profiles() {
            let mut device = LoadedDevice::new(&profile);
            let slow = solve(&mut device, &[reader(cores, busy_ns)]);
            let fast = solve(&mut device, &[reader(cores, busy_ns * less)]);
            prop_assert!(fast.latency_ns >= slow.latency_ns * (1.0 - 1e-9));
        }
    }
}

/// Neither write-backs nor the probe's neighbour may make an idler core wait longer. 1 %, because with
/// nearly idle threads the probe's reads are a part of the mix.
#[test]
fn a_longer_delay_never_waits_longer() {
    use weir_hw::memory_device::mlc_sweep::{DELAYS, LoadMix, curve};
    for profile in profiles() {
        for mix in LoadMix::ALL {
            for threads in [1.0, 3.0, 4.0, 10.0, 16.0, 20.0, 23.0, 32.0, 46.0, 100.0] {
                let points = curve(&profile, threads, mix, &DELAYS);
                for pair in points.windows(2) {
                    let (a, b) = (pair[0].latency_ns, pair[1].latency_ns);
                    let name = (&profile.name, mix.name(), threads, pair[1].delay);
                    assert!(b <= a * 1.01, "{name:?}: {a} then {b}");
                }
            }
        }
    }
}
