// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A cgroup that weir limits: its `cpu.max` before, the value that should be there, and its files.

use super::lease::CpuMaxLease;
use super::period_phase::Phase;
use super::weight::HeldWeight;
use crate::backends::eligibility::outcome;
use crate::backends::move_process::TakenProcess;
use crate::kernel::escape::escape;
use crate::kernel::fd_budget::Kept;
use crate::kernel::files::{Buffer, open_same, overwrite, write_at};
use crate::kernel::parse::cgroup::{CpuMax, CpuStat, cpu_max, cpu_stat};
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
    /// What should be there.
    pub(crate) written: CpuMax,
    pub(crate) contest_at: Nanos,
    /// `cpu.max.burst` is not lowered yet.
    pub(crate) has_burst: bool,
    pub(crate) taken: Option<TakenProcess>,
    /// `cpu.weight`.
    pub(crate) weight: HeldWeight,
    /// When its quota is refilled, once that is known.
    pub(crate) phase: Option<Phase>,
    /// The last check of it failed, and an outcome said so.
    pub(crate) trouble: Option<OutcomeKind>,
}

impl LimitedCgroup {
    /// Whether the moment of refill of what is in force is not known.
    pub(crate) fn needs_phase(&self) -> bool {
        !self.phase.is_some_and(|p| p.is_of(self.written.period_us))
    }

    /// The limit others set, in CPUs.
    pub(crate) fn theirs(&self) -> Option<f64> {
        self.lease.theirs.cpus()
    }

    /// For how long and how often it was throttled.
    pub(crate) fn cpu_stat(&self, root: BorrowedFd<'_>, buffer: &mut Buffer) -> Option<CpuStat> {
        let read = self.with_dir(root, |dir| buffer.read_at(dir, "cpu.stat"));
        cpu_stat(read.ok()?).ok()
    }

    /// Calls `use_it` with the directory.
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
            None => self.with_dir(root, |dir| buffer.read_at(dir, "cpu.max")),
        };
        parse_max(read, name)
    }

    pub(crate) fn write(
        &self,
        root: BorrowedFd<'_>,
        file: &str,
        text: &str,
    ) -> Result<(), OutcomeKind> {
        let written = self.with_dir(root, |dir| write_at(dir, file, text));
        written.map_err(|e| outcome(e, &escape(&self.lease.path)))
    }

    pub(crate) fn write_max(&self, root: BorrowedFd<'_>, text: &str) -> Result<(), OutcomeKind> {
        match &self.max {
            Some(max) => overwrite(max, text).map_err(|e| outcome(e, &escape(&self.lease.path))),
            None => self.write(root, "cpu.max", text),
        }
    }
}

/// What `cpu.max` said.
pub(crate) fn parse_max(read: Result<&[u8], Errno>, name: &str) -> Result<CpuMax, OutcomeKind> {
    let text = read.map_err(|e| outcome(e, name))?;
    cpu_max(text).map_err(|e| OutcomeKind::Failed(format!("{name}/cpu.max: {e}")))
}
