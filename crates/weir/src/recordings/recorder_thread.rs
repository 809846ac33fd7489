// SPDX-License-Identifier: Apache-2.0 OR MIT
//! From the loop to the recording. A disk may be slow, and the loop waits for nobody: ticks go
//! through a bounded queue to a thread of their own. What does not fit is counted, and the count
//! stands in the recording where the ticks are missing.

use anyhow::{Context, Result, anyhow};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;
use weir_core::Description;
use weir_store::{Recorder, Start, StoreError, Tick};

use crate::run::publish::wall_unix_ms;

/// Ticks that wait at most: three seconds of a stuck disk at 50 ms a tick.
const QUEUE_TICKS: usize = 64;
/// How long the end waits for the disk.
const LAST_TICKS: Duration = Duration::from_secs(10);

/// What goes to the thread.
struct Entry {
    tick: Tick,
    /// A session that begins with it: the machine has changed.
    begins: Option<Box<Start>>,
}

/// The loop's end of it.
pub struct RecorderThread {
    queue: Option<SyncSender<Entry>>,
    /// How the session began.
    start: Start,
    begins: Option<Box<Start>>,
    done: Receiver<Result<PathBuf, StoreError>>,
    trouble: Arc<Mutex<Option<StoreError>>>,
    lost_before: u64,
    lost: u64,
}

impl RecorderThread {
    /// Begins a session in the file.
    ///
    /// # Errors
    /// The file cannot be recorded into, or no thread can be had.
    pub fn start(path: &Path, start: &Start) -> Result<RecorderThread> {
        let recorder = Recorder::open(path, start)?;
        let (queue, entries) = sync_channel(QUEUE_TICKS);
        let (ended, done) = sync_channel(1);
        let trouble = Arc::new(Mutex::new(None));
        let told = Arc::clone(&trouble);
        thread::Builder::new()
            .name("weir-record".into())
            .spawn(move || {
                // Nobody may be waiting any more.
                let _ = ended.send(write(recorder, &entries, &told));
            })
            .context("cannot start the recording thread")?;
        Ok(RecorderThread {
            queue: Some(queue),
            start: start.clone(),
            begins: None,
            done,
            trouble,
            lost_before: 0,
            lost: 0,
        })
    }

    /// The machine as it is now. Where it is another one than it was, a session of its own begins with the next tick.
    pub fn follow(&mut self, machine: &Description) {
        if self.start.description.is_same_machine(machine) {
            return;
        }
        self.start.started_unix_ms = wall_unix_ms();
        self.start.description = machine.clone();
        self.begins = Some(Box::new(self.start.clone()));
    }

    /// Hands a tick over, or counts it as lost. Never waits.
    pub fn add(&mut self, tick: &Tick) {
        let Some(queue) = &self.queue else { return };
        let lost_before = self.lost_before;
        let entry = Entry {
            tick: Tick {
                lost_before,
                ..tick.clone()
            },
            begins: self.begins.take(),
        };
        match queue.try_send(entry) {
            Ok(()) => self.lost_before = 0,
            Err(TrySendError::Full(entry) | TrySendError::Disconnected(entry)) => {
                self.begins = entry.begins;
                self.lost_before += 1;
                self.lost += 1;
            }
        }
    }

    /// Why ticks cannot be written, once for each time that this begins.
    pub fn take_error(&self) -> Option<StoreError> {
        self.trouble
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take()
    }

    /// Ticks so far that the disk was too slow for.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// Waits for what is on the way, ends the session, and says where it lies.
    ///
    /// # Errors
    /// The end could not be written, or not in time.
    pub fn finish(&mut self) -> Result<PathBuf> {
        self.queue = None;
        match self.done.recv_timeout(LAST_TICKS) {
            Ok(result) => Ok(result?),
            Err(RecvTimeoutError::Timeout) => Err(anyhow!(
                "the disk did not take the last ticks within {LAST_TICKS:?}"
            )),
            Err(RecvTimeoutError::Disconnected) => Err(anyhow!("the recording thread has ended")),
        }
    }
}

fn write(
    mut recorder: Recorder,
    entries: &Receiver<Entry>,
    trouble: &Mutex<Option<StoreError>>,
) -> Result<PathBuf, StoreError> {
    let mut is_failing = false;
    let (mut begins, mut lost) = (None, 0);
    for mut entry in entries {
        begins = entry.begins.take().or(begins);
        entry.tick.lost_before += lost;
        let result = put(&mut recorder, &mut begins, &entry.tick);
        // What the recorder could not add it counts itself; what waits for a session to begin it does not know of.
        lost = match &begins {
            Some(_) => entry.tick.lost_before + 1,
            None => 0,
        };
        let was_failing = std::mem::replace(&mut is_failing, result.is_err());
        if let Err(error) = result
            && !was_failing
        {
            *trouble.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
        }
    }
    recorder.finish(wall_unix_ms())
}

/// Adds a tick to the session that it is of.
fn put(
    recorder: &mut Recorder,
    begins: &mut Option<Box<Start>>,
    tick: &Tick,
) -> Result<(), StoreError> {
    if let Some(start) = begins {
        recorder.turn(start)?;
        *begins = None;
    }
    recorder.add(tick)
}
