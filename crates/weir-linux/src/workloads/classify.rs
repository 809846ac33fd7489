// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a tick needs to know of a workload, put together from what discovery has read.

use super::cgroups::cache::CachedCgroup;
use super::cgroups::handed_down::cpu_max_refused;
use super::cgroups::shared_domain::held_back;
use super::cgroups::tree::{Leaf, LeafKind, Trouble};
use super::discovery::{Watched, WorkloadSource};
use super::exclude::Rules;
use super::processes::numa_stat::{self, Charged};
use super::processes::{CachedProcess, ProcessCache, Resident};
use crate::inventory::group_nodes::GroupOnNode;
use crate::kernel::files::Buffer;
use rustix::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use weir_core::seam::observation::{Excluded, Use};
use weir_core::seam::processes::Processes;
use weir_core::{Bytes, GroupId, Missing, Nanos, Reading};

pub(crate) struct Classifier<'a> {
    pub(crate) members: &'a ProcessCache,
    pub(crate) groups: &'a [GroupOnNode],
    pub(crate) rules: &'a Rules,
    pub(crate) root: &'a OwnedFd,
    pub(crate) at: Nanos,
}

impl Classifier<'_> {
    /// What a tick needs to know of a leaf.
    pub(crate) fn leaf(
        &self,
        leaf: &Arc<Leaf>,
        cached: &mut CachedCgroup,
        buffer: &mut Buffer,
    ) -> Watched {
        let pids = cached.pids.as_deref().unwrap_or_default();
        let member = |pid: &u32| Some((*pid, self.members.get(*pid)?));
        let members: Vec<(u32, &CachedProcess)> = pids.iter().filter_map(member).collect();
        let mut resident = self.members.resident(pids);
        // There are processes in it, and no maps can be read: another PID namespace (ids are 0), no
        // permission, a kernel without numa_maps.
        let unseen = resident.at.is_none() && resident.unread == 0;
        let has_processes = cached.pids.is_err() || pids.contains(&0) || resident.missing.is_some();
        cached.stands_in = unseen && has_processes && cached.pids != Err(Trouble::NoFile);
        let charged = cached
            .charged
            .get_or_insert_with(|| self.charged(leaf, buffer));
        let uses = match charged {
            Err(why) if cached.stands_in => {
                let why = resident.missing.as_ref().unwrap_or(why).clone();
                let missing =
                    |g: &GroupOnNode| use_of(g.group, Reading::missing(self.at, why.clone()));
                self.groups.iter().map(missing).collect()
            }
            Ok(charged) if cached.stands_in => {
                resident = charged.resident();
                uses(self.groups, &resident, self.at)
            }
            Ok(charged) if resident.at.is_some() && resident.unread == 0 => {
                if resident.is_unknown() || pids.contains(&0) {
                    charged.add_unseen(&mut resident)
                } else {
                    charged.add_unmapped(&mut resident)
                }
                uses(self.groups, &resident, self.at)
            }
            _ => {
                if pids.contains(&0) {
                    resident.missing = Resident::hidden().missing;
                }
                uses(self.groups, &resident, self.at)
            }
        };
        let excluded = self
            .rules
            .on_cgroup(leaf.id.as_str(), &leaf.path, members.iter().copied());
        // Only its own tasks wait for what a user has made real-time.
        let excluded =
            excluded.filter(|why| leaf.kind != LeafKind::Delegated || *why != Excluded::RealTime);
        let can_have_limit = cached.limit.is_some();
        let excluded = excluded.or_else(|| self.shared(leaf, can_have_limit, &uses, pids, buffer));
        let needs_limit = self.rules.by_cpu_max && !can_have_limit && !uses.is_empty();
        let excluded = match excluded {
            None if needs_limit => cpu_max_refused(self.root.as_fd(), &leaf.path, buffer)
                .map(|why| Excluded::NoCpuMax(why.to_string())),
            other => other,
        };
        Watched {
            processes: processes(&uses, cached.at, &members),
            id: leaf.id.clone(),
            source: WorkloadSource::Cgroup(Arc::clone(leaf)),
            weight: cached.weight,
            limit: cached.limit,
            excluded,
            uses,
            resident_bytes: resident.all_bytes(),
        }
    }

    /// Why a threaded domain that is shared is not limited.
    fn shared(
        &self,
        leaf: &Leaf,
        can_have_limit: bool,
        uses: &[Use],
        pids: &[u32],
        buffer: &mut Buffer,
    ) -> Option<Excluded> {
        if leaf.kind != LeafKind::SharedDomain || self.rules.limits_domains {
            return None;
        }
        Some(match (can_have_limit, uses.is_empty()) {
            (false, _) => Excluded::Inner,
            (true, true) => Excluded::Domain(Vec::new()),
            (true, false) => Excluded::Domain(held_back(pids, self.members, buffer)),
        })
    }

    fn charged(&self, leaf: &Leaf, buffer: &mut Buffer) -> Result<Charged, Missing> {
        let is_watched = |node| self.groups.iter().any(|g| g.node == node);
        numa_stat::read(leaf, self.root.as_fd(), is_watched, self.at, buffer)
    }
}

/// The processes in it, where it has memory on a device. Those of other cgroups are not needed, and there are
/// many.
pub(crate) fn processes(
    uses: &[Use],
    at: Nanos,
    members: &[(u32, &CachedProcess)],
) -> Option<Processes> {
    let seen = members.iter().filter(|(_, m)| !m.is_kernel);
    let seen = seen.map(|(pid, m)| (*pid, m.comm.as_str(), m.spent.last()));
    (!uses.is_empty()).then(|| Processes::of(at, seen))
}

fn use_of(group: GroupId, resident_bytes: Reading<Bytes>) -> Use {
    Use {
        group,
        resident_bytes,
        sampled_read_bytes: None,
        sampled_write_bytes: None,
    }
}

/// Memory by group. A group without any is left out, unless a process was not scanned yet. Where one may
/// never be scanned, what the others have is no figure.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
pub(crate) fn uses(groups: &[GroupOnNode], resident: &Resident, at: Nanos) -> Arc<[Use]> {
    let of = |g: &GroupOnNode| {
        let bytes = resident.bytes.get(&g.node).copied().unwrap_or(0);
        // 0 ≤ part ≤ 1, so the product fits.
        let bytes = if g.part < 1.0 {
            (bytes as f64 * g.part) as u64
        } else {
            bytes
        };
        let at = resident.at.unwrap_or(at);
        if let Some(why @ Missing::NotPermitted(_)) = &resident.missing {
            Some(use_of(g.group, Reading::missing(at, why.clone())))
        } else if bytes > 0 {
            Some(use_of(g.group, Reading::new(at, Bytes(bytes))))
        } else if resident.unread > 0 {
            Some(use_of(g.group, Reading::missing(at, Missing::NotYetRead)))
        } else {
            None
        }
    };
    groups.iter().filter_map(of).collect()
}
