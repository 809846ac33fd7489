// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which tasks are never limited: kernel threads, PID 1, weir itself, real-time tasks, and what the operator
//! excludes. A cgroup is never limited if one of its processes is not.
//!
//! `cpu.max` does not hold back real-time tasks, but it does hold back the tasks that they wait for.

use super::cgroups::walk::{Delegation, is_at_or_below};
use super::operator_names::Wanted;
use super::processes::CachedProcess;
use crate::kernel::escape::glob_matches;
use crate::kernel::files::read_path;
use crate::kernel::parse::process::cgroup_path;
use crate::options::{Options, Roots};
use rustix::fd::OwnedFd;
use std::sync::Arc;
use weir_core::seam::observation::Excluded;

/// The rules, and weir's own process and cgroup.
#[derive(Clone, Debug)]
pub(crate) struct Rules {
    globs: Vec<String>,
    own_pid: u32,
    /// Our own cgroup and that of PID 1, where they are known: for cgroups with more processes than
    /// weir lists.
    own_cgroup: Option<Vec<u8>>,
    init_cgroup: Option<Vec<u8>>,
    /// A threaded domain that is shared is limited as one workload.
    pub(crate) limits_domains: bool,
    /// Delegated cgroups with such ids are split into their leaves.
    split_delegated: Vec<String>,
    /// Limits are set by `cpu.max` alone.
    pub(crate) by_cpu_max: bool,
    /// Whether each pattern, and each other name that was given, has met anything.
    pub(crate) wanted: Arc<Wanted>,
}

impl Rules {
    pub(crate) fn of(options: &Options) -> Self {
        let mut rules = Self::new(
            options.exclude.clone(),
            cgroup_of(&options.roots, "self"),
            cgroup_of(&options.roots, "1"),
        );
        rules.wanted = Arc::new(Wanted::new(&options.exclude, &options.weighted));
        rules.limits_domains = options.limit_domains;
        rules.split_delegated.clone_from(&options.split_delegated);
        rules
    }

    /// The same for a platform, whose limits are set by a scheduler or by `cpu.max`.
    pub(crate) fn to_run(options: &Options, has_scheduler: bool) -> Self {
        Rules {
            by_cpu_max: !has_scheduler && !options.read_only,
            ..Self::of(options)
        }
    }

    pub(crate) fn new(
        globs: Vec<String>,
        own_cgroup: Option<Vec<u8>>,
        init_cgroup: Option<Vec<u8>>,
    ) -> Self {
        Rules {
            globs,
            own_pid: std::process::id(),
            own_cgroup,
            init_cgroup,
            limits_domains: false,
            split_delegated: Vec::new(),
            by_cpu_max: false,
            wanted: Arc::default(),
        }
    }

    /// The same rules for a weir process that runs in another cgroup.
    #[cfg(test)]
    pub(crate) fn in_cgroup(self, own_cgroup: &str) -> Self {
        Rules {
            own_cgroup: Some(own_cgroup.as_bytes().to_vec()),
            ..self
        }
    }

    /// The cgroups of the tree with this root that are delegated.
    pub(crate) fn delegation(&self, root: &OwnedFd) -> Delegation {
        let own = self.own_cgroup.clone();
        Delegation::below(root).splitting(own, &self.split_delegated)
    }

    /// The same on this machine, with other names.
    pub(crate) fn with_names(&self, patterns: &[String], weighted: &[String]) -> Self {
        Rules {
            globs: patterns.to_vec(),
            wanted: Arc::new(Wanted::new(patterns, weighted)),
            ..self.clone()
        }
    }

    pub(crate) fn on_process(
        &self,
        id: &str,
        pid: u32,
        member: &CachedProcess,
    ) -> Option<Excluded> {
        self.wanted.see(&[id, &member.comm]);
        self.on_pid(pid)
            .or_else(|| member.is_kernel.then_some(Excluded::Kernel))
            .or_else(|| self.by_user(&[id, &member.comm]))
            .or_else(|| member.real_time.then_some(Excluded::RealTime))
    }

    /// The verdict on a cgroup with these processes.
    pub(crate) fn on_cgroup<'a>(
        &self,
        id: &str,
        path: &[u8],
        members: impl Iterator<Item = (u32, &'a CachedProcess)>,
    ) -> Option<Excluded> {
        // A workload is a cgroup with all that is below it.
        let holds = |cgroup: &Option<Vec<u8>>| {
            let cgroup = cgroup.as_deref();
            cgroup.is_some_and(|cgroup| is_at_or_below(cgroup, path))
        };
        if holds(&self.init_cgroup) {
            return Some(Excluded::Init);
        }
        if holds(&self.own_cgroup) {
            return Some(Excluded::Weir);
        }
        let (mut real_time, mut kernel, mut count) = (false, 0usize, 0usize);
        for (pid, member) in members {
            if let Some(why) = self.on_pid(pid) {
                return Some(why);
            }
            real_time |= member.real_time && !member.is_kernel;
            kernel += usize::from(member.is_kernel);
            count += 1;
        }
        if count > 0 && kernel == count {
            return Some(Excluded::Kernel);
        }
        self.by_user(&[id])
            .or_else(|| real_time.then_some(Excluded::RealTime))
    }

    fn on_pid(&self, pid: u32) -> Option<Excluded> {
        match pid {
            1 => Some(Excluded::Init),
            pid if pid == self.own_pid => Some(Excluded::Weir),
            _ => None,
        }
    }

    fn by_user(&self, names: &[&str]) -> Option<Excluded> {
        let hit = self
            .globs
            .iter()
            .find(|glob| names.iter().any(|name| glob_matches(glob, name)));
        hit.map(|glob| Excluded::ByUser(glob.clone()))
    }
}

/// The cgroup of a process, where it can be known.
fn cgroup_of(roots: &Roots, process: &str) -> Option<Vec<u8>> {
    let text = read_path(&roots.proc.join(process).join("cgroup")).ok()?;
    cgroup_path(&text).ok().map(<[u8]>::to_vec)
}
