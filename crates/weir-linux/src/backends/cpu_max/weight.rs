// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The weight (`cpu.weight`) of a cgroup while weir limits it: a part of its own, where the plan says so.
//!
//! What the files mean (kernel, `Documentation/admin-guide/cgroup-v2.rst` and `kernel/sched/core.c`):
//! - `cpu.weight` and `cpu.weight.nice` are two views of one value. A nice value is finer than a weight where
//!   both are small (nice 17 and 18 both read as weight 2), so both are noted and both are there again
//!   afterwards.
//! - A cgroup with `cpu.idle` = 1 has the least weight there is, reads as weight 0 or 1, and takes no other:
//!   left alone.
//! - A weight counts among the siblings of the cgroup. A cgroup that has no siblings with tasks gains and
//!   loses nothing.
//!
//! **Theirs and ours.** As for limits, the weight before is *theirs*. A value that weir did not write is
//! another program's: it stays, and weir leaves that weight alone for as long as the limit lasts.

use super::limited::LimitedCgroup;
use super::weight_lease::{
    IDLE, WEIGHTS, WeightLease, WeightRecord, is_idle, read_nice, read_weight,
};
use crate::kernel::escape::escape;
use crate::kernel::fd_budget::is_want;
use crate::kernel::files::{Buffer, write_at};
use crate::leases::LeaseBook;
use crate::leases::undo::{LastTwo, UndoOutcome};
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;
use weir_core::seam::observation::LimitedWeight;

/// What became of the weight of a cgroup that is held.
#[derive(Debug, Default)]
pub(crate) enum HeldWeight {
    /// The plan sets no weight.
    #[default]
    Untouched,
    /// Weir holds the lease and may change it.
    Leased {
        lease: WeightLease,
        /// The part of theirs that is in force.
        ratio: f64,
        /// The value that should stand there now.
        written: u64,
    },
    /// Not to be changed while the limit lasts.
    LeftAlone(String),
}

impl HeldWeight {
    /// The state of the weight as it stands in an observation; `None` while nothing about it is to be told.
    pub(crate) fn seen(&self) -> Option<LimitedWeight> {
        match self {
            HeldWeight::Leased { ratio, .. } if *ratio < 1.0 => {
                Some(LimitedWeight::Lowered { ratio: *ratio })
            }
            HeldWeight::LeftAlone(why) => Some(LimitedWeight::LeftAlone { why: why.clone() }),
            HeldWeight::Untouched | HeldWeight::Leased { .. } => None,
        }
    }

    /// The weight that others gave it, where a view may show weir's.
    pub(crate) fn theirs(&self) -> Option<f64> {
        match self {
            HeldWeight::Leased { lease, .. } => Some(lease.theirs as f64),
            HeldWeight::Untouched | HeldWeight::LeftAlone(_) => None,
        }
    }
}

/// What a change of a weight needs.
pub(crate) struct Scale<'a> {
    pub(crate) root: &'a OwnedFd,
    pub(crate) leases: &'a mut LeaseBook,
    pub(crate) buffer: &'a mut Buffer,
}

impl Scale<'_> {
    /// Gives a limited cgroup this part of its own weight.
    pub(crate) fn weigh(&mut self, hold: &mut LimitedCgroup, ratio: f64) {
        if matches!(hold.weight, HeldWeight::LeftAlone(_)) {
            return;
        }
        match self.try_weigh(hold, ratio.clamp(0.0, 1.0)) {
            Ok(()) => {}
            // It is gone, which the limit finds too, or weir has no descriptor left for it: tried again.
            Err(Refusal::Later) => {}
            Err(Refusal::Never(why)) => self.leave_alone(hold, why),
        }
    }

    /// Reads it again, and leaves it alone if another program has changed it.
    pub(crate) fn check(&mut self, hold: &mut LimitedCgroup) {
        if let HeldWeight::Leased { ratio, written, .. } = &hold.weight
            && *ratio < 1.0
        {
            let written = *written;
            let current = hold.with_dir(self.root.as_fd(), |dir| read_weight(dir, self.buffer));
            if let Ok(current) = current
                && current != written
            {
                self.leave_alone(hold, changed(current, written));
            }
        }
    }

    /// Puts it back, before its limit.
    pub(crate) fn put_back(&mut self, hold: &mut LimitedCgroup) -> UndoOutcome {
        let HeldWeight::Leased { lease, .. } = &hold.weight else {
            return UndoOutcome::Unchanged;
        };
        let given = hold.with_dir(self.root.as_fd(), |dir| {
            Ok(lease.put_back_in(dir, self.buffer))
        });
        let given = given.unwrap_or_else(|e| match e {
            Errno::NODEV => UndoOutcome::Vanished,
            e => UndoOutcome::Failed(format!("cpu.weight: {e}")),
        });
        if !matches!(given, UndoOutcome::Failed(_)) {
            self.end(hold, HeldWeight::Untouched);
        }
        given
    }

    /// Nothing of it is left to restore.
    pub(crate) fn end(&mut self, hold: &mut LimitedCgroup, then: HeldWeight) {
        if let HeldWeight::Leased { lease, .. } = std::mem::replace(&mut hold.weight, then) {
            // If this cannot be written, the next start finds a weight that is not weir's, or nothing.
            let inode = lease.inode;
            let _ = self.leases.note(&WeightRecord::WeightDone { inode });
        }
    }

    fn leave_alone(&mut self, hold: &mut LimitedCgroup, why: String) {
        let cgroup = escape(&hold.lease.path);
        tracing::info!(
            cgroup,
            why,
            "its cpu.weight is left alone while it is limited"
        );
        self.end(hold, HeldWeight::LeftAlone(why));
    }

    fn try_weigh(&mut self, hold: &mut LimitedCgroup, ratio: f64) -> Result<(), Refusal> {
        let is_ours = matches!(hold.weight, HeldWeight::Leased { ratio, .. } if ratio < 1.0);
        if ratio >= 1.0 && !is_ours {
            return Ok(());
        }
        let read = hold.with_dir(self.root.as_fd(), |dir| {
            Ok((read_weight(dir, self.buffer)?, is_idle(dir, self.buffer)?))
        });
        // Where a weight of weir's stands it must come back, so the lease stays.
        let refusal = |e| match Refusal::of(e) {
            Refusal::Never(_) if is_ours => Refusal::Later,
            refusal => refusal,
        };
        let (found, is_idle) = read.map_err(refusal)?;
        if is_idle {
            return Err(Refusal::Never(IDLE.into()));
        }
        if !is_ours {
            self.lease(hold, found)?;
        }
        let HeldWeight::Leased { lease, written, .. } = &mut hold.weight else {
            return Err(Refusal::Later);
        };
        if found != *written {
            return Err(Refusal::Never(changed(found, *written)));
        }
        let weight = if ratio >= 1.0 {
            lease.theirs
        } else {
            part_of(lease.theirs, ratio)
        };
        if weight != lease.theirs {
            for weight in lease.ours.to_note(*written, weight) {
                let inode = lease.inode;
                let record = WeightRecord::Weighed { inode, weight };
                self.leases.note(&record).map_err(|_| Refusal::Later)?;
                lease.ours.push(weight);
            }
        }
        let lease = lease.clone();
        let put = hold.with_dir(self.root.as_fd(), |dir| match weight == lease.theirs {
            true if found == weight => Ok(()),
            true => lease.write_theirs(dir, self.buffer),
            false => write_at(dir, "cpu.weight", &weight.to_string()),
        });
        put.map_err(refusal)?;
        let cgroup = escape(&lease.path);
        tracing::debug!(cgroup, weight, theirs = lease.theirs, "cpu.weight");
        hold.weight = HeldWeight::Leased {
            lease,
            ratio,
            written: weight,
        };
        Ok(())
    }

    /// Notes what is there, before it is changed for the first time.
    fn lease(&mut self, hold: &mut LimitedCgroup, theirs: u64) -> Result<(), Refusal> {
        if !WEIGHTS.contains(&theirs) {
            return Err(Refusal::Never(IDLE.into()));
        }
        let read = hold.with_dir(self.root.as_fd(), |dir| Ok(read_nice(dir, self.buffer)));
        let nice = read.map_err(Refusal::of)?;
        let lease = WeightLease {
            path: hold.lease.path.clone(),
            inode: hold.lease.inode,
            theirs,
            nice,
            ours: LastTwo::default(),
        };
        let noted = self.leases.note(&lease.begin());
        noted.map_err(|_| Refusal::Later)?;
        hold.weight = HeldWeight::Leased {
            lease,
            ratio: 1.0,
            written: theirs,
        };
        Ok(())
    }
}

/// Why a weight was not changed.
enum Refusal {
    /// The change may succeed at another time.
    Later,
    /// The change cannot succeed while the limit lasts.
    Never(String),
}

impl Refusal {
    fn of(e: Errno) -> Self {
        match e {
            Errno::NODEV => Refusal::Later,
            e if is_want(e) => Refusal::Later,
            Errno::NOENT => Refusal::Never("it has no cpu.weight".into()),
            e => Refusal::Never(format!("cpu.weight: {e}")),
        }
    }
}

fn changed(now: u64, expected: u64) -> String {
    format!("another program set weight {now} where weir had set {expected}")
}

/// This part of a weight; the kernel takes none below 1.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn part_of(theirs: u64, ratio: f64) -> u64 {
    let part = (theirs as f64 * ratio).round() as u64;
    part.clamp(*WEIGHTS.start(), theirs.max(*WEIGHTS.start()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_a_weight_is_a_weight_and_no_more_than_the_whole() {
        for (theirs, ratio, part) in [
            (100, 0.25, 25),
            (100, 0.0, 1),
            (1, 0.5, 1),
            (10_000, 0.999, 9_990),
            (3, 0.5, 2),
            (100, f64::NAN, 1),
        ] {
            assert_eq!(part_of(theirs, ratio), part, "{ratio} of {theirs}");
        }
    }
}
