// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Users of groups that are in no list of workloads. What they have or do is seen by what is left over, in
//! two sums:
//!
//! * *Memory.* Pages in use that no workload has ([`UnownedMemory`]) are taken to be used as much as the
//!   rest, by as much CPU time as all known users of the group have. Pages that have just come may be any
//!   workload's until workloads are looked for again: till then it is not known which moves what.
//! * *CPU time.* A workload cannot move more than its CPU time allows, and what is in caches moves nothing
//!   ([`whole_share`]). Where all known users together cannot have moved what the group counted, something
//!   else did: a process that reads a file by read(2) that another cgroup has written, io_uring, a device, a
//!   guest. It is given all the memory, and the CPU time that the known users leave, in so far as the traffic
//!   is not explained:
//!
//! ```text
//! explained = 16 GiB/s · Σ CPU time · memory there / (memory there + 32 MiB)
//! CPU time  = (CPUs − Σ CPU time of the known users) · (1 − explained / counted)
//! ```
//!
//! Both are means over about a second. So what is not explained is not poured over the others by what they
//! can have moved at the very most, and none of it is a count. What moves while no known user runs is known
//! sooner: so much is not explained within the next second either, when one of them runs for a moment. The
//! first interval without CPU time may have bytes of the one before, and says nothing. Nor do those whose CPU
//! time comes later at once: a CPU without ticks accounts for a task that runs on once in a second.

use crate::controller::findings::{StepContext, StepRates};
use crate::controller::signals::Signals;
use crate::ids::GroupId;
use crate::rates::attribution::{AccessSignal, CPU_BYTES_PER_SEC, whole_share};
use crate::rates::bandwidth::Ewma;
use crate::seam::observation::UnownedMemory;

/// The CPU time of a process moves on by this at a time, in seconds (`USER_HZ`).
const CLOCK_TICK_SECS: f64 = 0.01;

/// The most that a core explains in bytes per second of CPU time. It waits for lines of local memory, or of a
/// device that answers later.
const EXPLAINED_PER_CPU: f64 = CPU_BYTES_PER_SEC / 2.0;

/// Time over which traffic and CPU time are compared, in seconds: a burst's bytes may be counted in another
/// tick than its CPU time, and a tick in which a light user runs explains much.
const MEAN_SECS: f64 = 1.0;

/// What is known of a group's users together.
#[derive(Clone, Copy, Debug, Default)]
struct KnownUsers {
    cpus: f64,
    bytes: f64,
    /// The most that they can have moved, in bytes per second.
    explained: f64,
}

/// What was counted and what is explained of it, of each group for which that is known.
#[derive(Clone, Debug, Default)]
pub(in crate::controller) struct UnseenUsers {
    /// One entry for each group with such a mean.
    means: Vec<GroupMeans>,
}

#[derive(Clone, Copy, Debug)]
struct GroupMeans {
    group: GroupId,
    counted: Ewma,
    explained: Ewma,
    /// For how long no known user has run, in seconds.
    idle_for_secs: f64,
    /// What was moved in the last interval of that, in bytes per second, and how long ago, in seconds.
    idle_bytes_per_sec: f64,
    idle_ago_secs: f64,
}

impl UnseenUsers {
    pub(in crate::controller) fn read(
        &mut self,
        signals: &Signals,
        context: &StepContext<'_>,
        rates: &StepRates,
    ) -> Vec<AccessSignal> {
        let mut known = known_users(signals, context, rates.groups.len());
        let mut unseen = Vec::new();
        for memory in &context.seen.unowned_memory {
            let found = rates
                .groups
                .binary_search_by_key(&memory.group, |g| g.id)
                .ok();
            let of_group = found.and_then(|group| Some((group, known.get_mut(group)?)));
            if let Some((group, known)) = of_group {
                unseen.push(by_memory(group, memory, known));
                known.bytes += memory.bytes.0 as f64;
            }
        }
        let online = f64::from(context.machine.cpu_count.max(1));
        let before = std::mem::take(&mut self.means);
        // Those that count themselves come after the workloads.
        let others = signals.accesses.get(signals.places.len()..);
        let others = others.unwrap_or_default();
        for (group, (known, rate)) in known.iter().zip(&rates.groups).enumerate() {
            let place = before.binary_search_by_key(&rate.id, |of| of.group).ok();
            let mut means = place.and_then(|i| before.get(i)).copied();
            if let Some(total) = rate.total().filter(|_| known.explained.is_finite()) {
                let own = others.iter().filter(|own| own.group == group);
                let own = own.filter_map(|own| own.counted);
                let own: f64 = own.map(|own| own.read + own.write).sum();
                let means = means.get_or_insert_with(|| GroupMeans::new(rate.id));
                let unexplained = means.add(total.get() - own, known, context.dt);
                let cpus = (online - known.cpus).max(0.0) * unexplained;
                if unexplained > 0.0 && known.bytes > 0.0 {
                    unseen.push(AccessSignal {
                        part: Some(whole_share(cpus, known.bytes)),
                        resident: Some(cpus * known.bytes),
                        ..unsampled(group)
                    });
                }
            } else if let Some(means) = &mut means {
                // What is not known now ends what was known of a moment ago.
                (means.idle_for_secs, means.idle_ago_secs) = (0.0, f64::INFINITY);
            }
            self.means.extend(means);
        }
        unseen
    }
}

impl GroupMeans {
    fn new(group: GroupId) -> Self {
        GroupMeans {
            group,
            counted: Ewma::default(),
            explained: Ewma::default(),
            idle_for_secs: 0.0,
            idle_bytes_per_sec: 0.0,
            idle_ago_secs: f64::INFINITY,
        }
    }

    /// Takes in what a tick has. The part of the traffic that is not explained.
    fn add(&mut self, counted: f64, known: &KnownUsers, dt: f64) -> f64 {
        let weight = 1.0 - (-dt / MEAN_SECS).exp();
        let now = counted.max(0.0);
        let counted = self.counted.push(weight, now);
        let explained = self.explained.push(weight, known.explained);
        self.idle_ago_secs += dt;
        // What the clock of a process may still hide is added.
        match known.explained > 0.0 {
            true if known.cpus * dt >= self.idle_for_secs && self.idle_for_secs > 0.0 => {
                (self.idle_for_secs, self.idle_ago_secs) = (0.0, f64::INFINITY);
            }
            true => self.idle_for_secs = 0.0,
            false => {
                if self.idle_for_secs > 0.0 {
                    (self.idle_bytes_per_sec, self.idle_ago_secs) = (now, 0.0);
                }
                self.idle_for_secs += dt;
            }
        }
        let idle = if self.idle_ago_secs <= MEAN_SECS && now > 0.0 {
            (self.idle_bytes_per_sec / now).min(1.0)
        } else {
            0.0
        };
        if counted > explained {
            idle.max(1.0 - explained / counted)
        } else {
            idle
        }
    }
}

/// What is known of each group's users. A user whose CPU time is not known explains any traffic.
fn known_users(signals: &Signals, context: &StepContext<'_>, groups: usize) -> Vec<KnownUsers> {
    let mut known = vec![KnownUsers::default(); groups];
    for seen in &signals.workloads {
        let reading = seen.index.and_then(|i| context.seen.workloads.get(i));
        let accesses = signals.accesses.get(seen.uses.clone());
        let places = signals.places.get(seen.uses.clone());
        let (Some(reading), Some(accesses), Some(places)) = (reading, accesses, places) else {
            continue;
        };
        // What a process used until its clock's last tick.
        let unseen_cpus = match seen.exact_cpu() {
            Some(_) => 0.0,
            None => CLOCK_TICK_SECS / context.dt,
        };
        for (access, place) in accesses.iter().zip(places) {
            let use_ = reading.uses.get(*place);
            let bytes = use_.and_then(|use_| use_.resident_bytes.ok());
            let Some(of_group) = known.get_mut(access.group) else {
                continue;
            };
            match (seen.cpu, bytes) {
                (Some(cpus), Some(bytes)) => {
                    let bytes = bytes.0 as f64;
                    of_group.cpus += cpus;
                    of_group.bytes += bytes;
                    of_group.explained +=
                        EXPLAINED_PER_CPU * whole_share(cpus + unseen_cpus, bytes);
                }
                (None, Some(bytes)) => {
                    of_group.bytes += bytes.0 as f64;
                    of_group.explained = f64::INFINITY;
                }
                (_, None) => of_group.explained = f64::INFINITY,
            }
        }
    }
    known
}

fn by_memory(group: usize, memory: &UnownedMemory, known: &KnownUsers) -> AccessSignal {
    if memory.is_new {
        return AccessSignal {
            is_new: true,
            ..unsampled(group)
        };
    }
    let (bytes, cpus) = (memory.bytes.0 as f64, known.cpus);
    AccessSignal {
        part: Some(cpus * bytes / (bytes + known.bytes).max(1.0)),
        resident: Some(cpus * bytes),
        ..unsampled(group)
    }
}

/// It has no samples, and weakens no samples of others.
fn unsampled(group: usize) -> AccessSignal {
    AccessSignal {
        group,
        sampled: Some(0.0),
        stores: Some(0.0),
        is_bound: true,
        ..AccessSignal::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::DeviceId;

    #[test]
    fn what_moves_while_no_known_user_runs_is_not_the_first_ones_that_runs() {
        let id = GroupId {
            device: DeviceId(0),
            index: 0,
        };
        let runs = KnownUsers {
            cpus: 0.01,
            bytes: 4e6,
            explained: 6e7,
        };
        let idle = KnownUsers {
            cpus: 0.0,
            explained: 0.0,
            ..runs
        };
        let mut means = GroupMeans::new(id);
        assert_eq!(means.add(2e6, &runs, 0.05), 0.0);
        // Its bytes may be counted late.
        assert_eq!(means.add(12e6, &idle, 0.05), 0.0);
        assert_eq!(means.add(14e6, &idle, 0.05), 1.0);
        let unexplained = means.add(16e6, &runs, 0.05);
        assert!((unexplained - 14.0 / 16.0).abs() < 1e-9, "{unexplained}");
        // A user alone, with pauses: nothing moves in them.
        let mut means = GroupMeans::new(id);
        let found = (0..40).map(|n| match n % 4 {
            0 => means.add(8e6, &runs, 0.05),
            1 => means.add(1e6, &idle, 0.05),
            _ => means.add(0.0, &idle, 0.05),
        });
        assert_eq!(found.fold(0.0, f64::max), 0.0);
        // A CPU without ticks: a second's CPU time comes at once.
        let at_once = KnownUsers {
            cpus: 20.0,
            explained: 2e9,
            ..runs
        };
        let mut means = GroupMeans::new(id);
        let found = (0..60).map(|n| match n % 20 {
            0 => means.add(8e6, &at_once, 0.05),
            _ => {
                means.add(8e6, &idle, 0.05);
                0.0
            }
        });
        assert_eq!(found.fold(0.0, f64::max), 0.0);
    }
}
