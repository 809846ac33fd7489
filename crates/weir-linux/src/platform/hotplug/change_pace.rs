// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How often something is read that changes seldom. What changes again and again is read less and less often:
//! each change may make a session of a recording, and a recording can have some thousand.

use weir_core::Nanos;

/// So many changes are followed at once; each further one doubles the time to the next reading, at most
/// [`DOUBLINGS_MAX`] times. A device that comes and goes for ever would otherwise fill a recording with
/// sessions.
const CHANGES_AT_ONCE: u32 = 6;
const DOUBLINGS_MAX: u32 = 6;
/// After so much time without a change one of them is forgotten.
const FORGET: Nanos = Nanos::from_millis(600_000);

pub(crate) struct ChangePace {
    every: Nanos,
    /// Changes that are not forgotten, and when the last was or was forgotten.
    recent: u32,
    changed_at: Nanos,
    due_at: Nanos,
}

impl ChangePace {
    /// It was read just now, and is read so often while it does not change.
    pub(crate) fn new(at: Nanos, every: Nanos) -> Self {
        ChangePace {
            every,
            recent: 0,
            changed_at: at,
            due_at: Nanos(at.0.saturating_add(every.0)),
        }
    }

    pub(crate) fn is_due(&self, at: Nanos) -> bool {
        at >= self.due_at
    }

    /// It was read, and was another one than before or not.
    pub(crate) fn was_read(&mut self, at: Nanos, is_changed: bool) {
        if is_changed {
            self.recent = self.recent.saturating_add(1);
            self.changed_at = at;
        } else if at.0.saturating_sub(self.changed_at.0) >= FORGET.0 {
            self.recent = self.recent.saturating_sub(1);
            self.changed_at = at;
        }
        let doublings = self.recent.saturating_sub(CHANGES_AT_ONCE);
        let pause = self.every.0 << doublings.min(DOUBLINGS_MAX);
        self.due_at = Nanos(at.0.saturating_add(pause));
    }

    /// It is not read any more.
    pub(super) fn stop(&mut self) {
        self.due_at = Nanos(u64::MAX);
    }

    /// The next reading is due now.
    pub(crate) fn hurry(&mut self) {
        self.due_at = Nanos(0);
    }

    #[cfg(test)]
    pub(super) fn changed_at(&self) -> Nanos {
        self.changed_at
    }
}
