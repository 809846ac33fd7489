// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Levers act before the mechanism, and each by its own way.

use weir_hw::host_path::{
    HostMachine, HostStream, Lever, LeverError, LeverPhase, MbaLaw, StreamOp, compile, solve,
};

fn machine() -> HostMachine {
    HostMachine::named("paper-b").unwrap()
}

fn streams() -> [HostStream; 2] {
    [
        HostStream::new("mmem", StreamOp::Ld, 16),
        HostStream::new("cxl", StreamOp::Ntst, 16),
    ]
}

fn phases(levers: &[Lever]) -> Vec<LeverPhase> {
    Lever::apply(levers, &machine(), &streams(), 1).unwrap()
}

/// What victim and background move, as a mean over the time, lines per nanosecond.
fn moved(levers: &[Lever]) -> [f64; 2] {
    let mut sum = [0.0; 2];
    for phase in phases(levers) {
        let outcome = solve(&compile(&phase.machine, &phase.streams).unwrap());
        for (number, flow) in outcome.flows.iter().enumerate() {
            sum[number] += phase.part * flow.lines_per_ns;
        }
    }
    sum
}

/// Victim and background, each relative to the victim alone and the background without a lever.
fn kept(levers: &[Lever]) -> [f64; 2] {
    let alone = solve(&compile(&machine(), &streams()[..1]).unwrap()).flows[0].lines_per_ns;
    let [victim, background] = moved(levers);
    [victim / alone, background / moved(&[])[1]]
}

#[test]
fn a_quota_moves_along_the_straight_line() {
    let without = kept(&[])[0];
    for part in [0.0625, 0.25, 0.5, 0.9] {
        let [victim, background] = kept(&[Lever::Quota(part)]);
        assert!((background - part).abs() < 1e-9);
        let line = 1.0 - part * (1.0 - without);
        assert!((victim - line).abs() < 1e-9, "{part}: {victim}, {line}");
    }
}

#[test]
fn a_rate_leaves_the_line_at_the_knee() {
    for lever in [
        Lever::Mba(0.8, Some(MbaLaw::Linear)),
        Lever::Smba(0.8 * 13.2e9),
        Lever::RegulatorBefore(0.8 * 13.2e9),
    ] {
        let [victim, background] = kept(&[lever]);
        assert!(victim > 0.97, "{lever:?}: {victim}");
        assert!((background - 0.8).abs() < 0.01, "{lever:?}: {background}");
    }
}

#[test]
fn a_regulator_behind_admission_makes_it_worse() {
    let [victim, background] = kept(&[Lever::RegulatorAfter(0.5 * 13.2e9)]);
    assert!(victim < 0.6 * kept(&[])[0], "{victim}");
    assert!((background - 0.5).abs() < 1e-6);
}

#[test]
fn a_pool_of_its_own_frees_the_victim() {
    let [victim, background] = kept(&[Lever::OwnPool(128.0)]);
    assert!(
        victim > 0.999 && background > 0.999,
        "{victim} {background}"
    );
}

#[test]
fn cache_ways_change_nothing_and_a_clock_little() {
    assert_eq!(kept(&[Lever::Cat(0.1)]), kept(&[]));
    let slow = kept(&[Lever::Frequency(0.8)]);
    assert!(slow[0] > kept(&[])[0], "a core's own time grows");
}

#[test]
fn laws_of_mba() {
    let kept = |law: MbaLaw| [0.1, 0.33, 0.65, 0.94, 1.0].map(|value| law.kept(value));
    assert_eq!(kept(MbaLaw::Linear), [0.1, 0.33, 0.65, 0.94, 1.0]);
    assert_eq!(kept(MbaLaw::Steps), [0.1, 0.4, 0.9, 1.0, 1.0]);
    assert_eq!(kept(MbaLaw::Floor), [1.0 / 3.0, 1.0 / 3.0, 0.65, 0.94, 1.0]);
    // 65 to 94 % gave the same on the hardware that the law is from.
    assert_eq!(MbaLaw::Steps.kept(0.9), MbaLaw::Steps.kept(0.65));
}

#[test]
fn the_greatest_value_of_mba_changes_nothing() {
    assert_eq!(kept(&[Lever::Mba(1.0, None)]), kept(&[]));
}

/// The streams of the first phase of two on slow memory, the second the background.
fn on_slow(lever: Lever, machine: &HostMachine) -> Vec<HostStream> {
    let streams = [
        HostStream::new("cxl", StreamOp::Ld, 8),
        HostStream::new("cxl", StreamOp::St, 8),
    ];
    let mut phases = Lever::apply(&[lever], machine, &streams, 1).unwrap();
    phases.swap_remove(0).streams
}

fn bytes_per_sec(stream: &HostStream) -> f64 {
    let lines = stream.most_lines_per_sec.unwrap();
    lines * 64.0 * stream.op.lines_moved()
}

#[test]
fn mba_without_a_law_has_the_machines() {
    let mut machine = machine();
    machine.levers.mba_law = MbaLaw::Floor;
    let own = on_slow(Lever::Mba(0.1, None), &machine);
    assert_eq!(own, on_slow(Lever::Mba(0.1, Some(MbaLaw::Floor)), &machine));
    assert_ne!(
        own,
        on_slow(Lever::Mba(0.1, Some(MbaLaw::Linear)), &machine)
    );
    assert_eq!(own[0].most_lines_per_sec, None);
}

/// SMBA limits the background, in whole steps; a regulator in the device limits all streams.
#[test]
fn a_rate_is_of_whom_it_says() {
    let smba = on_slow(Lever::Smba(1.1e9), &machine());
    assert_eq!(smba[0].most_lines_per_sec, None);
    assert!((bytes_per_sec(&smba[1]) / 1e9 - 1.0).abs() < 1e-9);
    let device = on_slow(Lever::RegulatorBefore(1.1e9), &machine());
    let both = bytes_per_sec(&device[0]) + bytes_per_sec(&device[1]);
    assert!((both / 1.1e9 - 1.0).abs() < 1e-9, "{both}");
}

#[test]
fn a_clock_is_of_the_background() {
    let clocks = on_slow(Lever::Frequency(0.8), &machine());
    assert_eq!((clocks[0].ghz, clocks[1].ghz), (None, Some(0.8)));
}

#[test]
fn values_out_of_range_are_refused() {
    let named = |name, value| Lever::named(name, value, &machine());
    assert!(matches!(
        named("quotas", 1.0),
        Err(LeverError::Unknown { .. })
    ));
    for (name, value) in [
        ("quota", 0.0),
        ("quota", f64::NAN),
        ("staggered", 33.0),
        ("mba", 0.09),
        ("smba", 0.0),
        ("frequency", 0.7),
        ("cat", -0.1),
        ("own-pool", 0.0),
        ("device-regulator-before", 1.0),
        ("device-regulator-after", f64::INFINITY),
    ] {
        let error = named(name, value).unwrap_err().to_string();
        assert!(
            error.contains(name) && error.contains("is allowed"),
            "{error}"
        );
    }
}

#[test]
fn staggered_threads_run_some_at_a_time() {
    let all = phases(&[Lever::Staggered(3.0), Lever::Quota(0.5)]);
    assert_eq!(all.len(), 2);
    assert_eq!((all[0].part, all[0].streams[1].threads), (0.5, 3));
    assert_eq!(all[1].streams.len(), 1, "the background rests");
    let threads = |count| phases(&[Lever::Staggered(count)])[0].streams[1].threads;
    assert_eq!((threads(1.0), threads(32.0)), (1, 16));
}
