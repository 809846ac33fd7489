// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What this host is and can do, as facts with reasons and next moves: `weir doctor` prints them.
//! Looking changes nothing and cannot fail.

use crate::clock;
use crate::counters::Counters;
use crate::files::read_path;
use crate::journal::JOURNAL;
use crate::options::{By, CounterSource, Options, Roots};
use crate::parse::cgroup::lists;
use crate::quota::{MIN_CPUS, QUOTA_MIN_US, period_us};
use crate::sched_ext::{Mode, SchedExt};
use crate::topology::{Topology, missing};
use std::path::Path;
use weir_core::topology::{Actuator, Fact};
use weir_core::{Description, Missing, Nanos};

/// Describes the host without acting on it: what [`crate::LinuxPlatform::open`] would find, and what
/// would be in its way. Limits are described as with the default period. `named` are nodes of CXL memory by
/// `--device`; empty leaves it to the evidence.
pub fn describe(roots: &Roots, by: By, named: &[u32]) -> Description {
    let topology = Topology::probe(roots, named);
    let nodes = topology.memory_nodes.as_deref().unwrap_or_default();
    let counters = Counters::probe_from(roots, nodes, None, CounterSource::Auto);
    let options = Options {
        roots: roots.clone(),
        by,
        ..Options::default()
    };
    let mut description = description(&options, &topology, &counters);
    description.facts.extend(crate::shares::facts(&options));
    description.facts.push(crate::tasks::fact(&options));
    let usage = crate::usage::Usage::choose(&options);
    description.facts.push(usage.fact());
    description
}

/// The description of what was probed.
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
        fact("kernel.release", Ok(kernel.clone()), None),
        privilege(),
        fact(
            "cpu.online",
            topology.cpu_count.clone().map(|n| n.to_string()),
            None,
        ),
    ];
    facts.extend(topology.facts(roots));
    facts.extend(counters.facts.iter().cloned());
    facts.push(crate::waits::fact(roots, topology, counters));
    let controller = cgroups(roots, &mut facts);
    facts.push(sched_ext(roots));
    facts.push(scheduler(roots));
    facts.push(tick());
    facts.push(bandwidth_slice(roots));
    facts.push(numa_maps(roots, options.by));
    facts.push(leases(roots));
    Description {
        kernel,
        cpu_count: topology.cpus_or_guess(),
        devices: counters.devices.clone(),
        groups: counters.groups.clone(),
        actuator: controller.then(|| actuator(options)),
        facts,
    }
}

/// The back end's limits; see [`crate::actuator`] for where they come from.
fn actuator(options: &Options) -> Actuator {
    Actuator {
        name: "cgroup".into(),
        min_cpus: MIN_CPUS,
        grain_ns: clock::scheduler_tick(),
        refill_on_write_ratio: refill_on_write_ratio(options),
        period_ns: Nanos(period_us(options.period) * 1000),
        min_quota_ns: Nanos(QUOTA_MIN_US * 1000),
        is_exact: false,
    }
}

/// What one rewrite gives away, in quotas: all of one at a random moment, what is used in one look at
/// the phase where rewrites wait for the refill (see [`crate::phase`]).
fn refill_on_write_ratio(options: &Options) -> f64 {
    let waits = period_us(options.period) <= crate::phase::patience_us(options.interval);
    if waits {
        1.0 / crate::phase::LOOKS_PER_PERIOD as f64
    } else {
        1.0
    }
}

fn fact(name: &str, value: Result<String, Missing>, next_move: Option<String>) -> Fact {
    Fact {
        name: name.into(),
        value,
        next_move,
    }
}

fn privilege() -> Fact {
    let value = match rustix::process::geteuid().is_root() {
        true => Ok("root".into()),
        false => Err(Missing::NotPermitted(
            "not root: limits and memory of others are closed".into(),
        )),
    };
    let next_move = value.is_err().then(|| "run weir as root".into());
    fact("privilege", value, next_move)
}

/// Facts about the cgroup tree. Returns whether limits can be set in it.
fn cgroups(roots: &Roots, facts: &mut Vec<Fact>) -> bool {
    let path = roots.cgroup.join("cgroup.controllers");
    let controllers = read_path(&path).map_err(|e| missing(&path, &e));
    let Ok(controllers) = controllers else {
        let hybrid = roots.cgroup.join("unified/cgroup.controllers").exists();
        let next_move = match hybrid {
            true => {
                "boot with systemd.unified_cgroup_hierarchy=1 cgroup_no_v1=all: v1 holds the cpu controller"
            }
            false => "mount it: mount -t cgroup2 none /sys/fs/cgroup",
        };
        let value = controllers.map(|_| String::new());
        facts.push(fact("cgroup.v2", value, Some(next_move.into())));
        return false;
    };
    let text = String::from_utf8_lossy(controllers.trim_ascii()).into_owned();
    facts.push(fact(
        "cgroup.v2",
        Ok(format!("{} ({text})", roots.cgroup.display())),
        None,
    ));
    let (cpu, ok) = controller(roots, &controllers, "cpu");
    facts.push(cpu);
    facts.push(controller(roots, &controllers, "memory").0);
    ok
}

/// Whether a controller is there and handed down to the first level of cgroups.
fn controller(roots: &Roots, controllers: &[u8], which: &str) -> (Fact, bool) {
    let name = format!("cgroup.controller.{which}");
    if !lists(controllers, which.as_bytes()) {
        let why = format!("the kernel has no {which} controller in this tree");
        let next_move = Some(format!("boot with cgroup_no_v1={which}"));
        return (
            fact(&name, Err(Missing::NotSupported(why)), next_move),
            false,
        );
    }
    let path = roots.cgroup.join("cgroup.subtree_control");
    match read_path(&path).map_err(|e| missing(&path, &e)) {
        Ok(text) if lists(&text, which.as_bytes()) => {
            (fact(&name, Ok("enabled below the root".into()), None), true)
        }
        Ok(_) => {
            let why = Missing::NotSupported("there, but not handed down from the root".into());
            let next_move = Some(format!("echo +{which} > {}", path.display()));
            (fact(&name, Err(why), next_move), false)
        }
        Err(why) => (fact(&name, Err(why), None), false),
    }
}

fn sched_ext(roots: &Roots) -> Fact {
    let mut sched_ext = SchedExt::new(roots);
    if let Some(why) = sched_ext.refusal() {
        let next_move = Some("unload the scheduler, or run it in partial mode".into());
        return fact(STATE, Err(Missing::NotPermitted(why)), next_move);
    }
    let text = match sched_ext.mode() {
        Mode::Absent => "not in this kernel: cpu.max holds".into(),
        Mode::Off => "no scheduler loaded: cpu.max holds".into(),
        Mode::Partial(name) | Mode::Full(name) => {
            format!("{name:?} in partial mode: cpu.max holds for all other tasks")
        }
    };
    fact(STATE, Ok(text), None)
}

const SCHEDULER: &str = "backend.scx";
const STATE: &str = "sched_ext.state";

/// It is our own scheduler that stands in the way of another one, and of `cpu.max` if it has all tasks.
pub(crate) fn scheduler_in_use(description: &mut Description, takes_all: bool) {
    for fact in &mut description.facts {
        if fact.name == SCHEDULER {
            fact.value = Ok("in use: limits are budgets in device bytes".into());
        }
        if fact.name == STATE && takes_all {
            let text =
                "weir's own has all ordinary tasks: cpu.max of anybody is not enforced meanwhile";
            fact.value = Ok(text.into());
            fact.next_move = None;
        }
    }
}

/// Whether weir's own scheduler could limit here. Nothing is lacking where it cannot: `cpu.max` is there.
fn scheduler(roots: &Roots) -> Fact {
    let mut text = crate::scx::refusal(roots).map_or_else(
        || {
            "can be used: limits in device bytes, by a scheduler of weir's own for limited tasks (--backend scx) or, \
             where the CPUs are all busy, for all ordinary ones (--backend scx-full)"
                .into()
        },
        |why| format!("cannot be used: {why}"),
    );
    let report = roots.run.join(crate::scx::REPORT);
    if report.exists() {
        text += &format!(
            "; the kernel has taken it out before, see {}",
            report.display()
        );
    }
    fact(SCHEDULER, Ok(text), None)
}

fn tick() -> Fact {
    let tick = clock::scheduler_tick();
    let text = format!("{tick} (resolution of CLOCK_MONOTONIC_COARSE): the grain of cpu.max");
    fact("kernel.tick", Ok(text), None)
}

/// What a CPU takes from a quota at once. What one CPU has taken and does not use while its thread sleeps
/// or after it moved is lost to the others until it is given back. Told and not judged: whether a smaller one
/// makes limits more even was measured without a clear answer (docs/testbed.md).
fn bandwidth_slice(roots: &Roots) -> Fact {
    const NAME: &str = "kernel.sched_cfs_bandwidth_slice_us";
    let path = roots.proc.join("sys/kernel/sched_cfs_bandwidth_slice_us");
    let value = read_path(&path)
        .map_err(|e| missing(&path, &e))
        .and_then(|text| {
            let text = String::from_utf8_lossy(text.trim_ascii());
            text.parse::<u64>()
                .map_err(|_| Missing::Lost(format!("{}: {text:?}", path.display())))
        });
    fact(NAME, value.map(|us| us.to_string()), None)
}

fn numa_maps(roots: &Roots, by: By) -> Fact {
    let path = roots.proc.join("self/numa_maps");
    let value = match std::fs::File::open(&path) {
        Ok(_) => Ok("residency is read from the maps of processes".into()),
        Err(e) => Err(missing(&path, &e)),
    };
    let next_move = value.is_err().then_some(match by {
        By::Cgroup => {
            "memory.numa_stat is used instead: shared pages count for whom they are charged to"
        }
        By::Process => "use a kernel with CONFIG_NUMA, or limit by cgroup",
    });
    fact("proc.numa_maps", value, next_move.map(str::to_owned))
}

fn leases(roots: &Roots) -> Fact {
    let is_there = |path: &Path| path.symlink_metadata().is_ok();
    let journal: &Path = &roots.run.join(JOURNAL);
    let owed: &Path = &roots.run.join(crate::shares::OWED);
    let there = is_there(journal) || is_there(owed);
    let text = match () {
        () if is_there(journal) => format!(
            "{} is there: a weir is limiting, or died while it was",
            journal.display()
        ),
        () if there => format!(
            "{} is there: a weir counts by resctrl, or died while it did",
            owed.display()
        ),
        () => "no limits left behind".into(),
    };
    let next_move = there.then(|| "if no weir is running: weir reset".into());
    fact("leases.journal", Ok(text), next_move)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::Fake;

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
        let seen = describe(&fake.roots(), By::Cgroup, &[]);
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
        assert!(!fake.path("run/weir").exists(), "looking changes nothing");
    }

    #[test]
    fn the_slice_of_quotas_is_told() {
        let fake = Fake::new();
        let (file, name) = (
            "proc/sys/kernel/sched_cfs_bandwidth_slice_us",
            "kernel.sched_cfs_bandwidth_slice_us",
        );
        fake.write(file, "5000\n");
        let seen = describe(&fake.roots(), By::Cgroup, &[]);
        assert_eq!(find(&seen, name).value, Ok("5000".to_string()));
        fake.write(file, "\x1b[2J");
        let seen = describe(&fake.roots(), By::Cgroup, &[]);
        assert!(matches!(find(&seen, name).value, Err(Missing::Lost(_))));
    }

    #[test]
    fn each_absence_has_a_reason_and_a_next_move() {
        let empty = tempfile::tempdir().unwrap();
        let seen = describe(&Roots::beneath(empty.path()), By::Cgroup, &[]);
        assert!(seen.actuator.is_none() && seen.devices.is_empty() && seen.cpu_count > 0);
        for name in [
            "numa.cxl_nodes",
            "cxl.counters",
            "cgroup.v2",
            "proc.numa_maps",
        ] {
            let fact = find(&seen, name);
            assert!(fact.value.is_err() && fact.next_move.is_some(), "{fact:?}");
        }
    }

    #[test]
    fn what_stands_in_the_way_of_limits() {
        let fake = Fake::new();
        fake.write("sys/fs/cgroup/cgroup.subtree_control", "memory\n");
        fake.write("sys/kernel/sched_ext/state", "enabled\n");
        fake.write("run/weir/journal.jsonl", "");
        let seen = describe(&fake.roots(), By::Cgroup, &[]);
        assert!(seen.actuator.is_none());
        let cpu = find(&seen, "cgroup.controller.cpu");
        assert!(cpu.next_move.as_ref().unwrap().contains("echo +cpu > "));
        assert!(find(&seen, "sched_ext.state").value.is_err());
        assert!(find(&seen, "leases.journal").next_move.is_some());
        fake.remove("sys/fs/cgroup/cgroup.controllers");
        fake.write("sys/fs/cgroup/unified/cgroup.controllers", "\n");
        let hybrid = describe(&fake.roots(), By::Cgroup, &[]);
        assert!(
            find(&hybrid, "cgroup.v2")
                .next_move
                .as_ref()
                .unwrap()
                .contains("unified")
        );
    }
}
