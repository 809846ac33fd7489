// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Waiting between L2 and the last-level cache: on the mesh, in the ingress queue of a home agent, or for an
//! entry of its table of requests. *CXL-Interference* (III-C, Table IV) found it by hand: requests that miss
//! L2 take 15 times as long, and those of them that miss the last-level cache as long as before, so the time
//! goes by before that cache. Its insight 2: CXL requests of a neighbour hold the table.

use super::{Certainty, Evidence, Finding, Rule, RuleOutcome, View};
use crate::counts::Counts;
use crate::figure::{Answer, Unit};
use crate::quality::Refusal;
use crate::stages::residence_cycles;
use weir_core::Role;
use weir_core::window::role::{AccessPath, Quantity, Stage, Target};

/// How many times as long requests that miss L2 must take.
const L2_MISS_MIN: f64 = 2.0;
/// How many times as long requests that miss the last-level cache may take.
const L3_MISS_MAX: f64 = 1.25;
/// Part of the requests, below which a difference is noise.
const HITS_MIN: f64 = 0.01;

pub(super) const RULE: Rule = Rule {
    name: "before_llc",
    looks_for: "waiting between L2 and the last-level cache",
    condition: "demand reads that miss L2 stay twice as long at the core as in the recording given with --idle, \
                and those that miss the last-level cache at most 1.25 times as long; those that hit it twice as long \
                too, where more miss it than before",
    refuted_by: "the residence in the table of requests, by path and target: if that of the workload's own \
                 requests rose as much, they wait behind the cache",
    next_move: "find the neighbour with many lines from CXL memory or DMA (`weir top`), and limit or move it",
    places: &[],
    check,
};

fn check(view: View) -> RuleOutcome {
    let Some(idle) = view.idle else {
        let why = Refusal::NotCalibrated.to_string();
        return RuleOutcome::CannotTell { why };
    };
    let queue = |stage, path, target| Role::new(stage, path, target, Quantity::Occupancy);
    let longer = |role| {
        times(
            residence_cycles(view.counts, role),
            residence_cycles(idle, role),
        )
    };
    let all = longer(queue(Stage::SuperQueue, AccessPath::Drd, Target::Any));
    let missed = longer(queue(Stage::SuperQueue, AccessPath::Drd, Target::Miss));
    let (all, missed) = match (all, missed) {
        (Ok(all), Ok(missed)) => (all, missed),
        (Err(why), _) | (_, Err(why)) => {
            return RuleOutcome::CannotTell {
                why: why.to_string(),
            };
        }
    };
    if all.value < L2_MISS_MIN || missed.value > L3_MISS_MAX || is_other_mix(view.counts, idle) {
        return RuleOutcome::NotFound;
    }
    let table = queue(Stage::Tor, AccessPath::Any, Target::Miss);
    let in_table = longer(table);
    let caveat = in_table.as_ref().ok().filter(|t| t.value > 2.0 * missed.value).map(|t| {
        format!(
            "requests stay {:.0} times as long in the table of requests, and the workload's own that miss the cache \
             do not: those in the table are a neighbour's, and {0:.0} is not the workload's latency",
            t.value
        )
    });
    let rose = |role: Role| times(view.counts.get(role), idle.get(role));
    RuleOutcome::Found(Finding {
        what: format!(
            "demand reads wait between L2 and the last-level cache: those that miss L2 take {:.1} times as long",
            all.value
        ),
        certainty: Certainty::Inferred,
        because_of: Vec::new(),
        places: Vec::new(),
        time_ratio: None,
        evidence: vec![
            Evidence::new(
                "residence of demand reads behind L2, times that of --idle",
                Ok(all),
            ),
            Evidence::new(
                "the same of those that miss the last-level cache",
                Ok(missed),
            ),
            Evidence::new(
                "occupancy of the table of requests, times that of --idle",
                rose(table),
            ),
            Evidence::new(
                "inserts into it, likewise",
                rose(table.with(Quantity::Inserts)),
            ),
        ],
        caveat,
    })
}

/// Whether requests take longer only because more of them miss the last-level cache: those that hit it do not
/// wait twice as long. Not, where the counts do not tell hits from misses.
fn is_other_mix(now: &Counts, before: &Counts) -> bool {
    match (hit_cycles(now), hit_cycles(before)) {
        (Some(now), Some(before)) => now < L2_MISS_MIN * before,
        _ => false,
    }
}

/// Residence of demand reads that miss L2 and hit the last-level cache.
fn hit_cycles(counts: &Counts) -> Option<f64> {
    let less = |quantity| {
        let of = |target| Role::new(Stage::SuperQueue, AccessPath::Drd, target, quantity);
        let (all, missed) = counts.pair(of(Target::Any), of(Target::Miss)).ok()?;
        let hits = all.value - missed.value;
        (hits > HITS_MIN * all.value).then_some(hits)
    };
    Some(less(Quantity::Occupancy)? / less(Quantity::Inserts)?)
}

fn times(now: Answer, before: Answer) -> Answer {
    let (now, before) = (now?, before?);
    if before.value <= 0.0 {
        return Err(Refusal::NoRequests {
            what: "requests on the idle machine".into(),
        });
    }
    Ok(now.and(&before, now.value / before.value, Unit::Ratio))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counts::tests::counts;

    /// Table IV as printed: 15.2, 0.14, 1.01, 4090 and 155 times. It has ratios only; the quiet run is made
    /// up.
    fn table_iv(l3: u64) -> [Counts; 2] {
        let quiet = counts(&[
            ("sq.drd.any.occupancy", 100 * 10_000),
            ("sq.drd.any.inserts", 10_000),
            ("sq.drd.miss.occupancy", 300 * 5_000),
            ("sq.drd.miss.inserts", 5_000),
            ("tor.any.miss.occupancy", 1_000_000),
            ("tor.any.miss.inserts", 10_000),
        ]);
        let beside = counts(&[
            ("sq.drd.any.occupancy", 1520 * 1_400),
            ("sq.drd.any.inserts", 1_400),
            ("sq.drd.miss.occupancy", l3 * 700),
            ("sq.drd.miss.inserts", 700),
            ("tor.any.miss.occupancy", 4_090_000_000),
            ("tor.any.miss.inserts", 1_550_000),
        ]);
        [quiet, beside]
    }

    #[test]
    fn more_misses_of_the_cache_are_no_waiting_before_it() {
        let mixed = |hits: u64, each: u64, missed: u64| {
            counts(&[
                ("sq.drd.any.occupancy", hits * each + missed * 400),
                ("sq.drd.any.inserts", hits + missed),
                ("sq.drd.miss.occupancy", missed * 400),
                ("sq.drd.miss.inserts", missed),
            ])
        };
        let quiet = mixed(9_000, 50, 1_000);
        let said = |now: &Counts| check(View::plain(now, Some(&quiet)));
        let displaced = mixed(1_000, 50, 9_000);
        assert!(matches!(said(&displaced), RuleOutcome::NotFound));
        let waits = mixed(9_000, 300, 1_000);
        assert!(matches!(said(&waits), RuleOutcome::Found(_)));
    }

    #[test]
    fn table_iv_is_waiting_before_the_cache_and_the_table_is_a_neighbours() {
        let [quiet, beside] = table_iv(303);
        let view = View::plain(&beside, Some(&quiet));
        let RuleOutcome::Found(found) = check(view) else {
            panic!("not found")
        };
        assert!(found.what.ends_with("take 15.2 times as long"), "{found:?}");
        let value = |place: usize| found.evidence[place].figure.as_ref().unwrap().value;
        assert_eq!((value(1), value(2), value(3)), (1.01, 4090.0, 155.0));
        let caveat = found.caveat.unwrap();
        assert!(
            caveat.contains("26 times as long") && caveat.contains("a neighbour's"),
            "{caveat}"
        );
        assert_eq!(found.certainty, Certainty::Inferred);
    }

    #[test]
    fn waiting_behind_the_cache_is_another_thing() {
        let [quiet, beside] = table_iv(4000);
        let view = View::plain(&beside, Some(&quiet));
        assert!(matches!(check(view), RuleOutcome::NotFound));
        let same = View::plain(&quiet, Some(&quiet));
        assert!(matches!(check(same), RuleOutcome::NotFound));
        let alone = View::plain(&beside, None);
        let RuleOutcome::CannotTell { why } = check(alone) else {
            panic!("it told")
        };
        assert!(why.contains("--idle"), "{why}");
    }
}
