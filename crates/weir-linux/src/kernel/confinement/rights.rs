// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Users and capabilities of a thread.

use rustix::io;
use rustix::process::{Gid, Uid, geteuid};
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, clear_ambient_capability_set,
    remove_capability_from_bounding_set, set_capabilities, set_no_new_privs, set_thread_groups,
    set_thread_res_gid, set_thread_res_uid,
};

/// The account without rights of Linux distributions; `id -nu 65534` says its name.
const UNPRIVILEGED: u32 = 65_534;

/// Keeps of the capabilities that the thread has those in `kept`, and lets no program that it starts have
/// more.
pub(super) fn keep(kept: CapabilitySet) -> io::Result<()> {
    let has = capabilities(None)?;
    // Where it may not, no_new_privs and the sets below do the same for programs without file capabilities.
    for capability in (!kept).iter() {
        let _ = remove_capability_from_bounding_set(capability);
    }
    // Not known to kernels before 4.3, which have no such set.
    let _ = clear_ambient_capability_set();
    set_capabilities(
        None,
        CapabilitySets {
            effective: has.effective & kept,
            permitted: has.permitted & kept,
            inheritable: CapabilitySet::empty(),
        },
    )?;
    set_no_new_privs(true)
}

/// Closes all descriptors but stdin, stdout and stderr. To be called when the process has opened nothing yet.
pub fn close_inherited() {
    // SAFETY: nothing in this process owns a descriptor above 2 so early. A kernel before 5.9 has no such
    // call, and leaves them open.
    unsafe { libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, 0) };
}

/// Becomes user 65534, without a group. Whether it did: another user than root is left as it is.
pub(super) fn become_unprivileged() -> io::Result<bool> {
    if !geteuid().is_root() {
        return Ok(false);
    }
    let (user, group) = (Uid::from_raw(UNPRIVILEGED), Gid::from_raw(UNPRIVILEGED));
    set_thread_groups(&[])?;
    set_thread_res_gid(group, group, group)?;
    set_thread_res_uid(user, user, user)?;
    Ok(true)
}
