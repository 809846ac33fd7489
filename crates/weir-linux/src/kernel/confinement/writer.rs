// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The process that measures and limits. It stays root, with less than root may do.

use super::rights::keep;
use super::system_calls::{Calls, any, refuse_all_threads, where_one_of};
use rustix::thread::CapabilitySet;

/// What the loop needs all the time: also after a device came or the scheduler was unloaded, weir opens
/// counters and loads BPF programs again. The reasons stand in packaging/weir.service. The last ones let root
/// without that unit open buffers and files as the unit's limits do, and listen at ports below 1024.
const KEPT: [CapabilitySet; 12] = [
    CapabilitySet::BPF,
    CapabilitySet::PERFMON,
    CapabilitySet::SYS_ADMIN,
    CapabilitySet::SYS_PTRACE,
    CapabilitySet::SYS_NICE,
    CapabilitySet::DAC_OVERRIDE,
    CapabilitySet::SETUID,
    CapabilitySet::SETGID,
    CapabilitySet::KILL,
    CapabilitySet::SYS_RESOURCE,
    CapabilitySet::IPC_LOCK,
    CapabilitySet::NET_BIND_SERVICE,
];

/// What no weir process calls, and what makes most of root: the kernel's code, its keys and its tables of
/// mounts, the memory of other processes.
const REFUSED: &[libc::c_long] = &[
    libc::SYS_acct,
    libc::SYS_add_key,
    libc::SYS_chroot,
    libc::SYS_delete_module,
    libc::SYS_finit_module,
    libc::SYS_fsmount,
    libc::SYS_fsopen,
    libc::SYS_init_module,
    libc::SYS_kexec_load,
    libc::SYS_keyctl,
    libc::SYS_mount,
    libc::SYS_mount_setattr,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_pivot_root,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_ptrace,
    libc::SYS_reboot,
    libc::SYS_request_key,
    libc::SYS_setns,
    libc::SYS_swapon,
    libc::SYS_umount2,
    libc::SYS_unshare,
    libc::SYS_userfaultfd,
];

/// Drops capabilities that weir never needs. To be called before the first thread.
///
/// # Errors
/// The kernel refuses, with what.
pub fn drop_writers_capabilities() -> Result<(), String> {
    let kept = KEPT.into_iter().collect();
    keep(kept).map_err(|error| format!("capabilities stay as they are: {error}"))
}

/// Refuses all threads of this process what the writer never does. From now on it opens no socket
/// of the network, unless figures are pushed: the filter would be the server's too.
///
/// # Errors
/// The kernel has no such filters, or refuses this one.
pub fn confine_writer(with_push: bool) -> Result<(), String> {
    refused(with_push)
        .and_then(refuse_all_threads)
        .map_err(|error| format!("no filter of system calls: {error}"))
}

pub(super) fn refused(with_push: bool) -> Result<Calls, seccompiler::Error> {
    let mut calls = any(REFUSED);
    if !with_push {
        let families = [
            libc::AF_INET,
            libc::AF_INET6,
            libc::AF_PACKET,
            libc::AF_VSOCK,
        ];
        let families = families.map(|family| u64::from(family.unsigned_abs()));
        calls.insert(libc::SYS_socket, where_one_of(0, &families)?);
    }
    Ok(calls)
}
