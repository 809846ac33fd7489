// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Takes ticks from the loop to the recording. A disk may be slow, and the loop must not wait: ticks go
//! through a bounded queue to a thread of their own. Ticks that do not fit are dropped and counted. The count
//! stands in the recording where the ticks are missing.

use anyhow::{Context, Result, anyhow};
use std::path::{Path, PathBuf};
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tracing::{info, warn};
use weir_core::{Config, Description};
use weir_store::{Recorder, Start, StoreError, Tick};

use crate::cli::output::wall_clock::wall_unix_ms;
use crate::run::lossy::{Drained, Lossy, NotDrained};
use crate::run::sink::{Sink, SinkTrouble, TickContext};
use weir_figures::text;

/// How long the end waits for the disk.
const LAST_TICKS: Duration = Duration::from_secs(10);

/// What goes to the thread.
struct Entry {
    tick: Arc<Tick>,
    /// Ticks that were lost on the way before this one.
    lost_before: u64,
    /// A session that begins with it: the machine or the settings have changed.
    begins: Option<Box<Start>>,
}

/// The loop's end of it.
pub struct RecorderThread {
    queue: Option<Lossy<Entry>>,
    start: Start,
    begins: Option<Box<Start>>,
    ended: Drained<Result<PathBuf, StoreError>>,
    trouble: Arc<Mutex<Option<StoreError>>>,
    /// Whether weir runs for the recording's sake.
    is_needed: bool,
    lost_before: u64,
    lost: u64,
}

impl RecorderThread {
    /// Begins a session in the file. If weir runs for it (`is_needed`), it stops when it cannot be written.
    ///
    /// # Errors
    /// The file cannot be recorded into, or no thread can be had.
    pub fn start(path: &Path, start: &Start, is_needed: bool) -> Result<RecorderThread> {
        let recorder = Recorder::open(path, start)?;
        let trouble = Arc::new(Mutex::new(None));
        let noted = Arc::clone(&trouble);
        let work = move |entries: Receiver<Entry>| write(recorder, &entries, &noted);
        let (queue, ended) =
            Lossy::start("weir-record", work).context("cannot start the recording thread")?;
        Ok(RecorderThread {
            queue: Some(queue),
            start: start.clone(),
            begins: None,
            ended,
            trouble,
            is_needed,
            lost_before: 0,
            lost: 0,
        })
    }

    /// The machine as it is now. Where it is another one than it was, a session of its own begins with the
    /// next tick.
    fn follow(&mut self, machine: &Description) {
        if self.start.description.is_same_machine(machine) {
            return;
        }
        self.start.description = machine.clone();
        self.begin_session();
    }

    /// The next tick is the first of a session of its own.
    fn begin_session(&mut self) {
        self.start.started_unix_ms = wall_unix_ms();
        self.begins = Some(Box::new(self.start.clone()));
    }

    /// Hands a tick over, or counts it as lost. Never waits.
    fn add(&mut self, tick: &Arc<Tick>) {
        let Some(queue) = &self.queue else { return };
        let entry = Entry {
            tick: Arc::clone(tick),
            lost_before: self.lost_before,
            begins: self.begins.take(),
        };
        match queue.send(entry) {
            Ok(()) => self.lost_before = 0,
            Err(entry) => {
                self.begins = entry.begins;
                self.lost_before += 1;
            }
        }
        self.lost = queue.lost();
    }

    /// Waits for what is on the way, ends the session, and says where it lies.
    fn end(&mut self) -> Result<PathBuf> {
        self.queue = None;
        match self.ended.within(LAST_TICKS) {
            Ok(result) => Ok(result?),
            Err(NotDrained::Late) => Err(anyhow!(
                "the disk did not take the last ticks within {LAST_TICKS:?}"
            )),
            Err(NotDrained::Ended) => Err(anyhow!("the recording thread has ended")),
        }
    }
}

impl Sink for RecorderThread {
    fn tick(&mut self, tick: &Arc<Tick>, context: &TickContext<'_>) -> Option<Result<(), String>> {
        self.follow(context.machine);
        self.add(tick);
        None
    }

    fn follow_settings(&mut self, config: &Config, policy: &str) {
        if self.start.config != *config {
            self.start.config = config.clone();
            policy.clone_into(&mut self.start.policy);
            self.begin_session();
        }
    }

    fn trouble(&mut self) -> Option<SinkTrouble> {
        let mut trouble = self.trouble.lock().unwrap_or_else(PoisonError::into_inner);
        let error = anyhow!(trouble.take()?);
        Some(if self.is_needed {
            SinkTrouble::Fatal(error.context("the recording cannot be written"))
        } else {
            SinkTrouble::Lossy(format!("{error:#}"))
        })
    }

    fn finish(&mut self) -> Result<()> {
        let path = self.end().context("the recording has no proper end")?;
        let path = text::harmless(&path.to_string_lossy());
        match self.lost {
            0 => info!("recorded in {path}"),
            lost => {
                warn!("recorded in {path}, without {lost} ticks that the disk was too slow for");
            }
        }
        Ok(())
    }
}

fn write(
    mut recorder: Recorder,
    entries: &Receiver<Entry>,
    trouble: &Mutex<Option<StoreError>>,
) -> Result<PathBuf, StoreError> {
    let mut is_failing = false;
    let (mut begins, mut lost) = (None, 0);
    for entry in entries {
        begins = entry.begins.or(begins);
        let mut tick = Arc::unwrap_or_clone(entry.tick);
        tick.lost_before = entry.lost_before + lost;
        let result = put(&mut recorder, &mut begins, &tick);
        // What the recorder could not add it counts itself; what waits for a session to begin it does not
        // know of.
        lost = match &begins {
            Some(_) => tick.lost_before + 1,
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

/// Adds a tick to the session that it belongs to.
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
