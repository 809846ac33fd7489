// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The simulated block: a shared library that `rtl/build-model` has built (its interface: `rtl/sim/model.h`).
//! It is loaded at run time, so that building weir needs neither Java nor Verilator. A library is a
//! program: load none that you would not run.

use anyhow::{Context, Result, bail};
use libloading::{Library, Symbol};
use std::ffi::{c_int, c_void};
use std::path::Path;
use weir_ipc::access_trace::TraceRecord;

/// `WEIR_RTL_ABI`
const ABI: u32 = 1;

/// `struct weir_rtl_access`
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Access {
    line: u64,
    is_write: u32,
    queue_fill: u32,
}

impl From<TraceRecord> for Access {
    fn from(record: TraceRecord) -> Self {
        Access {
            line: record.line,
            is_write: record.is_write.into(),
            queue_fill: record.queue_fill.into(),
        }
    }
}

/// Width of a transaction on the bus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Width {
    /// 32 bits.
    Narrow,
    /// 64 bits.
    Wide,
}

type Bus = unsafe extern "C" fn(*mut c_void, u32, c_int, c_int, u64, *mut u64) -> c_int;

/// One block in its simulator. It stays on the thread that made it.
pub struct Block {
    at: *mut c_void,
    free: unsafe extern "C" fn(*mut c_void),
    count: unsafe extern "C" fn(*mut c_void, *const Access, usize),
    idle: unsafe extern "C" fn(*mut c_void, u64),
    bus: Bus,
    clocks: unsafe extern "C" fn(*const c_void) -> u64,
    /// Last: what the pointers above point into.
    _library: Library,
}

impl Block {
    /// Load a library and make a block that has just been reset.
    ///
    /// # Errors
    /// There is none, it is no library of the block, or one with another interface.
    pub fn load(path: &Path) -> Result<Block> {
        // SAFETY: the user names a program to be run; `rtl/build-model` builds it without initialisers of
        // its own.
        let library = unsafe { Library::new(path) };
        let library = library.with_context(|| {
            format!(
                "cannot load {}: rtl/build-model GROUPS CHANNELS GROUP_BYTES_LOG2 builds one",
                path.display()
            )
        })?;
        // SAFETY: the types are those of rtl/sim/model.h.
        unsafe {
            let abi: Symbol<unsafe extern "C" fn() -> u32> =
                symbol(&library, path, "weir_rtl_abi")?;
            let abi = abi();
            if abi != ABI {
                bail!(
                    "{} has interface {abi}, this program knows {ABI}: build it again with rtl/build-model",
                    path.display()
                );
            }
            let new: Symbol<unsafe extern "C" fn() -> *mut c_void> =
                symbol(&library, path, "weir_rtl_new")?;
            let at = new();
            if at.is_null() {
                bail!("{} makes no block", path.display());
            }
            Ok(Block {
                at,
                free: *symbol(&library, path, "weir_rtl_free")?,
                count: *symbol(&library, path, "weir_rtl_count")?,
                idle: *symbol(&library, path, "weir_rtl_idle")?,
                bus: *symbol(&library, path, "weir_rtl_bus")?,
                clocks: *symbol(&library, path, "weir_rtl_clocks")?,
                _library: library,
            })
        }
    }

    /// Accesses at the taps; all of them are counted when this returns.
    pub fn count(&mut self, accesses: &[Access]) {
        // SAFETY: our block, and as many accesses as there are.
        unsafe { (self.count)(self.at, accesses.as_ptr(), accesses.len()) }
    }

    pub fn idle(&mut self, clocks: u64) {
        // SAFETY: our block.
        unsafe { (self.idle)(self.at, clocks) }
    }

    /// A load on the bus.
    ///
    /// # Errors
    /// The block does not answer.
    pub fn load_at(&mut self, address: u32, width: Width) -> Result<u64> {
        self.transact(address, false, width, 0)
    }

    /// A store on the bus.
    ///
    /// # Errors
    /// The block does not answer.
    pub fn store_at(&mut self, address: u32, width: Width, value: u64) -> Result<()> {
        self.transact(address, true, width, value).map(drop)
    }

    fn transact(&mut self, address: u32, write: bool, width: Width, data: u64) -> Result<u64> {
        let mut answer = 0;
        let narrow = (width == Width::Narrow).into();
        // SAFETY: our block, and a place for the answer.
        let status = unsafe {
            (self.bus)(
                self.at,
                address,
                write.into(),
                narrow,
                data,
                &raw mut answer,
            )
        };
        if status != 0 {
            bail!("the block does not answer at BAR offset {address:#x}");
        }
        Ok(answer)
    }

    pub fn clocks(&self) -> u64 {
        // SAFETY: our block.
        unsafe { (self.clocks)(self.at) }
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        // SAFETY: our block, for the last time.
        unsafe { (self.free)(self.at) }
    }
}

/// # Safety
/// `T` must be the symbol's type.
unsafe fn symbol<'a, T>(library: &'a Library, path: &Path, name: &str) -> Result<Symbol<'a, T>> {
    // SAFETY: promised by the caller.
    let found = unsafe { library.get(name) };
    found.with_context(|| format!("{} is no library of the block: no {name}", path.display()))
}
