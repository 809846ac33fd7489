// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A cgroup that weir limits: its `cpu.max` before, the value that should be there, and its files.

use super::lease::{CpuMaxLease, read_burst};
use super::period_phase::Phase;
use super::weight::HeldWeight;
use crate::backends::eligibility::outcome;
use crate::kernel::escape::escape;
use crate::kernel::fd_budget::Kept;
use crate::kernel::files::{Buffer, open_same, overwrite, write_at};
use crate::kernel::parse::cgroup::{CpuMax, cpu_max, cpu_stat, refills};
use crate::leases::LeaseBook;
use crate::workloads::cpu_time::ThrottledCgroup;
use rustix::fd::{AsFd, BorrowedFd};
use rustix::io::Errno;
use weir_core::Nanos;
use weir_core::seam::plan::OutcomeKind;

/// A limited cgroup. Its descriptors stay open while the budget of descriptors allows it. Otherwise they are
/// opened at each use.
pub(crate) struct LimitedCgroup {
    pub(crate) lease: CpuMaxLease,
    pub(crate) dir: Option<Kept>,
    /// `cpu.max`, for reading and writing.
    pub(crate) max: Option<Kept>,
    /// The last limit that weir's plan set.
    pub(crate) ours: CpuMax,
    /// The value that should stand there now.
    pub(crate) written: CpuMax,
    pub(crate) contest_at: Nanos,
    pub(crate) weight: HeldWeight,
    /// When its quota is refilled, once that is known.
    pub(crate) phase: Option<Phase>,
    /// The last check of it failed, and an outcome said so.
    pub(crate) trouble: Option<OutcomeKind>,
}

impl ThrottledCgroup for LimitedCgroup {
    fn throttled_usec(&self, root: BorrowedFd<'_>, buffer: &mut Buffer) -> Option<u64> {
        let read = self.with_dir(root, |dir| buffer.read_once_at(dir, "cpu.stat"));
        cpu_stat(read.ok()?).ok()?.throttled_usec
    }
}

impl LimitedCgroup {
    /// Whether the moment of refill of what is in force is not known.
    pub(crate) fn needs_phase(&self) -> bool {
        !self.phase.is_some_and(|p| p.is_of(self.written.period_us))
    }

    pub(crate) fn theirs(&self) -> Option<f64> {
        self.lease.theirs.cpus()
    }

    /// How often its quota was refilled.
    pub(crate) fn refills(&self, root: BorrowedFd<'_>, buffer: &mut Buffer) -> Option<u64> {
        let read = self.with_dir(root, |dir| buffer.read_once_at(dir, "cpu.stat"));
        refills(read.ok()?)
    }

    pub(crate) fn with_dir<T>(
        &self,
        root: BorrowedFd<'_>,
        use_it: impl FnOnce(BorrowedFd<'_>) -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        match &self.dir {
            Some(dir) => use_it(dir.as_fd()),
            None => use_it(open_same(root, &self.lease.path, self.lease.inode)?.as_fd()),
        }
    }

    /// What is in force.
    pub(crate) fn read_max(
        &self,
        root: BorrowedFd<'_>,
        buffer: &mut Buffer,
        name: &str,
    ) -> Result<CpuMax, OutcomeKind> {
        let read = match &self.max {
            Some(fd) => buffer.read(fd),
            None => self.with_dir(root, |dir| buffer.read_once_at(dir, "cpu.max")),
        };
        parse_max(read, name)
    }

    /// Reads the value that is there. If weir did not write it, it is theirs; says whether that was so.
    pub(crate) fn see_theirs(
        &mut self,
        root: BorrowedFd<'_>,
        leases: &mut LeaseBook,
        buffer: &mut Buffer,
        name: &str,
    ) -> Result<bool, OutcomeKind> {
        let current = self.read_max(root, buffer, name)?;
        if current == self.written {
            return Ok(false);
        }
        let (was, expected) = (self.lease.theirs, self.written);
        tracing::warn!(cgroup = name, %was, %expected, now = %current, "cpu.max was changed by another program");
        // What cannot be noted is found again at the next tick, and nothing is written over it until then.
        let seen = CpuMaxLease {
            theirs: current,
            ..self.lease.clone()
        };
        leases.note(&seen.hold())?;
        self.lease = seen;
        self.written = current;
        Ok(true)
    }

    pub(crate) fn put_in_force(
        &mut self,
        root: BorrowedFd<'_>,
        want: CpuMax,
        leases: &mut LeaseBook,
        buffer: &mut Buffer,
    ) -> Result<(), OutcomeKind> {
        let has_burst = self.see_burst(root, leases, buffer)?;
        for max in self.lease.ours.to_note(self.written, want) {
            leases.note(&self.lease.wrote(max))?;
            self.lease.ours.push(max);
        }
        let text = want.to_string();
        let lowered = if has_burst {
            self.with_dir(root, |dir| write_at(dir, "cpu.max.burst", "0"))
        } else {
            Ok(())
        };
        let written = lowered.and_then(|()| match &self.max {
            Some(max) => overwrite(max, &text),
            None => self.with_dir(root, |dir| write_at(dir, "cpu.max", &text)),
        });
        written.map_err(|e| outcome(e, &escape(&self.lease.path)))?;
        self.written = want;
        Ok(())
    }

    /// Whether there is a burst, which a write of `cpu.max` must lower before: the kernel takes no quota
    /// below it. One that weir has not lowered is another program's, and is noted as the one to restore.
    fn see_burst(
        &mut self,
        root: BorrowedFd<'_>,
        leases: &mut LeaseBook,
        buffer: &mut Buffer,
    ) -> Result<bool, OutcomeKind> {
        if self.lease.burst_us.is_none() {
            return Ok(false);
        }
        let read = self.with_dir(root, |dir| read_burst(dir, buffer));
        let Some(burst) = read.map_err(|e| outcome(e, &escape(&self.lease.path)))? else {
            return Ok(false);
        };
        let is_lowered = burst == 0 && !self.lease.ours.is_empty();
        if !is_lowered && self.lease.burst_us != Some(burst) {
            let seen = CpuMaxLease {
                burst_us: Some(burst),
                ..self.lease.clone()
            };
            leases.note(&seen.hold())?;
            self.lease = seen;
        }
        Ok(burst > 0)
    }
}

pub(crate) fn parse_max(read: Result<&[u8], Errno>, name: &str) -> Result<CpuMax, OutcomeKind> {
    let text = read.map_err(|e| outcome(e, name))?;
    cpu_max(text).map_err(|e| OutcomeKind::Failed(format!("{name}/cpu.max: {e}")))
}
