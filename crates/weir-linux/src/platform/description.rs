// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What this host is and can do: facts with reasons and next moves, which `weir doctor` prints. Each room
//! gives its own facts; here they are put together. Reading them changes nothing and cannot fail.

use super::lease_books;
use crate::backends;
use crate::counters::Counters;
use crate::counters::fabric_counters::coverage::{self, coverage};
use crate::counters::link_bound::Bounds;
use crate::inventory::hypervisor;
use crate::inventory::numa::Topology;
use crate::kernel::privilege;
use crate::options::{CounterSource, Options};
use crate::workloads::cgroups::handed_down::without_cpu_max;
use crate::workloads::cgroups::hierarchy;
use crate::workloads::cpu_time::bpf::CpuTimeBpf;
use crate::workloads::exclude::Rules;
use crate::workloads::processes::numa_maps;
use crate::workloads::{operator_names, task_iter};
use crate::{counters, task_traffic};
use weir_core::seam::topology::{Fact, NodeCoverage};
use weir_core::{Description, Missing};

/// The fact that says how many CPUs are online.
pub(super) const CPUS_ONLINE: &str = "cpu.online";

/// Describes the host without acting on it: what [`crate::LinuxPlatform::open`] would find with these
/// options, and what would be in its way.
pub fn describe(options: &Options) -> Description {
    let roots = &options.roots;
    let topology = Topology::probe(roots, &options.nodes);
    let nodes = topology.memory_nodes.as_deref().unwrap_or_default();
    let counters = Counters::probe_from(roots, nodes, None, CounterSource::Auto);
    let mut description = description(options, &topology, &counters);
    if description.actuator.is_some() {
        limit_what_can_be(options, &mut description);
    }
    let facts = &mut description.facts;
    facts.extend(topology.unused(roots));
    Bounds::of(roots, &counters.devices, facts);
    facts.extend(task_traffic::facts(options));
    facts.push(task_iter::fact(options));
    facts.push(CpuTimeBpf::choose(options).fact());
    facts.extend(operator_names::names(options));
    description
}

/// Corrects what was found at the root: a controller that is handed down from there may end further below.
/// What counts is whether one of the cgroups that have processes can have the controller; only then are
/// limits possible.
fn limit_what_can_be(options: &Options, description: &mut Description) {
    let Some(found) = without_cpu_max(&options.roots, &Rules::of(options)) else {
        return;
    };
    if found.are_all {
        description.actuator = None;
    }
    let mut facts = description.facts.iter_mut();
    if let Some(fact) = facts.find(|fact| fact.name == hierarchy::CPU) {
        fact.value = Err(Missing::NotSupported(found.why));
        fact.next_move = found.next_move;
    }
}

pub(crate) fn description(
    options: &Options,
    topology: &Topology,
    counters: &Counters,
) -> Description {
    let roots = &options.roots;
    let kernel = rustix::system::uname()
        .release()
        .to_string_lossy()
        .into_owned();
    let mut facts = vec![
        known("kernel.release", Ok(kernel.clone())),
        privilege::fact(roots),
        hypervisor::fact(roots),
        known(
            CPUS_ONLINE,
            topology.cpu_count.clone().map(|n| n.to_string()),
        ),
    ];
    facts.extend(topology.facts(roots));
    let mut partly_counted = coverage(&topology.fabric, counters);
    facts.extend(coverage::facts(&partly_counted));
    partly_counted.retain(NodeCoverage::is_partial);
    facts.extend(counters.facts.iter().cloned());
    facts.push(counters::latency::fact(roots, topology, counters));
    let has_controller = hierarchy::facts(roots, options.by, &mut facts);
    facts.extend(backends::facts::facts(options));
    facts.push(numa_maps::fact(roots, options.by));
    facts.push(lease_books::fact(roots));
    Description {
        kernel,
        cpu_count: topology.cpus_or_guess(),
        devices: counters.devices.clone(),
        groups: counters.groups.clone(),
        actuator: has_controller.then(|| backends::facts::actuator(options)),
        task_events: Vec::new(),
        partly_counted,
        facts,
    }
}

fn known(name: &str, value: Result<String, Missing>) -> Fact {
    Fact {
        name: name.into(),
        value,
        next_move: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::Fake;
    use crate::options::Roots;

    fn described(roots: &Roots) -> Description {
        describe(&Options {
            roots: roots.clone(),
            ..Options::default()
        })
    }

    fn find<'a>(description: &'a Description, name: &str) -> &'a Fact {
        description
            .facts
            .iter()
            .find(|f| f.name == name)
            .unwrap_or_else(|| panic!("{name}"))
    }

    #[test]
    fn a_sound_host() {
        let fake = Fake::new();
        fake.write("proc/self/numa_maps", "");
        let seen = described(&fake.roots());
        assert_eq!(
            (seen.cpu_count, seen.devices.len(), seen.groups.len()),
            (2, 1, 1)
        );
        assert_eq!(seen.groups[0].node.map(|n| n.0), Some(1));
        let actuator = seen.actuator.as_ref().unwrap();
        assert_eq!(
            (actuator.min_cpus, actuator.period_ns.0),
            (0.001, 20_000_000)
        );
        for name in [
            "numa.cxl_nodes",
            "cgroup.v2",
            "cgroup.controller.cpu",
            "proc.numa_maps",
        ] {
            assert!(
                find(&seen, name).value.is_ok(),
                "{name}: {:?}",
                find(&seen, name)
            );
        }
        assert!(!fake.path("run/weir").exists(), "reading changes nothing");
    }

    #[test]
    fn the_slice_of_quotas_is_reported() {
        let fake = Fake::new();
        let (file, name) = (
            "proc/sys/kernel/sched_cfs_bandwidth_slice_us",
            "kernel.sched_cfs_bandwidth_slice_us",
        );
        fake.write(file, "5000\n");
        let seen = described(&fake.roots());
        assert_eq!(find(&seen, name).value, Ok("5000".to_string()));
        fake.write(file, "\x1b[2J");
        let seen = described(&fake.roots());
        assert!(matches!(find(&seen, name).value, Err(Missing::Lost(_))));
    }

    #[test]
    fn each_absence_has_a_reason_and_a_next_move_where_one_can_help() {
        let empty = tempfile::tempdir().unwrap();
        let seen = described(&Roots::beneath(empty.path()));
        assert!(seen.actuator.is_none() && seen.devices.is_empty() && seen.cpu_count > 0);
        for (name, has_move) in [
            ("numa.cxl_nodes", false),
            ("cxl.counters", true),
            ("cgroup.v2", true),
            ("proc.numa_maps", true),
        ] {
            let fact = find(&seen, name);
            assert!(fact.value.is_err(), "{fact:?}");
            assert_eq!(fact.next_move.is_some(), has_move, "{fact:?}");
        }
    }

    fn words(fact: &Fact) -> String {
        fact.next_move.as_ref().unwrap().to_string()
    }

    #[test]
    fn the_cpu_controller_is_sound_where_all_cgroups_with_processes_have_it() {
        let fake = Fake::new();
        // One without processes needs no limit.
        fake.cgroup("system.slice/empty.service", &[]);
        fake.remove("sys/fs/cgroup/system.slice/empty.service/cpu.max");
        let sound = described(&fake.roots());
        assert!(find(&sound, hierarchy::CPU).value.is_ok());
        fake.write(
            "sys/fs/cgroup/system.slice/cgroup.subtree_control",
            "pids\n",
        );
        // Those of init and of weir have it, and are not limited.
        for (name, count) in [("fio", 1), ("stress", 2)] {
            fake.remove(format!("sys/fs/cgroup/system.slice/{name}.service/cpu.max"));
            let seen = described(&fake.roots());
            assert_eq!(seen.actuator.is_some(), count < 2, "limits are possible");
            let cpu = find(&seen, hierarchy::CPU);
            let why = cpu.value.clone().unwrap_err().to_string();
            let said = format!(
                "of 2 cgroups with processes {count} cannot be limited: /system.slice/fio.service has"
            );
            assert!(
                why.contains(&said) && why.contains("ends at /system.slice, "),
                "{why}"
            );
            assert_eq!(
                words(cpu),
                "systemctl set-property fio.service CPUWeight=100"
            );
        }
    }

    #[test]
    fn what_stands_in_the_way_of_limits() {
        let fake = Fake::new();
        fake.write("sys/fs/cgroup/cgroup.subtree_control", "memory\n");
        fake.write("sys/kernel/sched_ext/state", "enabled\n");
        fake.write("run/weir/journal.jsonl", "");
        let seen = described(&fake.roots());
        assert!(seen.actuator.is_none());
        let cpu = find(&seen, "cgroup.controller.cpu");
        assert!(words(cpu).contains("echo +cpu > "));
        assert!(find(&seen, "sched_ext.state").value.is_err());
        assert!(find(&seen, "leases.journal").next_move.is_some());
        fake.remove("sys/fs/cgroup/cgroup.controllers");
        fake.write("sys/fs/cgroup/unified/cgroup.controllers", "\n");
        let hybrid = described(&fake.roots());
        assert!(words(find(&hybrid, "cgroup.v2")).contains("unified"));
    }
}
