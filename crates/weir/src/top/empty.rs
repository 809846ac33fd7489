// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Why a table has no rows, or not all: an empty table without a reason would seem to say that all is well.

use weir_core::seam::snapshot::Snapshot;
use weir_core::seam::topology::Fact;
use weir_figures::text;

fn missing(snapshot: &Snapshot, name: &str) -> Option<String> {
    let facts = &snapshot.description.facts;
    let fact: &Fact = facts.iter().find(|fact| fact.name == name)?;
    Some(text::harmless(fact.value.as_ref().err()?.reason()))
}

/// Why not all workloads are seen, if so; as one sentence without its full stop, harmless on a terminal.
pub fn unseen(snapshot: Option<&Snapshot>) -> Option<String> {
    let snapshot = snapshot?;
    // Processes are seen whatever the cgroups are.
    let mut workloads = snapshot.plan.workloads.iter();
    let names: &[&str] = if workloads.any(|verdict| verdict.id.as_str().starts_with("pid:")) {
        &[weir_linux::PIDS]
    } else {
        &[weir_linux::NAMESPACE, weir_linux::V2, weir_linux::PIDS]
    };
    let why = names.iter().find_map(|name| missing(snapshot, name))?;
    Some(format!(
        "not all workloads are seen: {why}: `weir doctor` says what would work"
    ))
}

/// Why there are no rows, likewise.
pub fn reason(snapshot: Option<&Snapshot>) -> String {
    let Some(snapshot) = snapshot else {
        return "nothing was seen so far".to_owned();
    };
    if let Some(why) = unseen(Some(snapshot)) {
        return why;
    }
    if let Some(why) = missing(snapshot, "privilege") {
        return format!(
            "no workload with memory on a CXL device is seen, but {why}: `weir doctor` says what would work"
        );
    }
    let groups = &snapshot.description.groups;
    if groups.iter().all(|group| group.node.is_none()) {
        return "no workload can have memory on a device: none of it is online as a NUMA node; see `weir topology`".to_owned();
    }
    "no workload has memory on a CXL device".to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::top::testing;
    use weir_core::seam::topology::Group;
    use weir_core::{Bytes, DeviceId, GroupId, Missing, NodeId};

    fn snapshot() -> Snapshot {
        let mut snapshot = testing::snapshot(0, 100.0);
        snapshot.plan.workloads.clear();
        snapshot.description.groups = vec![Group {
            id: GroupId {
                device: DeviceId(0),
                index: 0,
            },
            node: Some(NodeId(1)),
            size_bytes: Bytes(0),
        }];
        snapshot
    }

    fn with(name: &str, value: Result<String, Missing>) -> String {
        let mut snapshot = snapshot();
        snapshot.description.facts.push(Fact {
            name: name.into(),
            value,
            next_move: None,
        });
        reason(Some(&snapshot))
    }

    #[test]
    fn an_empty_table_has_its_reason() {
        assert_eq!(
            reason(Some(&snapshot())),
            "no workload has memory on a CXL device"
        );
        assert_eq!(
            with("cgroup.v2", Ok("all is well".into())),
            "no workload has memory on a CXL device"
        );
        let seen = with(
            "cgroup.namespace",
            Err(Missing::NotSupported("a cgroup namespace\u{1b}[2J".into())),
        );
        assert!(
            seen.contains("not all workloads are seen: a cgroup namespace")
                && seen.contains("doctor"),
            "{seen}"
        );
        assert!(!seen.contains('\u{1b}'), "{seen:?}");
        let seen = with("cgroup.v2", Err(Missing::NotSupported("version 1".into())));
        assert!(seen.contains("version 1"), "{seen}");
        let seen = with("privilege", Err(Missing::NotPermitted("not root".into())));
        assert!(seen.contains("not root"), "{seen}");
        let mut offline = snapshot();
        offline.description.groups[0].node = None;
        assert!(reason(Some(&offline)).contains("online"));
    }
}
