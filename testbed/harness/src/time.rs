// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The guest's time, granted step by step. Between two steps the guest stands still: what the harness reads then is of
//! one moment, and what it says is heard at that moment, however long the harness or the host took.

use crate::host;
use crate::sampler::{Sample, Series};
use crate::shm::Shared;
use anyhow::{Context, Result, bail};
use rustix::thread::futex;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::{Duration, Instant};
use weir_hw::ledger::Ledger;

/// Time is granted until the next multiple of this.
pub const STEP: Duration = Duration::from_millis(4);
/// How long a step may take by the host's clock before the guest is given up: it never takes seconds.
const PATIENCE: Duration = Duration::from_secs(120);
/// How often the harness looks whether QEMU is still there.
const LOOK: Duration = Duration::from_millis(200);

/// Set when the user wants the harness to end (Ctrl-C): the step under way ends, and the guest with it.
static INTERRUPTED: LazyLock<Arc<AtomicBool>> = LazyLock::new(Arc::default);

/// See above: for whoever takes signals.
pub fn interrupted() -> Arc<AtomicBool> {
    Arc::clone(&INTERRUPTED)
}

/// The time of one guest.
pub(crate) struct GuestTime {
    ledger: Shared,
    pid: u32,
    sampling: Mutex<Option<Sampling>>,
}

struct Sampling {
    owners: u8,
    samples: Vec<Sample>,
}

impl GuestTime {
    /// Of the guest whose QEMU is `pid`.
    pub(crate) fn new(ledger: Shared, pid: u32) -> Self {
        GuestTime {
            ledger,
            pid,
            sampling: Mutex::new(None),
        }
    }

    /// The books of the device model.
    pub(crate) fn ledger(&self) -> Ledger<'_> {
        match Ledger::open(self.ledger.words()) {
            Some(ledger) => ledger,
            None => unreachable!("it was made as one"),
        }
    }

    /// Time since power-on: where the guest stands.
    pub(crate) fn now(&self) -> Duration {
        Duration::from_nanos(self.ledger().stood_ns())
    }

    /// Lets the guest run to the next step. `is_alive` says why QEMU has ended, if it has.
    pub(crate) fn step(&self, is_alive: &mut dyn FnMut() -> Result<()>) -> Result<()> {
        let ledger = self.ledger();
        let step_ns = STEP.as_nanos() as u64;
        let until_ns = (ledger.stood_ns() / step_ns + 1) * step_ns;
        ledger.grant_until(until_ns);
        wake(ledger.until_word());
        let mut began = Instant::now();
        loop {
            let stood_ns = ledger.stood_ns();
            if stood_ns == until_ns {
                break;
            }
            wait(ledger.stood_word(), stood_ns, LOOK);
            is_alive()?;
            if INTERRUPTED.load(Ordering::Relaxed) {
                bail!("interrupted");
            }
            if host::is_stopped(self.pid) {
                began = Instant::now();
            }
            if began.elapsed() > PATIENCE {
                bail!("the guest makes no progress: {}", self.standstill());
            }
        }
        self.sample()
    }

    /// From here on each step leaves a reading of the ledger.
    pub(crate) fn start_sampling(&self, owners: u8) {
        let samples = vec![self.reading(owners)];
        *self.lock() = Some(Sampling { owners, samples });
    }

    /// The readings since then.
    pub(crate) fn stop_sampling(&self) -> Result<Series> {
        let sampling = self.lock().take().context("nothing was being sampled")?;
        Ok(Series {
            samples: sampling.samples,
        })
    }

    fn sample(&self) -> Result<()> {
        if let Some(sampling) = self.lock().as_mut() {
            sampling.samples.push(self.reading(sampling.owners));
        }
        Ok(())
    }

    fn reading(&self, owners: u8) -> Sample {
        Sample::of(&self.ledger(), owners)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Sampling>> {
        self.sampling.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the vCPUs and QEMU's threads do.
    fn standstill(&self) -> String {
        let ledger = self.ledger();
        let mut text = format!("its time is {:.3} s\n", self.now().as_secs_f64());
        for index in 0..ledger.shape().vcpu_count {
            let vcpu = ledger.vcpu(index);
            text += &format!(
                "vCPU {index}: {} instructions, last seen at {:#x}\n",
                vcpu.instructions, vcpu.pc
            );
        }
        text + "QEMU's threads (name, state, CPU time, where they sleep):\n"
            + &host::threads(self.pid)
    }
}

/// The half of a word that changes, which is what the kernel compares.
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
