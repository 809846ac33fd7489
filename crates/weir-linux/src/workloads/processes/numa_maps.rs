// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What one process has mapped, summed up from its `numa_maps`: by node, and files apart, so that one that
//! several processes have mapped can count once.
//!
//! *Which file.* Each process of a service may have a file of its own under one name: memory of
//! memfd_create(2) and of System V, and what has been unlinked, are shown with the name that was given and
//! `(deleted)`; two containers have one path for two files. So a file is known by its device and inode, which
//! `maps` of the process has. Where that cannot be read, it is known by its name, and one without a place by
//! nothing: it is the process's own. `maps` is read only where another process has a file of one name with
//! this one's on a watched node ([`super::namesakes`]).
//!
//! *What belongs to a file.* A private mapping of a file has copies of the pages that were written to. Each
//! process has its own: they are no pages of the file.

use crate::inventory::numa::missing;
use crate::kernel::files::{for_each_dir, for_each_line, open_file, open_path_dir};
use crate::kernel::parse::decimal;
use crate::kernel::parse::process::{Mapping, mapped_file, mapping};
use crate::options::{By, Roots};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use std::collections::BTreeMap;
use weir_core::seam::next_move::{Act, NextMove, Precondition};
use weir_core::seam::topology::Fact;
use weir_core::{Missing, NodeId};

/// Stands for all nodes that are not watched.
pub(crate) const ELSEWHERE: NodeId = NodeId(u32::MAX);
/// Memory elsewhere that comes or goes by less than this part is as it was.
const ELSEWHERE_PART: u64 = 8;
/// Most bytes of `numa_maps` that are read: 65 530 mappings (`vm.max_map_count`) with short names.
const MAPS_MAX: u64 = 64 << 20;
/// Most threads that are asked for maps where the first has none. All have the same, but those that end.
const THREADS_ASKED: usize = 16;
/// What the kernel writes after the name of a file without a place, with its escape for a blank.
const UNLINKED: &[u8] = b"\\040(deleted)";
/// Most files of one process that are counted by file; the others count as private.
const FILES_MAX: usize = 4096;

/// What tells a file from others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct MappedFile {
    /// A hash of it.
    id: u64,
    /// It is one of hugetlb.
    pub(crate) is_huge: bool,
}

impl MappedFile {
    /// The first of all in their order.
    const FIRST: MappedFile = MappedFile {
        id: 0,
        is_huge: false,
    };
}

/// Bytes by node: private ones, and files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct NodePages {
    pub(crate) private: BTreeMap<NodeId, u64>,
    /// The part of the private ones that are huge pages of hugetlb.
    pub(crate) private_huge: BTreeMap<NodeId, u64>,
    pub(crate) files: BTreeMap<(NodeId, MappedFile), u64>,
}

impl NodePages {
    /// The same on watched nodes, and about as much elsewhere.
    pub(crate) fn is_much_like(&self, other: &NodePages) -> bool {
        let (old, new) = (self.elsewhere(), other.elsewhere());
        old.abs_diff(new) <= old / ELSEWHERE_PART
            && self
                .private
                .range(..ELSEWHERE)
                .eq(other.private.range(..ELSEWHERE))
            && self
                .files
                .range(..(ELSEWHERE, MappedFile::FIRST))
                .eq(other.files.range(..(ELSEWHERE, MappedFile::FIRST)))
    }

    fn elsewhere(&self) -> u64 {
        let files = self.files.range((ELSEWHERE, MappedFile::FIRST)..);
        let files = files.map(|(_, bytes)| *bytes);
        let private = self.private.get(&ELSEWHERE).copied();
        files.chain(private).fold(0, u64::saturating_add)
    }

    /// Adds pages of a file, by a hash of what tells it from others, or private ones.
    fn add(&mut self, node: NodeId, file: Option<u64>, is_huge: bool, bytes: u64) {
        let key = file.map(|id| (node, MappedFile { id, is_huge }));
        // Those elsewhere leave room for those that count.
        let most = match node {
            ELSEWHERE => FILES_MAX / 2,
            _ => FILES_MAX,
        };
        match key {
            Some(key) if self.files.len() < most || self.files.contains_key(&key) => {
                let sum = self.files.entry(key).or_default();
                *sum = sum.saturating_add(bytes);
            }
            _ => {
                add(&mut self.private, node, bytes);
                if is_huge {
                    add(&mut self.private_huge, node, bytes);
                }
            }
        }
    }
}

/// Pages of a file in one mapping.
struct FilePages {
    start: u64,
    node: NodeId,
    bytes: u64,
    /// A hash of the file's name.
    name: u64,
    is_unlinked: bool,
    is_huge: bool,
}

/// What the maps of a process say.
pub(crate) struct Maps {
    /// Below `/proc`, of the thread that has them.
    dir: String,
    private: NodePages,
    files: Vec<FilePages>,
    has_lines: bool,
    is_malformed: bool,
}

/// The memory of a process, by its maps. Where its first thread has ended before the others, `/proc/PID`
/// shows a zombie without memory, and the maps of any other thread are those of the process.
///
/// # Errors
/// They cannot be read.
pub(crate) fn read(
    proc: &OwnedFd,
    pid: u32,
    nodes: &[NodeId],
    chunk: &mut [u8],
) -> Result<Maps, Missing> {
    let mut maps = read_dir(proc, pid.to_string(), nodes, chunk)?;
    // Each process that lives has a stack at least.
    if !maps.has_lines {
        for thread in others(proc, pid) {
            let of_thread = format!("{pid}/task/{thread}");
            if let Ok(found) = read_dir(proc, of_thread, nodes, chunk)
                && found.has_lines
            {
                maps = found;
                break;
            }
        }
    }
    if maps.is_malformed && maps.files.is_empty() && maps.private == NodePages::default() {
        return Err(Missing::Lost(format!(
            "/proc/{}/numa_maps: no line of the form ADDRESS POLICY …",
            maps.dir
        )));
    }
    Ok(maps)
}

fn read_dir(
    proc: &OwnedFd,
    dir: String,
    nodes: &[NodeId],
    chunk: &mut [u8],
) -> Result<Maps, Missing> {
    let name = format!("{dir}/numa_maps");
    let missing = |e: Errno| match e {
        Errno::NOENT => Missing::NotSupported(format!("/proc/{name}: {e} (CONFIG_NUMA off?)")),
        Errno::PERM | Errno::ACCESS => Missing::NotPermitted(format!("/proc/{name}: {e}")),
        _ => Missing::Lost(format!("/proc/{name}: {e}")),
    };
    let fd = open_file(proc, &name).map_err(missing)?;
    let mut maps = Maps {
        dir,
        private: NodePages::default(),
        files: Vec::new(),
        has_lines: false,
        is_malformed: false,
    };
    for_each_line(&fd, chunk, MAPS_MAX, |line| {
        maps.has_lines = true;
        match mapping(line) {
            Ok(map) => maps.add(&map, nodes),
            Err(_) => maps.is_malformed = true,
        }
    })
    .map_err(missing)?;
    Ok(maps)
}

impl Maps {
    fn add(&mut self, map: &Mapping<'_>, nodes: &[NodeId]) {
        let ratio = map.file_ratio();
        for (node, bytes) in map.nodes().filter(|(_, bytes)| *bytes > 0) {
            let node = Some(NodeId(node)).filter(|n| nodes.contains(n));
            let node = node.unwrap_or(ELSEWHERE);
            // 0 ≤ ratio ≤ 1, so the product fits.
            let of_file = (bytes as f64 * ratio).round() as u64;
            if let Some(name) = map.file.filter(|_| of_file > 0) {
                self.files.push(FilePages {
                    start: map.start,
                    node,
                    bytes: of_file,
                    name: hash([name]),
                    is_unlinked: name.ends_with(UNLINKED),
                    is_huge: map.is_huge,
                });
            }
            let own = bytes.saturating_sub(of_file);
            if own > 0 {
                self.private.add(node, None, map.is_huge, own);
            }
        }
    }

    /// Names of files with pages on watched nodes, by their hashes, in order.
    pub(crate) fn names(&self) -> Vec<u64> {
        let here = self.files.iter().filter(|file| file.node != ELSEWHERE);
        let mut names: Vec<u64> = here.map(|file| file.name).collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// Pages by node, with each file known by its name alone.
    pub(crate) fn by_name(self) -> NodePages {
        self.pages(|file| Some(file.name))
    }

    /// The same, with files on watched nodes known by what tells them from others of their names.
    pub(crate) fn by_identity(self, proc: &OwnedFd, chunk: &mut [u8]) -> NodePages {
        let (names, known) = (self.names(), identities(proc, &self.dir, chunk));
        self.pages(|file| match known.get(&file.start) {
            _ if names.binary_search(&file.name).is_err() => Some(file.name),
            Some(identity) => Some(*identity),
            None => (!file.is_unlinked).then_some(file.name),
        })
    }

    fn pages(self, key: impl Fn(&FilePages) -> Option<u64>) -> NodePages {
        let mut pages = self.private;
        for file in &self.files {
            pages.add(file.node, key(file), file.is_huge, file.bytes);
        }
        pages
    }
}

/// What tells the file of each mapping from other files, by where the mapping begins. Nothing where that
/// cannot be read.
fn identities(proc: &OwnedFd, dir: &str, chunk: &mut [u8]) -> BTreeMap<u64, u64> {
    let mut found = BTreeMap::new();
    if let Ok(fd) = open_file(proc, &format!("{dir}/maps")) {
        let _ = for_each_line(&fd, chunk, MAPS_MAX, |line| {
            found.extend(mapped_file(line).map(|(start, file)| (start, hash(file))));
        });
    }
    found
}

/// Threads of a process other than its first.
fn others(proc: &OwnedFd, pid: u32) -> Vec<u32> {
    let mut found = Vec::new();
    if let Ok(tasks) = open_path_dir(proc, &format!("{pid}/task")) {
        let _ = for_each_dir(&tasks, THREADS_ASKED, |name| {
            let thread = decimal(name).ok().and_then(|n| u32::try_from(n).ok());
            found.extend(thread.filter(|thread| *thread != pid));
        });
    }
    found
}

pub(crate) fn add(sums: &mut BTreeMap<NodeId, u64>, node: NodeId, bytes: u64) {
    let sum = sums.entry(node).or_default();
    *sum = sum.saturating_add(bytes);
}

/// FNV-1a of 64 bits. A user that finds two file names with one hash changes the count of that user's memory
/// only. A mapping changes that as well.
fn hash<'a>(words: impl IntoIterator<Item = &'a [u8]>) -> u64 {
    let bytes = words.into_iter().flat_map(|word| word.iter().chain(b" "));
    bytes.fold(0xcbf2_9ce4_8422_2325, |h, b| {
        (h ^ u64::from(*b)).wrapping_mul(0x100_0000_01b3)
    })
}

/// Whether maps of processes say where their memory is.
pub(crate) fn fact(roots: &Roots, by: By) -> Fact {
    let path = roots.proc.join("self/numa_maps");
    let value = match std::fs::File::open(&path) {
        Ok(_) => Ok("residency is read from the maps of processes".into()),
        Err(e) => Err(missing(&path, &e)),
    };
    let deed = match by {
        By::Cgroup => {
            "memory.numa_stat is used instead: shared pages count for the cgroup that they are charged to"
        }
        By::Process => "use a kernel with CONFIG_NUMA, or limit by cgroup",
    };
    Fact {
        name: "proc.numa_maps".into(),
        next_move: value.is_err().then(|| NextMove {
            act: Act::Deed(deed.into()),
            why: "the maps of processes do not say on which node their memory is".into(),
            needs: Precondition::Seen(format!("{} cannot be read", path.display())),
        }),
        value,
    }
}
