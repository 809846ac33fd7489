// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A recorded run as a world behind the one seam: it can be observed again, and cannot be changed.

use crate::error::StoreError;
use crate::format::tick::Tick;
use crate::reader::{Recording, Session, Ticks};
use weir_core::seam::plan::{Action, Outcome, OutcomeKind, Plan};
use weir_core::{Description, Observation, Platform, PlatformError};

pub struct Replayed<'a> {
    description: Description,
    ticks: Ticks<'a>,
    current: Option<Tick>,
}

impl<'a> Replayed<'a> {
    /// From the session's first tick on.
    pub fn new(recording: &'a Recording, session: &Session) -> Replayed<'a> {
        Replayed {
            description: session.start.description.clone(),
            ticks: recording.ticks(session.id),
            current: None,
        }
    }

    /// From some tick on that is not later than this.
    ///
    /// # Errors
    /// The recording is damaged.
    pub fn from(
        recording: &'a Recording,
        session: &Session,
        wall_unix_ms: u64,
    ) -> Result<Replayed<'a>, StoreError> {
        Ok(Replayed {
            ticks: recording.ticks_from(session.id, wall_unix_ms)?,
            ..Replayed::new(recording, session)
        })
    }

    /// The tick that was observed last, as it was recorded.
    pub fn tick(&self) -> Option<&Tick> {
        self.current.as_ref()
    }
}

impl Platform for Replayed<'_> {
    fn describe(&self) -> &Description {
        &self.description
    }

    /// The next recorded observation, without waiting.
    ///
    /// A damaged tick is an error of its own; the call after it goes on where it can.
    fn observe(&mut self) -> Result<Observation, PlatformError> {
        match self.ticks.next() {
            Some(Ok(tick)) => Ok(self.current.insert(tick).observation.clone()),
            Some(Err(error)) => Err(PlatformError::Broken(error.to_string())),
            None => Err(PlatformError::End),
        }
    }

    /// What became of these actions, if they are the recorded ones. Others are taken to succeed: what
    /// they would have changed is not in the recording.
    fn apply(&mut self, plan: &Plan) -> Vec<Outcome> {
        if let Some(tick) = &self.current
            && tick.plan.actions == plan.actions
        {
            return tick.outcomes.clone();
        }
        let assumed = |action: &Action| Outcome {
            workload: action.workload.clone(),
            result: OutcomeKind::Applied,
        };
        plan.actions.iter().map(assumed).collect()
    }

    fn release_all(&mut self) -> Vec<Outcome> {
        Vec::new()
    }
}
