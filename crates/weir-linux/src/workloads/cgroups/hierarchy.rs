// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The cgroup tree as it is here: version 2, the host's own and not that of a container, with the controllers
//! that limits need. Where it is not, what is wrong and what would work.
//!
//! ```text
//! cgroup.controllers at the top ─► no  ─► version 1, or both (hybrid), or mounted elsewhere, or not at all
//!                               └► yes ─► cgroup.type at the top, or processes above it ─► a cgroup namespace
//!                                         └► can it be written? the cpu controller: there? handed down?
//! ```
//!
//! Source: kernel, `Documentation/admin-guide/cgroup-v2.rst`; `cgroup_namespaces(7)`.

use crate::inventory::numa::missing;
use crate::kernel::escape::escape;
use crate::kernel::files::{open_root, open_to_change, read_path, read_start};
use crate::kernel::parse::cgroup::lists;
use crate::kernel::parse::{lines, words};
use crate::kernel::privilege;
use crate::options::{By, Roots};
use rustix::fd::AsFd;
use rustix::fs::{StatVfsMountFlags, fstatvfs};
use rustix::io::Errno;
use std::path::Path;
use weir_core::Missing;
use weir_core::seam::next_move::{Act, NextMove, Precondition};
use weir_core::seam::topology::Fact;

/// The fact about a cgroup namespace; there only in one.
pub const NAMESPACE: &str = "cgroup.namespace";
/// The fact about cgroup version 2.
pub const V2: &str = "cgroup.v2";
/// The fact about a PID namespace; there only in one.
pub const PIDS: &str = "proc.pid_namespace";
/// The fact about the controller that limits by CPU time.
pub(crate) const CPU: &str = "cgroup.controller.cpu";
/// The fact about a tree that root cannot write; there only where that was tried.
const WRITE: &str = "cgroup.write";
/// Facts that say why nothing can limit here, where they say that something is not there.
pub const LIMITING: [&str; 4] = [NAMESPACE, V2, CPU, WRITE];
/// Inode number of the initial PID namespace (kernel, include/uapi/linux/nsfs.h).
pub(crate) const INITIAL_PIDS: &str = "pid:[4026531836]";

const HOSTS_NAMESPACE: &str = "run weir with the host's cgroups and processes: docker or podman run --cgroupns=host --pid=host \
     --privileged, in Kubernetes with weir's chart, whose pod enters them (hostPID: true, nsenter --cgroup)";
const V1_BOOT: &str = "boot the host with systemd.unified_cgroup_hierarchy=1 cgroup_no_v1=all";
const BY_PROCESS: &str = "until then weir can observe processes: weir run --workloads process";

/// Facts about the cgroup tree. Returns whether limits can be set in it.
pub(crate) fn facts(roots: &Roots, by: By, facts: &mut Vec<Fact>) -> bool {
    facts.extend(pid_namespace(roots));
    let path = roots.cgroup.join("cgroup.controllers");
    let controllers = match read_path(&path).map_err(|e| missing(&path, &e)) {
        Ok(controllers) => controllers,
        Err(why) => {
            facts.push(no_v2(roots, by, why));
            return false;
        }
    };
    if let Some(why) = namespace(roots) {
        facts.push(fact(
            NAMESPACE,
            Err(Missing::NotSupported(why)),
            Some(hosts_namespace(
                "cgroup.type or cgroup.events is at the top of the tree",
            )),
        ));
        return false;
    }
    let text = String::from_utf8_lossy(controllers.trim_ascii()).into_owned();
    let found = format!("{} ({text})", roots.cgroup.display());
    facts.push(fact(V2, Ok(found), None));
    let closed = closed(roots, tried(roots));
    let is_open = closed.is_none();
    facts.extend(closed);
    for name in [CPU, "cgroup.controller.memory"] {
        facts.push(controller(roots, &controllers, name, is_open));
    }
    is_open
        && facts
            .iter()
            .any(|fact| fact.name == CPU && fact.value.is_ok())
}

/// Why nothing can limit in this tree, with what would help.
pub(crate) fn in_the_way(roots: &Roots) -> Option<Missing> {
    let mut found = Vec::new();
    if facts(roots, By::Cgroup, &mut found) {
        return None;
    }
    found.retain(|fact| LIMITING.contains(&fact.name.as_str()));
    let fact = found.into_iter().find(|fact| fact.value.is_err())?;
    let next_move = fact.next_move.map(|next| format!(": {next}"));
    Some(Missing::NotSupported(format!(
        "{}{}",
        fact.value.err()?.reason(),
        next_move.unwrap_or_default()
    )))
}

/// Opens a file to be written that each level of the tree has, and writes nothing. Permissions are asked for
/// before the mount is.
fn tried(roots: &Roots) -> Result<(), Errno> {
    let top = open_root(&roots.cgroup)?;
    if fstatvfs(&top).is_ok_and(|fs| fs.f_flag.contains(StatVfsMountFlags::RDONLY)) {
        return Err(Errno::ROFS);
    }
    open_to_change(top, "cgroup.subtree_control").map(drop)
}

/// The fact about a tree where nothing can be written. Without root nothing is known: some of its cgroups may
/// belong to this user.
fn closed(roots: &Roots, tried: Result<(), Errno>) -> Option<Fact> {
    let top = roots.cgroup.display();
    let (why, next_move) = match tried {
        Err(Errno::ROFS) => {
            let why = format!("{top} is mounted read-only: no limit can be written there");
            (why, to_make_writable(roots))
        }
        Err(e @ (Errno::ACCESS | Errno::PERM)) if rustix::process::geteuid().is_root() => {
            let why = format!("{top}/cgroup.subtree_control cannot be opened to be written: {e}");
            (why, Some(privilege::next_move(roots)))
        }
        _ => return None,
    };
    Some(fact(WRITE, Err(Missing::NotPermitted(why)), next_move))
}

/// What makes a tree that is mounted read-only writable for weir: in a container its rights, in a unit its
/// settings, else to mount it again.
fn to_make_writable(roots: &Roots) -> Option<NextMove> {
    let text = read_path(&roots.proc.join("self/cgroup")).unwrap_or_default();
    let own = lines(&text).find_map(|line| line.strip_prefix(b"0::"));
    let own = own.and_then(|path| path.rsplit(|b| *b == b'/').next());
    let unit = own.filter(|name| name.ends_with(b".service"));
    let is_inside = open_root(&roots.proc).is_ok_and(has_hidden);
    let why = "the tree is mounted read-only for weir";
    match (unit, privilege::may_mount(roots)) {
        _ if is_inside => Some(hosts_namespace("/proc/self/ns/pid is not the host's")),
        (Some(unit), _) => Some(NextMove {
            act: Act::Deed("set ProtectControlGroups=no in that unit".into()),
            why: why.into(),
            needs: Precondition::Operator(format!(
                "{} has ProtectControlGroups=yes or strict",
                escape(unit)
            )),
        }),
        (None, Some(false)) => Some(hosts_namespace("CapEff lacks rights of the host's root")),
        (None, Some(true)) => is_read_only_alone(roots).then(|| NextMove {
            act: Act::Command(format!(
                "mount -o remount,bind,rw {}",
                roots.cgroup.display()
            )),
            why: why.into(),
            needs: Precondition::Seen("only the mount is read-only, by mountinfo".into()),
        }),
        (None, None) => None,
    }
}

/// Whether the mount is read-only, and what is mounted is not (proc_pid_mountinfo(5)).
fn is_read_only_alone(roots: &Roots) -> bool {
    let text = read_path(&roots.proc.join("self/mountinfo")).unwrap_or_default();
    let is_first = |list: Option<&[u8]>, wanted: &[u8]| {
        list.is_some_and(|list| list.split(|b| *b == b',').next() == Some(wanted))
    };
    let here = lines(&text).filter_map(|line| {
        let (mount, rest) = (
            words(line).skip(4),
            words(line).skip_while(|word| *word != b"-"),
        );
        let [mut mount, mut rest] =
            [mount.collect::<Vec<_>>(), rest.skip(1).collect()].map(Vec::into_iter);
        (mount.next()? == roots.cgroup.as_os_str().as_encoded_bytes()).then_some(())?;
        let is_v2 = rest.next()? == b"cgroup2";
        Some(is_v2 && is_first(mount.next(), b"ro") && is_first(rest.nth(1), b"rw"))
    });
    // The last one lies on top.
    here.last() == Some(true)
}

fn fact(name: &str, value: Result<String, Missing>, next_move: Option<NextMove>) -> Fact {
    Fact {
        name: name.into(),
        value,
        next_move,
    }
}

/// Whether there are processes that this `/proc` has not: it is that of a PID namespace.
pub(crate) fn has_hidden(proc: impl AsFd) -> bool {
    let link = rustix::fs::readlinkat(proc, "self/ns/pid", Vec::new());
    link.is_ok_and(|link| link.as_bytes() != INITIAL_PIDS.as_bytes())
}

/// Processes outside of a PID namespace are not in its `/proc`.
fn pid_namespace(roots: &Roots) -> Option<Fact> {
    open_root(&roots.proc).is_ok_and(has_hidden).then(|| {
        let why =
            "weir is in a PID namespace: processes outside of it, and their memory, are not seen";
        let next_move = Some(hosts_namespace("/proc/self/ns/pid is not the host's"));
        fact(PIDS, Err(Missing::NotSupported(why.into())), next_move)
    })
}

/// What shows that the tree is only a part of the host's: the host's root cgroup has no `cgroup.type` and no
/// `cgroup.events`, and above it there is nothing.
fn namespace(roots: &Roots) -> Option<String> {
    let top = roots.cgroup.display();
    let is_inner = ["cgroup.type", "cgroup.events"]
        .iter()
        .any(|file| roots.cgroup.join(file).symlink_metadata().is_ok());
    let is_above = || {
        let text = read_path(&roots.proc.join("1/cgroup")).unwrap_or_default();
        text.split(|b| *b == b'\n')
            .any(|line| line.starts_with(b"0::/.."))
    };
    (is_inner || is_above()).then(|| {
        format!(
            "{top} is the top of a cgroup namespace (a container's own) and not of the host: workloads outside of it cannot \
             be seen or limited from here; bandwidth of devices, topology, events and calibrate are as on the host"
        )
    })
}

/// There is no version 2 at the path that weir reads.
fn no_v2(roots: &Roots, by: By, why: Missing) -> Fact {
    let top = roots.cgroup.display();
    let is_there = |name: &str| roots.cgroup.join(name).exists();
    let v1_boot = || {
        (
            Act::Deed(V1_BOOT.into()),
            "hierarchies of version 1 are mounted".into(),
        )
    };
    let (why, (act, seen)) = if is_there("unified/cgroup.controllers") {
        let text = read_path(&roots.cgroup.join("unified/cgroup.controllers")).unwrap_or_default();
        let has = match String::from_utf8_lossy(text.trim_ascii()) {
            text if text.is_empty() => "no controller".into(),
            text => text.into_owned(),
        };
        let why = format!(
            "{top} is a hybrid hierarchy: {top}/unified has {has}, version 1 has the others"
        );
        (Missing::NotSupported(why), v1_boot())
    } else if is_v1(roots) {
        let why = format!("{top} is cgroup version 1, and weir needs version 2");
        (Missing::NotSupported(why), v1_boot())
    } else if let Some(elsewhere) = mounted(roots) {
        let why = format!("cgroup version 2 is mounted at {elsewhere} and not at {top}");
        let seen = format!("/proc/self/mounts has it at {elsewhere}");
        let act = Act::Command(format!("mount --bind {elsewhere} {top}"));
        (Missing::NotSupported(why), (act, seen))
    } else {
        let act = Act::Command(format!("mount -t cgroup2 none {top}"));
        (why, (act, format!("{top} has no tree of version 1 or 2")))
    };
    let next_move = NextMove {
        act: match by {
            By::Cgroup => Act::Deed(format!("{act}; {BY_PROCESS}")),
            By::Process => act,
        },
        why: format!("weir needs cgroup version 2 at {top}"),
        needs: Precondition::Seen(seen),
    };
    fact(V2, Err(why), Some(next_move))
}

/// Version 1 has a directory for each hierarchy, and its processes have lines of other hierarchies than 0.
fn is_v1(roots: &Roots) -> bool {
    let names = ["cpu", "cpu,cpuacct", "cpuacct", "memory", "systemd"];
    let is_hierarchy = |name: &&str| roots.cgroup.join(name).join("cgroup.procs").exists();
    names.iter().any(is_hierarchy)
}

/// Where version 2 is mounted, as the kernel escapes it (proc(5)); nothing that would harm a shell or a
/// terminal.
fn mounted(roots: &Roots) -> Option<String> {
    let text = read_start(&roots.proc.join("self/mounts")).ok()?;
    let text = String::from_utf8_lossy(&text).into_owned();
    text.lines().find_map(|line| {
        let mut words = line.split(' ');
        let (_, place, kind) = (words.next()?, words.next()?, words.next()?);
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-".contains(c);
        let fits = kind == "cgroup2" && place.starts_with('/') && place.chars().all(is_plain);
        (fits && !Path::new(place).starts_with(&roots.cgroup)).then(|| place.to_owned())
    })
}

/// Whether a controller is there and handed down to the first level of cgroups.
fn controller(roots: &Roots, controllers: &[u8], name: &str, is_open: bool) -> Fact {
    let which = name.rsplit('.').next().unwrap_or(name);
    if !lists(controllers, which.as_bytes()) {
        let next_move = absent(roots, which);
        let why = Missing::NotSupported(next_move.why.clone());
        return fact(name, Err(why), Some(next_move));
    }
    let path = roots.cgroup.join("cgroup.subtree_control");
    match read_path(&path).map_err(|e| missing(&path, &e)) {
        Ok(text) if lists(&text, which.as_bytes()) => {
            fact(name, Ok("enabled below the root".into()), None)
        }
        Ok(_) => {
            let why = Missing::NotSupported(format!(
                "the {which} controller is there, but not handed down from the root"
            ));
            let next_move = is_open.then(|| NextMove {
                act: Act::Command(format!("echo +{which} > {}", path.display())),
                why: format!("{which} is not handed down from the root"),
                needs: Precondition::Seen(format!(
                    "cgroup.controllers of the root has {which}, and the tree can be written"
                )),
            });
            fact(name, Err(why), next_move)
        }
        Err(why) => fact(name, Err(why), None),
    }
}

/// Why the kernel has it not in this tree, by `/proc/cgroups`: name, hierarchy, number of cgroups, enabled.
fn absent(roots: &Roots, which: &str) -> NextMove {
    let text = read_path(&roots.proc.join("cgroups")).unwrap_or_default();
    let text = String::from_utf8_lossy(&text).into_owned();
    let mut lines = text
        .lines()
        .map(|line| line.split_ascii_whitespace().collect::<Vec<_>>());
    let line = lines.find(|words| words.first() == Some(&which));
    let (why, deed, seen) = match line.as_deref() {
        Some([_, _, _, "0"]) => (
            format!("the {which} controller is disabled on the kernel's command line"),
            format!("boot without cgroup_disable={which}"),
            "/proc/cgroups has it, and not enabled",
        ),
        Some([_, hierarchy, ..]) if *hierarchy != "0" => (
            format!("version 1 has the {which} controller, in a hierarchy beside this tree"),
            format!("boot with cgroup_no_v1={which}"),
            "/proc/cgroups has it, in a hierarchy of version 1",
        ),
        None if !text.is_empty() => (
            format!("this kernel is built without the {which} controller"),
            match which {
                "cpu" => {
                    "use a kernel with CONFIG_FAIR_GROUP_SCHED and CONFIG_CFS_BANDWIDTH".into()
                }
                _ => "use a kernel with CONFIG_MEMCG".into(),
            },
            "/proc/cgroups has other controllers and not this one",
        ),
        _ => (
            format!("the kernel has no {which} controller in this tree"),
            format!("boot with cgroup_no_v1={which}"),
            "cgroup.controllers has not this one",
        ),
    };
    NextMove {
        act: Act::Deed(deed),
        why,
        needs: Precondition::Seen(seen.into()),
    }
}

fn hosts_namespace(seen: &str) -> NextMove {
    NextMove {
        act: Act::Deed(HOSTS_NAMESPACE.into()),
        why: "weir sees only a part of the host from here".into(),
        needs: Precondition::Seen(seen.into()),
    }
}

#[cfg(test)]
#[path = "hierarchy_tests.rs"]
mod tests;
