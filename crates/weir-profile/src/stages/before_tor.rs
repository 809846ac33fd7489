// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Mesh and ingress, by difference: residence of demand reads at the core, less that in the table of
//! requests. The two are counted by different boxes, and where sets take turns, of different requests: a few
//! more that miss the last-level cache would be taken for time on the mesh. So the table's residence is taken
//! by target, in the mix of the requests that the core counted, where that is known.

use super::residence_ns as of_queue;
use crate::counts::Counts;
use crate::figure::{Answer, Figure, Unit};
use crate::quality::{self, Refusal};
use weir_core::Role;
use weir_core::window::CountProvenance;
use weir_core::window::role::{AccessPath, Quantity, Stage, Target};

/// Part of the time from which on a count is taken to have run all of it.
const ALL_THE_TIME: f64 = 1.0 - quality::GROUP_SLACK;
/// Suppliers behind the last-level cache: the whole of a kind, and its parts.
const KINDS: [(Target, &[Target]); 3] = [
    (Target::Dram, &[Target::DramOwn, Target::DramRemote]),
    (Target::Cxl, &[Target::CxlOwn, Target::CxlRemote]),
    (Target::RemoteCache, &[]),
];

fn at(stage: Stage, target: Target, quantity: Quantity) -> Role {
    Role::new(stage, AccessPath::Drd, target, quantity)
}

/// Nanoseconds of a demand read on the mesh, there and back, and in the ingress queue.
pub(super) fn residence_ns(counts: &Counts) -> Answer {
    let core = of_queue(
        counts,
        at(Stage::SuperQueue, Target::Any, Quantity::Occupancy),
    )?;
    let whole = of_queue(counts, at(Stage::Tor, Target::Any, Quantity::Occupancy));
    // What counts all the time has counted the same requests.
    let is_same = |whole: &Figure| {
        [&core, whole]
            .iter()
            .all(|one| one.running_ratio >= Some(ALL_THE_TIME))
    };
    let table = match whole {
        Ok(whole) if is_same(&whole) => whole,
        whole => in_mix_of_core(counts).map_or(whole, Ok)?,
    };
    let ns = core.value - table.value;
    if ns < 0.0 {
        return Err(Refusal::Negative {
            what: "residence at the core less that in the table of requests".into(),
        });
    }
    let mut before = core.and(&table, ns, Unit::Ns);
    before.provenance = before.provenance.max(CountProvenance::Difference);
    Ok(before.noting("the cores' own less that of the whole socket"))
}

/// Residence in the table of requests by target, in the mix of the requests that the core's residence covers:
/// lines by supplier that were counted with them, the rest hits. Nothing where these are not all that missed
/// the cache.
///
/// The time on the mesh is some 25 ns between two residences of 50 to 1000 ns. With the table's residence as
/// it is, its mean error was 6.2 % where events take turns, and 4.2 % where occupancies are shared out
/// (docs/evidence/profiler.md).
fn in_mix_of_core(counts: &Counts) -> Option<Figure> {
    let asked = at(Stage::SuperQueue, Target::Any, Quantity::Inserts);
    let all = counts.get(asked).ok()?;
    let missed_at = at(Stage::SuperQueue, Target::Miss, Quantity::Inserts);
    let (_, missed) = counts.pair(asked, missed_at).ok()?;
    let supplied = |target: &Target| {
        let role = at(Stage::SuperQueue, *target, Quantity::Lines);
        let (_, lines) = counts.pair(asked, role).ok()?;
        let role = at(Stage::Tor, *target, Quantity::Occupancy);
        match of_queue(counts, role) {
            Ok(ns) => Some((lines, ns)),
            // None came: their time does not matter.
            Err(_) if lines.value <= 0.0 => Some((lines.clone(), lines)),
            Err(_) => None,
        }
    };
    let (mut named, mut sum_ns, mut quality) = (0.0, 0.0, all.clone());
    for (whole, parts) in KINDS {
        let known = match supplied(&whole) {
            Some(whole) => vec![whole],
            None => parts.iter().filter_map(supplied).collect(),
        };
        for (lines, ns) in known.iter().filter(|(lines, _)| lines.value > 0.0) {
            named += lines.value;
            sum_ns += lines.value * ns.value;
            quality = quality.and(ns, 0.0, Unit::Ns);
        }
    }
    let hits = all.value - named;
    let unknown = (missed.value - named).abs();
    if hits < 0.0 || unknown > quality::PARTS_SLACK * missed.value.min(all.value) {
        return None;
    }
    if hits > 0.0 {
        let ns = of_queue(counts, at(Stage::Tor, Target::Own, Quantity::Occupancy));
        let ns = ns.ok()?;
        sum_ns += hits * ns.value;
        quality = quality.and(&ns, 0.0, Unit::Ns);
    }
    Some(quality.and(&quality, sum_ns / all.value, Unit::Ns))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counts::tests::{count, counts};
    use weir_core::Nanos;
    use weir_core::window::Count;

    /// 1000 requests of a core at 2 GHz, so many of which miss, that spend 60 cycles on the mesh; and a table
    /// in which half of the requests miss. Hits stay for 40 cycles in it, reads of DRAM for 200, of CXL
    /// memory for 800.
    fn two_boxes(dram: u64, cxl: u64) -> Vec<(&'static str, u64)> {
        let hits = 1000 - dram - cxl;
        vec![
            ("core.any.any.clock", 2_000_000_000),
            ("core.any.any.time-ns", 1_000_000_000),
            ("tor.any.any.clock", 2_000_000_000),
            ("sq.drd.any.inserts", 1000),
            (
                "sq.drd.any.occupancy",
                60_000 + hits * 40 + dram * 200 + cxl * 800,
            ),
            ("sq.drd.miss.inserts", dram + cxl),
            ("tor.drd.any.inserts", 1000),
            ("tor.drd.any.occupancy", 500 * 40 + 250 * 200 + 250 * 800),
            ("tor.drd.own.inserts", 500),
            ("tor.drd.own.occupancy", 500 * 40),
            ("tor.drd.dram-own.inserts", 250),
            ("tor.drd.dram-own.occupancy", 250 * 200),
            ("tor.drd.cxl-own.inserts", 250),
            ("tor.drd.cxl-own.occupancy", 250 * 800),
        ]
    }

    /// The time by counts that ran for half of the time.
    fn ns(all: &[(&'static str, u64)]) -> f64 {
        let half = all.iter().map(|(role, value)| Count {
            running_ns: Nanos(500_000_000),
            ..count(role, *value)
        });
        let half: Vec<Count> = half.collect();
        let counts = Counts::new(&half, Some(Nanos(1_000_000_000)));
        residence_ns(&counts).unwrap().value
    }

    #[test]
    fn another_mix_in_the_table_is_no_time_on_the_mesh() {
        let mut all = two_boxes(300, 400);
        // Without the core's own mix the table's counts for it: 0.2 × 360 cycles and more come on top.
        assert!(ns(&all) > 80.0, "{}", ns(&all));
        all.extend([
            ("sq.drd.dram-own.lines", 300),
            ("sq.drd.cxl-own.lines", 400),
        ]);
        assert!((ns(&all) - 30.0).abs() < 1e-9, "{}", ns(&all));
        // What ran all the time counted the same requests, whatever else says of them.
        let same = residence_ns(&counts(&all)).unwrap().value;
        assert!(same > 80.0, "{same}");
    }

    #[test]
    fn suppliers_that_are_not_all_leave_the_table_as_it_is() {
        let mut all = two_boxes(250, 250);
        all.push(("sq.drd.dram-own.lines", 250));
        assert!((ns(&all) - 30.0).abs() < 1e-9, "{}", ns(&all));
        let mut other = two_boxes(250, 250);
        other.extend([
            ("sq.drd.dram-own.lines", 250),
            ("sq.drd.cxl-own.lines", 900),
        ]);
        assert!((ns(&other) - 30.0).abs() < 1e-9, "{}", ns(&other));
    }
}
