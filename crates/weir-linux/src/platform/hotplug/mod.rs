// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Things that come later, and things that go: devices, nodes, counters, PMUs, the cgroup tree, sched_ext.
//!
//! ```text
//! each 5 s: [names] of all of it ─► as before ─► nothing more
//!                                └► others ─► the machine is probed anew ([probed]), in a thread of its own
//!                                             └► the platform takes it over (adopt.rs), and it is said ([said])
//! ```
//!
//! A name may be there before its files are, so what changed is probed once more at the next scan. What
//! changes again and again is scanned less and less often, at last each five minutes, and after
//! [`CHANGES_MAX`] changes not any more.

mod change_pace;
mod messages;
mod names;
mod probed;

use crate::kernel::clock::now;
use crate::options::{AttributionSource, Options};
pub(crate) use change_pace::ChangePace;
use messages::Said;
use names::Names;
pub(crate) use names::Subsystem;
pub(crate) use probed::ProbedMachine;
use std::collections::{BTreeMap, BTreeSet};
use std::thread::{Builder, JoinHandle};
use weir_core::seam::observation::Skipped;
use weir_core::seam::topology::Device;
use weir_core::{Missing, Nanos, NodeId};

/// Time between two scans of names. Their comparison is cheap; only where a name has changed the machine is
/// read anew, beside the loop.
const EVERY: Nanos = Nanos::from_millis(5_000);
const CHANGES_MAX: u32 = 2_000;

/// What came, by kind and name.
pub(crate) type HotplugChanges = BTreeSet<(Subsystem, String)>;

pub(crate) struct Hotplug {
    options: Options,
    names: Names,
    pace: ChangePace,
    changes: u32,
    /// Files may still come below new names.
    is_settling: bool,
    /// The machine is probed beside the loop, which does not wait for it.
    pub(crate) is_beside: bool,
    probing: Option<JoinHandle<ProbedMachine>>,
    news: HotplugChanges,
    said: Said,
    /// What cannot be used as it is, with the next move.
    standing: BTreeMap<String, Missing>,
    /// Nodes of CXL memory that had no counters at the start: that is no news.
    pub(crate) uncounted: BTreeSet<NodeId>,
    /// Events that count for each task are wanted and could not be had.
    pub(crate) wants_counts: bool,
}

impl Hotplug {
    /// It is begun before the machine is probed for the first time, so that nothing comes in between.
    pub(crate) fn begin(options: &Options) -> Self {
        let mut names = Names::default();
        names.scan(&options.roots);
        Hotplug {
            options: options.clone(),
            names,
            pace: ChangePace::new(now(), EVERY),
            changes: 0,
            is_settling: false,
            is_beside: false,
            probing: None,
            news: HotplugChanges::new(),
            said: Said::default(),
            standing: BTreeMap::new(),
            uncounted: BTreeSet::new(),
            wants_counts: false,
        }
    }

    /// Notes what was lacking from the start: nodes without counters, and counts for each task where they are
    /// wanted.
    pub(crate) fn know(&mut self, uncounted: impl Iterator<Item = NodeId>, has_counts: bool) {
        self.uncounted = uncounted.collect();
        let is_auto = self.options.attribution == AttributionSource::Auto
            && self.options.attribution_event.is_none();
        self.wants_counts =
            !has_counts && is_auto && !crate::task_traffic::could_count(&self.options);
    }

    /// The machine, if names have changed and it was probed. `devices` are those known until now.
    pub(crate) fn scan(&mut self, at: Nanos, devices: &[Device]) -> Option<ProbedMachine> {
        if let Some(thread) = self.probing.take_if(|thread| thread.is_finished()) {
            // One that died has said so itself; the next change begins another.
            return thread.join().ok();
        }
        if self.probing.is_some() || !self.pace.is_due(at) {
            return None;
        }
        let is_new = self.names.scan(&self.options.roots);
        self.pace.was_read(at, is_new);
        if is_new {
            self.note_change();
        }
        let is_due = is_new || self.is_settling;
        self.is_settling = is_new;
        if is_due { self.probe(devices) } else { None }
    }

    fn note_change(&mut self) {
        self.news.append(&mut self.names.came());
        self.changes = self.changes.saturating_add(1);
        if self.changes == CHANGES_MAX {
            self.pace.stop();
            let why = format!(
                "they changed {CHANGES_MAX} times and are not scanned any more: restart weir"
            );
            self.stand("names of devices", Missing::NotSupported(why));
        }
    }

    /// Probes the machine: at once, or beside the loop.
    fn probe(&mut self, devices: &[Device]) -> Option<ProbedMachine> {
        let (options, before) = (self.options.clone(), devices.to_vec());
        let wants_counts = self.wants_counts;
        let probe = move || {
            let mut found = ProbedMachine::probe(&options, &before);
            found.can_count = wants_counts && crate::task_traffic::could_count(&options);
            found
        };
        if !self.is_beside {
            return Some(probe());
        }
        match Builder::new().name("weir-hotplug".into()).spawn(probe) {
            Ok(thread) => self.probing = Some(thread),
            // Tried again at the next scan.
            Err(_) => self.is_settling = true,
        }
        None
    }

    pub(crate) fn news(&mut self) -> HotplugChanges {
        std::mem::take(&mut self.news)
    }

    /// Says that something came or went, in one sentence.
    pub(crate) fn say(&mut self, thing: &str, sentence: String) {
        if let Some(sentence) = self.said.say(thing, sentence) {
            tracing::info!("{sentence}");
        }
    }

    /// Something is there and cannot be used as it is. It stands among the skips, and is logged once.
    pub(crate) fn stand(&mut self, thing: &str, why: Missing) {
        let before = self.standing.insert(thing.to_owned(), why.clone());
        if before.as_ref() != Some(&why)
            && let Some(sentence) = self.said.say(thing, format!("{thing}: {}", why.reason()))
        {
            tracing::warn!("{sentence}");
        }
    }

    /// It is as it should be again, or gone.
    pub(crate) fn settle(&mut self, is_settled: impl Fn(&str) -> bool) {
        self.standing.retain(|thing, _| !is_settled(thing));
    }

    pub(crate) fn standing(&self) -> impl Iterator<Item = Skipped> {
        let skip = |(what, why): (&String, &Missing)| Skipped {
            what: what.clone(),
            why: why.clone(),
        };
        self.standing.iter().map(skip)
    }

    pub(crate) fn options(&self) -> &Options {
        &self.options
    }

    /// The next scan is due now.
    #[cfg(test)]
    pub(crate) fn hurry(&mut self) {
        self.pace.hurry();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::Fake;
    use crate::options::By;

    /// Times of scans at which the machine was probed, while `change` changes it before each.
    fn scans(fake: &Fake, until_secs: u64, mut change: impl FnMut(u64)) -> Vec<u64> {
        let mut hotplug = Hotplug::begin(&fake.options(By::Cgroup));
        let start = hotplug.pace.changed_at().0;
        let mut found = Vec::new();
        for second in 0..until_secs {
            change(second);
            let at = Nanos(start + second * 1_000_000_000 + 1);
            if hotplug.scan(at, &[]).is_some() {
                found.push(second);
            }
        }
        assert!(hotplug.news.len() < 10, "{:?}", hotplug.news);
        found
    }

    #[test]
    fn what_changed_is_probed_twice() {
        let fake = Fake::new();
        let found = scans(&fake, 60, |second| {
            if second == 12 {
                fake.device(1, &[(2, 0, 0)]);
            }
        });
        assert_eq!(found, [15, 20]);
    }

    #[test]
    fn what_changes_again_and_again_is_probed_less_and_less_often() {
        let fake = Fake::new();
        let dir = "sys/class/weir_cxl/weir_cxl1";
        let found = scans(&fake, 7200, |second| {
            if second * second / 7 % 2 == 0 {
                fake.write(format!("{dir}/group_count"), "1\n");
            } else {
                let _ = std::fs::remove_dir_all(fake.path(dir));
            }
        });
        assert!((8..40).contains(&found.len()), "{found:?}");
    }
}
