// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Small cases with known answers, and what holds whatever was counted.

use super::*;
use crate::counts::Counts;
use crate::counts::tests::counts;
use proptest::prelude::*;

/// A core of 2 GHz that follows a chain for a second: each load takes 200 cycles from DRAM or 700 from CXL
/// memory.
pub fn chain(dram: u64, cxl: u64) -> Counts {
    slowed_chain(dram, cxl, 0)
}

/// The same, where a load from CXL memory waits for so many cycles in the table of requests.
pub fn slowed_chain(dram: u64, cxl: u64, wait: u64) -> Counts {
    let cycles = 200 * dram + (700 + wait) * cxl;
    let loads = dram + cxl;
    let stalled = cycles - 5 * loads;
    counts(&[
        ("core.any.any.clock", cycles),
        ("core.any.any.time-ns", cycles / 2),
        ("core.any.any.instructions", 20 * loads),
        ("l1d.drd.miss.stalls", stalled),
        ("sb.any.any.stalls", 0),
        ("sq.drd.dram-own.lines", dram),
        ("sq.drd.cxl-own.lines", cxl),
        ("sq.drd.any.occupancy", cycles - 15 * loads),
        ("sq.drd.any.inserts", loads),
        ("lfb.drd.any.occupancy", cycles),
        ("tor.any.any.clock", 2_000_000_000),
        ("tor.drd.dram-own.occupancy", 140 * dram),
        ("tor.drd.dram-own.inserts", dram),
        ("tor.drd.cxl-own.occupancy", (640 + wait) * cxl),
        ("tor.drd.cxl-own.inserts", cxl),
    ])
}

fn split(counts: &Counts) -> StallSplit {
    stalls(&Sources::alone(counts)).unwrap()
}

/// A chain pays for each load what it takes, less the work beside it.
#[test]
fn a_chain_is_split_by_the_time_of_its_loads() {
    let split = split(&chain(1_000_000, 1_000_000));
    let truth = 695.0 / (695.0 + 195.0);
    assert!((split.cxl_share.value - truth).abs() < 0.02, "{split:?}");
    assert_eq!(split.cxl_share.class, Class::Modelled);
    assert!(split.dependence.unwrap() > 0.9, "{split:?}");
    let at_device = split.share_of(|role| role.stage == Stage::Device);
    assert!((at_device - 640.0 / 890.0).abs() < 0.03, "{at_device}");
    let on_mesh = split.share_of(|role| role.stage == Stage::Ingress);
    assert!((on_mesh - 90.0 / 890.0).abs() < 0.03, "{on_mesh}");
}

/// A core that stalls and has nothing to wait for is a contradiction, and no panic.
#[test]
fn stalls_without_loads_are_refused() {
    let counted = counts(&[
        ("core.any.any.clock", 2_000_000_000),
        ("core.any.any.time-ns", 1_000_000_000),
        ("core.any.any.instructions", 500_000_000),
        ("l1d.drd.miss.stalls", 1_000_000_000),
        ("sb.any.any.stalls", 0),
        ("sq.drd.own.lines", 0),
        ("sq.drd.snc.lines", 0),
        ("sq.drd.dram-own.lines", 0),
        ("sq.drd.cxl-own.lines", 0),
        ("tor.any.any.clock", 2_000_000_000),
        ("tor.drd.dram-own.occupancy", 140_000_000),
        ("tor.drd.dram-own.inserts", 1_000_000),
        ("tor.drd.cxl-own.occupancy", 640_000_000),
        ("tor.drd.cxl-own.inserts", 1_000_000),
    ]);
    let why = stalls(&Sources::alone(&counted)).unwrap_err().to_string();
    assert!(why.contains("loads that miss L1D"), "{why}");
}

/// The recording says how many fill buffers a core has. With one, loads follow each other, and none is in the
/// shadow of a slower one.
#[test]
fn loads_overlap_in_as_many_fill_buffers_as_there_are() {
    let counted = overlapping();
    let cxl_share = |fill_buffers| {
        let sources = Sources {
            fill_buffers,
            ..Sources::alone(&counted)
        };
        stalls(&sources).unwrap().cxl_share.value
    };
    let one = cxl_share(Some(1));
    assert!(one < cxl_share(None) - 0.05, "{one}");
    assert_eq!(cxl_share(Some(0)), one, "no core is without one");
}

/// As many loads from each, and a core that needs none of them for the next.
fn overlapping() -> Counts {
    counts(&[
        ("core.any.any.clock", 100_000_000),
        ("core.any.any.time-ns", 50_000_000),
        ("core.any.any.instructions", 50_000_000),
        ("sb.any.any.stalls", 0),
        ("l1d.drd.miss.stalls", 70_000_000),
        ("sq.drd.dram-own.lines", 500_000),
        ("sq.drd.cxl-own.lines", 500_000),
        ("tor.any.any.clock", 2_000_000_000),
        ("tor.drd.dram-own.occupancy", 100_000_000),
        ("tor.drd.dram-own.inserts", 500_000),
        ("tor.drd.cxl-own.occupancy", 300_000_000),
        ("tor.drd.cxl-own.inserts", 500_000),
    ])
}

/// DRAM is in the shadow of CXL memory.
#[test]
fn what_overlaps_waits_for_the_slowest() {
    let made = split(&overlapping());
    assert!(
        made.cxl_share.value > 0.77,
        "by lines 0.5, by residence 0.75: {made:?}"
    );
    assert!(made.cxl_error >= ERROR_MIN);
}

#[test]
fn stores_have_a_branch_of_their_own() {
    let all = counts(&[
        ("core.any.any.clock", 2_000_000_000),
        ("core.any.any.time-ns", 1_000_000_000),
        ("core.any.any.instructions", 500_000_000),
        ("l1d.drd.miss.stalls", 0),
        ("sb.any.any.stalls", 1_000_000_000),
        ("sq.rfo.cxl-own.lines", 2_000_000),
        ("sq.rfo.dram-own.lines", 2_000_000),
        ("tor.any.any.clock", 2_000_000_000),
        ("tor.rfo.dram-own.occupancy", 280_000_000),
        ("tor.rfo.dram-own.inserts", 2_000_000),
        ("tor.rfo.cxl-own.occupancy", 1_280_000_000),
        ("tor.rfo.cxl-own.inserts", 2_000_000),
    ]);
    let made = split(&all);
    assert!(
        made.parts
            .iter()
            .all(|part| part.role.path == AccessPath::Rfo),
        "{made:?}"
    );
    assert!(
        made.cxl_share.value > 0.7 && made.dependence.is_none(),
        "{made:?}"
    );
}

#[test]
fn what_is_missing_is_named() {
    let why = |counts: &Counts| stalls(&Sources::alone(counts)).unwrap_err().to_string();
    assert!(why(&counts(&[])).contains("l1d.drd.miss.stalls"));
    let idle = counts(&[
        ("l1d.drd.miss.stalls", 0),
        ("sb.any.any.stalls", 0),
        ("core.any.any.clock", 9),
        ("core.any.any.instructions", 9),
    ]);
    assert!(why(&idle).contains("no stalled cycles"));
    let odd = counts(&[
        ("l1d.drd.miss.stalls", 20),
        ("sb.any.any.stalls", 0),
        ("core.any.any.clock", 9),
        ("core.any.any.instructions", 9),
    ]);
    assert!(
        why(&odd).contains("2.22 times core.any.any.clock"),
        "{}",
        why(&odd)
    );
}

const ROLES: &[&str] = &[
    "core.any.any.clock",
    "core.any.any.time-ns",
    "core.any.any.instructions",
    "l1d.drd.miss.stalls",
    "sb.any.any.stalls",
    "l2.drd.own.loads",
    "llc.drd.own.loads",
    "imc.drd.dram-own.loads",
    "device.drd.cxl-own.loads",
    "sq.drd.own.lines",
    "sq.drd.dram-own.lines",
    "sq.drd.cxl-own.lines",
    "sq.rfo.cxl-own.lines",
    "sq.pf.cxl-own.lines",
    "l2.rfo.own.lines",
    "l2.rfo.miss.lines",
    "sq.drd.any.occupancy",
    "sq.drd.any.inserts",
    "sq.drd.miss.occupancy",
    "sq.drd.miss.inserts",
    "lfb.drd.any.occupancy",
    "tor.any.any.clock",
    "tor.drd.own.occupancy",
    "tor.drd.own.inserts",
    "tor.drd.dram-own.occupancy",
    "tor.drd.dram-own.inserts",
    "tor.drd.cxl-own.occupancy",
    "tor.drd.cxl-own.inserts",
    "device.any.any.clock",
    "device.reads.cxl.occupancy",
    "device.reads.cxl.inserts",
];

/// Values of any size, and some that fit each other.
fn any_values() -> impl Strategy<Value = Vec<u64>> {
    let any = prop_oneof![
        Just(0u64),
        Just(u64::MAX),
        1u64..1000,
        100_000u64..3_000_000_000,
        any::<u64>(),
    ];
    let plausible = (1_000_000u64..2_000_000_000).boxed();
    let one = prop_oneof![2 => any.boxed(), 3 => plausible];
    prop::collection::vec(one, ROLES.len())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Whatever was counted: a refusal, or parts that sum to what was measured, none below 0, none without a
    /// number.
    #[test]
    fn parts_sum_to_what_was_measured(
        values in any_values(),
        is_there in prop::collection::vec(prop::bool::weighted(0.9), ROLES.len()),
        sane in prop::bool::ANY,
    ) {
        let mut all: Vec<(&str, u64)> = ROLES.iter().copied().zip(values).collect();
        if sane {
            let fixed = [
                ("core.any.any.clock", 2_000_000_000),
                ("core.any.any.time-ns", 1_000_000_000),
                ("tor.any.any.clock", 2_000_000_000),
            ];
            for (role, value) in fixed {
                all.iter_mut().filter(|one| one.0 == role).for_each(|one| one.1 = value);
            }
        }
        let kept: Vec<(&str, u64)> = all
            .into_iter()
            .zip(is_there)
            .filter(|((role, _), keep)| *keep || (sane && role.ends_with("clock")))
            .map(|(one, _)| one)
            .collect();
        let counts = counts(&kept);
        if let Ok(made) = stalls(&Sources::alone(&counts)) {
            let sum: f64 = made.parts.iter().map(|part| part.cycles).sum();
            let measured = made.measured.value;
            prop_assert!((sum - measured).abs() <= 1e-9 * measured, "{} {}", sum, measured);
            for part in &made.parts {
                prop_assert!(part.cycles >= 0.0 && part.cycles.is_finite(), "{:?}", part);
                prop_assert!((0.0..=1.0 + 1e-9).contains(&part.share), "{:?}", part);
                prop_assert!((0.0..=1.0).contains(&part.error), "{:?}", part);
            }
            prop_assert!((0.0..=1.0).contains(&made.cxl_share.value), "{:?}", made);
            let again = stalls(&Sources::alone(&counts)).unwrap();
            prop_assert_eq!(again.parts, made.parts);
        }
    }
}
