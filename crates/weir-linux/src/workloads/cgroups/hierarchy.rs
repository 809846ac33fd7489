// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The cgroup tree as it is here: version 2, the host's own and not that of a container, with the controllers
//! that limits need. Where it is not, what is wrong and what would work.
//!
//! ```text
//! cgroup.controllers at the top ─► no  ─► version 1, or both (hybrid), or mounted elsewhere, or not at all
//!                               └► yes ─► cgroup.type at the top, or processes above it ─► a cgroup namespace
//!                                         └► the cpu controller: there? handed down?
//! ```
//!
//! Source: kernel, `Documentation/admin-guide/cgroup-v2.rst`; `cgroup_namespaces(7)`.

use crate::inventory::numa::missing;
use crate::kernel::files::{open_root, read_path, read_start};
use crate::kernel::parse::cgroup::lists;
use crate::options::{By, Roots};
use rustix::fd::AsFd;
use std::path::Path;
use weir_core::Missing;
use weir_core::seam::topology::Fact;

/// The fact about a cgroup namespace; there only in one.
pub const NAMESPACE: &str = "cgroup.namespace";
/// The fact about cgroup version 2.
pub const V2: &str = "cgroup.v2";
/// The fact about a PID namespace; there only in one.
pub const PIDS: &str = "proc.pid_namespace";
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
            Some(HOSTS_NAMESPACE.into()),
        ));
        return false;
    }
    let text = String::from_utf8_lossy(controllers.trim_ascii()).into_owned();
    let found = format!("{} ({text})", roots.cgroup.display());
    facts.push(fact(V2, Ok(found), None));
    let (cpu, ok) = controller(roots, &controllers, "cpu");
    facts.push(cpu);
    facts.push(controller(roots, &controllers, "memory").0);
    ok
}

fn fact(name: &str, value: Result<String, Missing>, next_move: Option<String>) -> Fact {
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
        let next_move = Some(HOSTS_NAMESPACE.into());
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
    let (why, next_move) = if is_there("unified/cgroup.controllers") {
        let why = format!(
            "{top} is a hybrid hierarchy: version 1 has the controllers, {top}/unified has none"
        );
        (Missing::NotSupported(why), V1_BOOT.to_owned())
    } else if is_v1(roots) {
        let why = format!("{top} is cgroup version 1, and weir needs version 2");
        (Missing::NotSupported(why), V1_BOOT.to_owned())
    } else if let Some(elsewhere) = mounted(roots) {
        let why = format!("cgroup version 2 is mounted at {elsewhere} and not at {top}");
        let next_move = format!("mount it there too: mount --bind {elsewhere} {top}");
        (Missing::NotSupported(why), next_move)
    } else {
        (why, format!("mount it: mount -t cgroup2 none {top}"))
    };
    let next_move = match by {
        By::Cgroup => format!("{next_move}; {BY_PROCESS}"),
        By::Process => next_move,
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
fn controller(roots: &Roots, controllers: &[u8], which: &str) -> (Fact, bool) {
    let name = format!("cgroup.controller.{which}");
    if !lists(controllers, which.as_bytes()) {
        let (why, next_move) = absent(roots, which);
        let why = Missing::NotSupported(why);
        return (fact(&name, Err(why), Some(next_move)), false);
    }
    let path = roots.cgroup.join("cgroup.subtree_control");
    match read_path(&path).map_err(|e| missing(&path, &e)) {
        Ok(text) if lists(&text, which.as_bytes()) => {
            (fact(&name, Ok("enabled below the root".into()), None), true)
        }
        Ok(_) => {
            let why = Missing::NotSupported("there, but not handed down from the root".into());
            let next_move = Some(format!("echo +{which} > {}", path.display()));
            (fact(&name, Err(why), next_move), false)
        }
        Err(why) => (fact(&name, Err(why), None), false),
    }
}

/// Why the kernel has it not in this tree, by `/proc/cgroups`: name, hierarchy, number of cgroups, enabled.
fn absent(roots: &Roots, which: &str) -> (String, String) {
    let text = read_path(&roots.proc.join("cgroups")).unwrap_or_default();
    let text = String::from_utf8_lossy(&text).into_owned();
    let mut lines = text
        .lines()
        .map(|line| line.split_ascii_whitespace().collect::<Vec<_>>());
    let line = lines.find(|words| words.first() == Some(&which));
    match line.as_deref() {
        Some([_, _, _, "0"]) => (
            format!("the {which} controller is disabled on the kernel's command line"),
            format!("boot without cgroup_disable={which}"),
        ),
        Some([_, hierarchy, ..]) if *hierarchy != "0" => (
            format!("version 1 has the {which} controller, in a hierarchy beside this tree"),
            format!("boot with cgroup_no_v1={which}"),
        ),
        None if !text.is_empty() => (
            format!("this kernel is built without the {which} controller"),
            match which {
                "cpu" => {
                    "use a kernel with CONFIG_FAIR_GROUP_SCHED and CONFIG_CFS_BANDWIDTH".into()
                }
                _ => "use a kernel with CONFIG_MEMCG".into(),
            },
        ),
        _ => (
            format!("the kernel has no {which} controller in this tree"),
            format!("boot with cgroup_no_v1={which}"),
        ),
    }
}

#[cfg(test)]
#[path = "hierarchy_tests.rs"]
mod tests;
