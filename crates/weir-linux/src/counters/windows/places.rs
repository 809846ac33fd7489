// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Where the sets of a lane are open: on a CPU, for a cgroup on a CPU, for a thread, or on a box of a socket.
//! At each place one set counts at a time.

use super::lanes::{CountingLane, LaneBox};
use super::perf::{GroupRequest, Perf, PerfGroup};
use super::sums::LaneSums;
use crate::counters::pmu::{Counted, PerfScope};
use std::io;
use std::os::fd::RawFd;

struct OpenSet {
    group: Box<dyn PerfGroup>,
    last: Counted,
    /// Whether it has counted since the last read.
    is_touched: bool,
}

/// All sets of a lane at one place.
pub(super) struct CountingPlace {
    pub(super) lane: usize,
    /// Its counts' pool; nothing where a program of the kernel adds them up by cgroup.
    pub(super) pool: Option<usize>,
    /// The CPU that goes offline with it; nothing where the kernel moves the events then.
    pub(super) cpu: Option<u32>,
    /// Number of sets by which it is ahead of others, so that boxes count different sets at a time.
    shift: usize,
    sets: Vec<Option<OpenSet>>,
    counting: Option<usize>,
    /// Counts of the whole recording, of a box among several.
    pub(super) all: Option<LaneSums>,
}

#[derive(Clone, Copy)]
pub(super) struct NewPlace<'a> {
    pub(super) lane: usize,
    pub(super) pool: Option<usize>,
    pub(super) shift: usize,
    pub(super) cpu: Option<u32>,
    pub(super) on: PerfScope<'a>,
}

/// Whether the thread or the CPU is gone, so that the set itself is not at fault.
fn is_gone(error: &io::Error) -> bool {
    let gone = [libc::ESRCH, libc::ENODEV];
    error
        .raw_os_error()
        .is_some_and(|code| gone.contains(&code))
}

impl CountingPlace {
    /// Opens all sets but those that are known to be refused. Nothing if the thread or the CPU is gone. A set
    /// that is refused is given to `refused`.
    pub(super) fn open(
        perf: &dyn Perf,
        lane: &CountingLane,
        events: &LaneBox,
        new: NewPlace<'_>,
        refused: &mut dyn FnMut(usize, io::Error) -> bool,
    ) -> Option<CountingPlace> {
        let mut sets = Vec::new();
        for (number, configs) in events.configs.iter().enumerate() {
            let request = GroupRequest {
                kind: events.kind,
                configs,
                on: match new.on {
                    // Where there are several sets only one may begin with the program.
                    PerfScope::Task { tid, on_exec } => PerfScope::Task {
                        tid,
                        on_exec: on_exec && number == 0,
                    },
                    other => other,
                },
            };
            match perf.open(&request) {
                Ok(group) => sets.push(Some(OpenSet {
                    group,
                    last: Counted::default(),
                    is_touched: false,
                })),
                Err(error) if is_gone(&error) => return None,
                Err(error) => {
                    if refused(number, error) {
                        sets.push(None)
                    } else {
                        return None;
                    }
                }
            }
        }
        let is_box = lane.is_hashed && new.cpu.is_none();
        Some(CountingPlace {
            lane: new.lane,
            pool: new.pool,
            cpu: new.cpu,
            shift: new.shift,
            sets,
            counting: None,
            all: is_box.then(|| LaneSums::new(lane)),
        })
    }

    /// Lets the set count whose turn it is, and no other. A set that is not open has no turn.
    pub(super) fn turn(&mut self, turn: usize) {
        let open: Vec<usize> = (0..self.sets.len())
            .filter(|number| self.sets[*number].is_some())
            .collect();
        if open.is_empty() {
            return;
        }
        let next = open[(turn + self.shift) % open.len()];
        if self.counting != Some(next) {
            self.stop();
            self.switch(next, true);
            self.counting = Some(next);
        }
    }

    /// The set that counts now.
    pub(super) fn counting(&self) -> Option<usize> {
        self.counting
    }

    /// Descriptors of a set's events; none where it is not open.
    pub(super) fn events(&self, set: usize) -> Vec<RawFd> {
        let open = self.sets.get(set).and_then(Option::as_ref);
        open.map_or(Vec::new(), |set| set.group.descriptors())
    }

    /// Notes that the program starts the first set by itself.
    pub(super) fn begins_with_program(&mut self) {
        let first = self.sets.iter_mut().position(|set| set.is_some());
        if first == Some(0)
            && let Some(Some(set)) = self.sets.first_mut()
        {
            set.is_touched = true;
            self.counting = Some(0);
        }
    }

    pub(super) fn stop(&mut self) {
        if let Some(number) = self.counting.take() {
            self.switch(number, false);
        }
    }

    fn switch(&mut self, number: usize, on: bool) {
        if let Some(Some(set)) = self.sets.get_mut(number) {
            set.is_touched = true;
            // A task that has ended is no loss: nothing of it is left to count.
            if let Err(why) = set.group.switch(on) {
                tracing::debug!(%why, on, "a set of events cannot be switched");
            }
        }
    }

    /// Adds what was counted since the last read. Gives the number of sets that could not be read.
    pub(super) fn read(&mut self, sums: &mut LaneSums) -> usize {
        let mut unread = 0;
        for (number, set) in self.sets.iter_mut().enumerate() {
            let Some(set) = set.as_mut().filter(|set| set.is_touched) else {
                continue;
            };
            set.is_touched = self.counting == Some(number);
            match set.group.read() {
                Ok(now) => {
                    sums.add(number, &set.last, &now);
                    if let Some(all) = &mut self.all {
                        all.add(number, &set.last, &now);
                    }
                    set.last = now;
                }
                Err(_) => unread += 1,
            }
        }
        unread
    }

    pub(super) fn descriptors(lane: &CountingLane) -> usize {
        lane.set_sizes.iter().sum()
    }
}
