// SPDX-License-Identifier: Apache-2.0 OR MIT
//! CPU time of many cgroups at once, by a program in the kernel ([`program`], [`page`]): in the place of one
//! read of `cpu.stat` for each, which is the dearest part of a tick.
//!
//! ```text
//! a tick ─► what is to be read, by the cgroup under the root that they are below
//!             ├─ most of those below it: cpu.stat of that one, then the program for all of them
//!             └─ few of them, or none such: cpu.stat of each ([`crate::workloads::cpu_time`])
//! ```
//!
//! **Why one file is read all the same.** The kernel keeps a cgroup's CPU time by CPU, and adds it up when a
//! program reads it: of the cgroup and of all below it (kernel, `css_rstat_flush`). What the program reads is
//! as of then.
//!
//! **Believed after a comparison.** The first answer must lie between two reads of `cpu.stat` of the same
//! cgroup. Whatever fails afterwards, files are read again, for good; of a cgroup that the program does not
//! find, at once.

mod page;
mod program;

use crate::kernel::background_load::{Beside, LoadState};
use crate::kernel::bpf::{has_types, is_cgroup2};
use crate::kernel::clock::now;
use crate::kernel::files::{Buffer, open_beneath};
use crate::options::{By, Options, TaskSource};
use crate::workloads::cgroups::tree::Leaf;
use crate::workloads::cpu_time::{CpuTimeRequest, Times, throttled_times};
use crate::workloads::discovery::WorkloadSource as From;
use page::Row;
use program::CpuTimeProgram;
use rustix::fd::BorrowedFd;
use weir_core::seam::topology::Fact;
use weir_core::{Missing, Nanos, Reading};

pub(crate) const FACT: &str = "cpu_time.source";
/// Fewer cgroups than this are read by file: that costs less than the page of the program does. For 1000 idle
/// cgroups the program takes 0.17 ms and their files 1.0 ms (docs/evidence/loop.md).
const WORTH_IT: usize = 8;
/// One in this many of the cgroups below one must be wanted, since the kernel adds up the figures of all of
/// them.
const WANTED_OF: usize = 4;
/// How many are compared with their files.
const COMPARED: usize = 4;

/// What knows the CPU time of cgroups.
pub(crate) trait CpuTimeSource: Send {
    /// CPU time of the cgroups with these ids, in the same order; `None` for one that is not there.
    ///
    /// # Errors
    /// The source cannot give CPU time any more.
    fn read(&mut self, ids: &[u64]) -> Result<Vec<Option<Row>>, Missing>;
}

pub(crate) struct CpuTimeBpf {
    source: Beside<dyn CpuTimeSource>,
    is_compared: bool,
    by: By,
}

impl CpuTimeBpf {
    /// Like [`CpuTimeBpf::choose`], but without waiting: until the program is loaded files are read.
    pub(crate) fn begin(options: &Options) -> CpuTimeBpf {
        if refusal(options).is_err() {
            return CpuTimeBpf::choose(options);
        }
        CpuTimeBpf::of(Beside::begin("weir-usage", load), options.by)
    }

    pub(crate) fn choose(options: &Options) -> CpuTimeBpf {
        let found = refusal(options).and_then(|()| load());
        CpuTimeBpf::of(Beside::settled(found), options.by)
    }

    fn of(source: Beside<dyn CpuTimeSource>, by: By) -> CpuTimeBpf {
        CpuTimeBpf {
            source,
            is_compared: false,
            by,
        }
    }

    /// Reads those of a look that are worth it; the others have nothing swept afterwards.
    pub(crate) fn sweep<H>(
        &mut self,
        requests: &mut [CpuTimeRequest<'_, H>],
        root: BorrowedFd<'_>,
        buffer: &mut Buffer,
    ) {
        let Some(source) = self.source.get() else {
            return;
        };
        let (places, at) = wanted(requests, root, buffer);
        if places.is_empty() {
            return;
        }
        let leaves: Vec<&Leaf> = places.iter().filter_map(|p| leaf(&requests[*p])).collect();
        if !self.is_compared {
            if let Err(why) = compare(source, &leaves, root, buffer) {
                return self.leave(why);
            }
            self.is_compared = true;
        }
        let ids: Vec<u64> = leaves.iter().map(|leaf| leaf.inode).collect();
        match source.read(&ids) {
            Ok(rows) => {
                for (place, row) in places.into_iter().zip(rows) {
                    requests[place].swept = row.map(|row| times(row, at));
                }
            }
            Err(why) => self.leave(why),
        }
    }

    fn leave(&mut self, why: Missing) {
        tracing::warn!(%why, "cpu.stat of each cgroup is read from now on");
        self.source.fail(why);
    }

    /// For people. Nothing is lacking without it: files are there.
    pub(crate) fn told(&self) -> String {
        match (self.by, self.source.lacking()) {
            (By::Process, _) => "the CPU clock of each process".into(),
            (By::Cgroup, None) => "a BPF program for all cgroups at once".into(),
            (By::Cgroup, Some(why)) => {
                format!("cpu.stat of each cgroup, one by one; no BPF program: {why}")
            }
        }
    }

    pub(crate) fn fact(&self) -> Fact {
        Fact {
            name: FACT.into(),
            value: Ok(self.told()),
            next_move: None,
        }
    }
}

/// Whether it may be loaded here, as far as can be said without trying.
fn refusal(options: &Options) -> Result<(), Missing> {
    if options.tasks == TaskSource::Walk || options.by == By::Process {
        return Err(Missing::NotSupported("not selected".into()));
    }
    is_cgroup2(&options.roots)?;
    has_types(&options.roots)
}

fn load() -> LoadState<dyn CpuTimeSource> {
    Ok(Box::new(CpuTimeProgram::load()?))
}

fn leaf<'a, H>(request: &CpuTimeRequest<'a, H>) -> Option<&'a Leaf> {
    match &request.watched.source {
        From::Cgroup(leaf) => Some(leaf),
        From::Process(_) | From::Set(_) | From::Inner(_) => None,
    }
}

/// The cgroup under the root that this one is below.
fn top_of<'a, H>(request: &CpuTimeRequest<'a, H>) -> Option<&'a [u8]> {
    let path = &leaf(request)?.path;
    let end = path.iter().skip(1).position(|b| *b == b'/')?;
    path.get(..=end)
}

/// The places of those to be read at once, added up by now, and when that was.
fn wanted<H>(
    requests: &[CpuTimeRequest<'_, H>],
    root: BorrowedFd<'_>,
    buffer: &mut Buffer,
) -> (Vec<usize>, Nanos) {
    let mut places = Vec::new();
    let mut first = 0;
    // Ids begin with their paths, so that those below one cgroup stand together.
    for below in requests.chunk_by(|one, next| top_of(one) == top_of(next)) {
        let of_these = first..first + below.len();
        first = of_these.end;
        let Some(top) = below.first().and_then(top_of) else {
            continue;
        };
        let awake = of_these.filter(|place| !requests[*place].is_resting);
        let awake: Vec<usize> = awake.collect();
        let is_worth_it = awake.len() >= WORTH_IT && awake.len() * WANTED_OF >= below.len();
        if is_worth_it && is_added_up(top, root, buffer) {
            places.extend(awake);
        }
    }
    (places, now())
}

fn is_added_up(path: &[u8], root: BorrowedFd<'_>, buffer: &mut Buffer) -> bool {
    let dir = open_beneath(root, path);
    dir.is_ok_and(|dir| buffer.read_once_at(&dir, "cpu.stat").is_ok())
}

fn times(row: Row, at: Nanos) -> Times {
    (
        Reading::new(at, row.cpu),
        throttled_times(row.throttled, at),
    )
}

/// Whether some of these are told as their files tell them.
fn compare(
    source: &mut dyn CpuTimeSource,
    leaves: &[&Leaf],
    root: BorrowedFd<'_>,
    buffer: &mut Buffer,
) -> Result<(), Missing> {
    for leaf in leaves.iter().take(COMPARED) {
        let before = leaf.cpu_stat(root, buffer);
        let row = source.read(&[leaf.inode])?.into_iter().next().flatten();
        let after = leaf.cpu_stat(root, buffer);
        let (Ok(before), Ok(after)) = (before, after) else {
            // It has gone; a file says so.
            continue;
        };
        let differs = |what: &str| {
            let text = format!("{what} of {} differs from its cpu.stat", leaf.id);
            Err(Missing::Lost(text))
        };
        let Some(row) = row else {
            return differs("what it finds");
        };
        let is_between = |ns: u64, least: u64, most: u64| (least..=most).contains(&(ns / 1000));
        if !is_between(row.cpu.0, before.usage_usec, after.usage_usec) {
            return differs("the CPU time");
        }
        let throttled = row.throttled.map(|t| t.0);
        let agrees = match (throttled, before.throttled_usec, after.throttled_usec) {
            (Some(ns), Some(before), Some(after)) => is_between(ns, before, after),
            (row, before, after) => row.is_none() && (before.is_none() || after.is_none()),
        };
        if !agrees {
            return differs("the throttled time");
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
