// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Why a cgroup has no `cpu.max`: the level where the `cpu` controller ends, and what would hand it down from
//! there (kernel, cgroup-v2.rst, "Enabling and Disabling", "No Internal Process Constraint";
//! systemd.resource-control(5)). A controller is handed from level to level: to enable it just above the
//! cgroup is not enough.
//!
//! ```text
//! first level without cpu in cgroup.subtree_control
//!   ├─ slices, then a unit ─► systemd's: CPUWeight= of the unit, Delegate= where it lies in the unit
//!   └─ else ─► cpu in its cgroup.controllers, no processes in levels that hand it down: write +cpu
//! ```

use super::cgroup_type::{is_threaded, is_threaded_domain};
use super::walk::{Visited, for_each_cgroup};
use crate::kernel::escape::escape;
use crate::kernel::files::{
    Buffer, open_beneath, open_file, open_path_dir, open_root, open_to_change,
};
use crate::kernel::parse::cgroup::lists;
use crate::options::Roots;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;

const FILE: &str = "cgroup.subtree_control";

/// Why the cgroup at `path` has no `cpu.max`, with what would help as far as files show that it can.
pub(crate) fn no_cpu_max(root: BorrowedFd<'_>, path: &[u8], buffer: &mut Buffer) -> String {
    let names = path.split(|b| *b == b'/').filter(|name| !name.is_empty());
    let way = Way {
        root,
        names: names.collect(),
    };
    let has_weight = || open_file(open_beneath(root, path).ok()?, "cpu.weight").ok();
    let why = match way.end(buffer) {
        Ok(Some(end)) => {
            let help = way.by_systemd(end);
            let help = help.unwrap_or_else(|| way.by_hand(end, buffer));
            let at = way.name(end);
            format!(
                "the cpu controller ends at {at}, whose cgroup.subtree_control is without cpu: {help}"
            )
        }
        Ok(None) if has_weight().is_some() => {
            "the kernel is built without CONFIG_CFS_BANDWIDTH".into()
        }
        Ok(None) => "although the cpu controller is handed down to it".into(),
        Err(e) => format!("and where the cpu controller ends is not known ({e})"),
    };
    format!("{} has no cpu.max: {why}", escape(path))
}

/// How many of the cgroups with processes have no `cpu.max`, and why the first of them has none; nothing
/// where all have it. What cannot be read is not known to be without.
pub(crate) fn without_cpu_max(roots: &Roots) -> Option<String> {
    let (root, proc) = (open_root(&roots.cgroup).ok()?, open_root(&roots.proc).ok()?);
    let (mut buffer, mut lists) = (Buffer::new(), Buffer::new());
    let (mut all, mut without) = (0usize, Vec::new());
    for_each_cgroup(&root, &proc, &mut buffer, |path, found| {
        let Ok(Visited::Leaf(dir, _)) = found else {
            return;
        };
        let list = lists.read_list_at(&dir, "cgroup.procs");
        if list.is_ok_and(|list| list.trim_ascii().is_empty()) {
            return;
        }
        all += 1;
        if matches!(open_file(&dir, "cpu.max"), Err(Errno::NOENT)) {
            without.push(path.to_vec());
        }
    });
    let first = without.iter().min()?;
    let why = no_cpu_max(root.as_fd(), first, &mut buffer);
    Some(format!(
        "of {all} cgroups with processes {} cannot be limited: {why}",
        without.len()
    ))
}

/// The cgroups from the root of the tree to one of its cgroups; a level is the number of names that lead
/// there.
struct Way<'a> {
    root: BorrowedFd<'a>,
    names: Vec<&'a [u8]>,
}

impl Way<'_> {
    fn path(&self, level: usize) -> Vec<u8> {
        let names = self.names.get(..level).unwrap_or_default();
        [b"/", &*names.join(&b'/')].concat()
    }

    fn name(&self, level: usize) -> String {
        escape(&self.path(level))
    }

    fn open(&self, level: usize) -> Result<OwnedFd, Errno> {
        match level {
            0 => open_path_dir(self.root, "."),
            _ => open_beneath(self.root, &self.path(level)),
        }
    }

    /// The first level above the cgroup that does not hand the controller down.
    fn end(&self, buffer: &mut Buffer) -> Result<Option<usize>, Errno> {
        for level in 0..self.names.len() {
            if !lists(buffer.read_once_at(self.open(level)?, FILE)?, b"cpu") {
                return Ok(Some(level));
            }
        }
        Ok(None)
    }

    /// What systemd needs where the next level that is no slice is a unit: for it, systemd enables the
    /// controller in all levels above.
    fn by_systemd(&self, end: usize) -> Option<String> {
        let (above, below) = self.names.split_at_checked(end)?;
        let is_slice = |name: &&&[u8]| name.ends_with(b".slice");
        let mut rest = below.iter().skip_while(is_slice);
        let unit = rest.next()?;
        if !unit.ends_with(b".service") && !unit.ends_with(b".scope") {
            return None;
        }
        let name = escape(unit);
        if rest.next().is_some() {
            return Some(format!(
                "systemd hands it to cgroups in {name} where that unit has Delegate=cpu"
            ));
        }
        let manager = match above.iter().any(|name| name.starts_with(b"user@")) {
            true => "as its user: systemctl --user",
            false => "systemctl",
        };
        // What a shell would understand otherwise is not for pasting.
        let is_plain = |b: &u8| b.is_ascii_alphanumeric() || b"@:._-".contains(b);
        let command = match unit.iter().all(is_plain) {
            true => format!(" ({manager} set-property {name} CPUWeight=100)"),
            false => String::new(),
        };
        Some(format!(
            "systemd hands it to {name} where that unit has a CPUWeight={command}"
        ))
    }

    /// What the kernel needs, or why it would refuse.
    fn by_hand(&self, end: usize, buffer: &mut Buffer) -> String {
        let last = self.names.len().saturating_sub(1);
        for level in end..=last {
            if let Err(why) = self.can_hand_down(level, level == end, buffer) {
                return format!("{} {why}", self.name(level));
            }
        }
        match end == last {
            true => "write +cpu to it".into(),
            false => format!(
                "write +cpu to that of each level from {} to {}",
                self.name(end),
                self.name(last)
            ),
        }
    }

    /// # Errors
    /// Why it cannot, or why that is not known.
    fn can_hand_down(
        &self,
        level: usize,
        must_have: bool,
        buffer: &mut Buffer,
    ) -> Result<(), String> {
        let unknown = |e: Errno| format!("cannot be changed ({e})");
        let dir = self.open(level).map_err(unknown)?;
        open_to_change(&dir, FILE).map_err(unknown)?;
        let controllers = buffer.read_once_at(&dir, "cgroup.controllers");
        if must_have && !lists(controllers.map_err(unknown)?, b"cpu") {
            return Err("does not have it either".into());
        }
        // Threads of one process may share a level with a controller of threads, which cpu is.
        if level == 0 || is_threaded(&dir, buffer) || is_threaded_domain(&dir, buffer) {
            return Ok(());
        }
        let processes = buffer.read_list_at(&dir, "cgroup.procs");
        match processes.map_err(unknown)?.trim_ascii() {
            b"" => Ok(()),
            _ => {
                Err("has processes of its own, below which the kernel enables no controller".into())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::Fake;

    /// A tree where the levels hand these controllers down; the last has none.
    fn said(fake: &Fake, levels: &[(&str, &str)]) -> String {
        for (path, controllers) in levels {
            for file in ["cgroup.subtree_control", "cgroup.controllers"] {
                fake.write(
                    format!("sys/fs/cgroup{path}/{file}"),
                    format!("{controllers}\n"),
                );
            }
            fake.write(format!("sys/fs/cgroup{path}/cgroup.procs"), "");
        }
        let root = open_root(&fake.roots().cgroup).unwrap();
        let (path, _) = levels.last().unwrap();
        no_cpu_max(root.as_fd(), path.as_bytes(), &mut Buffer::new())
    }

    #[test]
    fn systemd_is_told_by_the_unit_below_the_level_where_the_controller_ends() {
        let user = "/user.slice/user-1000.slice/user@1000.service";
        let (app, inner) = (
            format!("{user}/app.slice/a.service"),
            format!("{user}/app.slice/b.scope/c"),
        );
        let odd = "/system.slice/a\\x2db.service";
        for (levels, end, help, not) in [
            (
                &[
                    ("/user.slice", "cpu"),
                    ("/user.slice/user-1000.slice", "pids"),
                    (user, "pids"),
                    (&inner, ""),
                ][..],
                "ends at /user.slice/user-1000.slice, ",
                "in user@1000.service where that unit has Delegate=cpu",
                "CPUWeight",
            ),
            (
                &[
                    ("/user.slice", "cpu"),
                    ("/user.slice/user-1000.slice", "cpu"),
                    (user, "pids"),
                    (&app, ""),
                ],
                "ends at /user.slice/user-1000.slice/user@1000.service, ",
                "systemctl --user set-property a.service CPUWeight=100",
                "Delegate",
            ),
            (
                &[("/system.slice", "pids"), ("/system.slice/a.service", "")],
                "ends at /system.slice, ",
                "(systemctl set-property a.service CPUWeight=100)",
                "+cpu",
            ),
            (
                &[("/system.slice", "pids"), (odd, "")],
                "ends at /system.slice, ",
                "a CPUWeight=",
                "systemctl",
            ),
        ] {
            let said = said(&Fake::new(), levels);
            assert!(
                said.contains(end) && said.contains(help) && !said.contains(not),
                "{said}"
            );
        }
    }

    #[test]
    fn the_kernel_is_told_only_where_it_would_do_it() {
        let docker = [
            ("/docker", "pids"),
            ("/docker/a", "pids"),
            ("/docker/a/b", ""),
        ];
        let fake = Fake::new();
        assert!(said(&fake, &docker).contains("/docker does not have it either"));
        let controllers = "sys/fs/cgroup/docker/cgroup.controllers";
        let again = |fake: &Fake| {
            let root = open_root(&fake.roots().cgroup).unwrap();
            no_cpu_max(root.as_fd(), b"/docker/a/b", &mut Buffer::new())
        };
        fake.write(controllers, "cpu pids\n");
        let can = "write +cpu to that of each level from /docker to /docker/a";
        assert!(again(&fake).ends_with(can), "{}", again(&fake));
        fake.write("sys/fs/cgroup/docker/a/cgroup.procs", "100\n");
        assert!(again(&fake).contains("/docker/a has processes of its own"));
        fake.write("sys/fs/cgroup/docker/a/cgroup.type", "domain threaded\n");
        assert!(again(&fake).ends_with(can));
        for level in ["docker", "docker/a"] {
            fake.write(
                format!("sys/fs/cgroup/{level}/cgroup.subtree_control"),
                "cpu\n",
            );
        }
        fake.write("sys/fs/cgroup/docker/a/b/cpu.weight", "100\n");
        assert!(again(&fake).contains("CONFIG_CFS_BANDWIDTH"));
        fake.remove("sys/fs/cgroup/docker/cgroup.subtree_control");
        assert!(again(&fake).contains("is not known"));
    }
}
