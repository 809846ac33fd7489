// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weir doctor`: the platform's facts as a tree, with reasons and next moves, and what follows from
//! them. It probes nothing itself.

use super::cli::DoctorArgs;
use crate::cli::device_profile::facts as facts_of_calibration;
use crate::cli::exit::{Exit, print, print_json};
use crate::cli::output::wall_clock::wall_unix_ms;
use crate::run::platform;
use crate::run::screens::publish;
use crate::run::settings::Settings;
use crate::run::settings::args::LoopArgs;
use anyhow::Result;
use serde::Serialize;
use std::fmt::Write;
use std::io::{self, IsTerminal};
use weir_core::seam::next_move::NextMove;
use weir_core::seam::topology::Fact;
use weir_core::{Description, Missing};
use weir_figures::text;
use weir_linux::{By, Options, Roots};

#[derive(Serialize)]
struct DoctorReport<'a> {
    can_observe: bool,
    can_limit: bool,
    lacking: Vec<Lack>,
    description: &'a Description,
}

/// Something that is needed and not there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Lack {
    what: &'static str,
    needed_for: &'static str,
    reasons: Vec<String>,
    next_moves: Vec<NextMove>,
}

/// Examines.
///
/// # Errors
/// The settings file cannot be read or makes no sense, a node that is named does not exist, stdout cannot be
/// written.
pub fn doctor(args: &DoctorArgs, roots: &Roots) -> Result<Exit> {
    let options = options(args, roots)?;
    let mut description = weir_linux::describe(&options);
    description
        .facts
        .extend(facts_of_calibration(&roots.state, &description));
    description.facts.extend(names_of_the_running(roots));
    let lacking = lacking(&description, options.by);
    let report = DoctorReport {
        can_observe: lacking.iter().all(|lack| lack.needed_for != OBSERVE),
        can_limit: lacking.is_empty(),
        lacking,
        description: &description,
    };
    if args.json {
        print_json(&report)?;
    } else {
        print(&page(&report, io::stdout().is_terminal()))?;
    }
    Ok(if report.can_limit {
        Exit::Done
    } else {
        Exit::Finding
    })
}

/// Options as `weir run` would have them with this file and these flags.
fn options(args: &DoctorArgs, roots: &Roots) -> Result<Options> {
    let mut given = LoopArgs {
        workloads: args.workloads,
        exclude: args.exclude.clone(),
        config: args.config.clone(),
        device: args.devices.clone(),
        ..LoopArgs::default()
    };
    // To observe needs no set-point.
    given.limit = Some(false);
    let settings = Settings::new(&given)?;
    Ok(Options {
        read_only: true,
        ..platform::options(roots, &settings)?
    })
}

/// Facts of a running weir about the names in its settings.
fn names_of_the_running(roots: &Roots) -> Vec<Fact> {
    let snapshot = publish::read(&roots.run.join(publish::FILE_NAME)).ok();
    let live = snapshot.filter(|snapshot| publish::is_live(snapshot, wall_unix_ms()));
    let Some(live) = live else { return Vec::new() };
    let of_names = |fact: &Fact| fact.name.starts_with(weir_linux::NAMES);
    let facts = live.description.facts.into_iter().filter(of_names);
    let running = |fact: Fact| Fact {
        name: format!("{} (running weir)", fact.name),
        ..fact
    };
    facts.map(running).collect()
}

const OBSERVE: &str = "observing";
const LIMIT: &str = "limiting";

/// What is needed: a device, counts of its traffic, workloads that can be seen, a back end that can limit,
/// and nothing in its way. The reasons come from the facts with names that belong to the need.
fn lacking(machine: &Description, by: By) -> Vec<Lack> {
    let mut lacking = Vec::new();
    if machine.devices.is_empty() {
        lacking.push(lack(
            machine,
            "a CXL memory device",
            OBSERVE,
            &["cxl", "numa"],
        ));
    } else {
        lacking.push(lack(machine, "access counters", OBSERVE, &["cxl.counters"]));
    }
    let sight: &[&str] = match by {
        By::Cgroup => &[weir_linux::NAMESPACE, weir_linux::V2, weir_linux::PIDS],
        By::Process => &[weir_linux::PIDS],
    };
    lacking.push(lack(machine, "sight of all workloads", OBSERVE, sight));
    lacking.retain(|lack| lack.what == "a CXL memory device" || !lack.reasons.is_empty());
    if machine.actuator.is_none() {
        lacking.push(lack(
            machine,
            "something that can limit a workload",
            LIMIT,
            &weir_linux::LIMITING,
        ));
    }
    if machine.is_nothing_held() {
        let reasons = machine
            .partly_counted
            .iter()
            .map(|of| format!("{}: {of}", of.node));
        lacking.push(Lack {
            what: "counters of all devices of a node",
            needed_for: LIMIT,
            reasons: reasons.collect(),
            next_moves: Vec::new(),
        });
    }
    for (what, topic) in [
        ("root", "privilege"),
        ("cpu.max in force", "sched_ext.state"),
    ] {
        let mut in_the_way = lack(machine, what, LIMIT, &[topic]);
        // A kernel without sched_ext lacks nothing that limits need.
        in_the_way.reasons.retain(|_| is_refused(machine, topic));
        if !in_the_way.reasons.is_empty() {
            lacking.push(in_the_way);
        }
    }
    lacking
}

/// Whether a fact of this name says that something is there and stands in the way.
fn is_refused(machine: &Description, topic: &str) -> bool {
    let refused = |fact: &Fact| matches!(fact.value, Err(Missing::NotPermitted(_)));
    let mut about = machine.facts.iter().filter(|fact| fact.name == topic);
    about.any(refused)
}

fn lack(
    machine: &Description,
    what: &'static str,
    needed_for: &'static str,
    topics: &[&str],
) -> Lack {
    let about = |fact: &&Fact| topics.iter().any(|topic| fact.name.starts_with(topic));
    let facts = machine.facts.iter().filter(about);
    let absent: Vec<(&Fact, String)> = facts
        .filter_map(|fact| Some((fact, fact.value.as_ref().err()?.to_string())))
        .collect();
    Lack {
        what,
        needed_for,
        reasons: absent
            .iter()
            .map(|(fact, why)| format!("{}: {why}", fact.name))
            .collect(),
        next_moves: absent
            .iter()
            .filter_map(|(fact, _)| fact.next_move.clone())
            .collect(),
    }
}

fn page(report: &DoctorReport, colours: bool) -> String {
    let paint = |code: &str, text: &str| {
        if colours {
            format!("\u{1b}[{code}m{text}\u{1b}[0m")
        } else {
            text.to_owned()
        }
    };
    let mut out = String::new();
    // Writing into a String cannot fail, here and below.
    let machine = report.description;
    let kernel = text::harmless(&machine.kernel);
    let _ = writeln!(
        out,
        "this machine: Linux {kernel}, {} CPUs",
        machine.cpu_count
    );
    out += &devices(machine);
    out += &facts(&machine.facts, &paint);
    out.push('\n');
    for (can, what) in [(report.can_observe, "observe"), (report.can_limit, "limit")] {
        let mark = if can {
            paint("32", "✓")
        } else {
            paint("31", "✗")
        };
        let _ = writeln!(
            out,
            "{mark} weir {} {what} here",
            if can { "can" } else { "cannot" }
        );
    }
    for lack in &report.lacking {
        let _ = writeln!(out, "  {} is needed for {}", lack.what, lack.needed_for);
        for reason in &lack.reasons {
            let _ = writeln!(out, "    {}", text::harmless(reason));
        }
        for next_move in &lack.next_moves {
            let _ = writeln!(
                out,
                "    {} {}",
                paint("36", "→"),
                text::harmless(&next_move.to_string())
            );
        }
    }
    out
}

fn devices(machine: &Description) -> String {
    let mut out = String::new();
    for device in &machine.devices {
        let capacity = device.capacity_bytes_per_sec;
        let capacity = capacity.map_or_else(|| "not known".to_owned(), text::rate);
        let name = text::harmless(&device.name);
        let _ = writeln!(out, "{} ({name}), capacity {capacity}", device.id);
        for group in machine
            .groups
            .iter()
            .filter(|group| group.id.device == device.id)
        {
            let node = group
                .node
                .map_or_else(|| "no node".to_owned(), |node| node.to_string());
            let _ = writeln!(out, "   {} on {node}, {}", group.id, group.size_bytes);
        }
    }
    if let Some(actuator) = &machine.actuator {
        let _ = writeln!(
            out,
            "limits by {}, at least {} CPU, period {}, grain {}",
            text::harmless(&actuator.name),
            actuator.min_cpus,
            actuator.period_ns,
            actuator.grain_ns
        );
    }
    out
}

/// Facts as a tree: names with the same first word stand under that word.
fn facts(facts: &[Fact], paint: &impl Fn(&str, &str) -> String) -> String {
    let mut out = String::new();
    let topic = |fact: &Fact| fact.name.split('.').next().unwrap_or("").to_owned();
    let mut topics: Vec<String> = Vec::new();
    for fact in facts {
        if !topics.contains(&topic(fact)) {
            topics.push(topic(fact));
        }
    }
    let width = facts
        .iter()
        .map(|fact| fact.name.len())
        .max()
        .unwrap_or(0)
        .min(40);
    for name in topics {
        let _ = writeln!(out, "\n{}", paint("1", &text::harmless(&name)));
        let members: Vec<&Fact> = facts.iter().filter(|fact| topic(fact) == name).collect();
        for (place, fact) in members.iter().enumerate() {
            let last = place + 1 == members.len();
            let rest = fact.name.strip_prefix(&name).unwrap_or(&fact.name);
            let rest = text::left(&text::harmless(rest.trim_start_matches('.')), width);
            let (mark, value) = match &fact.value {
                Ok(value) => (paint("32", "✓"), text::harmless(value)),
                Err(why) => (paint("33", "–"), text::harmless(&why.to_string())),
            };
            let _ = writeln!(
                out,
                "{} {mark} {rest} {value}",
                if last { "└─" } else { "├─" }
            );
            if let Some(next_move) = &fact.next_move {
                let stem = if last { "  " } else { "│ " };
                let arrow = paint("36", "→");
                let _ = writeln!(
                    out,
                    "{stem}   {} {arrow} {}",
                    " ".repeat(width),
                    text::harmless(&next_move.to_string())
                );
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_core::seam::next_move::{Act, Precondition};
    use weir_core::seam::topology::{Actuator, Device, Group, NodeCoverage};
    use weir_core::{Bytes, DeviceId, GroupId, Nanos, NodeId};

    fn mend(name: &str) -> NextMove {
        NextMove {
            act: Act::Command(format!("mend {name}")),
            why: "it is broken".into(),
            needs: Precondition::Operator("there is time\u{1b}[2J".into()),
        }
    }

    fn fact(name: &str, value: Result<&str, &str>) -> Fact {
        Fact {
            name: name.into(),
            value: value
                .map(str::to_owned)
                .map_err(|why| Missing::NotSupported(why.to_owned())),
            next_move: value.is_err().then(|| mend(name)),
        }
    }

    fn machine() -> Description {
        Description {
            kernel: "6.12".into(),
            cpu_count: 4,
            devices: vec![Device {
                id: DeviceId(0),
                name: "weir_cxl0".into(),
                capacity_bytes_per_sec: None,
                counter_mask_bytes: u64::MAX,
                counted_by: weir_core::seam::topology::CountedBy::AccessCounters,
            }],
            groups: vec![Group {
                id: GroupId {
                    device: DeviceId(0),
                    index: 0,
                },
                node: Some(NodeId(2)),
                size_bytes: Bytes(1 << 30),
            }],
            task_events: Vec::new(),
            partly_counted: Vec::new(),
            actuator: Some(Actuator {
                name: "cpu-max".into(),
                levers: vec![weir_core::seam::topology::Lever::CpuTime],
                min_cpus: 0.01,
                grain_ns: Nanos::from_millis(4),
                refill_on_write_ratio: 1.0,
                period_ns: Nanos::from_millis(20),
                min_quota_ns: Nanos::from_millis(1),
                is_exact: false,
            }),
            facts: vec![
                fact("cxl.counters.weir_cxl0", Ok("1 group")),
                fact("cgroup.v2", Ok("yes")),
            ],
        }
    }

    #[test]
    fn a_whole_machine_lacks_nothing() {
        assert_eq!(lacking(&machine(), By::Cgroup), []);
    }

    #[test]
    fn what_is_missing_is_named_with_reason_and_next_move() {
        let mut machine = machine();
        machine.actuator = None;
        machine.facts[1] = fact("cgroup.v2", Err("v1 only\u{1b}[2J"));
        let found = lacking(&machine, By::Cgroup);
        assert_eq!(
            found.len(),
            2,
            "it is seen by nothing and limited by nothing"
        );
        assert_eq!(found[1].next_moves, [mend("cgroup.v2")]);
        let report = DoctorReport {
            can_observe: true,
            can_limit: false,
            lacking: found,
            description: &machine,
        };
        let page = page(&report, false);
        assert!(page.contains("✗ weir cannot limit here"), "{page}");
        assert!(
            page.contains("→ where there is time") && !page.contains('\u{1b}'),
            "{page}"
        );
    }

    #[test]
    fn what_stands_in_the_way_of_limiting_is_lacking_too() {
        for name in ["privilege", "sched_ext.state"] {
            let mut machine = machine();
            let mut in_the_way = fact(name, Err("no"));
            // A kernel without sched_ext, for one, lacks nothing.
            machine.facts.push(in_the_way.clone());
            assert_eq!(lacking(&machine, By::Cgroup), [], "{name}");
            in_the_way.value = Err(Missing::NotPermitted("no".into()));
            machine.facts.pop();
            machine.facts.push(in_the_way);
            let found = lacking(&machine, By::Cgroup);
            assert_eq!((found.len(), found[0].needed_for), (1, LIMIT), "{found:?}");
        }
    }

    #[test]
    fn weir_cannot_limit_where_each_device_is_of_a_node_that_is_counted_in_part() {
        let mut machine = machine();
        machine.partly_counted.push(NodeCoverage {
            node: NodeId(2),
            counted: vec!["mem0".into()],
            uncounted: vec!["mem1".into()],
        });
        let found = lacking(&machine, By::Cgroup);
        assert_eq!((found.len(), found[0].needed_for), (1, LIMIT), "{found:?}");
        assert!(found[0].reasons[0].contains("not counted: mem1"));
        // Another one can be limited for.
        machine.devices.push(Device {
            id: DeviceId(1),
            ..machine.devices[0].clone()
        });
        assert_eq!(lacking(&machine, By::Cgroup), []);
    }

    #[test]
    fn weir_cannot_observe_unless_it_sees_all_workloads() {
        let mut machine = machine();
        machine.facts[1] = fact("cgroup.v2", Err("v1 only"));
        let found = lacking(&machine, By::Cgroup);
        assert_eq!(
            (found[0].what, found[0].needed_for),
            ("sight of all workloads", OBSERVE)
        );
        assert_eq!(lacking(&machine, By::Process), [], "processes are seen");
        machine.facts[1] = fact("proc.pid_namespace", Err("a container"));
        for by in [By::Cgroup, By::Process] {
            assert_eq!(lacking(&machine, by)[0].needed_for, OBSERVE);
        }
    }

    #[test]
    fn counters_that_cannot_be_read_stop_observing_and_a_second_source_does_not() {
        let mut machine = machine();
        machine.facts[0] = fact("cxl.counters", Err("no driver"));
        let found = lacking(&machine, By::Cgroup);
        assert_eq!(
            (found[0].what, found[0].needed_for),
            ("access counters", OBSERVE)
        );
        machine.devices.clear();
        assert_eq!(lacking(&machine, By::Cgroup)[0].what, "a CXL memory device");
    }
}
