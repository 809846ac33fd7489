// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The guest's time, granted step by step. Between two steps the guest stands still: what the harness reads
//! then belongs to one moment, and what it says is heard at that moment, however long the harness or the host
//! took.

use crate::vm::qemu::host_process;
use crate::vm::qemu::shm::SharedMemory;
use crate::vm::sampler::{Sample, Series};
use anyhow::{Context, Result, bail};
use rustix::thread::futex;
use std::hash::{DefaultHasher, Hasher};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::{Duration, Instant};
use weir_ipc::ground_truth::GroundTruth;

/// Time is granted until the next multiple of this. Between two steps the guest stands still, and what the
/// harness reads of the ground truth then belongs to one moment.
pub const STEP: Duration = Duration::from_millis(4);
/// How long the guest's time may stand by the host's clock before the guest is given up: it goes on each few
/// milliseconds.
const PATIENCE: Duration = Duration::from_secs(120);
/// How often the harness polls whether QEMU is still there.
const POLL: Duration = Duration::from_millis(200);

/// What a signal finds: whether a guest runs, and whether the user ended the program.
struct Signals {
    is_without_guests: Arc<AtomicBool>,
    is_interrupted: Arc<AtomicBool>,
    guests: Mutex<usize>,
}

static SIGNALS: LazyLock<Signals> = LazyLock::new(|| Signals {
    is_without_guests: Arc::new(AtomicBool::new(true)),
    is_interrupted: Arc::default(),
    guests: Mutex::new(0),
});

/// From here on Ctrl-C (or SIGTERM) ends the step under way, and with it the guests; their files are removed.
/// While no guest runs it ends the program at once.
///
/// # Errors
/// The system's.
pub fn end_guests_when_interrupted() -> Result<()> {
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        let alone = Arc::clone(&SIGNALS.is_without_guests);
        signal_hook::flag::register_conditional_default(signal, alone)?;
        signal_hook::flag::register(signal, Arc::clone(&SIGNALS.is_interrupted))?;
    }
    Ok(())
}

fn count_guests(change: fn(usize) -> usize) {
    let mut guests = SIGNALS
        .guests
        .lock()
        .unwrap_or_else(PoisonError::into_inner);
    *guests = change(*guests);
    SIGNALS
        .is_without_guests
        .store(*guests == 0, Ordering::SeqCst);
}

pub(crate) struct GuestTime {
    ground_truth: SharedMemory,
    pid: u32,
    sampling: Mutex<Option<Sampling>>,
}

struct Sampling {
    owners: u8,
    samples: Vec<Sample>,
    hasher: DefaultHasher,
}

impl GuestTime {
    /// The time of the guest that the QEMU with process id `pid` runs.
    pub(crate) fn new(ground_truth: SharedMemory, pid: u32) -> Self {
        count_guests(|guests| guests + 1);
        GuestTime {
            ground_truth,
            pid,
            sampling: Mutex::new(None),
        }
    }

    pub(crate) fn ground_truth(&self) -> GroundTruth<'_> {
        match GroundTruth::open(self.ground_truth.words()) {
            Some(ground_truth) => ground_truth,
            None => unreachable!("it was made as one"),
        }
    }

    /// Time since power-on: where the guest stands.
    pub(crate) fn now(&self) -> Duration {
        Duration::from_nanos(self.ground_truth().stopped_at_ns())
    }

    /// Lets the guest run to the first step that is later than `by` from now, or to the next one while the
    /// ground truth is being sampled. `is_alive` says why QEMU has ended, if it has.
    ///
    /// Patience is counted in the host's time, from the last moment at which the guest's time moved, and not
    /// at all while QEMU itself is stopped. A busy host makes a run slower, and must not end it.
    pub(crate) fn step(
        &self,
        by: Duration,
        is_alive: &mut dyn FnMut() -> Result<()>,
    ) -> Result<()> {
        let ground_truth = self.ground_truth();
        let step_ns = STEP.as_nanos() as u64;
        let by_ns = if self.lock().is_some() {
            0
        } else {
            by.as_nanos().saturating_sub(1) as u64
        };
        let until_ns = ((ground_truth.stopped_at_ns() + by_ns) / step_ns + 1) * step_ns;
        ground_truth.grant_until(until_ns);
        wake(ground_truth.until_word());
        let mut progress = (ground_truth.now_ns(), Instant::now());
        loop {
            let stopped_at_ns = ground_truth.stopped_at_ns();
            if stopped_at_ns == until_ns {
                break;
            }
            wait(ground_truth.stopped_at_word(), stopped_at_ns, POLL);
            is_alive()?;
            if SIGNALS.is_interrupted.load(Ordering::Relaxed) {
                bail!("interrupted");
            }
            let now_ns = ground_truth.now_ns();
            if now_ns != progress.0 || host_process::is_stopped(self.pid) {
                progress = (now_ns, Instant::now());
            }
            if progress.1.elapsed() > PATIENCE {
                bail!("the guest makes no progress: {}", self.standstill());
            }
        }
        self.sample();
        Ok(())
    }

    /// From here on each step leaves a reading of the ground truth.
    pub(crate) fn start_sampling(&self, owners: u8) {
        *self.lock() = Some(Sampling {
            owners,
            samples: Vec::new(),
            hasher: DefaultHasher::new(),
        });
        self.sample();
    }

    pub(crate) fn stop_sampling(&self) -> Result<Series> {
        let sampling = self.lock().take().context("nothing was being sampled")?;
        Ok(Series {
            samples: sampling.samples,
            fingerprint: sampling.hasher.finish(),
        })
    }

    fn sample(&self) {
        if let Some(sampling) = self.lock().as_mut() {
            let ground_truth = self.ground_truth();
            let sample = Sample::of(&ground_truth, sampling.owners);
            sample.hash_into(&ground_truth, &mut sampling.hasher);
            sampling.samples.push(sample);
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Sampling>> {
        self.sampling.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn standstill(&self) -> String {
        let ground_truth = self.ground_truth();
        let mut text = format!("its time is {:.3} s\n", self.now().as_secs_f64());
        for index in 0..ground_truth.layout().vcpu_count {
            let vcpu = ground_truth.vcpu(index);
            text += &format!(
                "vCPU {index}: {} instructions, last seen at {:#x}\n",
                vcpu.instructions, vcpu.pc
            );
        }
        text + "QEMU's threads (name, state, CPU time, where they sleep):\n"
            + &host_process::threads(self.pid)
    }
}

impl Drop for GuestTime {
    fn drop(&mut self) {
        count_guests(|guests| guests - 1);
    }
}

/// The half of a word that changes, which is what the kernel compares: a futex has 32 bits (futex(2)), and
/// the times here have 64.
fn low_half(word: &AtomicU64) -> &AtomicU32 {
    // SAFETY: the first half of an aligned word, on a machine that keeps the low half first.
    unsafe { AtomicU32::from_ptr(word.as_ptr().cast()) }
}

fn wake(word: &AtomicU64) {
    let _ = futex::wake(low_half(word), futex::Flags::empty(), u32::MAX);
}

/// Until the word is no longer what was seen of it, but no longer than `most`.
fn wait(word: &AtomicU64, seen: u64, most: Duration) {
    let most = futex::Timespec {
        tv_sec: most.as_secs() as i64,
        tv_nsec: i64::from(most.subsec_nanos()),
    };
    let _ = futex::wait(
        low_half(word),
        futex::Flags::empty(),
        seen as u32,
        Some(&most),
    );
}
