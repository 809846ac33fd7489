// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A machine that nothing controls, and what moves on it in a tick.
//!
//! * A workload runs evenly on all its memory. The caches of CPUs count as memory elsewhere, and of less than
//!   a core's own cache nothing comes from a device.
//! * Of a workload its memory in a group, all its memory, its CPU time or its samples may not be shown.
//! * Beside workloads a group may be used by weir's probe, by the kernel that migrates pages, and by traffic
//!   that has no owner.

use crate::plant::Dice;
use weir_core::{DeviceId, GroupId};

pub const TICK_SECS: f64 = 0.1;
pub const TICK_NS: u64 = 100_000_000;
/// More than any core moves in a second of CPU time.
pub const CPU_BYTES_PER_SEC: f64 = 32.0 * 1024.0 * MIB;
/// The most that one core moves of a device's memory, in bytes per second.
const EXPLAINED_PER_CPU: f64 = 16.0 * 1024.0 * MIB;
pub const CPUS: f64 = 8.0;
const MIB: f64 = 1024.0 * 1024.0;
/// What caches keep for a workload.
const CACHED_BYTES: f64 = 32.0 * MIB;
/// What a core's own cache keeps.
const CORE_CACHE_BYTES: f64 = MIB;
const IDS: [&str; 6] = ["/a", "/b", "/c", "/d", "/e", "/f"];

/// A workload, and what of it is not shown.
#[derive(Clone, Debug)]
pub struct User {
    pub id: &'static str,
    /// CPU time in a tick.
    pub cpu_ns: u64,
    /// Memory in each group, in bytes.
    pub here: Vec<u64>,
    pub elsewhere: u64,
    pub is_excluded: bool,
    pub is_process: bool,
    pub hides_cpu: bool,
    /// All of its memory in groups.
    pub hides_here: bool,
    pub hides_all: bool,
    pub hides_samples: bool,
    /// No memory in a group is shown as zero, and not left out.
    pub shows_zero: bool,
}

/// The part of memory in a group that is in no cache, of a workload or of all together with so much there.
pub fn out_of_caches(bytes: u64) -> f64 {
    let bytes = (bytes as f64).max(CORE_CACHE_BYTES);
    bytes / (bytes + CACHED_BYTES)
}

#[derive(Clone, Debug)]
pub struct Place {
    pub id: GroupId,
    /// What workloads move there, in bytes per second.
    pub rate: f64,
    pub write_ratio: f64,
    /// What is moved there by no workload, as a part of that.
    pub foreign: f64,
    /// Memory that no workload has.
    pub unowned: u64,
    /// What weir's probe reads in a tick.
    pub probe: u64,
    pub is_lost: bool,
}

#[derive(Clone, Debug)]
pub struct Machine {
    pub users: Vec<User>,
    pub places: Vec<Place>,
    pub has_samples: bool,
    /// Pages that the kernel migrates: parts of what workloads write (demoted), of what they read (promoted),
    /// and of both (neither). Nothing where it does not count them.
    pub pages: Option<[f64; 3]>,
}

fn one_in(dice: &mut Dice, count: u64) -> bool {
    dice.next().is_multiple_of(count)
}

fn one_of<T: Copy>(dice: &mut Dice, all: &[T]) -> T {
    all[(dice.next() % all.len() as u64) as usize]
}

impl User {
    fn new(dice: &mut Dice, id: &'static str, places: &[Place], hides: bool) -> User {
        // On one device, or on all.
        let devices: Vec<DeviceId> = places.iter().map(|place| place.id.device).collect();
        let home = one_in(dice, 2).then(|| one_of(dice, &devices));
        let memory = |dice: &mut Dice| (4096.0 * 2f64.powf(dice.unit() * 18.0)) as u64;
        let mut here = Vec::new();
        for place in places {
            let is_there = home.is_none_or(|home| home == place.id.device) && !one_in(dice, 3);
            here.push(if is_there { memory(dice) } else { 0 });
        }
        let mut hidden = |count: u64| hides && one_in(dice, count);
        let [hides_here, hides_cpu, hides_all, hides_samples] = [4, 8, 8, 6].map(&mut hidden);
        let cpus = one_of(dice, &[0.0, 0.001, 0.02, 0.3, 1.0, 2.0]) * dice.unit();
        User {
            id,
            cpu_ns: (cpus * TICK_NS as f64) as u64,
            here,
            elsewhere: memory(dice),
            is_excluded: one_in(dice, 4),
            is_process: one_in(dice, 6),
            hides_cpu,
            hides_here,
            hides_all,
            hides_samples,
            shows_zero: one_in(dice, 4),
        }
    }

    pub fn cpus(&self) -> f64 {
        self.cpu_ns as f64 / TICK_NS as f64
    }

    /// Whether it has memory in a group, or may have some as far as is shown.
    pub fn is_user(&self, group: usize) -> bool {
        self.here[group] > 0 || self.hides_here && self.shows_zero
    }

    /// Whether anything of it is in an observation that has to do with a group.
    pub fn is_listed(&self) -> bool {
        self.shows_zero || self.here.iter().any(|bytes| *bytes > 0)
    }

    pub fn devices(&self, machine: &Machine) -> Vec<u32> {
        let there = machine.places.iter().enumerate();
        let there = there.filter(|(group, _)| self.is_user(*group));
        let mut found: Vec<u32> = there.map(|(_, place)| place.id.device.0).collect();
        found.dedup();
        found
    }

    /// The most that it can move of a group by what is shown of it, in bytes per second. The CPU time of a
    /// process is shown in hundredths of a second.
    pub fn most(&self, group: usize) -> f64 {
        let unseen = if self.is_process {
            0.01 / TICK_SECS
        } else {
            0.0
        };
        let is_shown = !self.hides_cpu && !self.hides_here;
        if is_shown {
            EXPLAINED_PER_CPU * (self.cpus() + unseen) * out_of_caches(self.here[group])
        } else {
            f64::INFINITY
        }
    }

    /// What it moves of a group, on a scale that all workloads of the group have in common.
    pub fn weight(&self, group: usize) -> f64 {
        let here = self.here[group] as f64;
        if here < CORE_CACHE_BYTES {
            return 0.0;
        }
        let all = self.here.iter().sum::<u64>() + self.elsewhere;
        self.cpus() * here / (all as f64 + CACHED_BYTES)
    }
}

impl Machine {
    pub fn new(dice: &mut Dice) -> Machine {
        let pages = one_in(dice, 3).then(|| {
            let part = |dice: &mut Dice| one_of(dice, &[0.0, 0.003, 0.1, 4.0]) * dice.unit();
            [part(dice), part(dice), part(dice)]
        });
        let has_foreign = one_in(dice, 3);
        // The kernel's part of reads is known by what is read without the probe.
        let has_probe = pages.is_none() && one_in(dice, 4);
        let mut places = Vec::new();
        for device in 0..=(dice.next() % 2) as u32 {
            for index in 0..=(dice.next() % 3) as u32 {
                let has_unowned = has_foreign && one_in(dice, 2);
                places.push(Place {
                    id: GroupId {
                        device: DeviceId(device),
                        index,
                    },
                    rate: one_of(dice, &[0.0, 1e6, 1e8, 1e10, 9e10]) * dice.unit(),
                    write_ratio: one_of(dice, &[0.0, 0.5, 1.0]) * dice.unit(),
                    foreign: if has_foreign && one_in(dice, 2) {
                        dice.unit()
                    } else {
                        0.0
                    },
                    unowned: if has_unowned {
                        1 << (20 + dice.next() % 10)
                    } else {
                        0
                    },
                    probe: if has_probe {
                        dice.next() % 1_000_000
                    } else {
                        0
                    },
                    is_lost: one_in(dice, 25),
                });
            }
        }
        let hides = one_in(dice, 2);
        let count = (dice.next() % (IDS.len() as u64 + 1)) as usize;
        let user = |id: &&'static str| User::new(dice, id, &places, hides);
        let users = IDS[..count].iter().map(user).collect();
        Machine {
            users,
            places,
            has_samples: one_in(dice, 4),
            pages,
        }
    }

    pub fn groups_of(&self, device: u32) -> impl Iterator<Item = usize> + '_ {
        let all = self.places.iter().enumerate();
        all.filter(move |(_, place)| place.id.device.0 == device)
            .map(|(g, _)| g)
    }

    /// Whether no more than one has anything in a group, as far as is shown.
    pub fn is_alone(&self, group: usize) -> bool {
        let users = self.users.iter().filter(|user| user.is_user(group));
        users.count() == 1 && self.places[group].unowned == 0
    }

    /// Whether there is a workload that may have moved anything of a group, and its CPU time is not shown.
    pub fn is_blind(&self, group: usize) -> bool {
        let may_move =
            |user: &&User| user.hides_here || user.here[group] as f64 >= CORE_CACHE_BYTES;
        let there = self.users.iter().filter(|user| user.is_user(group));
        there.filter(may_move).any(|user| user.hides_cpu)
    }

    /// Whether what is counted is as much as the workloads run on their memory there, and no figure of one
    /// may be more than it moved. Without all memory of one, the others are compared by what they have there
    /// alone.
    pub fn is_even(&self) -> bool {
        let is_shown = |user: &User| !user.hides_all;
        self.users.iter().all(is_shown) && self.places.iter().all(|place| place.foreign == 0.0)
    }
}

/// What moved in one tick, in bytes.
#[derive(Debug, Default)]
pub struct Tick {
    /// For each workload, what it really moved of each group.
    pub truth: Vec<(&'static str, Vec<f64>)>,
    /// Reads and writes by group, as counted.
    pub counted: Vec<[u64; 2]>,
    /// What of them is the kernel's, at most, and what of that is known.
    pub kernel: Vec<[f64; 2]>,
    pub known: Vec<f64>,
    pub probes: Vec<u64>,
    pub pages: [u64; 3],
    /// What is left for workloads, in bytes per second: the mean of about a second.
    pub left_mean: Vec<f64>,
}

impl Tick {
    pub fn of(machine: &Machine, part: f64) -> Tick {
        let users = machine.users.iter();
        let mut tick = Tick {
            truth: users.map(|user| (user.id, Vec::new())).collect(),
            probes: machine.places.iter().map(|place| place.probe).collect(),
            ..Tick::default()
        };
        let pages = machine.pages.unwrap_or_default();
        let mut own = [0.0; 2];
        for (g, place) in machine.places.iter().enumerate() {
            let weights: Vec<f64> = machine.users.iter().map(|user| user.weight(g)).collect();
            let sum: f64 = weights.iter().sum();
            let all = if sum > 0.0 {
                place.rate * part * TICK_SECS
            } else {
                0.0
            };
            for ((_, truth), weight) in tick.truth.iter_mut().zip(&weights) {
                truth.push(if sum > 0.0 { all * weight / sum } else { 0.0 });
            }
            let (read, write) = (all * (1.0 - place.write_ratio), all * place.write_ratio);
            own = [own[0] + read, own[1] + write];
            let foreign = place.rate * part * TICK_SECS * place.foreign;
            let read = read + foreign * (1.0 - place.write_ratio);
            let write = write + foreign * place.write_ratio;
            let read = read * (1.0 + pages[1]) + place.probe as f64;
            let write = write * (1.0 + pages[0]);
            tick.counted.push([read as u64, write as u64]);
        }
        let [read, write] = own;
        tick.pages =
            [write * pages[0], read * pages[1], (read + write) * pages[2]].map(|n| n as u64);
        tick
    }

    /// What a group counted, reads and writes together.
    pub fn total(&self, group: usize) -> f64 {
        let [read, write] = self.counted[group];
        (read + write) as f64
    }

    pub fn all(&self) -> f64 {
        (0..self.counted.len()).map(|g| self.total(g)).sum()
    }

    pub fn kernel(&self, group: usize) -> f64 {
        let [read, write] = self.kernel[group];
        read.min(self.counted[group][0] as f64 - self.probe(group)) + write
    }

    /// What is left for workloads, in bytes per second.
    pub fn left(&self, group: usize) -> f64 {
        (self.total(group) - self.probe(group) - self.kernel(group)) / TICK_SECS
    }

    /// What weir's probe has of a group.
    pub fn probe(&self, group: usize) -> f64 {
        self.probes[group].min(self.counted[group][0]) as f64
    }

    pub fn truth_of(&self, user: &User) -> f64 {
        let found = self.truth.iter().find(|(id, _)| *id == user.id);
        found.expect("a workload of the machine").1.iter().sum()
    }

    /// The kernel's part: demoted pages of what is written, promoted ones of what is read. Of what is left
    /// then it may have as much as pages are written and read when they come and go, and a batch ahead of
    /// that.
    pub fn migrate(&mut self, machine: &Machine, kernel: &mut Kernel) {
        let seen = self.counted.iter().zip(&machine.places);
        let seen = seen.map(|(moved, place)| {
            if place.is_lost {
                [0.0; 2]
            } else {
                moved.map(|bytes| bytes as f64)
            }
        });
        let mut left: Vec<[f64; 2]> = seen.collect();
        let all = left.clone();
        let [demoted, promoted, other] = self.pages.map(|bytes| bytes as f64);
        // The two ways of traffic: reads, writes.
        for (waiting, came) in kernel.waiting.iter_mut().zip([promoted, demoted]) {
            *waiting += came;
        }
        let most = [2.0 * demoted + 3.0 * other, demoted + 2.0 * other];
        let batch = [most[0] + promoted, most[1] + demoted];
        for way in [1, 0] {
            kernel.waiting[way] -= take(&mut left, way, kernel.waiting[way]);
        }
        let after_known = left.clone();
        for way in [1, 0] {
            let (credit, batch_max) = (&mut kernel.credit[way], &mut kernel.batch[way]);
            *credit += most[way];
            *batch_max = batch_max.max(batch[way]);
            *credit -= take(&mut left, way, (*credit + *batch_max).max(0.0));
        }
        let less = |of: &[f64; 2], than: &[f64; 2]| [than[0] - of[0], than[1] - of[1]];
        self.kernel = left
            .iter()
            .zip(&all)
            .map(|(of, than)| less(of, than))
            .collect();
        let known = after_known
            .iter()
            .zip(&all)
            .map(|(of, than)| less(of, than));
        self.known = known.map(|ways| ways.iter().sum()).collect();
    }
}

/// What the kernel has left over from the ticks before, by way (0 reads, 1 writes), in bytes.
#[derive(Debug, Default)]
pub struct Kernel {
    /// Known, without traffic so far.
    waiting: [f64; 2],
    /// May have moved, without traffic so far; less than nothing where it was taken before it was counted.
    credit: [f64; 2],
    /// The most of a tick.
    batch: [f64; 2],
}

/// Takes up to so many bytes of one way (0 reads, 1 writes) of all groups, in proportion. Gives how many.
fn take(left: &mut [[f64; 2]], way: usize, bytes: f64) -> f64 {
    let sum: f64 = left.iter().map(|ways| ways[way]).sum();
    let part = if sum > 0.0 {
        (bytes / sum).min(1.0)
    } else {
        0.0
    };
    left.iter_mut().for_each(|ways| ways[way] *= 1.0 - part);
    sum * part
}
