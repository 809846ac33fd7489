// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What this process may do, and what to do where it may not. Root in a container often has no root
//! privileges on the host, and gets no advice to become root.

use super::files::read_path;
use crate::options::Roots;
use weir_core::Missing;
use weir_core::seam::topology::Fact;

const NAME: &str = "privilege";
/// All of the initial user namespace (user_namespaces(7)).
const ALL_IDS: [&[u8]; 3] = [b"0", b"0", b"4294967295"];
/// The capability without which memory of other processes is closed (capability.h).
const CAP_SYS_PTRACE: u32 = 19;

/// How far root goes here, or why this is not root.
pub(crate) fn fact(roots: &Roots) -> Fact {
    let (value, next_move) = match lacking(roots, rustix::process::geteuid().is_root()) {
        None => (Ok("root".into()), None),
        Some((why, next_move)) => (Err(Missing::NotPermitted(why)), Some(next_move)),
    };
    Fact {
        name: NAME.into(),
        value,
        next_move,
    }
}

/// What to do where something was refused.
pub(crate) fn next_move(roots: &Roots) -> String {
    let is_root = rustix::process::geteuid().is_root();
    lacking(roots, is_root).map_or_else(
        || "root was refused: see /sys/kernel/security/lockdown, and the seccomp profile if this is a container".into(),
        |(_, next_move)| next_move,
    )
}

fn lacking(roots: &Roots, is_root: bool) -> Option<(String, String)> {
    if !is_root {
        let why = "not root: limits and memory of others are closed";
        return Some((why.into(), "run weir as root".into()));
    }
    let own = roots.proc.join("self");
    let in_container = "run it with the rights of the host's root: docker or podman run --privileged, in Kubernetes \
                        securityContext.privileged";
    // A file that is missing is no evidence.
    if let Ok(map) = read_path(&own.join("uid_map"))
        && !map
            .split(u8::is_ascii_whitespace)
            .filter(|word| !word.is_empty())
            .eq(ALL_IDS)
    {
        let why = "root of a user namespace, which is not root outside of it";
        let next_move = "run it in the host's user namespace: no rootless containers, no --userns";
        return Some((why.into(), next_move.into()));
    }
    let status = read_path(&own.join("status")).ok()?;
    let effective = capabilities(&status)?;
    let why = "root without CAP_SYS_PTRACE: memory of other processes is closed";
    (effective >> CAP_SYS_PTRACE & 1 == 0).then(|| (why.into(), in_container.into()))
}

/// `CapEff` of `/proc/PID/status`.
fn capabilities(status: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(status).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("CapEff:"))?;
    u64::from_str_radix(line.trim(), 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::Fake;

    fn said(fake: &Fake, is_root: bool) -> Option<(String, String)> {
        lacking(&fake.roots(), is_root)
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
