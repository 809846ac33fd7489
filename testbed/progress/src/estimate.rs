// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How long a plan still takes.
//!
//! The time left is what is left of the plan, multiplied by the *pace*: wall time per planned time. Both are
//! remembered over [`MEMORY_SEC`] of the plan, and begin with [`PRIOR_SEC`] of the plan's own pace.
//!
//! Between two reports the work is taken to go on at this pace, up to where the next report is expected, and
//! never goes back. What takes longer than planned thus shows as a slower pace, second by second: while
//! nothing is reported, the time left rises by the time that passes as a part of the remembered wall time,
//! which is never below [`PRIOR_SEC`]. So it rises by at most a sixth in ten seconds, and nothing has to be
//! clamped.

use std::time::Duration;

/// The plan's own pace counts as much as so many seconds of measured work. It is the least that is remembered
/// of wall time too, so a pace below 0.4 is taken for 0.4.
const PRIOR_SEC: f64 = 60.0;
/// What was measured so much of the plan ago counts a third.
const MEMORY_SEC: f64 = 150.0;
/// A phase that reports nothing is never taken for further than this.
const UNREPORTED_MAX: f64 = 0.95;

/// The estimate. Times are since the start, as seconds of the wall's clock; works are seconds of the plan.
pub(crate) struct Estimate {
    phases: Vec<f64>,
    /// The phase that goes on.
    number: usize,
    /// Work that is taken for done, and up to which it is without another report.
    done: f64,
    reach: f64,
    as_of: Duration,
    /// Remembered wall time and work.
    wall: f64,
    work: f64,
}

impl Estimate {
    /// For phases of so many seconds, at a pace that is known from earlier work.
    pub(crate) fn new(phases: Vec<f64>, pace: f64) -> Self {
        let is_usable = pace.is_finite() && pace > 0.0;
        let pace = if is_usable {
            pace.clamp(0.1, 10.0)
        } else {
            1.0
        };
        let wall = PRIOR_SEC * pace.max(1.0);
        Estimate {
            phases,
            number: 0,
            done: 0.0,
            reach: 0.0,
            as_of: Duration::ZERO,
            wall,
            work: wall / pace,
        }
    }

    fn all(&self) -> f64 {
        self.phases.iter().sum()
    }

    pub(crate) fn whole_sec(&self) -> f64 {
        self.all() * self.pace()
    }

    /// Wall time per planned time.
    pub(crate) fn pace(&self) -> f64 {
        self.wall / self.work
    }

    /// Phase `number` begins; phases before it are over.
    pub(crate) fn begin(&mut self, number: usize, at: Duration) {
        self.number = number;
        let own = self.phases.get(number).copied().unwrap_or(0.0);
        self.report(0.0, UNREPORTED_MAX * own, at);
    }

    /// A part of the phase is done, 0 to 1; the next report will come at `next` at the latest.
    pub(crate) fn reached(&mut self, part: f64, next: f64, at: Duration) {
        let own = self.phases.get(self.number).copied().unwrap_or(0.0);
        self.report(part * own, next * own, at);
    }

    fn report(&mut self, done: f64, reach: f64, at: Duration) {
        self.pass(at);
        let before: f64 = self.phases.iter().take(self.number).sum();
        self.advance((before + done - self.done).max(0.0), 0.0);
        self.reach = (before + reach).max(self.done);
    }

    /// The clock goes on. Without a plan it says nothing of the pace.
    pub(crate) fn pass(&mut self, at: Duration) {
        if self.all() <= 0.0 {
            return;
        }
        let wall = at.saturating_sub(self.as_of).as_secs_f64();
        self.as_of = self.as_of.max(at);
        let work = (wall / self.pace()).min((self.reach - self.done).max(0.0));
        self.advance(work, wall);
    }

    fn advance(&mut self, work: f64, wall: f64) {
        let kept = (-work / MEMORY_SEC).exp();
        self.done += work;
        self.work = (self.work + work) * kept;
        self.wall = ((self.wall + wall) * kept).max(PRIOR_SEC);
    }

    /// Wall time until the end of the plan, unless the plan has no times.
    pub(crate) fn left_sec(&self) -> Option<f64> {
        let all = self.all();
        (all > 0.0).then(|| self.pace() * (all - self.done).max(0.0))
    }
}
