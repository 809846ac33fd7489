// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What came or went while weir runs, taken over: devices join and leave, groups are on other nodes. Limits
//! stay as they are: those of a device that went are taken off by the controller, which limits no workload
//! for it any more.
//!
//! Not everything can be taken over. What cannot stands among the skips, with what to do.

use super::LinuxPlatform;
use super::hotplug::{HotplugChanges, ProbedMachine, Subsystem};
use crate::backends;
use crate::counters::Counters;
use crate::inventory::group_nodes::groups_on_nodes;
use crate::inventory::numa::Topology;
use crate::options::Backend;
use crate::workloads::exclude::Rules;
use crate::workloads::operator_names::NAMES;
use crate::workloads::task_iter;
use rustix::fs::{fstat, stat};
use std::collections::BTreeMap;
use weir_core::seam::topology::{CountedBy, Device, Fact, Group};
use weir_core::{Missing, Nanos, NodeId};

/// How often groups without a node are searched for one.
const NODES_EVERY: Nanos = Nanos::from_millis(1000);

/// Nodes of CXL memory that no counters are of.
pub(super) fn uncounted<'a>(
    topology: &'a Topology,
    counters: &'a Counters,
) -> impl Iterator<Item = NodeId> + 'a {
    let nodes = topology.memory_nodes.iter().flatten().map(|node| node.id);
    let has = |node| counters.groups.iter().any(|group| group.node == Some(node));
    nodes.filter(move |node| !has(*node))
}

fn on(group: &Group) -> String {
    match group.node {
        Some(node) => format!("{} is on {node}", group.id),
        None => format!("{} is on no node", group.id),
    }
}

impl LinuxPlatform {
    pub(super) fn note_sources(&mut self) {
        let residency = Fact {
            name: "residency.source".into(),
            value: Ok(self.view.residency.clone()),
            next_move: None,
        };
        let processes = task_iter::fact_of(self.view.tasks.clone());
        let ids = self.view.workloads.iter().map(|w| w.id.as_str());
        // Until a view was made with new names, nothing is known of them.
        let names = match self.next_rules {
            Some(_) => Vec::new(),
            None => self.wanted.facts(ids),
        };
        for new in names
            .into_iter()
            .chain([residency, processes, self.workloads.usage.fact()])
        {
            let facts = &mut self.description.facts;
            match facts.iter_mut().find(|f| f.name == new.name) {
                Some(fact) => *fact = new,
                None => facts.push(new),
            }
        }
    }

    /// Rules count for the back ends once they count for the view: else a plan for the view before would be
    /// refused.
    pub(super) fn take_rules(&mut self) {
        let watched = self.view.watched;
        let is_made_with = |next: &mut (u64, Rules)| watched >= next.0;
        if let Some((_, rules)) = self.next_rules.take_if(is_made_with) {
            self.backends.context.rules = rules;
        }
    }

    /// What was said of names does not hold for others.
    pub(super) fn forget_names(&mut self) {
        let facts = &mut self.description.facts;
        facts.retain(|fact| !fact.name.starts_with(NAMES));
    }

    /// What came or went since the last scan, if the next scan is due.
    pub(super) fn follow_machine(&mut self, at: Nanos) {
        self.refresh_nodes(at);
        if let Some(found) = self.hotplug.scan(at, &self.description.devices) {
            self.adopt(found);
        }
        self.follow_cpus(at);
    }

    /// Groups whose memory came online since the start.
    fn refresh_nodes(&mut self, at: Nanos) {
        if at.0.saturating_sub(self.nodes_at.0) < NODES_EVERY.0 {
            return;
        }
        self.nodes_at = at;
        if self.devices.counters.refresh_nodes(&self.roots) {
            self.place();
        }
    }

    /// Groups are others, or on other nodes.
    fn place(&mut self) {
        let groups = &self.devices.counters.groups;
        let number = self.pace.watch(groups_on_nodes(groups));
        let moved = &mut self.devices.moved;
        moved.follow(&self.description.groups, groups, number);
        if let Some(traffic) = &mut self.task_traffic {
            traffic.place(groups);
        }
        for group in groups {
            let known = self.description.groups.iter().find(|g| g.id == group.id);
            if known.is_some_and(|known| known.node != group.node) {
                let sentence = format!("{} now", on(group));
                self.hotplug.say(&group.id.to_string(), sentence);
            }
        }
        self.description.groups.clone_from(groups);
    }

    fn adopt(&mut self, mut found: ProbedMachine) {
        let kept = found.counters.keep(&mut self.devices.counters);
        self.say_devices(&found.counters);
        let is_same = self.description.devices == found.counters.devices
            && self.description.groups == found.counters.groups;
        self.devices.counters = found.counters;
        self.devices.bounds.follow(found.bounds, &kept);
        self.take_facts(found.description.facts);
        // Among the facts is how many CPUs are online: what was found may be older than what is known.
        self.cpus.hurry();
        self.description.partly_counted = found.description.partly_counted;
        if self.description.actuator.is_none() {
            self.description.actuator = found.description.actuator;
        }
        if !is_same {
            self.description
                .devices
                .clone_from(&self.devices.counters.devices);
            self.place();
        }
        if !is_same || self.devices.waits.is_none() {
            let (roots, facts) = (&self.roots, &mut self.description.facts);
            self.devices.waits = crate::counters::latency::open(
                roots,
                &found.topology,
                &self.devices.counters,
                facts,
            );
        }
        self.say_nodes(&found.topology);
        let news = self.hotplug.news();
        self.say_sources(&news, found.can_count);
        self.say_cgroups(&news);
        self.say_scheduler(&news);
    }

    /// Facts of the machine itself are others now; all else that was found stays.
    fn take_facts(&mut self, machine: Vec<Fact>) {
        let count = machine.len();
        let before = std::mem::replace(&mut self.description.facts, machine);
        for fact in before.into_iter().skip(self.fact_count) {
            let facts = &mut self.description.facts;
            if facts.iter().take(count).all(|f| f.name != fact.name) {
                facts.push(fact);
            }
        }
        self.fact_count = count;
        if let Some(scx) = &self.backends.sched_ext {
            backends::facts::scheduler_in_use(&mut self.description, scx.takes_all());
        }
    }

    fn say_devices(&mut self, found: &Counters) {
        let before = &self.description.devices;
        let is_in = |device: &Device, all: &[Device]| {
            let same = |other: &&Device| (&other.name, other.id) == (&device.name, device.id);
            all.iter().find(same).is_some()
        };
        for device in found.devices.iter().filter(|device| !is_in(device, before)) {
            let groups = found.groups.iter().filter(|g| g.id.device == device.id);
            let groups: Vec<String> = groups.map(on).collect();
            let (id, name) = (device.id, device.name.escape_debug());
            let uncounted = match device.counted_by {
                CountedBy::Unknown => ", without counters",
                _ => "",
            };
            let groups = groups.join("; ");
            let sentence = format!("device {id} ({name}) came: {groups}{uncounted}");
            self.hotplug.say(&device.name, sentence);
        }
        // Where counters came to a node, it did not go.
        let is_replaced = |device: &Device| {
            let same = |other: &Device| other.id == device.id;
            device.counted_by == CountedBy::Unknown && found.devices.iter().any(same)
        };
        let gone = |device: &&Device| !is_in(device, &found.devices) && !is_replaced(device);
        for device in before.iter().filter(gone) {
            let (id, name) = (device.id, device.name.escape_debug());
            let sentence = format!("device {id} ({name}) went: nothing is limited for it any more");
            self.hotplug.say(&device.name, sentence);
        }
    }

    /// Reports nodes of unknown traffic, as far as they differ from those at the start, and nodes of which a
    /// part of the traffic is not known.
    pub(super) fn say_nodes(&mut self, topology: &Topology) {
        let uncounted = uncounted(topology, &self.devices.counters);
        let lacking = uncounted.filter(|node| !self.hotplug.uncounted.contains(node));
        let why = "it is CXL memory without counters, so its traffic is not seen; counters are taken up when they come";
        let mut told: BTreeMap<String, String> =
            lacking.map(|node| (node.to_string(), why.into())).collect();
        let partly = self.description.partly_counted.iter();
        told.extend(partly.map(|partly| (partly.node.to_string(), partly.to_string())));
        let is_node = |thing: &str| thing.starts_with("node");
        self.hotplug
            .settle(|thing| is_node(thing) && !told.contains_key(thing));
        for (name, why) in told {
            self.hotplug.stand(&name, Missing::NotSupported(why));
        }
    }

    fn say_sources(&mut self, news: &HotplugChanges, can_count: bool) {
        let is_pmu = |(kind, _): &&(Subsystem, String)| *kind == Subsystem::Pmu;
        let pmus: Vec<&str> = news
            .iter()
            .filter(is_pmu)
            .map(|(_, name)| name.as_str())
            .collect();
        if !pmus.is_empty() {
            tracing::debug!("PMUs came: {}", pmus.join(", "));
        }
        if can_count {
            self.hotplug.wants_counts = false;
            let why = "events that count the accesses of each task came after weir started: restart weir to use them";
            self.hotplug
                .stand("counts of tasks", Missing::NotSupported(why.into()));
        }
    }

    /// Reports a tree that is mounted over the one that weir reads.
    fn say_cgroups(&mut self, news: &HotplugChanges) {
        if news.iter().all(|(kind, _)| *kind != Subsystem::Cgroups) {
            return;
        }
        let place = |found: rustix::fs::Stat| (found.st_dev, found.st_ino);
        let here = fstat(&self.workloads.root).map(place);
        let there = stat(&self.roots.cgroup).map(place);
        let path = self.roots.cgroup.display().to_string();
        if here == there {
            let sentence = format!("cgroup version 2 came at {path}");
            return self.hotplug.say("cgroups", sentence);
        }
        let why = format!(
            "version 2 was mounted at {path} after weir started: restart weir to see the workloads in it"
        );
        self.hotplug.stand("cgroups", Missing::NotSupported(why));
    }

    /// What weir's own scheduler cannot follow, or could be used for now.
    fn say_scheduler(&mut self, news: &HotplugChanges) {
        let is_counted = self.devices.counters.are_counted();
        if let Some(scx) = &self.backends.sched_ext {
            if let Some(why) = scx.outgrown(&self.devices.counters.devices, is_counted) {
                self.hotplug
                    .stand("weir's scheduler", Missing::NotSupported(why));
            }
            return;
        }
        if news.iter().all(|(kind, _)| *kind != Subsystem::SchedExt) {
            return;
        }
        let options = self.hotplug.options();
        if self.is_limiting && options.backend == Backend::Auto {
            let why =
                "it came after weir started, and limits are set by cpu.max: restart weir to use it";
            self.hotplug
                .stand("sched_ext", Missing::NotSupported(why.into()));
        } else {
            let sentence = "sched_ext came: weir's own scheduler could be used (--backend)";
            self.hotplug.say("sched_ext", sentence.into());
        }
    }
}

#[cfg(test)]
#[path = "adopt_tests.rs"]
mod tests;
