// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a limit would hold back beside the processes that use a device, where only a whole threaded domain
//! can have one ([`super::cgroup_type::Domain::Shared`]).

use crate::kernel::escape::escape;
use crate::kernel::files::Buffer;
use crate::kernel::parse::process::cgroup_path;
use crate::workloads::processes::ProcessCache;
use crate::workloads::processes::numa_maps::ELSEWHERE;
use std::collections::BTreeMap;

/// Most processes of which the cgroup is read, and most cgroups that are named.
const READ_MAX: usize = 64;
const NAMED_MAX: usize = 8;

/// Those of these processes that are not known to have memory on a watched node, by cgroup. A cgroup is named
/// with one of its processes.
pub(crate) fn held_back(pids: &[u32], known: &ProcessCache, buffer: &mut Buffer) -> Vec<String> {
    let is_user = |pid: u32| {
        let resident = known.resident(&[pid]);
        resident.bytes.range(..ELSEWHERE).any(|(_, b)| *b > 0)
    };
    let seen = pids.iter().filter_map(|pid| Some((*pid, known.get(*pid)?)));
    let mut others = seen.filter(|(pid, member)| !member.is_kernel && !is_user(*pid));
    let mut by_cgroup: BTreeMap<String, (String, usize)> = BTreeMap::new();
    for (pid, member) in others.by_ref().take(READ_MAX) {
        let text = buffer.read_once_at(known.proc(), &format!("{pid}/cgroup"));
        let path = text
            .ok()
            .and_then(|text| cgroup_path(text).ok().map(escape));
        let path = path.unwrap_or_else(|| "a cgroup that cannot be read".into());
        let first = || (format!("{} ({pid})", escape(member.comm.as_bytes())), 0);
        by_cgroup.entry(path).or_insert_with(first).1 += 1;
    }
    let mut left = others.count();
    let mut names = Vec::new();
    for (path, (first, count)) in by_cgroup {
        if names.len() == NAMED_MAX {
            left += count;
            continue;
        }
        names.push(match count {
            1 => format!("{path}: {first}"),
            _ => format!("{path}: {first} and {} more", count - 1),
        });
    }
    match left {
        0 => {}
        1 => names.push("1 more process".into()),
        _ => names.push(format!("{left} more processes")),
    }
    names
}
