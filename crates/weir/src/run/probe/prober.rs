// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The thread of the probe. It is late when the CPU has something else to do, and then its figures are older:
//! the loop sees that, and waits for nothing.

use super::placement::{self, LOADS, Place, TIME_PART};
use crate::run::tick::self_cost::thread_cpu;
use anyhow::Context;
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, TryLockError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use weir_bench::stats::BATCHES_MIN;
use weir_bench::{LINE_BYTES, Ring, Timing, cpu};
use weir_core::{DeviceId, Missing, Nanos, Reading};
use weir_linux::Roots;

/// Interval of the check of a place: are its pages still there, or is there memory now?
const CHECK_EVERY: Duration = Duration::from_secs(10);
/// Time between two rounds in which nothing could be measured.
const IDLE: Duration = Duration::from_millis(200);
/// A batch that a hypervisor stopped half-way, which a guest cannot see, is paid for by several rests:
/// one alone would make the figure too old. Only batches that are all longer than a hundredth of this take
/// more than their part.
const REST_MAX: Duration = Duration::from_secs(2);

/// What is known of a device.
#[derive(Clone, Debug)]
pub struct Found {
    /// Mean time of a load, of the last batches; when the last of them ended.
    pub mean_ns: Reading<Nanos>,
    /// Where it is measured.
    pub place: Result<Place, Missing>,
    /// What was loaded so far.
    pub read_bytes: u64,
    /// When this was taken out of the box.
    pub taken_at: Nanos,
}

#[derive(Default)]
struct Shared {
    nodes: BTreeMap<DeviceId, Vec<u32>>,
    found: BTreeMap<DeviceId, Found>,
}

/// The loop's end of the thread.
pub struct Prober {
    shared: Arc<Mutex<Shared>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Prober {
    /// Takes memory and begins. Beside the thread: what is known of each device before its first batch.
    ///
    /// # Errors
    /// There is no thread, or the kernel does not say which CPUs weir may use.
    pub fn start(
        roots: &Roots,
        nodes: BTreeMap<DeviceId, Vec<u32>>,
    ) -> anyhow::Result<(Prober, BTreeMap<DeviceId, Found>)> {
        let allowed = cpu::allowed()?;
        let stop = Arc::new(AtomicBool::new(false));
        let mut rounds = Rounds {
            roots: roots.clone(),
            allowed,
            stop: Arc::clone(&stop),
            devices: nodes.keys().map(|id| (*id, Device::default())).collect(),
            rest_due: RestDue::default(),
        };
        for (device, numbers) in &nodes {
            rounds.settle(*device, numbers);
        }
        let found = rounds.devices.iter();
        let found: BTreeMap<_, _> = found.map(|(id, device)| (*id, device.found())).collect();
        let shared = Arc::new(Mutex::new(Shared {
            found: found.clone(),
            nodes,
        }));
        let theirs = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("weir-probe".into())
            .spawn(move || rounds.run(&theirs))
            .context("cannot start the thread of the probe")?;
        let prober = Prober {
            shared,
            stop,
            thread: Some(thread),
        };
        Ok((prober, found))
    }

    /// What is known now; nothing if the thread is just writing it.
    pub fn take(&self) -> Option<BTreeMap<DeviceId, Found>> {
        let shared = match self.shared.try_lock() {
            Ok(shared) => shared,
            Err(TryLockError::Poisoned(broken)) => broken.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        let mut found = shared.found.clone();
        drop(shared);
        for found in found.values_mut() {
            found.taken_at = Nanos(cpu::now_ns());
        }
        Some(found)
    }

    /// Devices have other nodes now.
    pub fn follow(&self, nodes: BTreeMap<DeviceId, Vec<u32>>) {
        lock(&self.shared).nodes = nodes;
    }
}

impl Drop for Prober {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // Its memory ends with it. A thread that panicked has nothing more to restore.
            let _ = thread.join();
        }
    }
}

/// Each thread holds it only while it copies a few numbers.
fn lock(shared: &Mutex<Shared>) -> std::sync::MutexGuard<'_, Shared> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// State that belongs to the thread that measures.
struct Rounds {
    roots: Roots,
    allowed: Vec<u32>,
    stop: Arc<AtomicBool>,
    devices: BTreeMap<DeviceId, Device>,
    rest_due: RestDue,
}

struct Device {
    ring: Result<(Ring, Place), Missing>,
    checked: Instant,
    /// Times of the last batches.
    timings_ns: VecDeque<f64>,
    mean_ns: Reading<Nanos>,
    read_bytes: u64,
}

impl Default for Device {
    fn default() -> Self {
        Device {
            ring: Err(Missing::NotYetRead),
            checked: Instant::now(),
            timings_ns: VecDeque::new(),
            mean_ns: Reading::missing(Nanos(cpu::now_ns()), Missing::NotYetRead),
            read_bytes: 0,
        }
    }
}

impl Device {
    fn found(&self) -> Found {
        Found {
            mean_ns: self.mean_ns.clone(),
            place: match &self.ring {
                Ok((_, place)) => Ok(place.clone()),
                Err(why) => Err(why.clone()),
            },
            read_bytes: self.read_bytes,
            taken_at: Nanos(cpu::now_ns()),
        }
    }

    /// It cannot be measured: earlier figures are not valid any more.
    fn fail(&mut self, why: Missing) {
        self.timings_ns.clear();
        self.mean_ns = Reading::missing(Nanos(cpu::now_ns()), why.clone());
        self.ring = Err(why);
    }

    /// One batch. Whether there was one.
    fn batch(&mut self) -> bool {
        let pinned = match &self.ring {
            Ok((_, place)) => cpu::pin(place.cpu).map_err(placement::refused),
            Err(_) => return false,
        };
        if let Err(why) = pinned {
            self.fail(why);
            return false;
        }
        if let Ok((ring, _)) = &mut self.ring {
            self.timings_ns.push_back(ring.flushed_batch_ns());
        }
        self.read_bytes += u64::from(LOADS) * LINE_BYTES as u64;
        while self.timings_ns.len() > BATCHES_MIN {
            self.timings_ns.pop_front();
        }
        if let Some(timing) = Timing::of(self.timings_ns.make_contiguous()) {
            let mean_ns = Nanos::rounded(timing.mean_ns);
            self.mean_ns = Reading::new(Nanos(cpu::now_ns()), mean_ns);
        }
        true
    }
}

impl Rounds {
    fn run(mut self, shared: &Mutex<Shared>) {
        let ids: Vec<DeviceId> = self.devices.keys().copied().collect();
        while !self.is_stopped() {
            let mut is_idle = true;
            for id in &ids {
                let before = thread_cpu();
                is_idle &= !self.turn(*id, shared);
                let used = thread_cpu().0.saturating_sub(before.0);
                let rest = self.rest_due.rest_after(Duration::from_nanos(used));
                self.rest(rest);
            }
            if is_idle {
                self.rest(IDLE);
            }
        }
    }

    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    fn rest(&self, span: Duration) {
        let end = Instant::now() + span;
        while !self.is_stopped() {
            let Some(left) = end.checked_duration_since(Instant::now()) else {
                return;
            };
            std::thread::park_timeout(left);
        }
    }

    /// One device's turn. Whether it was measured.
    fn turn(&mut self, id: DeviceId, shared: &Mutex<Shared>) -> bool {
        let is_due = |device: &Device| device.checked.elapsed() >= CHECK_EVERY;
        if self.devices.get(&id).is_some_and(is_due) {
            let numbers = lock(shared).nodes.get(&id).cloned().unwrap_or_default();
            self.settle(id, &numbers);
        }
        let Some(device) = self.devices.get_mut(&id) else {
            return false;
        };
        let is_measured = device.batch();
        lock(shared).found.insert(id, device.found());
        is_measured
    }

    /// Takes memory where there is none yet, else checks the node of its pages.
    fn settle(&mut self, id: DeviceId, numbers: &[u32]) {
        let Some(device) = self.devices.get_mut(&id) else {
            return;
        };
        device.checked = Instant::now();
        if let Ok((ring, place)) = &device.ring {
            let moved = ring.check(place.node).err();
            if let Some(why) = moved {
                device.fail(placement::refused(why));
            }
            return;
        }
        match placement::take(&self.roots, numbers, &self.allowed) {
            Ok(taken) => device.ring = Ok(taken),
            Err(why) => device.fail(why),
        }
    }
}

/// Rest that is still due for the CPU time of measurements.
#[derive(Default)]
struct RestDue(Duration);

impl RestDue {
    /// The next rest: so long that `used` is at most [`TIME_PART`] of the time. What exceeds [`REST_MAX`] is
    /// left for the rests after it.
    fn rest_after(&mut self, used: Duration) -> Duration {
        self.0 += used.mul_f64(1.0 / TIME_PART - 1.0);
        let rest = self.0.min(REST_MAX);
        // The rest is a minute at most: more rest does not help with a device that slow.
        self.0 = (self.0 - rest).min(30 * REST_MAX);
        rest
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn the_memory_ends_with_the_prober() {
        let nodes = BTreeMap::from([(DeviceId(0), vec![0])]);
        let (prober, found) = Prober::start(&Roots::beneath(Path::new("/")), nodes).unwrap();
        if let Err(why) = &found[&DeviceId(0)].place {
            return eprintln!("SKIP the memory of the probe on node 0: {why}");
        }
        // The thread keeps it beside the ring of each device.
        let of_thread = Arc::downgrade(&prober.stop);
        assert!(of_thread.strong_count() > 1);
        drop(prober);
        assert_eq!(of_thread.strong_count(), 0);
    }

    #[test]
    fn a_rest_keeps_the_part_of_time_and_a_long_batch_takes_several() {
        let ms = Duration::from_millis;
        let mut due = RestDue::default();
        assert_eq!(due.rest_after(ms(1)).as_millis(), 99);
        // Stopped for 60 ms: 5.94 s are due, two at a time, and those of the batches between them.
        let rests: Vec<_> = [60, 1, 1, 1, 1]
            .iter()
            .map(|used| due.rest_after(ms(*used)).as_millis())
            .collect();
        assert_eq!(rests, [2000, 2000, 2000, 237, 99]);
    }
}
