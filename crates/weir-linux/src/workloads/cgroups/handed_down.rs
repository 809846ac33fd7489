// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Why a cgroup lacks a controller, as `cpu`: the level where that ends, and what would hand it down from
//! there (kernel, cgroup-v2.rst, "Enabling and Disabling", "No Internal Process Constraint";
//! systemd.resource-control(5)). A controller is handed from level to level: to enable it just above the
//! cgroup is not enough.
//!
//! ```text
//! first level without it in cgroup.subtree_control
//!   ├─ slices, then a unit ─► systemd's: CPUWeight= of the unit, Delegate= where it lies in the unit
//!   └─ else ─► in its cgroup.controllers, no processes in levels that hand it down: write +cpu
//! ```

use super::cgroup_type::{is_threaded, is_threaded_domain};
use super::walk::{Visited, for_each_cgroup};
use crate::kernel::escape::escape;
use crate::kernel::files::{
    Buffer, open_beneath, open_file, open_path_dir, open_root, open_to_change,
};
use crate::kernel::parse::cgroup::lists;
use crate::options::Roots;
use crate::workloads::exclude::Rules;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use std::fmt;
use weir_core::seam::next_move::{Act, NextMove, Precondition};

const FILE: &str = "cgroup.subtree_control";

/// A controller, and the setting with which systemd hands it to a unit.
#[derive(Clone, Copy)]
pub(crate) struct Controller<'a> {
    pub(crate) name: &'static str,
    pub(crate) setting: &'a str,
}

const CPU: Controller<'static> = Controller {
    name: "cpu",
    setting: "CPUWeight=100",
};

/// Why a cgroup is without, and what files show to help.
pub(crate) struct NotHandedDown {
    pub(crate) why: String,
    pub(crate) next_move: Option<NextMove>,
}

impl fmt::Display for NotHandedDown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.next_move {
            Some(next_move) => write!(f, "{}: {}", self.why, next_move.with_why()),
            None => f.write_str(&self.why),
        }
    }
}

/// Why the cgroup at `path` has no `cpu.max`, with what would help as far as files show that it can.
pub(crate) fn no_cpu_max(root: BorrowedFd<'_>, path: &[u8], buffer: &mut Buffer) -> NotHandedDown {
    let has_weight = || open_file(open_beneath(root, path).ok()?, "cpu.weight").ok();
    let built = || match has_weight() {
        Some(_) => "the kernel is built without CONFIG_CFS_BANDWIDTH",
        None => "although the cpu controller is handed down to it",
    };
    let found = without(root, path, CPU, built, buffer);
    NotHandedDown {
        why: format!("{} has no cpu.max: {}", escape(path), found.why),
        ..found
    }
}

/// Why the cgroup at `path` is without `controller`; `else_why` where it is handed down to it.
pub(crate) fn without(
    root: BorrowedFd<'_>,
    path: &[u8],
    controller: Controller<'_>,
    else_why: impl Fn() -> &'static str,
    buffer: &mut Buffer,
) -> NotHandedDown {
    let names = path.split(|b| *b == b'/').filter(|name| !name.is_empty());
    let way = Way {
        root,
        names: names.collect(),
        controller,
    };
    let name = controller.name;
    let alone = |why: String| NotHandedDown {
        why,
        next_move: None,
    };
    match way.end(buffer) {
        Ok(Some(end)) => {
            let at = way.name(end);
            let why = format!(
                "the {name} controller ends at {at}, whose cgroup.subtree_control is without {name}"
            );
            let by_systemd = way.by_systemd(end).map(Ok);
            match by_systemd.unwrap_or_else(|| way.by_hand(end, buffer)) {
                Ok(next_move) => NotHandedDown {
                    why,
                    next_move: Some(next_move),
                },
                Err(obstacle) => alone(format!("{why}: {obstacle}")),
            }
        }
        Ok(None) => alone(else_why().into()),
        Err(e) => alone(format!(
            "where the {name} controller ends is not known ({e})"
        )),
    }
}

/// Why `cpu.max` of the cgroup at `path` cannot be set, as far as an attempt to open it shows that. Nothing
/// is written.
pub(crate) fn cpu_max_refused(
    root: BorrowedFd<'_>,
    path: &[u8],
    buffer: &mut Buffer,
) -> Option<NotHandedDown> {
    let dir = open_beneath(root, path).ok()?;
    match open_to_change(dir, "cpu.max").err()? {
        Errno::NOENT => Some(no_cpu_max(root, path, buffer)),
        e @ (Errno::ACCESS | Errno::PERM | Errno::ROFS) => Some(NotHandedDown {
            why: format!(
                "{}/cpu.max cannot be opened to be written: {e}",
                escape(path)
            ),
            next_move: None,
        }),
        // It is gone, or something of weir's own is lacking.
        _ => None,
    }
}

/// Cgroups with processes that cannot be limited.
pub(crate) struct Unlimitable {
    /// How many, and why the first of them cannot.
    pub(crate) why: String,
    pub(crate) next_move: Option<NextMove>,
    /// There is none that can.
    pub(crate) are_all: bool,
}

/// Those of the cgroups with processes, but for what `rules` exclude, of which `cpu.max` cannot be set;
/// nothing where all can be limited. What cannot be read is taken to be one that can.
pub(crate) fn without_cpu_max(roots: &Roots, rules: &Rules) -> Option<Unlimitable> {
    let (root, proc) = (open_root(&roots.cgroup).ok()?, open_root(&roots.proc).ok()?);
    let (mut buffer, mut others) = (Buffer::new(), Buffer::new());
    let (mut all, mut refused) = (0usize, Vec::new());
    let delegation = rules.delegation(&root);
    for_each_cgroup(&root, &proc, &delegation, &mut buffer, |path, found| {
        let Ok(Visited::Leaf(dir, _)) = found else {
            return;
        };
        let list = others.read_list_at(&dir, "cgroup.procs");
        let is_empty = list.is_ok_and(|list| list.trim_ascii().is_empty());
        let none = std::iter::empty();
        if is_empty || rules.on_cgroup(&escape(path), path, none).is_some() {
            return;
        }
        all += 1;
        if let Some(why) = cpu_max_refused(root.as_fd(), path, &mut others) {
            refused.push((path.to_vec(), why));
        }
    });
    let count = refused.len();
    let (_, first) = refused.into_iter().min_by(|a, b| a.0.cmp(&b.0))?;
    Some(Unlimitable {
        why: format!(
            "of {all} cgroups with processes {count} cannot be limited: {}",
            first.why
        ),
        next_move: first.next_move,
        are_all: count == all,
    })
}

/// The cgroups from the root of the tree to one of its cgroups; a level is the number of names that lead
/// there.
struct Way<'a> {
    root: BorrowedFd<'a>,
    names: Vec<&'a [u8]>,
    controller: Controller<'a>,
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
            if !lists(
                buffer.read_once_at(self.open(level)?, FILE)?,
                self.controller.name.as_bytes(),
            ) {
                return Ok(Some(level));
            }
        }
        Ok(None)
    }

    /// What systemd needs where the next level that is no slice is a unit: for it, systemd enables the
    /// controller in all levels above.
    fn by_systemd(&self, end: usize) -> Option<NextMove> {
        let (above, below) = self.names.split_at_checked(end)?;
        let is_slice = |name: &&&[u8]| name.ends_with(b".slice");
        let mut rest = below.iter().skip_while(is_slice);
        let unit = rest.next()?;
        if !unit.ends_with(b".service") && !unit.ends_with(b".scope") {
            return None;
        }
        let (name, controller) = (escape(unit), self.controller.name);
        let needs = Precondition::Seen(format!("{name} is a unit of systemd in that path"));
        if rest.next().is_some() {
            return Some(NextMove {
                act: Act::Deed(format!("set Delegate={controller} in {name}")),
                why: format!(
                    "systemd hands it to cgroups in {name} where that unit has Delegate={controller}"
                ),
                needs,
            });
        }
        let manager = if above.iter().any(|name| name.starts_with(b"user@")) {
            "systemctl --user"
        } else {
            "systemctl"
        };
        let setting = self.controller.setting;
        // What a shell would understand otherwise is not for pasting.
        let is_plain = |b: &u8| b.is_ascii_alphanumeric() || b"@:._-".contains(b);
        let key = setting.split('=').next().unwrap_or(setting);
        Some(NextMove {
            act: if unit.iter().all(is_plain) {
                Act::Command(format!("{manager} set-property {name} {setting}"))
            } else {
                Act::Deed(format!("set {setting} in that unit"))
            },
            why: format!("systemd hands it to {name} where that unit has {key}="),
            needs,
        })
    }

    /// What the kernel needs.
    ///
    /// # Errors
    /// Why it would refuse.
    fn by_hand(&self, end: usize, buffer: &mut Buffer) -> Result<NextMove, String> {
        let last = self.names.len().saturating_sub(1);
        for level in end..=last {
            self.can_hand_down(level, level == end, buffer)
                .map_err(|why| format!("{} {why}", self.name(level)))?;
        }
        let (from, controller) = (self.name(end), self.controller.name);
        Ok(NextMove {
            act: Act::Deed(if end == last {
                format!("write +{controller} to that of {from}")
            } else {
                format!(
                    "write +{controller} to that of each level from {from} to {}",
                    self.name(last)
                )
            }),
            why: "no level from there on hands it down".into(),
            needs: Precondition::Seen(
                "these levels can be written, and the kernel lets them hand it down".into(),
            ),
        })
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
        if must_have
            && !lists(
                controllers.map_err(unknown)?,
                self.controller.name.as_bytes(),
            )
        {
            return Err("does not have it either".into());
        }
        // Threads of one process may share a level with a controller of threads, which cpu and cpuset are.
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
        no_cpu_max(root.as_fd(), path.as_bytes(), &mut Buffer::new()).to_string()
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
                ": systemctl set-property a.service CPUWeight=100",
                "+cpu",
            ),
            (
                &[("/system.slice", "pids"), (odd, "")],
                "ends at /system.slice, ",
                "set CPUWeight=100 in that unit",
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
            no_cpu_max(root.as_fd(), b"/docker/a/b", &mut Buffer::new()).to_string()
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
