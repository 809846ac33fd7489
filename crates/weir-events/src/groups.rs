// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which events of one PMU can count at the same time. The kernel multiplexes events that cannot, and reports
//! it only as `time_running`; weir makes the sets itself, so that it knows which figures are scaled, and
//! events that are compared with each other count over the same time.
//!
//! Two things limit a set: each event needs a counter of its own, of those it can be counted on; and
//! on some PMUs a term has few registers behind it (two values of `offcore_rsp` per core).

use crate::counters::CounterSet;
use crate::table::{Event, Pmu};
use std::collections::BTreeSet;

/// Puts events into sets, in their order, as few as first fit makes them. An event that alone does not
/// fit (it has counters that the PMU lacks) is impossible in a table that was checked; it would get a
/// set of its own.
pub fn sets<'a>(pmu: &Pmu, events: &[&'a Event]) -> Vec<Vec<&'a Event>> {
    let mut sets: Vec<Vec<&Event>> = Vec::new();
    for event in events {
        let with = |set: &[&'a Event]| [set, &[*event]].concat();
        match sets.iter_mut().find(|set| fit(pmu, &with(set))) {
            Some(set) => set.push(event),
            None => sets.push(vec![event]),
        }
    }
    sets
}

/// Whether these can count at the same time.
pub fn fit(pmu: &Pmu, events: &[&Event]) -> bool {
    fit_beside(pmu, events, 0)
}

/// Whether these can count at the same time while others hold so many counters, any of them: the kernel's NMI
/// watchdog holds one of each CPU. It counts cycles; where it has the fixed counter of cycles, events of
/// cycles take another one, so the number is the same.
///
/// Three things limit a group: terms with few registers behind them, the number of counters, and counters
/// that an event must have. The last is no matter of numbers, and needs a matching.
pub fn fit_beside(pmu: &Pmu, events: &[&Event], held: u32) -> bool {
    for limit in &pmu.limited {
        let values: BTreeSet<u64> = events
            .iter()
            .filter_map(|e| e.terms.get(&limit.term))
            .collect();
        if values.len() > limit.at_once as usize {
            return false;
        }
    }
    let Some(count) = pmu.counters else {
        return true;
    };
    let all = CounterSet::first(count);
    let own = events.iter().filter(|event| event.fixed.is_none());
    let others = (0..held).map(|_| all);
    let sets = own.map(|e| e.counters.unwrap_or(all)).chain(others);
    assigned(&sets.collect::<Vec<_>>(), count)
}

/// Whether each can have a counter of its own: a matching in a bipartite graph, by augmenting paths
/// (Kuhn). Few counters, so its cost does not matter.
fn assigned(sets: &[CounterSet], counters: u32) -> bool {
    let mut owner: Vec<Option<usize>> = vec![None; counters as usize];
    (0..sets.len()).all(|event| {
        let mut tried = vec![false; counters as usize];
        augment(event, sets, &mut owner, &mut tried)
    })
}

fn augment(
    event: usize,
    sets: &[CounterSet],
    owner: &mut [Option<usize>],
    tried: &mut [bool],
) -> bool {
    for counter in sets[event].iter().map(|c| c as usize) {
        if tried.get(counter) != Some(&false) {
            continue;
        }
        tried[counter] = true;
        if owner[counter].is_none_or(|other| augment(other, sets, owner, tried)) {
            owner[counter] = Some(event);
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tables_with_roles;
    use proptest::prelude::*;

    fn table(family: &str) -> &'static crate::Table {
        tables_with_roles()
            .iter()
            .find(|t| t.family == family)
            .unwrap()
    }

    fn set(text: &str) -> CounterSet {
        CounterSet::parse(text).unwrap()
    }

    #[test]
    fn an_event_moves_where_another_can_only_be() {
        assert!(assigned(&[set("0-3"), set("0")], 4));
        assert!(!assigned(&[set("0"), set("0")], 4));
        assert!(assigned(&[set("0-1"), set("0-1"), set("0-2")], 3));
        assert!(!assigned(&[set("0-1"), set("0-1"), set("0-1")], 3));
        assert!(!assigned(&[set("4-7")], 4), "counters that are not there");
    }

    /// intel/pcm counts reads on Sapphire Rapids so: eight events in two sets that are multiplexed.
    #[test]
    fn eight_events_on_four_counters_take_turns() {
        let table = table("sapphire-rapids");
        let read = table
            .amount
            .iter()
            .find(|a| a.of == crate::Scope::Socket)
            .unwrap();
        let events: Vec<&Event> = read.plus.iter().map(|n| table.event(n).unwrap()).collect();
        let sizes: Vec<usize> = sets(&table.pmu["cha"], &events)
            .iter()
            .map(Vec::len)
            .collect();
        assert_eq!(sizes, [4, 4]);
    }

    #[test]
    fn reads_and_writes_of_a_port_count_together_and_two_occupancies_do_not() {
        let table = table("granite-rapids");
        let named = |names: &[&str]| -> Vec<&Event> {
            names.iter().map(|n| table.event(n).unwrap()).collect()
        };
        let latency = named(&[
            "UNC_CHA_TOR_INSERTS.IA_MISS_DRD_CXL_ACC",
            "UNC_CHA_TOR_OCCUPANCY.IA_MISS_DRD_CXL_ACC",
            "UNC_CHA_CLOCKTICKS",
        ]);
        assert!(fit(&table.pmu["cha"], &latency));
        let twice = named(&[
            "UNC_CHA_TOR_OCCUPANCY.IA_MISS_DRD_CXL_ACC",
            "UNC_CHA_TOR_OCCUPANCY.IA_MISS_CXL_ACC",
        ]);
        assert!(!fit(&table.pmu["cha"], &twice));
        let responses = named(&[
            "OCR.READS_TO_CORE.CXL_MEM",
            "OCR.DEMAND_RFO.CXL_MEM",
            "OCR.DEMAND_DATA_RD.CXL_MEM",
        ]);
        assert_eq!(
            sets(&table.pmu["cpu"], &responses).len(),
            2,
            "two registers per core"
        );
    }

    proptest! {
        /// Against trying all ways.
        #[test]
        fn the_matching_finds_what_there_is(masks in prop::collection::vec(1u64..16, 0..5)) {
            let sets: Vec<CounterSet> = masks.iter().map(|bits| {
                let list: Vec<String> = (0..4).filter(|c| bits >> c & 1 == 1).map(|c: u32| c.to_string()).collect();
                set(&list.join(","))
            }).collect();
            fn any_way(sets: &[CounterSet], free: u64) -> bool {
                match sets.split_first() {
                    None => true,
                    Some((first, rest)) => first.iter().any(|c| free >> c & 1 == 1 && any_way(rest, free & !(1 << c))),
                }
            }
            prop_assert_eq!(assigned(&sets, 4), any_way(&sets, 15));
        }
    }
}
