// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A recording of a simulated run: what weir saw and did on the simulated host, tick by tick, as a recording
//! of a real host has it.

use crate::run::platform;
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};
use weir_core::seam::plan::{Outcome, Plan};
use weir_core::{Config, Description, Observation};
use weir_sim::Witness;
use weir_store::{Recorder, Recording, Start, StoreError, Tick};

/// Wall-clock time at which simulated recordings begin: 2026-01-01, so that one scenario and seed give one
/// recording.
pub const BEGAN_UNIX_MS: u64 = 1_767_225_600_000;
/// Time between a session that is in the file already and the next one, in milliseconds.
const PAUSE_MS: u64 = 1_000;

pub struct Session {
    path: PathBuf,
    interval_ms: u64,
    began_unix_ms: u64,
    recorder: Option<Recorder>,
    ticks: u64,
    last_unix_ms: u64,
    failed: Option<StoreError>,
}

impl Session {
    /// A session of a new recording, or of one that is there; later than all that is in it.
    ///
    /// # Errors
    /// What is at `path` is no recording, or cannot be read.
    pub fn new(path: &Path, interval_ms: u64) -> Result<Session> {
        let began_unix_ms = if path.symlink_metadata().is_ok() {
            end_unix_ms(path)?
                .saturating_add(PAUSE_MS)
                .max(BEGAN_UNIX_MS)
        } else {
            BEGAN_UNIX_MS
        };
        Ok(Session {
            path: path.to_owned(),
            interval_ms,
            began_unix_ms,
            recorder: None,
            ticks: 0,
            last_unix_ms: began_unix_ms,
            failed: None,
        })
    }

    /// Ends the session; returns how many ticks it has.
    ///
    /// # Errors
    /// Something of it could not be written.
    pub fn finish(self) -> Result<u64> {
        if let Some(error) = self.failed {
            return Err(error).context("the recording cannot be written");
        }
        let recorder = self.recorder.context("the run was not recorded")?;
        recorder
            .finish(self.last_unix_ms)
            .context("the recording has no proper end")?;
        Ok(self.ticks)
    }
}

/// When the last tick of a recording was; 0 if it has none.
fn end_unix_ms(path: &Path) -> Result<u64> {
    let recording = Recording::open(path)?;
    let mut end = 0;
    for session in recording.sessions() {
        let last = recording.last_unix_ms(session.id)?;
        end = end
            .max(session.start.started_unix_ms)
            .max(last.unwrap_or(0));
    }
    Ok(end)
}

impl Witness for Session {
    fn begin(&mut self, config: &Config, machine: &Description) {
        let start = Start {
            started_unix_ms: self.began_unix_ms,
            writer_version: env!("CARGO_PKG_VERSION").to_owned(),
            writer_pid: 0,
            interval_ms: self.interval_ms,
            policy: platform::policy_name(config.policy),
            config: config.clone(),
            description: machine.clone(),
        };
        match Recorder::open(&self.path, &start) {
            Ok(recorder) => self.recorder = Some(recorder),
            Err(error) => self.failed = Some(error),
        }
    }

    fn tick(&mut self, seen: &Observation, plan: &Plan, outcomes: &[Outcome]) {
        let (Some(recorder), None) = (&mut self.recorder, &self.failed) else {
            return;
        };
        let tick = Tick {
            wall_unix_ms: self.began_unix_ms + seen.at.0 / 1_000_000,
            lost_before: 0,
            observation: seen.clone(),
            plan: plan.clone(),
            outcomes: outcomes.to_vec(),
            self_cost: None,
        };
        self.last_unix_ms = tick.wall_unix_ms;
        match recorder.add(&tick) {
            Ok(()) => self.ticks += 1,
            Err(error) => self.failed = Some(error),
        }
    }
}
