// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What this process may do, and what to do where it may not. Root in a container often has no root
//! privileges on the host, and gets no advice to become root.

use super::files::read_path;
use super::parse::words;
use crate::options::Roots;
use rustix::io::Errno;
use weir_core::Missing;
use weir_core::seam::next_move::{Act, NextMove, Precondition};
use weir_core::seam::topology::Fact;

const NAME: &str = "privilege";
/// All of the initial user namespace (user_namespaces(7)).
const ALL_IDS: [&[u8]; 3] = [b"0", b"0", b"4294967295"];
/// Capabilities (capability.h): without the first, memory of other processes is closed, and the second
/// includes the last two.
const CAP_SYS_PTRACE: u32 = 19;
const CAP_SYS_ADMIN: u32 = 21;
const CAP_PERFMON: u32 = 38;
const CAP_BPF: u32 = 39;

const CONTAINER: &str = "run it with the rights of the host's root: docker or podman run --privileged, in Kubernetes \
                         securityContext.privileged";

/// How far root goes here, or why this is not root.
pub(crate) fn fact(roots: &Roots) -> Fact {
    let (value, next_move) = match lacking(roots, rustix::process::geteuid().is_root()) {
        None => (Ok("root".into()), None),
        Some(next_move) => (
            Err(Missing::NotPermitted(next_move.why.clone())),
            Some(next_move),
        ),
    };
    Fact {
        name: NAME.into(),
        value,
        next_move,
    }
}

/// What to do where the kernel refused something to this process. To root that lacks nothing no move is
/// named: only what the files say.
///
/// ```text
/// in a user namespace ─► not root ─► a capability is missing ─► lockdown ─► seccomp ─► no file says why
/// ```
pub(crate) fn next_move(roots: &Roots) -> NextMove {
    let is_root = rustix::process::geteuid().is_root();
    lacking(roots, is_root).unwrap_or_else(|| refused_to_root(roots))
}

/// What follows from an answer of the kernel to this process, to be put behind the answer; empty where
/// nothing is known to help.
pub(crate) fn hint(answer: Errno) -> String {
    let roots = Roots::default();
    match answer {
        Errno::ACCESS | Errno::PERM => lacking(&roots, rustix::process::geteuid().is_root())
            .map_or_else(String::new, |next_move| format!("; {next_move}")),
        _ => String::new(),
    }
}

fn lacking(roots: &Roots, is_root: bool) -> Option<NextMove> {
    let deed = |act: &str, why: &str, seen: &str| NextMove {
        act: Act::Deed(act.into()),
        why: why.into(),
        needs: Precondition::Seen(seen.into()),
    };
    let own = roots.proc.join("self");
    // A file that is missing is no evidence.
    if let Ok(map) = read_path(&own.join("uid_map"))
        && !map
            .split(u8::is_ascii_whitespace)
            .filter(|word| !word.is_empty())
            .eq(ALL_IDS)
    {
        let why = "in a user namespace, whose root is not root outside of it";
        let next_move = "run it in the host's user namespace: no rootless containers, no --userns";
        let seen = "/proc/self/uid_map does not map all ids of the host";
        return Some(deed(next_move, why, seen));
    }
    if !is_root {
        let why = "not root: limits and memory of others are closed";
        let seen = "this process has no effective user id 0";
        return Some(deed("run weir as root", why, seen));
    }
    let status = read_path(&own.join("status")).ok()?;
    let why = "root without CAP_SYS_PTRACE: memory of other processes is closed";
    let seen = "CapEff in /proc/self/status has no CAP_SYS_PTRACE";
    lacks(&status, CAP_SYS_PTRACE).then(|| deed(CONTAINER, why, seen))
}

/// Whether root may change mounts, as far as files say; nothing where this is not the host's root.
pub(crate) fn may_mount(roots: &Roots) -> Option<bool> {
    let status = read_path(&roots.proc.join("self/status")).ok()?;
    let effective = capabilities(&status)?;
    let is_root = rustix::process::geteuid().is_root();
    is_root.then_some(effective >> CAP_SYS_ADMIN & 1 == 1 && lacking(roots, true).is_none())
}

/// What could refuse something to root with all rights, as far as files say.
fn refused_to_root(roots: &Roots) -> NextMove {
    let mut causes = Vec::new();
    let status = read_path(&roots.proc.join("self/status")).unwrap_or_default();
    let lacks = |bit| lacks(&status, bit);
    if lacks(CAP_SYS_ADMIN) && (lacks(CAP_PERFMON) || lacks(CAP_BPF)) {
        causes.push(format!("it lacks CAP_PERFMON or CAP_BPF: {CONTAINER}"));
    }
    let text = read_path(&roots.sys.join("kernel/security/lockdown")).unwrap_or_default();
    let mode = ["integrity", "confidentiality"]
        .into_iter()
        .find(|mode| words(text.trim_ascii()).any(|word| word == format!("[{mode}]").as_bytes()));
    causes.extend(mode.map(|mode| {
        format!("the kernel is locked down ({mode}, by Secure Boot or the boot option lockdown=)")
    }));
    if field(&status, "Seccomp:") == Some("2") {
        let filter =
            "a seccomp filter is in force (a container's profile, or SystemCallFilter= of a unit)";
        causes.push(filter.into());
    }
    let (deed, needs) = if causes.is_empty() {
        (
            "root was refused, and no file says why: the kernel's log may".to_owned(),
            "/proc/self/status and /sys/kernel/security/lockdown name no cause",
        )
    } else {
        (
            format!("root was refused: {}", causes.join(", and ")),
            "/proc/self/status or /sys/kernel/security/lockdown says so",
        )
    };
    NextMove {
        act: Act::Deed(deed),
        why: "the kernel refuses something to root".into(),
        needs: Precondition::Seen(needs.into()),
    }
}

/// Whether `CapEff` of `/proc/PID/status` is there, and without this capability.
fn lacks(status: &[u8], bit: u32) -> bool {
    capabilities(status).is_some_and(|effective| effective >> bit & 1 == 0)
}

fn capabilities(status: &[u8]) -> Option<u64> {
    u64::from_str_radix(field(status, "CapEff:")?, 16).ok()
}

fn field<'a>(status: &'a [u8], name: &str) -> Option<&'a str> {
    let text = std::str::from_utf8(status).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    Some(line.trim())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::Fake;

    fn said(fake: &Fake, is_root: bool) -> Option<(String, String)> {
        lacking(&fake.roots(), is_root).map(|next| (next.why.clone(), next.to_string()))
    }

    #[test]
    fn root_gets_no_advice_to_become_root() {
        let fake = Fake::new();
        assert_eq!(said(&fake, true), None);
        assert!(said(&fake, false).unwrap().1.contains("as root"));
        fake.write("proc/self/uid_map", "         0          0 4294967295\n");
        fake.write(
            "proc/self/status",
            "Name:\tweir\nCapEff:\t000001ffffffffff\n",
        );
        assert_eq!(said(&fake, true), None);
        // Docker's default set.
        fake.write("proc/self/status", "CapEff:\t00000000a80425fb\n");
        let (why, next_move) = said(&fake, true).unwrap();
        assert!(why.contains("CAP_SYS_PTRACE"), "{why}");
        assert!(next_move.contains("--privileged") && !next_move.contains("as root"));
        fake.write("proc/self/uid_map", "         0     100000      65536\n");
        let (why, next_move) = said(&fake, true).unwrap();
        assert!(
            why.contains("user namespace") && !next_move.contains("as root"),
            "{why}"
        );
    }

    #[test]
    fn what_root_is_refused_by_is_read_from_files() {
        let fake = Fake::new();
        assert!(
            refused_to_root(&fake.roots())
                .to_string()
                .contains("no file says why")
        );
        let lockdown = "sys/kernel/security/lockdown";
        fake.write(lockdown, "[none] integrity confidentiality\n");
        fake.write(
            "proc/self/status",
            "CapEff:\t000001ffffffffff\nSeccomp:\t0\n",
        );
        assert!(
            refused_to_root(&fake.roots())
                .to_string()
                .contains("no file says why")
        );
        fake.write(lockdown, "none integrity [confidentiality]\n");
        let said = refused_to_root(&fake.roots()).to_string();
        assert!(said.contains("locked down (confidentiality"), "{said}");
        // CAP_SYS_PTRACE is there, CAP_PERFMON and CAP_BPF are not.
        fake.write(
            "proc/self/status",
            "CapEff:\t0000000000080000\nSeccomp:\t2\n",
        );
        let said = refused_to_root(&fake.roots()).to_string();
        for part in ["CAP_PERFMON", "locked down", "seccomp"] {
            assert!(said.contains(part), "{said}");
        }
    }

    #[test]
    fn root_of_no_use_outside_of_its_namespace_is_not_proposed() {
        let fake = Fake::new();
        fake.write("proc/self/uid_map", "         0       1000          1\n");
        let (why, next_move) = said(&fake, false).unwrap();
        assert!(why.contains("user namespace") && !next_move.contains("as root"));
    }

    #[test]
    fn nonsense_is_no_lack_of_privilege() {
        let fake = Fake::new();
        for status in ["", "CapEff:\tzz\n", "CapEff:\t\u{1b}[2J\n", "CapEff\n"] {
            fake.write("proc/self/status", status);
            assert_eq!(said(&fake, true), None, "{status:?}");
        }
        fake.write("proc/self/status", b"\xff\xfe");
        assert_eq!(said(&fake, true), None);
    }
}
