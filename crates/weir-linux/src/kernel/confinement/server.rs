// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The process that clients and servers of the network speak to. What it needs was opened before, or is on
//! this page.

use super::rights::{become_unprivileged, keep};
use super::system_calls::{Calls, allow, any, masked, refuse, where_masked, where_one_of};
use landlock::{
    ABI, Access, AccessFs, AccessNet, CompatLevel, Compatible, NetPort, Ruleset, RulesetAttr,
    RulesetCreatedAttr, RulesetStatus, Scope, path_beneath_rules,
};
use rustix::process::{DumpableBehavior, set_dumpable_behavior};
use rustix::thread::CapabilitySet;
use seccompiler::SeccompRule;

/// The newest that is asked for; older kernels give what they have.
const LANDLOCK: ABI = ABI::V6;
/// What a resolver of names reads (resolv.conf(5), nsswitch.conf(5), gai.conf(5)).
const RESOLVER: [&str; 7] = [
    "/etc/resolv.conf",
    "/etc/hosts",
    "/etc/host.conf",
    "/etc/nsswitch.conf",
    "/etc/gai.conf",
    "/etc/services",
    "/run/systemd/resolve",
];
const DNS_PORT: u16 = 53;

/// What every thread calls, and every answer on a connection that is there.
const ALWAYS: &[libc::c_long] = &[
    libc::SYS_brk,
    libc::SYS_clock_getres,
    libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep,
    // Answered with ENOSYS before it comes here, so that the C library takes clone, of which flags can be
    // seen.
    libc::SYS_clone3,
    libc::SYS_close,
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_fcntl,
    libc::SYS_fstat,
    libc::SYS_futex,
    libc::SYS_getcpu,
    libc::SYS_geteuid,
    libc::SYS_getpeername,
    libc::SYS_getpid,
    libc::SYS_getrandom,
    libc::SYS_getsockname,
    libc::SYS_getsockopt,
    libc::SYS_gettid,
    libc::SYS_gettimeofday,
    libc::SYS_getuid,
    libc::SYS_lseek,
    libc::SYS_madvise,
    libc::SYS_membarrier,
    libc::SYS_mremap,
    libc::SYS_munmap,
    libc::SYS_nanosleep,
    libc::SYS_ppoll,
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_recvfrom,
    libc::SYS_recvmsg,
    libc::SYS_restart_syscall,
    libc::SYS_rseq,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sched_getaffinity,
    libc::SYS_sched_yield,
    libc::SYS_sendmsg,
    libc::SYS_sendto,
    libc::SYS_set_robust_list,
    libc::SYS_setsockopt,
    libc::SYS_shutdown,
    libc::SYS_sigaltstack,
    libc::SYS_sysinfo,
    libc::SYS_tgkill,
    libc::SYS_uname,
    libc::SYS_write,
    libc::SYS_writev,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_poll,
    #[cfg(not(target_arch = "x86_64"))]
    libc::SYS_pread64,
    libc::SYS_statx,
];

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ServerNeeds {
    /// It accepts connections, of listeners that it has.
    pub accepts: bool,
    /// It connects to this port of another machine.
    pub connects_to: Option<u16>,
}

/// Takes all rights from the calling thread, and from those that it starts: no file, no other process, no
/// socket but those it needs. Returns what this kernel, or this user, cannot do of it.
pub fn confine_server(needs: ServerNeeds) -> Vec<String> {
    let mut lacking = Vec::new();
    if let Err(error) = become_unprivileged() {
        lacking.push(format!(
            "it stays root, without a capability ({error}; CAP_SETUID and CAP_SETGID are needed)"
        ));
    }
    if let Err(error) = keep(CapabilitySet::empty()) {
        lacking.push(format!("its capabilities stay: {error}"));
    }
    // Other processes of the same user must not look into it.
    let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
    match fence(needs) {
        Ok(RulesetStatus::NotEnforced) => lacking.push("this kernel has no Landlock".into()),
        Ok(_) => {}
        Err(error) => lacking.push(format!("no Landlock: {error}")),
    }
    let filtered = refuse(any(&[libc::SYS_clone3]), libc::ENOSYS)
        .and_then(|()| calls(needs))
        .and_then(allow);
    if let Err(error) = filtered {
        lacking.push(format!("its system calls are not filtered: {error}"));
    }
    lacking
}

fn fence(needs: ServerNeeds) -> Result<RulesetStatus, landlock::RulesetError> {
    let mut rules = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(LANDLOCK))?
        .handle_access(AccessNet::from_all(LANDLOCK))?
        .scope(Scope::from_all(LANDLOCK))?
        .create()?;
    if let Some(port) = needs.connects_to {
        // Those that are not there are left out.
        let files = path_beneath_rules(RESOLVER, AccessFs::from_read(LANDLOCK));
        rules = rules
            .add_rule(NetPort::new(port, AccessNet::ConnectTcp))?
            .add_rule(NetPort::new(DNS_PORT, AccessNet::ConnectTcp))?
            .add_rules(files)?;
    }
    Ok(rules.restrict_self()?.ruleset)
}

fn calls(needs: ServerNeeds) -> Result<Calls, seccompiler::Error> {
    const THREAD: u64 = libc::CLONE_THREAD as u64;
    const EXECUTABLE: u64 = libc::PROT_EXEC as u64;
    let mut calls = any(ALWAYS);
    // Threads, and no processes; memory, and no code.
    calls.insert(libc::SYS_clone, where_masked(0, THREAD, THREAD)?);
    calls.insert(libc::SYS_mmap, where_masked(2, EXECUTABLE, 0)?);
    calls.insert(libc::SYS_mprotect, where_masked(2, EXECUTABLE, 0)?);
    // The name of a thread or of memory; what limits are, and not to change them.
    let names = [libc::PR_SET_NAME, libc::PR_SET_VMA].map(|name| u64::from(name.unsigned_abs()));
    calls.insert(libc::SYS_prctl, where_one_of(0, &names)?);
    calls.insert(libc::SYS_prlimit64, where_masked(2, u64::MAX, 0)?);
    calls.insert(
        libc::SYS_ioctl,
        where_one_of(1, &[libc::FIONBIO, libc::FIONREAD])?,
    );
    if needs.accepts {
        calls.extend(any(&[libc::SYS_accept4]));
    }
    if needs.connects_to.is_some() {
        let resolver = [
            libc::SYS_connect,
            libc::SYS_openat,
            libc::SYS_newfstatat,
            libc::SYS_sendmmsg,
        ];
        calls.extend(any(&resolver));
        calls.insert(libc::SYS_socket, sockets_of_the_network()?);
    }
    Ok(calls)
}

fn sockets_of_the_network() -> Result<Vec<SeccompRule>, seccompiler::Error> {
    const KIND: u64 = 0xf;
    let mut rules = Vec::new();
    for family in [libc::AF_INET, libc::AF_INET6] {
        for kind in [libc::SOCK_STREAM, libc::SOCK_DGRAM] {
            let family = masked(0, u64::from(u32::MAX), u64::from(family.unsigned_abs()))?;
            let kind = masked(1, KIND, u64::from(kind.unsigned_abs()))?;
            rules.push(SeccompRule::new(vec![family, kind])?);
        }
    }
    Ok(rules)
}
