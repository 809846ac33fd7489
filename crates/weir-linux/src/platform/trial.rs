// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Trials of what weir changes on a host, on things of its own: a lease on an empty cgroup, whose owner seems
//! to be killed, and weir's scheduler with no task in it. Workloads of the host are not touched.

use super::lease_books;
use crate::backends::LIMITS;
use crate::backends::cpu_max::lease::CpuMaxLease;
use crate::backends::sched_ext::loader::{Loaded, Rule, refusal};
use crate::backends::sched_ext::settings_for;
use crate::inventory::sched_ext_state::{Mode, SchedExt};
use crate::kernel::files::Buffer;
use crate::kernel::files::{inode, make_dir, open_dir, open_root, remove_dir, write_at};
use crate::kernel::parse::cgroup::{CpuMax, cpu_max, cpu_stat};
use crate::kernel::privilege::hint;
use crate::leases::restore::ResetReport;
use crate::leases::undo::LastTwo;
use crate::leases::{BookSpec, LeaseBook};
use crate::options::{Options, Roots};
use crate::workloads::cgroups::hierarchy;
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use std::time::Duration;
use weir_core::{Missing, Nanos};

const BOOKS: &[BookSpec] = &[LIMITS];
/// How often, and how long, it is looked whether the kernel has unloaded the scheduler.
const LOOKS: u32 = 200;
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// A cgroup of our own at the top of the tree. When it is dropped its processes are killed, and it goes.
pub struct TrialCgroup {
    roots: Roots,
    root: OwnedFd,
    dir: OwnedFd,
    name: String,
}

impl TrialCgroup {
    /// Makes it, empty.
    ///
    /// # Errors
    /// The tree is not of version 2, the `cpu` controller is not on, or it cannot be written.
    pub fn make(roots: &Roots) -> Result<TrialCgroup, Missing> {
        if let Some(why) = hierarchy::in_the_way(roots) {
            return Err(why);
        }
        let name = format!("weir-trial-{}", std::process::id());
        let made = open_root(&roots.cgroup).and_then(|root| {
            make_dir(&root, &name)?;
            let dir = open_dir(&root, name.as_bytes())?;
            Ok((root, dir))
        });
        let (root, dir) = made.map_err(|e| no(&name, e))?;
        Ok(TrialCgroup {
            roots: Roots {
                run: roots.run.join(&name),
                ..roots.clone()
            },
            root,
            dir,
            name,
        })
    }

    /// Puts a process of the caller's own into it.
    ///
    /// # Errors
    /// The kernel does not take it.
    pub fn take_in(&self, pid: u32) -> Result<(), Missing> {
        write_at(&self.dir, "cgroup.procs", &pid.to_string()).map_err(|e| no("cgroup.procs", e))
    }

    /// CPU time of its processes so far.
    ///
    /// # Errors
    /// `cpu.stat` cannot be read.
    pub fn cpu_time(&self) -> Result<Nanos, Missing> {
        let mut buffer = Buffer::new();
        let text = buffer.read_once_at(&self.dir, "cpu.stat");
        let text = text.map_err(|e| no("cpu.stat", e))?;
        let stat = cpu_stat(text).map_err(|e| Missing::Lost(format!("cpu.stat: {e}")))?;
        Ok(Nanos(stat.usage_usec.saturating_mul(1000)))
    }

    /// Limits it, as a weir does, with a note in a journal of its own.
    ///
    /// # Errors
    /// The journal or `cpu.max` cannot be written.
    pub fn limit(&self, quota_us: u64, period_us: u64) -> Result<TrialLease, Missing> {
        let theirs = self.limit_now()?;
        let max = CpuMax {
            quota_us: Some(quota_us),
            period_us,
        };
        let lease = CpuMaxLease {
            path: format!("/{}", self.name).into_bytes(),
            inode: inode(&self.dir).map_err(|e| no(&self.name, e))?.st_ino,
            theirs,
            burst_us: None,
            ours: LastTwo::default(),
        };
        let mut book = LeaseBook::new(&self.roots, BOOKS);
        book.claim().map_err(|e| Missing::Lost(e.to_string()))?;
        for record in [lease.hold(), lease.wrote(max)] {
            let noted = book.note(&record);
            noted.map_err(|e| Missing::Lost(format!("{e:?}")))?;
        }
        write_at(&self.dir, "cpu.max", &max.to_string()).map_err(|e| no("cpu.max", e))?;
        Ok(TrialLease {
            roots: self.roots.clone(),
            theirs,
            book: Some(book),
        })
    }

    /// The limit that is in force.
    ///
    /// # Errors
    /// `cpu.max` cannot be read, or makes no sense.
    pub fn limit_now(&self) -> Result<CpuMax, Missing> {
        let mut buffer = Buffer::new();
        let text = buffer.read_once_at(&self.dir, "cpu.max");
        cpu_max(text.map_err(|e| no("cpu.max", e))?)
            .map_err(|e| Missing::Lost(format!("cpu.max: {e}")))
    }
}

impl Drop for TrialCgroup {
    fn drop(&mut self) {
        // An old kernel has no such file; its caller ends what it started.
        let _ = write_at(&self.dir, "cgroup.kill", "1");
        for _ in 0..LOOKS {
            match remove_dir(&self.root, &self.name) {
                Err(Errno::BUSY) => std::thread::sleep(LOOK_EVERY),
                _ => break,
            }
        }
        // Only the lock is left there.
        let _ = std::fs::remove_dir_all(&self.roots.run);
    }
}

/// A limit on a trial's cgroup.
pub struct TrialLease {
    roots: Roots,
    theirs: CpuMax,
    book: Option<LeaseBook>,
}

impl TrialLease {
    /// The owner seems to be killed: its lock goes, its journal stays. Then what `weir reset` does.
    ///
    /// # Errors
    /// The journal cannot be read.
    pub fn reset_after_kill(mut self) -> Result<ResetReport, Missing> {
        self.book = None;
        lease_books::reset(&self.roots).map_err(|e| Missing::Lost(e.to_string()))
    }

    /// The limit of before.
    pub fn theirs(&self) -> CpuMax {
        self.theirs
    }
}

fn no(what: &str, answer: Errno) -> Missing {
    match answer {
        Errno::ACCESS | Errno::PERM | Errno::ROFS => {
            Missing::NotPermitted(format!("{what}: {answer}{}", hint(answer)))
        }
        _ => Missing::Lost(format!("{what}: {answer}")),
    }
}

/// Loads weir's scheduler for no task at all (partial mode), and unloads it. True if the kernel had it, and
/// has none afterwards.
///
/// # Errors
/// It cannot be loaded here, or another one is.
pub fn try_scheduler(options: &Options) -> Result<bool, Missing> {
    let refused = |why: &dyn ToString| Missing::NotSupported(why.to_string());
    let roots = &options.roots;
    if let Some(why) = refusal(roots) {
        return Err(refused(&why));
    }
    let mut loaded = Loaded::new(settings_for(options), Rule::Partial).map_err(|e| refused(&e))?;
    loaded.start().map_err(|e| refused(&e))?;
    let was_there = matches!(SchedExt::new(roots).mode(), Mode::Partial(_));
    drop(loaded);
    for _ in 0..LOOKS {
        if *SchedExt::new(roots).mode() == Mode::Off {
            return Ok(was_there);
        }
        std::thread::sleep(LOOK_EVERY);
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::Fake;

    /// A cgroup of files: the kernel makes them in a real one.
    fn made(fake: &Fake) -> TrialCgroup {
        let trial = TrialCgroup::make(&fake.roots()).unwrap();
        let dir = format!("sys/fs/cgroup/{}", trial.name);
        fake.write(format!("{dir}/cpu.max"), "max 100000\n");
        fake.write(format!("{dir}/cpu.max.burst"), "0\n");
        fake.write(
            format!("{dir}/cpu.stat"),
            "usage_usec 5\nuser_usec 3\nsystem_usec 2\nnr_periods 0\nnr_throttled 1\nthrottled_usec 70\n",
        );
        trial
    }

    #[test]
    fn a_lease_of_a_killed_owner_is_restored() {
        let fake = Fake::new();
        let trial = made(&fake);
        assert_eq!(trial.cpu_time().unwrap(), Nanos(5000));
        let lease = trial.limit(5000, 20_000).unwrap();
        assert_eq!(trial.limit_now().unwrap().to_string(), "5000 20000");
        assert_eq!(lease.theirs().to_string(), "max 100000");
        let report = lease.reset_after_kill().unwrap();
        assert!(
            report.is_clean() && report.restored.len() == 1,
            "{report:?}"
        );
        assert_eq!(trial.limit_now().unwrap().to_string(), "max 100000");
        // A weir process that limits meanwhile has its own journal.
        assert!(!fake.path("run/weir/journal.jsonl").exists());
        let run = trial.roots.run.clone();
        drop(trial);
        assert!(!run.exists());
    }

    #[test]
    fn without_the_controller_it_says_what_to_do() {
        let fake = Fake::new();
        fake.write("sys/fs/cgroup/cgroup.subtree_control", "memory\n");
        let why = TrialCgroup::make(&fake.roots()).err().unwrap().to_string();
        assert!(why.contains("echo +cpu"), "{why}");
    }

    #[test]
    fn a_kernel_without_sched_ext_is_named() {
        let fake = Fake::new();
        let why = try_scheduler(&fake.options(crate::options::By::Cgroup));
        assert!(why.unwrap_err().to_string().contains("sched_ext"));
    }
}
