// SPDX-License-Identifier: GPL-2.0-or-later
//! The host's clock as QEMU sees it, which is the guest's: the harness preloads this library, so that
//! QEMU's calls of `gettimeofday` end here.
//!
//! QEMU resizes a vCPU's TLB by how much of it was used in the last 100 ms (`accel/tcg/cputlb.c`,
//! `tlb_mmu_resize_locked`). What a TLB still holds, the guest can see: an entry that is gone is walked for
//! again, and the walk sets the page's accessed bit, which the kernel clears without a flush
//! (`folio_referenced`).

use crate::PLUGIN;

/// Whether QEMU's calls end here.
///
/// # Errors
/// They do not: the library was not preloaded.
pub fn is_ours() -> Result<(), String> {
    // SAFETY: a terminated name; the default handle is the first object that has the symbol.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"gettimeofday".as_ptr()) };
    if found.addr() == gettimeofday as *const () as usize {
        return Ok(());
    }
    Err("QEMU reads the host's clock: start it with this library in LD_PRELOAD".into())
}

/// The guest's time since power-on, as if it had been switched on in 1970.
///
/// # Safety
/// `time` is null or may be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gettimeofday(
    time: *mut libc::timeval,
    _: *mut libc::c_void,
) -> libc::c_int {
    let us = PLUGIN.get().map_or(0, |plugin| plugin.clock.common_us());
    if !time.is_null() {
        // SAFETY: as promised by the caller.
        unsafe {
            *time = libc::timeval {
                tv_sec: us / 1_000_000,
                tv_usec: us % 1_000_000,
            }
        };
    }
    0
}
