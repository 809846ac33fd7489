// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The resctrl file system (kernel, `Documentation/filesystems/resctrl.rst`): what it can count here, and
//! whether another program uses it already. Reading it changes nothing.

use crate::kernel::files::{Buffer, for_each_dir, make_dir, open_path_dir, open_root, remove_dir};
use crate::kernel::parse::{decimal, lines};
use crate::kernel::privilege::hint;
use crate::options::Roots;
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use std::path::PathBuf;
use weir_core::Missing;

/// Monitoring groups of weir's begin like this; no others are touched.
pub(super) const PREFIX: &str = "weir-";
/// Most entries of one directory.
pub(super) const ENTRIES_MAX: usize = 10_000;
/// What stands at the top beside groups of others.
const FIXED: [&[u8]; 3] = [b"info", b"mon_groups", b"mon_data"];

/// A setting of what an event counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Knob {
    /// A mask of transactions for each cache: AMD's BMEC (Zen 4). Bits 4 and 5 are reads of slow memory near
    /// and far.
    Mask,
    /// A list of transactions: AMD's ABMC (Linux 6.18), while its counters are in use.
    Filter,
}

impl Knob {
    pub(super) const ALL: [Knob; 2] = [Knob::Mask, Knob::Filter];

    pub(super) fn file(self) -> &'static str {
        match self {
            Knob::Mask => "info/L3_MON/mbm_total_bytes_config",
            Knob::Filter => "info/L3_MON/event_configs/mbm_total_bytes/event_filter",
        }
    }

    /// What is written so that only reads of slow memory count, where `theirs` stands now.
    pub(super) fn slow(self, theirs: &str) -> String {
        match self {
            Knob::Filter => "local_reads_slow_memory,remote_reads_slow_memory".into(),
            Knob::Mask => {
                let caches = theirs.split(';').filter_map(|part| part.split('=').next());
                let masks: Vec<String> = caches.map(|c| format!("{}=0x30", c.trim())).collect();
                masks.join(";")
            }
        }
    }
}

/// Whether two settings are the same, in whatever order their parts stand.
pub(super) fn are_same(a: &str, b: &str) -> bool {
    let parts = |text: &str| {
        let mut parts: Vec<String> = text
            .split([';', ',', '\n'])
            .map(|part| part.trim().to_ascii_lowercase())
            .filter(|part| !part.is_empty())
            .collect();
        parts.sort_unstable();
        parts
    };
    parts(a) == parts(b)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Events {
    /// Reads of slow memory, which is CXL memory, by an event that has to be set so.
    Slow(Knob),
    /// All that is not of the own socket: CXL memory, and what other sockets have.
    Remote,
}

impl Events {
    /// How many are read: the total, and local traffic where that has to be taken off.
    pub(super) fn count(self) -> usize {
        match self {
            Events::Slow(_) => 1,
            Events::Remote => 2,
        }
    }
}

/// resctrl, mounted, with counters of bandwidth.
#[derive(Debug)]
pub(super) struct ResctrlTree {
    pub(super) root: OwnedFd,
    pub(super) mon_groups: OwnedFd,
    pub(super) events: Events,
    /// Whether it could do without an event for slow memory.
    pub(super) has_local: bool,
    /// How many ids for groups the CPU has.
    pub(super) id_count: Option<u64>,
    /// Groups that are there and are not weir's.
    pub(super) foreign_groups: usize,
}

impl ResctrlTree {
    /// Opens it.
    ///
    /// # Errors
    /// It is not there, not mounted, or counts no bandwidth.
    pub(super) fn open(roots: &Roots) -> Result<ResctrlTree, Missing> {
        let path = path(roots);
        let root = open_root(&path).map_err(|e| absent(e, &path.display().to_string()))?;
        let mut buffer = Buffer::new();
        if open_path_dir(&root, "info").is_err() {
            let path = path.display();
            return Err(Missing::NotSupported(format!(
                "not mounted: mount -t resctrl resctrl {path}"
            )));
        }
        let features = text(&root, "info/L3_MON/mon_features", &mut buffer)?;
        let has = |name: &str| features.lines().any(|line| line.trim() == name);
        if !has("mbm_total_bytes") {
            let why = "the CPU counts no bandwidth of groups (info/L3_MON/mon_features)";
            return Err(Missing::NotSupported(why.into()));
        }
        let mode = text(&root, "info/L3_MON/mbm_assign_mode", &mut buffer);
        let is_assigned = mode.is_ok_and(|mode| mode.contains("[mbm_event]"));
        let has_local = has("mbm_local_bytes");
        let events = match () {
            () if is_assigned => Events::Slow(Knob::Filter),
            () if has("mbm_total_bytes_config") => Events::Slow(Knob::Mask),
            () if has_local => Events::Remote,
            () => {
                let why = "the CPU distinguishes neither slow nor remote memory";
                return Err(Missing::NotSupported(why.into()));
            }
        };
        let groups = "mon_groups";
        let mon_groups = open_path_dir(&root, groups).map_err(|e| absent(e, groups))?;
        let ids = text(&root, "info/L3_MON/num_rmids", &mut buffer);
        Ok(ResctrlTree {
            foreign_groups: foreign_groups(&root, &mon_groups),
            id_count: ids.ok().and_then(|text| decimal(text.as_bytes()).ok()),
            root,
            mon_groups,
            events,
            has_local,
        })
    }

    pub(super) fn name(&self) -> &'static str {
        match self.events {
            Events::Slow(Knob::Mask) => {
                "reads of slow memory by resctrl (mbm_total_bytes_config, documented)"
            }
            Events::Slow(Knob::Filter) => {
                "reads of slow memory by resctrl (event_filter, documented)"
            }
            Events::Remote => {
                "remote traffic by resctrl (mbm_total_bytes − mbm_local_bytes: other sockets' DRAM too)"
            }
        }
    }
}

pub(super) fn path(roots: &Roots) -> PathBuf {
    roots.sys.join("fs/resctrl")
}

fn absent(error: Errno, what: &str) -> Missing {
    match error {
        Errno::NOENT => Missing::NotSupported(format!(
            "no {what}: the CPU or the kernel (CONFIG_X86_CPU_RESCTRL) has no resctrl"
        )),
        Errno::PERM | Errno::ACCESS | Errno::ROFS => {
            Missing::NotPermitted(format!("{what}: {error}{}", hint(error)))
        }
        e => Missing::Lost(format!("{what}: {e}")),
    }
}

pub(super) fn text(root: &OwnedFd, file: &str, buffer: &mut Buffer) -> Result<String, Missing> {
    let bytes = buffer.read_at(root, file);
    let bytes = bytes.map_err(|e| absent(e, &format!("resctrl's {file}")))?;
    Ok(String::from_utf8_lossy(bytes.trim_ascii()).into_owned())
}

/// Groups that another program has made. Where that cannot be listed there is one.
fn foreign_groups(root: &OwnedFd, mon_groups: &OwnedFd) -> usize {
    let mut count = 0;
    let controlled = for_each_dir(root, ENTRIES_MAX, |name| {
        count += usize::from(!FIXED.contains(&name));
    });
    let monitored = for_each_dir(mon_groups, ENTRIES_MAX, |name| {
        count += usize::from(!name.starts_with(PREFIX.as_bytes()));
    });
    count + usize::from(controlled.is_err() || monitored.is_err())
}

/// The group that a task is in (`/proc/TID/cpu_resctrl_groups`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum GroupPlace {
    /// The process is in no group but the root's.
    Free,
    /// In this monitoring group of the root's.
    In(String),
    /// In a group with limits, which is not weir's.
    Controlled,
    /// The task is gone, or the kernel does not say.
    Unknown,
}

/// Reads `res:GROUP` and `mon:GROUP`.
pub(super) fn standing(bytes: &[u8]) -> GroupPlace {
    let after = |key: &[u8]| {
        let line = lines(bytes).find_map(|line| line.strip_prefix(key));
        line.map(<[u8]>::trim_ascii)
    };
    match (after(b"res:"), after(b"mon:")) {
        (Some(b"/"), Some(b"")) => GroupPlace::Free,
        (Some(b"/"), Some(group)) => GroupPlace::In(String::from_utf8_lossy(group).into_owned()),
        (Some(b"/" | b"") | None, _) => GroupPlace::Unknown,
        (Some(_), _) => GroupPlace::Controlled,
    }
}

pub(super) trait Maker: Send + Sync {
    /// The kernel fills a new one with files.
    fn make(&self, mon_groups: &OwnedFd, name: &str) -> Result<(), Errno>;
    /// Its tasks go back to the group above.
    fn remove(&self, mon_groups: &OwnedFd, name: &str) -> Result<(), Errno>;
}

pub(super) struct Directories;

impl Maker for Directories {
    fn make(&self, mon_groups: &OwnedFd, name: &str) -> Result<(), Errno> {
        make_dir(mon_groups, name)
    }

    fn remove(&self, mon_groups: &OwnedFd, name: &str) -> Result<(), Errno> {
        remove_dir(mon_groups, name)
    }
}
