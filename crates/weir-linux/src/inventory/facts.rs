// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What this host is and can do, as facts with reasons and next moves: `weir doctor` prints them.
//! Reading them changes nothing and cannot fail.

use super::numa::{Topology, missing};
use super::sched_ext_state::{Mode, SchedExt};
use crate::backends::cpu_max::quota::{MIN_CPUS, QUOTA_MIN_US, period_us};
use crate::counters::Counters;
use crate::kernel::clock;
use crate::kernel::files::read_path;
use crate::kernel::privilege;
use crate::options::{By, CounterSource, Options, Roots};
use weir_core::seam::topology::{Actuator, Fact};
use weir_core::{Description, Missing, Nanos};

/// Describes the host without acting on it: what [`crate::LinuxPlatform::open`] would find with these
/// options, and what would be in its way.
pub fn describe(options: &Options) -> Description {
    let roots = &options.roots;
    let topology = Topology::probe(roots, &options.nodes);
    let nodes = topology.memory_nodes.as_deref().unwrap_or_default();
    let counters = Counters::probe_from(roots, nodes, None, CounterSource::Auto);
    let mut description = description(options, &topology, &counters);
    let facts = &mut description.facts;
    crate::counters::link_bound::Bounds::of(roots, &counters.devices, facts);
    facts.extend(crate::task_traffic::facts(options));
    facts.push(crate::workloads::task_iter::fact(options));
    facts.push(crate::workloads::cpu_time::bpf::CpuTimeBpf::choose(options).fact());
    facts.extend(crate::workloads::operator_names::names(options));
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
        privilege::fact(roots),
        machine(roots),
        fact(
            "cpu.online",
            topology.cpu_count.clone().map(|n| n.to_string()),
            None,
        ),
    ];
    facts.extend(topology.facts(roots));
    facts.extend(counters.facts.iter().cloned());
    facts.push(crate::counters::latency::fact(roots, topology, counters));
    let controller = crate::workloads::cgroups::hierarchy::facts(roots, options.by, &mut facts);
    facts.push(sched_ext(options));
    facts.push(scheduler(roots));
    facts.push(tick());
    facts.push(bandwidth_slice(roots));
    facts.push(numa_maps(roots, options.by));
    facts.push(crate::platform::lease_books::fact(roots));
    Description {
        kernel,
        cpu_count: topology.cpus_or_guess(),
        devices: counters.devices.clone(),
        groups: counters.groups.clone(),
        actuator: controller.then(|| actuator(options)),
        task_events: Vec::new(),
        facts,
    }
}

/// The back end's limits; see [`crate::backends::cpu_max`] for where they come from.
fn actuator(options: &Options) -> Actuator {
    Actuator {
        name: "cpu-max".into(),
        levers: vec![
            weir_core::seam::topology::Lever::CpuTime,
            weir_core::seam::topology::Lever::Weight,
        ],
        min_cpus: MIN_CPUS,
        grain_ns: clock::scheduler_tick(),
        refill_on_write_ratio: refill_on_write_ratio(options),
        period_ns: Nanos(period_us(options.period) * 1000),
        min_quota_ns: Nanos(QUOTA_MIN_US * 1000),
        is_exact: false,
    }
}

/// What one rewrite gives away, in quotas: all of one at a random moment. Where rewrites wait for the refill,
/// it is what is used between two samples of the phase (see [`crate::backends::cpu_max::period_phase`]).
fn refill_on_write_ratio(options: &Options) -> f64 {
    let waits = period_us(options.period)
        <= crate::backends::cpu_max::period_phase::patience_us(options.interval);
    if waits {
        1.0 / crate::backends::cpu_max::period_phase::SAMPLES_PER_PERIOD as f64
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

/// A machine, or one that a hypervisor makes.
fn machine(roots: &Roots) -> Fact {
    let text = crate::inventory::hypervisor::guest(roots).map_or_else(
        || "no hypervisor is seen".into(),
        |what| format!("a virtual machine: {what}"),
    );
    fact("kernel.machine", Ok(text), None)
}

fn sched_ext(options: &Options) -> Fact {
    let mut sched_ext = SchedExt::new(&options.roots).trusting(options.trust_cpu_max);
    if let Some(why) = sched_ext.refusal() {
        let next_move = "unload the scheduler, or run it in partial mode; if it enforces cpu.max itself: weir run --trust-cpu-max";
        return fact(
            STATE,
            Err(Missing::NotPermitted(why)),
            Some(next_move.into()),
        );
    }
    let value = match sched_ext.mode() {
        Mode::Absent => Err(Missing::NotSupported(
            "this kernel has no sched_ext: cpu.max holds".into(),
        )),
        Mode::Off => Ok("no scheduler loaded: cpu.max holds".into()),
        Mode::Full(name) => Ok(format!(
            "{name:?} runs all tasks, and is trusted to enforce cpu.max (--trust-cpu-max)"
        )),
        Mode::Partial(name) => Ok(format!(
            "{name:?} in partial mode: cpu.max holds for all other tasks"
        )),
    };
    fact(STATE, value, None)
}

const SCHEDULER: &str = "backend.sched_ext";
const STATE: &str = "sched_ext.state";

/// It is our own scheduler that stands in the way of another one, and of `cpu.max` if it has all tasks.
pub(crate) fn scheduler_in_use(description: &mut Description, takes_all: bool) {
    for fact in &mut description.facts {
        if fact.name == SCHEDULER {
            fact.value = Ok("in use: limits are budgets in device bytes".into());
        }
        if fact.name == STATE && takes_all {
            let text = "weir's own has all ordinary tasks: cpu.max is not enforced on any cgroup meanwhile";
            fact.value = Ok(text.into());
            fact.next_move = None;
        }
    }
}

/// Whether weir's own scheduler could limit here. Nothing is lacking where it cannot: `cpu.max` is there.
fn scheduler(roots: &Roots) -> Fact {
    let report = roots.run.join(crate::backends::sched_ext::REPORT);
    let before = match report.exists() {
        true => format!(
            "; the kernel has taken it out before, see {}",
            report.display()
        ),
        false => String::new(),
    };
    let value = match crate::backends::sched_ext::refusal(roots) {
        None => Ok(format!(
            "can be used: limits in device bytes, by a scheduler of weir's own for limited tasks (--backend sched-ext) or, \
             where the CPUs are all busy, for all ordinary ones (--backend sched-ext-full){before}"
        )),
        Some(why) => Err(Missing::NotSupported(format!("{why}{before}"))),
    };
    fact(SCHEDULER, value, None)
}

fn tick() -> Fact {
    let tick = clock::scheduler_tick();
    let text = format!("{tick} (resolution of CLOCK_MONOTONIC_COARSE): the grain of cpu.max");
    fact("kernel.tick", Ok(text), None)
}

/// What a CPU takes from a quota at once. What one CPU has taken and does not use while its thread sleeps or
/// after it moved is lost to the others until it is returned. The fact is reported without advice: whether a
/// smaller one makes limits more even was measured without a clear answer.
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
            "memory.numa_stat is used instead: shared pages count for the cgroup that they are charged to"
        }
        By::Process => "use a kernel with CONFIG_NUMA, or limit by cgroup",
    });
    fact("proc.numa_maps", value, next_move.map(str::to_owned))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::Fake;

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
    fn each_absence_has_a_reason_and_a_next_move() {
        let empty = tempfile::tempdir().unwrap();
        let seen = described(&Roots::beneath(empty.path()));
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
        let seen = described(&fake.roots());
        assert!(seen.actuator.is_none());
        let cpu = find(&seen, "cgroup.controller.cpu");
        assert!(cpu.next_move.as_ref().unwrap().contains("echo +cpu > "));
        assert!(find(&seen, "sched_ext.state").value.is_err());
        assert!(find(&seen, "leases.journal").next_move.is_some());
        fake.remove("sys/fs/cgroup/cgroup.controllers");
        fake.write("sys/fs/cgroup/unified/cgroup.controllers", "\n");
        let hybrid = described(&fake.roots());
        assert!(
            find(&hybrid, "cgroup.v2")
                .next_move
                .as_ref()
                .unwrap()
                .contains("unified")
        );
    }
}
