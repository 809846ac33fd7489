// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Counts of cgroups where a program of the kernel adds them up: each CPU has the sets of a lane open once,
//! however many cgroups there are.

pub(super) mod counter;

use super::lanes::CountingLane;
use super::places::CountingPlace;
use super::subjects::Subject;
use crate::counters::pmu::Counted;
use counter::{BySocket, CgroupCounter, SET_EVENTS_MAX};
use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use weir_core::Missing;

pub(super) struct CgroupSums {
    pub(super) lane: usize,
    counter: Box<dyn CgroupCounter>,
    cgroups: Vec<SummedCgroup>,
    set_count: usize,
    /// The last sums, by the cgroup's id and the number of the set.
    last: BTreeMap<(u64, usize), BySocket>,
}

/// A set, and where it counted for which subject.
#[derive(Clone, Copy, Debug)]
pub(super) struct SummedSet {
    pub(super) subject: usize,
    pub(super) set: usize,
    pub(super) socket: u32,
}

struct SummedCgroup {
    subject: usize,
    /// Its id, and the ids of those asked for below it, for which the program keeps sums of their own.
    ids: Vec<u64>,
}

impl CgroupSums {
    /// Counts for all cgroups among the subjects.
    ///
    /// # Errors
    /// The kernel refuses one of them, or a set has too many events.
    pub(super) fn new(
        lane: (usize, &CountingLane),
        mut counter: Box<dyn CgroupCounter>,
        subjects: &[Subject],
    ) -> Result<CgroupSums, Missing> {
        let (lane, sizes) = (lane.0, &lane.1.set_sizes);
        if sizes.iter().any(|size| *size > SET_EVENTS_MAX) {
            let why = format!("a set has more than {SET_EVENTS_MAX} events");
            return Err(Missing::NotSupported(why));
        }
        let mut known: Vec<(usize, &Path, u64)> = Vec::new();
        for (number, subject) in subjects.iter().enumerate() {
            if let Subject::Cgroup { path, dir, .. } = subject {
                let data = dir.metadata();
                let id = data.map_err(|e| Missing::Lost(format!("{}: {e}", path.display())))?;
                counter.count_for(id.ino())?;
                known.push((number, path, id.ino()));
            }
        }
        counter.attach()?;
        let cgroup = |(subject, path, _): &(usize, &Path, u64)| SummedCgroup {
            subject: *subject,
            ids: known
                .iter()
                .filter(|(_, other, _)| other.starts_with(path))
                .map(|(_, _, id)| *id)
                .collect(),
        };
        let cgroups = known.iter().map(cgroup).collect();
        Ok(CgroupSums {
            lane,
            counter,
            cgroups,
            set_count: sizes.len(),
            last: BTreeMap::new(),
        })
    }

    /// Has the sets of a CPU read.
    ///
    /// # Errors
    /// The kernel refuses it.
    pub(super) fn read_on(&mut self, cpu: u32, place: &CountingPlace) -> Result<(), Missing> {
        (0..self.set_count).try_for_each(|set| match place.events(set) {
            events if events.is_empty() => Ok(()),
            events => self.counter.read_on(cpu, set, &events),
        })
    }

    /// Sets are about to change.
    pub(super) fn begin_turn(&mut self) {
        self.counter.begin_turn();
    }

    pub(super) fn turn(&mut self, set: usize) {
        self.counter.turn(set);
    }

    /// Gives to `add` what each set has counted for each subject on each socket since the last read: before
    /// and now. Returns how many sums could not be read, and how many runs were not counted.
    pub(super) fn read(&mut self, add: &mut dyn FnMut(SummedSet, [&Counted; 2])) -> usize {
        let lost = self.counter.count_now();
        let mut unread = usize::try_from(lost).unwrap_or(usize::MAX);
        let mut now = BTreeMap::new();
        let ids = self.cgroups.iter().flat_map(|cgroup| &cgroup.ids);
        for id in ids.copied().collect::<std::collections::BTreeSet<u64>>() {
            for set in 0..self.set_count {
                match self.counter.sum(id, set) {
                    Ok(sum) => drop(now.insert((id, set), sum)),
                    Err(_) => unread = unread.saturating_add(1),
                }
            }
        }
        let none = Counted::default();
        for cgroup in &self.cgroups {
            for (id, set) in cgroup.ids.iter().flat_map(|id| {
                let sets = 0..self.set_count;
                sets.map(move |set| (*id, set))
            }) {
                let last = self.last.get(&(id, set));
                for (socket, sum) in now.get(&(id, set)).into_iter().flatten() {
                    let before = last.and_then(|last| last.get(socket)).unwrap_or(&none);
                    let summed = SummedSet {
                        subject: cgroup.subject,
                        set,
                        socket: *socket,
                    };
                    add(summed, [before, sum]);
                }
            }
        }
        self.last.append(&mut now);
        unread
    }
}
