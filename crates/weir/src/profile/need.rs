// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weir profile need`: what perf has to count, on a machine on which weir is not installed or for a report
//! that could not look at something.
//!
//! Events are in groups that the PMU's counters hold, as `weir profile record` has them, so that an occupancy
//! and what it is divided by count over the same time. They are written as terms: names are known to some
//! versions of perf, and terms to all.

use super::cli::NeedArgs;
use super::tables::{family, kind};
use crate::cli::exit::{Exit, print, print_json};
use anyhow::Result;
use serde::Serialize;
use std::collections::BTreeMap;
use std::convert::Infallible;
use weir_events::plan::{EventPlan, Lane, LaneSet, PlanLimits, SETS_MAX, plan};
use weir_events::{Event, Table};
use weir_linux::Roots;
use weir_linux::windows::by_importance;

/// The NMI watchdog holds one counter of each CPU, where it runs: most distributions start it.
const HELD: u32 = 1;

/// A group of events that count at the same time.
#[derive(Debug, Serialize)]
struct EventGroup {
    pmu: String,
    /// As perf takes them: `-e '{EVENT,EVENT}'`.
    events: Vec<String>,
    roles: Vec<String>,
}

#[derive(Debug, Serialize)]
struct PerfCommand {
    family: String,
    groups: Vec<EventGroup>,
    /// Roles that no group has: their events are more than the counters, or all groups are full.
    left_out: Vec<String>,
    /// PMUs that not every kernel has, and what they need.
    needs: BTreeMap<String, String>,
}

/// Prints the command.
///
/// # Errors
/// The family is not known, or stdout cannot be written.
pub fn need(args: &NeedArgs, roots: &Roots) -> Result<Exit> {
    let need = of(family(args.family.as_deref(), roots)?);
    if args.json {
        print_json(&need)?;
    } else {
        print(&text(&need))?;
    }
    Ok(Exit::Done)
}

fn of(table: &'static Table) -> PerfCommand {
    let wanted = by_importance(std::iter::once(table));
    let limits = PlanLimits {
        held: HELD,
        unknown_counters: 1,
        sets_max: SETS_MAX,
    };
    let plan: EventPlan<Infallible> = plan(&wanted, &limits, &mut |_, _| Ok(()));
    let groups = plan.lanes.iter().flat_map(|lane| {
        let sets = lane.sets.iter();
        sets.map(move |set| group(lane, set))
    });
    let needs = plan.lanes.iter().filter_map(|lane| {
        let needs = table.pmu.get(lane.pmu)?.needs.clone()?;
        Some((name_of(lane), needs))
    });
    PerfCommand {
        family: table.family.clone(),
        needs: needs.collect(),
        groups: groups.collect(),
        left_out: plan
            .absent
            .iter()
            .map(|absent| absent.wanted.name.clone())
            .collect(),
    }
}

/// The lane's PMU as perf names it.
fn name_of(lane: &Lane) -> String {
    let pmu = lane.table.pmu.get(lane.pmu);
    let first = pmu.and_then(|pmu| pmu.names.first());
    first.map_or_else(|| lane.pmu.to_owned(), kind)
}

fn group(lane: &Lane, set: &LaneSet) -> EventGroup {
    let pmu = name_of(lane);
    let event = |event: &&Event| format!("{pmu}/{}/", event.terms);
    EventGroup {
        events: set.events.iter().map(event).collect(),
        roles: set
            .roles
            .iter()
            .map(|part| part.role.name.clone())
            .collect(),
        pmu,
    }
}

fn text(need: &PerfCommand) -> String {
    let family = &need.family;
    let groups: String = need
        .groups
        .iter()
        .map(|group| format!("    -e '{{{}}}' \\\n", group.events.join(",")))
        .collect();
    let left_out = match &need.left_out[..] {
        [] => String::new(),
        roles => format!(
            "# Left out, since their events do not fit on the counters or all groups of the PMU are full: {}\n",
            roles.join(", ")
        ),
    };
    let needs = need.needs.iter();
    let needs: String = needs
        .map(|(pmu, needs)| format!("# {pmu}: {needs}\n"))
        .collect();
    format!(
        "# All that a profile of {family} is made of. perf has its {} groups take turns.\n\
         {left_out}{needs}perf stat -x, -I 1000 -a --per-socket -o counts.csv \\\n{groups}    -- sleep 60\n\
         weir profile import counts.csv --family {family} --out counts.windows\n\
         weir profile report counts.windows\n",
        need.groups.len()
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::tables::Events;
    use std::collections::BTreeSet;
    use weir_events::tables_with_roles;
    use weir_profile::{perf_stat, recipes};

    fn all() -> impl Iterator<Item = &'static Table> {
        let all = tables_with_roles().iter();
        all.filter(|table| !table.role.is_empty() && !table.cpu.is_empty())
    }

    /// What perf prints for these groups: each event as it was asked for.
    fn printed(need: &PerfCommand) -> String {
        let groups = need.groups.iter().map(|group| &group.events);
        let line = |event: &String| format!("1.000000000,S0,1,900000,,{event},1000,100.00,,\n");
        groups.flatten().map(line).collect()
    }

    #[test]
    fn an_import_of_what_is_counted_so_has_each_role_of_the_groups() {
        for table in all() {
            let need = of(table);
            let stat = perf_stat::read(&printed(&need), None).unwrap();
            let events = Events::new(Some(table));
            let naming = |pmu: Option<&str>, inside: &str| events.canonical(pmu, inside);
            let file = recipes::windows(&stat, &events.recipes(), &naming, None);
            let unassigned = &file.windows[0].unassigned;
            assert!(unassigned.is_empty(), "{}: {unassigned:?}", table.family);
            let counts = file.windows[0].machine.iter();
            let counted: BTreeSet<String> = counts.map(|count| count.role.to_string()).collect();
            let promised = need.groups.iter().flat_map(|group| &group.roles);
            let promised: BTreeSet<String> = promised.cloned().collect();
            let lost: Vec<&String> = promised.difference(&counted).collect();
            assert!(lost.is_empty(), "{}: {lost:?}", table.family);
            assert!(promised.len() > 20, "{}: {promised:?}", table.family);
        }
    }

    #[test]
    fn no_group_has_more_events_than_its_pmu_has_counters_left() {
        for table in all() {
            for group in of(table).groups.iter().filter(|group| group.pmu == "cpu") {
                let of_table = |event: &&String| {
                    let terms = event.trim_start_matches("cpu/").trim_end_matches('/');
                    let found = table.event.iter().find(|e| e.terms.to_string() == terms);
                    found.is_some_and(|event| event.fixed.is_none())
                };
                let needed = group.events.iter().filter(of_table).count();
                let counters = table.pmu["cpu"].counters.unwrap() as usize;
                assert!(needed < counters, "{} {:?}", table.family, group.events);
            }
        }
    }
}
