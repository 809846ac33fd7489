// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What workloads are reported to have on each node, on made-up machines: what was placed there, or that it
//! is not known. The rest of a node belongs to no workload, and is said.

mod made_up;

use super::discovery::tests::{SECOND, discovery_with};
use super::discovery::{Discovery, View};
use super::processes::node_balance::NodeBalance;
use crate::fake::Fake;
use crate::inventory::group_nodes::GroupOnNode;
use crate::kernel::files::Buffer;
use crate::options::{By, Options};
use made_up::{Machine, NODES};
use weir_core::{Bytes, DeviceId, GroupId, Nanos, NodeId, WorkloadId};

/// Less than this, and less than one part in fifty, is no gap.
const TOLERANCE_BYTES: u64 = 16 << 20;

#[derive(Debug, Default)]
struct Seen {
    exact: usize,
    unknown: usize,
    unowned: usize,
    closed: usize,
}

fn group_of(node: usize) -> GroupId {
    GroupId {
        device: DeviceId(u32::try_from(node).unwrap()),
        index: 0,
    }
}

/// A discovery as weir begins with it, on a machine with a device for each node.
fn discovery(fake: &Fake) -> Discovery {
    let mut discovery = discovery_with(fake, false, &[]);
    let watched = NODES.iter().enumerate().map(|(node, number)| GroupOnNode {
        group: group_of(node),
        node: NodeId(*number),
        part: 1.0,
    });
    discovery.watch(watched.collect());
    discovery
}

/// Looks until the memory of each process was read: a round reads one at least.
fn look(discovery: &mut Discovery, machine: &Machine, seconds: u64) -> View {
    let rounds = machine.processes.len() as u64 + 4;
    let at = |round: u64| Nanos(seconds * SECOND + round);
    for round in 0..rounds {
        discovery.round(at(round));
    }
    assert!(!discovery.has_unread());
    discovery.round(at(rounds))
}

fn check(fake: &Fake, machine: &Machine, view: &View, seen: &mut Seen) {
    let mut owned = [Some(0u64); 2];
    for (index, cgroup) in machine.cgroups.iter().enumerate() {
        let id = WorkloadId::new(cgroup.id());
        let found = view.get(&id).unwrap_or_else(|| panic!("{id}: {view:#?}"));
        let case = || format!("{id}: {found:#?} {machine:#?}");
        let placed = machine.placed(index);
        for (node, owned) in owned.iter_mut().enumerate() {
            let mut uses = found.uses.iter();
            let reported = uses.find(|use_| use_.group == group_of(node));
            let Some(placed) = &placed else {
                let reading = reported.map(|use_| &use_.resident_bytes);
                assert!(reading.is_some_and(|r| r.value.is_err()), "{}", case());
                *owned = None;
                seen.unknown += 1;
                continue;
            };
            let bytes = reported.map_or(Some(0), |use_| use_.resident_bytes.ok().map(|b| b.0));
            assert_eq!(bytes, Some(placed.here[node]), "node {node}, {}", case());
            *owned = owned.map(|sum| sum + placed.here[node]);
            seen.exact += usize::from(bytes > Some(0));
        }
        // A cgroup without processes is not asked.
        let all = placed.filter(|_| machine.is_inhabited(index));
        let all = all.map(|placed| Bytes(placed.here.iter().sum::<u64>() + placed.elsewhere));
        assert_eq!(found.resident_bytes, all, "all of {}", case());
    }
    let mut balance = NodeBalance::of(&Options {
        read_only: true,
        ..fake.options(By::Cgroup)
    });
    let gaps = balance.read(view, &mut Vec::new(), &mut Buffer::new());
    for (node, owned) in owned.into_iter().enumerate() {
        let used = machine.in_use(node);
        let left = owned.map_or(0, |owned| used.saturating_sub(owned));
        let is_gap = left > TOLERANCE_BYTES.max(used / 50);
        let unowned = gaps.iter().find(|memory| memory.group == group_of(node));
        let said = unowned.map(|memory| memory.bytes.0);
        assert_eq!(said, is_gap.then_some(left), "node {node}: {machine:#?}");
        seen.unowned += usize::from(is_gap);
        seen.closed += usize::from(owned.is_some() && !is_gap && used > 0);
    }
}

#[test]
fn each_page_is_of_the_workload_that_has_it_or_of_none() {
    let mut seen = Seen::default();
    for seed in 0..300 {
        let fake = Fake::new();
        let mut machine = Machine::new(seed);
        machine.write(&fake);
        let mut discovery = discovery(&fake);
        check(
            &fake,
            &machine,
            &look(&mut discovery, &machine, 100),
            &mut seen,
        );
        // Processes come and go, and pages are migrated.
        machine.change(&fake);
        machine.write(&fake);
        check(
            &fake,
            &machine,
            &look(&mut discovery, &machine, 500),
            &mut seen,
        );
    }
    let Seen {
        exact,
        unknown,
        unowned,
        closed,
    } = seen;
    assert!(exact > 1000, "{seen:?}");
    assert!(unknown > 50 && unowned > 50 && closed > 100, "{seen:?}");
}
