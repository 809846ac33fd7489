// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One guest: let its time pass, run commands in it, switch the device model on, read the truth.

mod boot;

pub(crate) use boot::BAR_WORDS;
pub use boot::{BootOptions, OWN_FILE};

use crate::vm::agent::Line;
use crate::vm::condition::Condition;
use crate::vm::cosim::Cosim;
use crate::vm::cost;
use crate::vm::protocol::{Reply, Task};
use crate::vm::qemu::qmp::Monitor;
use crate::vm::qemu::scratch::Scratch;
use crate::vm::qemu::shm::SharedMemory;
use crate::vm::sampler::Series;
use crate::vm::time::{GuestTime, STEP};
use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::process::Child;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use weir_ipc::{CosimSummary, GroundTruth};
use weir_scenario::testbed::TestbedMachine;

/// How much longer than a command may take its reply is waited for.
const GRACE: Duration = Duration::from_secs(30);
/// How long QEMU may take to die, by the host's clock, after it has let go of its sockets.
const DYING: Duration = Duration::from_secs(10);

/// A command under way in the guest.
#[derive(Debug)]
#[must_use]
pub struct Pending {
    id: u64,
    /// What was asked for, in words.
    task: String,
    end: Duration,
}

/// Called with the guest's time after each step.
type Watcher = Box<dyn Fn(Duration) + Send>;

/// A running guest; killed when dropped. Its time passes only while it handles a request or sleeps by
/// request.
pub struct Vm {
    child: Mutex<Child>,
    line: Mutex<Line>,
    monitor: Mutex<Monitor>,
    time: GuestTime,
    bar: SharedMemory,
    files: SharedMemory,
    cosim: Option<Cosim>,
    watcher: Mutex<Option<Watcher>>,
    scratch: Scratch,
    /// Instructions of its vCPUs that are counted as spent.
    counted: AtomicU64,
    /// What it was made as.
    pub machine: TestbedMachine,
}

impl Vm {
    pub fn now(&self) -> Duration {
        self.time.now()
    }

    /// Lets the guest run until its time is `at` or, by less than a step ([`crate::vm::time::STEP`]), later.
    ///
    /// # Errors
    /// QEMU has ended, or the guest makes no progress.
    pub fn sleep_until(&self, at: Duration) -> Result<()> {
        while self.now() < at {
            self.step(at - self.now())?;
        }
        Ok(())
    }

    /// Lets the guest run for so long, rounded up to steps.
    ///
    /// # Errors
    /// As [`Vm::sleep_until`].
    pub fn sleep(&self, duration: Duration) -> Result<()> {
        self.sleep_until(self.now() + duration)
    }

    fn step(&self, by: Duration) -> Result<()> {
        let begun = self.now();
        self.time
            .step(by, &mut || match lock(&self.child).try_wait()? {
                Some(status) => bail!("QEMU ended ({status})\n{}", self.console_tail()),
                None => Ok(()),
            })?;
        let executed = self.instructions();
        let before = self.counted.swap(executed, Ordering::Relaxed);
        cost::adds(self.now() - begun, executed - before);
        if let Some(watcher) = lock(&self.watcher).as_ref() {
            watcher(self.now());
        }
        lock(&self.line).hear()
    }

    /// From here on `watcher` is called with the guest's time after each step.
    pub fn watch(&self, watcher: impl Fn(Duration) + Send + 'static) {
        *lock(&self.watcher) = Some(Box::new(watcher));
    }

    /// From here on the ground truth is read after each step: all groups together, and the owners up to
    /// `owners`.
    pub fn start_sampling(&self, owners: u8) {
        self.time.start_sampling(owners);
    }

    /// The readings since then, at the guest's time since power-on.
    ///
    /// # Errors
    /// Nothing was being sampled.
    pub fn stop_sampling(&self) -> Result<Series> {
        self.time.stop_sampling()
    }

    /// Run a shell command in the guest and return what it printed.
    ///
    /// # Errors
    /// It failed, or took more than two minutes; with its output.
    pub fn run(&self, shell: &str) -> Result<String> {
        let reply = self.try_run(shell, Duration::from_secs(120))?;
        if reply.status != Some(0) {
            bail!(
                "in the guest: {shell}\nended with {:?}\n{}{}",
                reply.status,
                reply.stdout,
                reply.stderr
            );
        }
        Ok(reply.stdout)
    }

    /// Run a shell command in the guest, whatever its exit status. `timeout` is the guest's time.
    ///
    /// # Errors
    /// The guest is gone.
    pub fn try_run(&self, shell: &str, timeout: Duration) -> Result<Reply> {
        let pending = self.start(shell, timeout)?;
        self.wait(pending)
    }

    /// Start a shell command in the guest; [`Vm::wait`] waits for its end.
    ///
    /// # Errors
    /// The guest is gone.
    pub fn start(&self, shell: &str, timeout: Duration) -> Result<Pending> {
        self.begin(Task::Run(shell.into()), shell.into(), timeout)
    }

    /// Lets the guest run until something is so in it; whether it came to that in this time of the guest's.
    ///
    /// # Errors
    /// The guest is gone.
    pub fn wait_until(&self, condition: &Condition, timeout: Duration) -> Result<bool> {
        // Without the model a tenth of a second is a hundred million instructions.
        let truth = self.ground_truth();
        let is_slow = truth.is_running() && !truth.is_hurried();
        let every_ms = if is_slow { 100 } else { 4 };
        let task = Task::Await {
            condition: condition.clone(),
            every_ms,
        };
        let pending = self.begin(task, format!("{condition:?}"), timeout)?;
        Ok(self.wait(pending)?.status == Some(0))
    }

    fn begin(&self, task: Task, words: String, timeout: Duration) -> Result<Pending> {
        let said = lock(&self.line).request(task, timeout);
        Ok(Pending {
            id: said.map_err(|why| self.why_gone(why))?,
            task: words,
            end: self.now() + timeout + GRACE,
        })
    }

    /// The line is broken: most often because QEMU has ended.
    fn why_gone(&self, why: anyhow::Error) -> anyhow::Error {
        let end = Instant::now() + DYING;
        while Instant::now() < end {
            if let Ok(Some(status)) = lock(&self.child).try_wait() {
                return why.context(format!("QEMU ended ({status})\n{}", self.console_tail()));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        why
    }

    /// Lets the guest run until a command has ended.
    ///
    /// # Errors
    /// The guest does not answer.
    pub fn wait(&self, pending: Pending) -> Result<Reply> {
        let reply = self.reply(&pending)?;
        reply.with_context(|| {
            format!(
                "the guest does not answer: {}\n{}",
                pending.task,
                self.console_tail()
            )
        })
    }

    fn reply(&self, pending: &Pending) -> Result<Option<Reply>> {
        let begun = self.now();
        while self.now() < pending.end {
            // Finely at first; a command that takes seconds is polled some times a second.
            self.step((self.now() - begun) / 32)?;
            if let Some(reply) = lock(&self.line).reply(pending.id) {
                return Ok(Some(reply));
            }
        }
        Ok(None)
    }

    pub fn ground_truth(&self) -> GroundTruth<'_> {
        self.time.ground_truth()
    }

    pub fn bar(&self) -> &[AtomicU64] {
        self.bar.words()
    }

    /// Switch the device model on, as it was before it was hurried, and wait until it follows.
    ///
    /// # Errors
    /// It does not follow: the guest is stuck.
    pub fn switch_model_on(&self) -> Result<()> {
        self.ground_truth().hurry(false);
        self.ground_truth().switch(true);
        let end = self.now() + Duration::from_secs(30);
        while !self.ground_truth().is_running() {
            if self.now() > end {
                bail!("the device model does not start\n{}", self.console_tail());
            }
            self.step(STEP)?;
        }
        Ok(())
    }

    /// Switch the device model off: accesses cost nothing any more.
    pub fn switch_model_off(&self) {
        self.ground_truth().switch(false);
    }

    /// Switch the device model off, and let the guest go on as fast as it booted until the model is on again:
    /// for what matters to no question. A task that computes all the time is dear meanwhile.
    pub fn hurry(&self) {
        self.switch_model_off();
        self.ground_truth().hurry(true);
    }

    pub fn is_model_on(&self) -> bool {
        self.ground_truth().is_on()
    }

    /// Instructions of all vCPUs since QEMU started.
    pub fn instructions(&self) -> u64 {
        let vcpus = 0..self.machine.cpu_count;
        vcpus
            .map(|i| self.ground_truth().vcpu(i).instructions)
            .sum()
    }

    pub fn pid(&self) -> u32 {
        lock(&self.child).id()
    }

    /// The server of the co-simulated device, on a machine that has one.
    pub fn cosim(&mut self) -> Option<&mut Cosim> {
        self.cosim.as_mut()
    }

    /// End the guest; what the co-simulated device did.
    ///
    /// # Errors
    /// There is none, or it failed: with what it said.
    pub fn finish_cosim(mut self) -> Result<CosimSummary> {
        // Its log lies in our folder.
        let cosim = self.cosim.take();
        self.end();
        cosim.context("co-simulation is not configured")?.finish()
    }

    fn end(&self) {
        let mut child = lock(&self.child);
        cost::ends(child.id());
        let _ = child.kill();
        let _ = child.wait();
    }

    pub fn console_tail(&self) -> String {
        tail(&self.scratch.dir.join("console.log")) + &tail(&self.scratch.dir.join("qemu.log"))
    }
}

impl Drop for Vm {
    fn drop(&mut self) {
        self.end();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A build artefact beside the running program, or one level up when that is a test.
///
/// # Errors
/// It is not there.
pub fn beside(name: &str) -> Result<PathBuf> {
    let me = std::env::current_exe()?;
    let near = [me.parent(), me.parent().and_then(Path::parent)];
    let found = near
        .into_iter()
        .flatten()
        .map(|d| d.join(name))
        .find(|p| p.exists());
    found.with_context(|| format!("{name} is not beside {}: build it first", me.display()))
}

fn tail(path: &Path) -> String {
    let text = std::fs::read(path).unwrap_or_default();
    let start = text.len().saturating_sub(4000);
    String::from_utf8_lossy(&text[start..]).into_owned()
}
