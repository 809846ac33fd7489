// SPDX-License-Identifier: GPL-2.0-or-later
//! Functions of QEMU that are not in its plugin API, but exported by an executable that has loadable
//! modules of its own, as distributions build it. A QEMU that lacks one of them is refused by name.

use std::ffi::{CStr, c_char, c_int, c_void};

/// `QEMU_CLOCK_VIRTUAL`
pub const CLOCK_VIRTUAL: c_int = 1;
/// `QEMU_TIMER_ATTR_ALL`
const TIMER_ATTRIBUTES_ALL: c_int = -1;

/// `CPUState`
pub enum Cpu {}
/// `AioContext`
enum AioContext {}
/// `QEMUBH`
pub enum BottomHalf {}

pub type BottomHalfFn = unsafe extern "C" fn(*mut c_void);
pub type ClockFn = unsafe extern "C" fn() -> i64;

macro_rules! internals {
    ($($name:ident: fn($($argument:ty),*) $(-> $result:ty)?;)*) => {
        /// One pointer for each function, resolved once.
        pub struct Internals {
            $($name: unsafe extern "C" fn($($argument),*) $(-> $result)?,)*
        }

        impl Internals {
            /// Resolves all of them.
            ///
            /// # Errors
            /// Names the one that this QEMU lacks.
            pub fn find() -> Result<Self, String> {
                Ok(Internals {
                    // SAFETY: the types are those of QEMU's headers.
                    $($name: unsafe { std::mem::transmute::<*mut c_void, unsafe extern "C" fn($($argument),*) $(-> $result)?>(symbol(concat!(stringify!($name), "\0"))?) },)*
                })
            }
        }
    };
}

internals! {
    cpus_get_accel: fn() -> *mut *mut c_void;
    cpus_get_virtual_clock: fn() -> i64;
    cpus_get_elapsed_ticks: fn() -> i64;
    bql_lock_impl: fn(*const c_char, c_int);
    bql_unlock: fn();
    qemu_clock_run_timers: fn(c_int) -> bool;
    qemu_clock_deadline_ns_all: fn(c_int, c_int) -> i64;
    cpu_thread_is_idle: fn(*mut Cpu) -> bool;
    all_cpu_threads_idle: fn() -> bool;
    runstate_is_running: fn() -> bool;
    qemu_get_cpu: fn(c_int) -> *mut Cpu;
    cpu_exit: fn(*mut Cpu);
    cpu_loop_exit: fn(*mut Cpu);
    tcg_cpu_init_cflags: fn(*mut Cpu, bool);
    qemu_get_aio_context: fn() -> *mut AioContext;
    aio_bh_new_full: fn(*mut AioContext, BottomHalfFn, *mut c_void, *const c_char, *mut c_void) -> *mut BottomHalf;
    qemu_bh_schedule: fn(*mut BottomHalf);
}

fn symbol(name: &str) -> Result<*mut c_void, String> {
    let name = CStr::from_bytes_with_nul(name.as_bytes()).map_err(|e| e.to_string())?;
    // SAFETY: a terminated name; the default handle is the executable and all it has loaded.
    let at = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    if at.is_null() {
        return Err(format!(
            "this QEMU does not export {}, which virtual time needs: use one with loadable modules, as Debian builds it",
            name.to_string_lossy()
        ));
    }
    Ok(at)
}

/// Slots of the accelerator's table of operations in which the clock's functions are searched for. The first
/// ones are the object's own; no version so far has more.
const SLOTS: std::ops::Range<usize> = 8..36;
const PROBE: i64 = 0x7765_6972_0000_0001;

unsafe extern "C" fn probe() -> i64 {
    PROBE
}

unsafe extern "C" fn ignore(_: i64) {}

impl Internals {
    /// Makes `virtual_clock` the guest's clock and `ticks` its TSC. In the accelerator's table these stand
    /// as three pointers one after the other (`get_virtual_clock`, `set_virtual_clock`,
    /// `get_elapsed_ticks`), where TCG has none; where they stand differs between versions, so a probe is
    /// put into each free slot until QEMU answers with it.
    ///
    /// # Errors
    /// The table is not as it must be: nothing was changed.
    pub fn install_clock(&self, virtual_clock: ClockFn, ticks: ClockFn) -> Result<(), String> {
        let refuse = || {
            "this QEMU keeps its clock elsewhere: its accelerator's table is not as virtual time needs it".to_string()
        };
        // SAFETY: the table is as long as this in every version that exports the symbols above; no vCPU
        // runs yet.
        unsafe {
            let table = (self.cpus_get_accel)();
            if table.is_null() {
                return Err(refuse());
            }
            let free = |slot: usize| (*table.add(slot)).is_null();
            for slot in SLOTS.filter(|slot| (*slot..slot + 3).all(free)) {
                *table.add(slot) = probe as ClockFn as *mut c_void;
                let is_clock = (self.cpus_get_virtual_clock)() == PROBE;
                *table.add(slot) = std::ptr::null_mut();
                if !is_clock {
                    continue;
                }
                *table.add(slot + 2) = probe as ClockFn as *mut c_void;
                let is_ticks = (self.cpus_get_elapsed_ticks)() == PROBE;
                *table.add(slot + 2) = std::ptr::null_mut();
                if !is_ticks {
                    return Err(refuse());
                }
                *table.add(slot) = virtual_clock as *mut c_void;
                *table.add(slot + 1) = ignore as unsafe extern "C" fn(i64) as *mut c_void;
                *table.add(slot + 2) = ticks as *mut c_void;
                return Ok(());
            }
        }
        Err(refuse())
    }

    /// Runs `work` with QEMU's big lock held.
    pub fn with_big_lock<T>(&self, work: impl FnOnce() -> T) -> T {
        // SAFETY: called on a thread of QEMU that does not hold the lock.
        unsafe { (self.bql_lock_impl)(c"weir-device-model".as_ptr(), 0) };
        let done = work();
        // SAFETY: locked above.
        unsafe { (self.bql_unlock)() };
        done
    }

    /// Runs the timers that are due. Big lock held.
    pub fn run_timers(&self) {
        // SAFETY: plain call.
        unsafe { (self.qemu_clock_run_timers)(CLOCK_VIRTUAL) };
    }

    /// Nanoseconds until the next timer; nothing where there is none.
    pub fn next_timer_ns(&self) -> Option<i64> {
        // SAFETY: plain call.
        let left =
            unsafe { (self.qemu_clock_deadline_ns_all)(CLOCK_VIRTUAL, TIMER_ATTRIBUTES_ALL) };
        (left >= 0).then_some(left)
    }

    /// The vCPU of this index, which must exist.
    pub fn cpu(&self, index: usize) -> *mut Cpu {
        // SAFETY: plain call.
        unsafe { (self.qemu_get_cpu)(index as c_int) }
    }

    /// Whether the vCPU halts with nothing to do.
    pub fn is_idle(&self, cpu: *mut Cpu) -> bool {
        // SAFETY: a vCPU lives as long as QEMU.
        unsafe { (self.cpu_thread_is_idle)(cpu) }
    }

    /// Whether all vCPUs halt with nothing to do.
    pub fn are_all_idle(&self) -> bool {
        // SAFETY: plain call.
        unsafe { (self.all_cpu_threads_idle)() }
    }

    /// Whether the machine runs, and is not stopped by the monitor.
    pub fn is_running(&self) -> bool {
        // SAFETY: plain call.
        unsafe { (self.runstate_is_running)() }
    }

    /// Lets translations name the vCPU that runs them. Where vCPUs share a thread, QEMU 10.1 to 11.1
    /// compile the index of the vCPU that translates into code that all of them run; translations made for
    /// parallel use have no such constant.
    pub fn translate_for_parallel_use(&self, cpu: *mut Cpu) {
        // SAFETY: before anything is translated.
        unsafe { (self.tcg_cpu_init_cflags)(cpu, true) }
    }

    /// Leaves the block of translated code that has just begun, before it does anything, and gives the
    /// thread to the next vCPU. Does not return to the caller.
    ///
    /// # Safety
    /// Only from a callback at a block's start, on the vCPU's thread, with nothing on the stack that needs
    /// dropping.
    pub unsafe fn leave_block(&self, cpu: *mut Cpu) {
        // SAFETY: as above. All of the guest's registers are in memory at a block's start, the program
        // counter too.
        unsafe {
            (self.cpu_exit)(cpu);
            (self.cpu_loop_exit)(cpu);
        }
    }

    /// A bottom half of QEMU's main loop.
    pub fn new_bottom_half(&self, run: BottomHalfFn) -> *mut BottomHalf {
        let none = std::ptr::null_mut();
        // SAFETY: the name is static; the bottom half is never deleted.
        unsafe {
            (self.aio_bh_new_full)(
                (self.qemu_get_aio_context)(),
                run,
                none,
                c"virtual time".as_ptr(),
                none,
            )
        }
    }

    /// Has it run soon, from any thread.
    pub fn schedule(&self, half: *mut BottomHalf) {
        // SAFETY: made by `new_bottom_half`.
        unsafe { (self.qemu_bh_schedule)(half) }
    }
}
