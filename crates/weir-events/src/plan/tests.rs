// SPDX-License-Identifier: Apache-2.0 OR MIT
use super::*;
use crate::groups::fit_beside;
use crate::tables_with_roles;
use proptest::prelude::*;

const LIMITS: PlanLimits = PlanLimits {
    held: 1,
    unknown_counters: 4,
    sets_max: 16,
};

fn table(family: &str) -> &'static Table {
    let mut tables = tables_with_roles().iter();
    tables.find(|table| table.family == family).unwrap()
}

fn all_of(table: &'static Table) -> Vec<Wanted<'static>> {
    let roles = table.role.iter();
    roles.map(|role| Wanted { table, role }).collect()
}

fn made(family: &str, names: &[&str], limits: PlanLimits) -> EventPlan<'static, ()> {
    let table = table(family);
    let roles = names.iter().flat_map(|name| {
        let own = table.role.iter().filter(move |role| role.name == *name);
        own.map(|role| Wanted { table, role })
    });
    let wanted: Vec<Wanted> = roles.collect();
    assert!(wanted.len() >= names.len());
    plan(&wanted, &limits, &mut |_, _| Ok(()))
}

fn names(lane: &Lane) -> Vec<Vec<String>> {
    let of = |set: &LaneSet| set.events.iter().map(|event| event.name.clone()).collect();
    lane.sets.iter().map(of).collect()
}

/// What must hold of any plan.
fn is_sound<R>(wanted: &[Wanted<'static>], limits: &PlanLimits, plan: &EventPlan<'static, R>) {
    for lane in &plan.lanes {
        let mut kind = lane.table.pmu[lane.pmu].clone();
        kind.counters.get_or_insert(limits.unknown_counters);
        let held = if kind.scope == Scope::Cpu {
            limits.held
        } else {
            0
        };
        assert!(lane.sets.len() <= limits.sets_max);
        let has_clock = |set: &LaneSet| {
            let mut roles = set.roles.iter();
            roles.any(|part| part.role.name.ends_with(".clock"))
        };
        let is_clock_here = lane.sets.iter().any(has_clock);
        for set in &lane.sets {
            assert!(fit_beside(&kind, &set.events, held), "{:?}", names(lane));
            let general = set.events.iter().filter(|event| event.fixed.is_none());
            let free = kind.counters.unwrap() - held;
            assert!(general.count() <= free as usize);
            let responses = set.events.iter().filter_map(|e| e.terms.get("offcore_rsp"));
            let responses: std::collections::BTreeSet<u64> = responses.collect();
            assert!(responses.len() <= 2, "two registers a core");
            let occupancy = |part: &RolePart| part.role.name.ends_with(".occupancy");
            assert!(!set.roles.iter().any(occupancy) || has_clock(set) || !is_clock_here);
        }
    }
    for way in wanted {
        let name = &way.role.name;
        let sets = plan.lanes.iter().flat_map(|lane| &lane.sets);
        let parts: Vec<&RolePart> = sets
            .flat_map(|set| &set.roles)
            .filter(|part| part.role.name == *name)
            .collect();
        let absent = plan
            .absent
            .iter()
            .filter(|a| a.wanted.name == *name)
            .count();
        assert_eq!(absent, usize::from(parts.is_empty()), "{name}");
        let Some(first) = parts.first() else { continue };
        assert!(
            parts.iter().all(|part| part.role == first.role),
            "one recipe: {name}"
        );
        let events: usize = parts.iter().map(|part| part.plus.len()).sum();
        if first.is_repeated {
            assert!(parts.iter().all(|p| p.plus.len() == first.role.plus.len()))
        } else {
            assert_eq!(events, first.role.plus.len(), "{name}: each event once")
        }
        let is_whole = |part: &&RolePart| part.minus.len() == first.role.minus.len();
        assert!(parts.len() == 1 || parts.iter().all(is_whole) && first.role.minus.is_empty());
    }
}

#[test]
fn an_occupancy_has_its_inserts_and_its_clock_beside_it() {
    let plan = made(
        "granite-rapids",
        &[
            "tor.any.any.clock",
            "tor.drd.cxl.occupancy",
            "tor.drd.dram-own.occupancy",
            "tor.drd.dram-own.inserts",
            "tor.drd.cxl.inserts",
        ],
        LIMITS,
    );
    assert!(plan.absent.is_empty());
    let [lane] = &plan.lanes[..] else {
        panic!("one PMU")
    };
    let sets = names(lane);
    assert_eq!(sets.len(), 2, "an occupancy is on counter 0 only: {sets:?}");
    for (set, of) in sets.iter().zip(["CXL_ACC", "LOCAL_DDR"]) {
        let count = |part: &str| set.iter().filter(|name| name.contains(part)).count();
        assert_eq!(
            (set.len(), count("CLOCKTICKS"), count(of)),
            (3, 1, 2),
            "{set:?}"
        );
    }
}

#[test]
fn fixed_counters_count_in_every_set_and_the_watchdog_takes_one_of_the_others() {
    let wanted = [
        "core.any.any.clock",
        "core.any.any.instructions",
        "core.any.any.stalls",
        "l1d.drd.miss.stalls",
        "l2.drd.miss.stalls",
        "llc.drd.miss.stalls",
        "sb.any.any.stalls",
    ];
    let plan = made("sapphire-rapids", &wanted, LIMITS);
    let sizes: Vec<usize> = plan.lanes[0].sets.iter().map(|s| s.events.len()).collect();
    assert_eq!(
        sizes,
        [6, 3],
        "four of counters 0-3 and two fixed ones, then the fifth"
    );
    // The watchdog can be on one of the counters that these events cannot have: not when it holds five.
    let crowded = PlanLimits { held: 5, ..LIMITS };
    let plan = made("sapphire-rapids", &wanted, crowded);
    let sizes: Vec<usize> = plan.lanes[0].sets.iter().map(|s| s.events.len()).collect();
    assert_eq!(sizes, [5, 4]);
}

#[test]
fn a_sum_that_does_not_fit_is_spread_and_a_difference_never() {
    let plan = made("sapphire-rapids", &["tor.reads.cxl.inserts"], LIMITS);
    let sets = &plan.lanes[0].sets;
    assert_eq!(sets.len(), 2);
    assert!(
        sets.iter()
            .all(|set| set.roles.len() == 1 && !set.roles[0].is_repeated)
    );
    let difference = ["sq.reads.cxl-own.lines", "sq.reads.cxl-remote.lines"];
    let plan = made("sapphire-rapids", &difference, LIMITS);
    assert_eq!(plan.lanes[0].sets.len(), 2, "two response registers each");
    assert!(plan.absent.is_empty());
}

#[test]
fn the_next_way_is_taken_where_the_best_is_not_here() {
    let table = table("sapphire-rapids");
    let wanted: Vec<Wanted> = all_of(table)
        .into_iter()
        .filter(|way| way.role.name == "sq.reads.cxl.lines")
        .collect();
    assert_eq!(wanted.len(), 2);
    let made = plan(&wanted, &LIMITS, &mut |_, event| {
        if event.name.contains("PMM") {
            Err("no such event")
        } else {
            Ok(())
        }
    });
    let names = names(&made.lanes[0]);
    assert_eq!(names, [["OCR.READS_TO_CORE.CXL_MEM"]]);
    let none = plan(&wanted, &LIMITS, &mut |_, _| Err("no such event"));
    assert!(none.lanes.is_empty());
    assert_eq!(none.absent[0].why, WhyAbsent::NotHere("no such event"));
}

#[test]
fn what_is_left_out_is_the_least_important_and_is_named() {
    let one = PlanLimits {
        sets_max: 1,
        ..LIMITS
    };
    let plan = made(
        "zen5",
        &[
            "core.any.any.clock",
            "l1d.drd.own.lines",
            "l1d.drd.cxl.lines",
            "l1d.pf-l1.own.lines",
        ],
        one,
    );
    let absent: Vec<&str> = plan.absent.iter().map(|a| a.wanted.name.as_str()).collect();
    assert_eq!(absent, ["l1d.pf-l1.own.lines"]);
    assert_eq!(plan.absent[0].why, WhyAbsent::LeftOut);
    let none = PlanLimits { held: 6, ..LIMITS };
    let plan = made("zen5", &["l1d.drd.cxl.lines"], none);
    assert_eq!(plan.absent[0].why, WhyAbsent::TooLarge);
}

#[test]
fn each_family_has_its_plan() {
    for table in tables_with_roles().iter().filter(|t| !t.role.is_empty()) {
        let wanted = all_of(table);
        let plan = plan(&wanted, &LIMITS, &mut |_, _| Ok::<(), ()>(()));
        is_sound(&wanted, &LIMITS, &plan);
        let too_large = plan.absent.iter().filter(|a| a.why == WhyAbsent::TooLarge);
        let too_large: Vec<&str> = too_large.map(|a| a.wanted.name.as_str()).collect();
        // Three responses, and two registers: it is no sum.
        let known: &[&str] = match table.family.as_str() {
            "granite-rapids" => &["sq.pf.cxl.lines"],
            _ => &[],
        };
        assert_eq!(too_large, known, "{}", table.family);
    }
}

proptest! {
    /// Whatever is here, in whatever order, and however many counters and sets there are.
    #[test]
    fn every_plan_is_sound(
        family in prop::sample::select(vec!["sapphire-rapids", "emerald-rapids", "granite-rapids", "zen4", "zen5", "cxl_pmu"]),
        order: Vec<prop::sample::Index>,
        lacking in 0u64..8,
        held in 0u32..3,
        sets_max in 1usize..30,
        unknown_counters in 1u32..8,
    ) {
        let all = all_of(table(family));
        let mut wanted: Vec<Wanted> = order.iter().map(|index| *index.get(&all)).collect();
        wanted.extend(all.iter().filter(|way| way.role.name.len() % 3 == 0));
        let limits = PlanLimits { held, unknown_counters, sets_max };
        let mut asked = 0u64;
        let plan = plan(&wanted, &limits, &mut |_, event| {
            asked += 1;
            let is_lacking = (event.name.len() as u64 * 7 + u64::from(event.name.as_bytes()[event.name.len() - 1])) % 8 < lacking;
            if is_lacking { Err(()) } else { Ok(()) }
        });
        is_sound(&wanted, &limits, &plan);
    }
}
