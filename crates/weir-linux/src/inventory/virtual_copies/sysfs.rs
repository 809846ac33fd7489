// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The real kernel: `/sys/devices/system/memory` (`Documentation/admin-guide/mm/memory-hotplug.rst`).

use super::map::{BlockState, MemoryBlocks};
use crate::error::LinuxError;
use crate::inventory::memory_nodes::hexadecimal;
use crate::kernel::files::read_path;
use crate::leases::run_dir::{Lock, RunDir};
use crate::options::Roots;
use rustix::fs::{Mode, OFlags, open};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

const LOCK: &str = "groups.lock";

/// Memory blocks of this machine, and the right to move them: one weir process at a time.
pub struct MemorySysfs {
    memory: PathBuf,
    nodes: PathBuf,
    block_bytes: u64,
    patience: Duration,
    _lock: Option<Lock>,
}

impl MemorySysfs {
    /// For reads only.
    ///
    /// # Errors
    /// This kernel has no memory blocks.
    pub fn open(roots: &Roots) -> Result<Self, LinuxError> {
        let memory = roots.sys.join("devices/system/memory");
        let path = memory.join("block_size_bytes");
        let text = read_path(&path).map_err(|e| LinuxError::io("read", &path, e))?;
        let block_bytes = hexadecimal(&text).filter(|bytes| bytes.is_power_of_two());
        let block_bytes = block_bytes.ok_or_else(|| {
            LinuxError::Copies(format!("{} is no size in hexadecimal", path.display()))
        })?;
        Ok(MemorySysfs {
            memory,
            nodes: roots.sys.join("devices/system/node"),
            block_bytes,
            patience: Duration::ZERO,
            _lock: None,
        })
    }

    /// Opens it to act. The kernel gets `patience` to empty a block: it would try for ever.
    ///
    /// # Errors
    /// Another weir process is at it, or this kernel does things by itself that would put a block online
    /// twice.
    pub fn open_to_act(roots: &Roots, patience: Duration) -> Result<Self, LinuxError> {
        let sysfs = MemorySysfs::open(roots)?;
        sysfs.keeps_its_hands_off(roots)?;
        let lock = RunDir::open_or_make(roots)?.lock_file(LOCK)?;
        Ok(MemorySysfs {
            patience,
            _lock: Some(lock),
            ..sysfs
        })
    }

    fn keeps_its_hands_off(&self, roots: &Roots) -> Result<(), LinuxError> {
        let auto = self.memory.join("auto_online_blocks");
        let text = read_path(&auto).map_err(|e| LinuxError::io("read", &auto, e))?;
        if text.trim_ascii() != b"offline" {
            return Err(LinuxError::Copies(format!(
                "this kernel brings memory online by itself ({} is not \"offline\"), so copies of one \
                 block could be online at once: boot with memhp_default_state=offline",
                auto.display()
            )));
        }
        let inside = roots
            .sys
            .join("module/memory_hotplug/parameters/memmap_on_memory");
        let on = read_path(&inside).is_ok_and(|text| !matches!(text.trim_ascii(), b"N" | b"0"));
        if on {
            return Err(LinuxError::Copies(format!(
                "this kernel keeps its descriptions of memory in that memory ({} is on), so the copies would \
                 overwrite each other's: boot with memory_hotplug.memmap_on_memory=0",
                inside.display()
            )));
        }
        Ok(())
    }

    fn file(&self, block: u64) -> PathBuf {
        self.memory.join(format!("memory{block}/state"))
    }

    /// One write, not tried again when a signal comes: the signal makes the kernel give up.
    fn write(&self, block: u64, value: &str) -> Result<(), String> {
        let path = self.file(block);
        let flags = OFlags::WRONLY | OFlags::TRUNC | OFlags::CLOEXEC;
        let file = open(&path, flags, Mode::empty()).map_err(|e| e.to_string())?;
        let _bell = alarm::ring_after(self.patience);
        match rustix::io::write(&file, value.as_bytes()) {
            Ok(count) if count == value.len() => Ok(()),
            Ok(_) => Err("the kernel took a part of the word only".into()),
            Err(rustix::io::Errno::INTR) => Err(format!(
                "its pages could not be moved elsewhere within {} s: they are pinned (by a device, RDMA, \
                 a virtual machine) or there is no free memory for them",
                self.patience.as_secs()
            )),
            Err(rustix::io::Errno::BUSY) => {
                Err("busy: it has pages that cannot be moved, of the kernel or pinned".into())
            }
            Err(e) => Err(e.to_string()),
        }
    }
}

impl MemoryBlocks for MemorySysfs {
    fn block_bytes(&self) -> u64 {
        self.block_bytes
    }

    fn state(&self, block: u64) -> Result<BlockState, LinuxError> {
        let path = self.file(block);
        match read_path(&path) {
            Ok(text) if text.trim_ascii() == b"offline" => Ok(BlockState::Offline),
            // Going in and going out count as being in.
            Ok(_) => Ok(BlockState::Online),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(BlockState::Absent),
            Err(e) => Err(LinuxError::io("read", path, e)),
        }
    }

    fn node(&self, block: u64) -> Result<Option<u32>, LinuxError> {
        let link = |node: &Path| node.join(format!("memory{block}")).exists();
        let entries = std::fs::read_dir(&self.nodes);
        let entries = entries.map_err(|e| LinuxError::io("list", &self.nodes, e))?;
        for entry in entries.flatten() {
            let name = entry.file_name();
            let number = name
                .to_str()
                .and_then(|n| n.strip_prefix("node")?.parse().ok());
            if number.is_some() && link(&entry.path()) {
                return Ok(number);
            }
        }
        Ok(None)
    }

    fn online(&mut self, block: u64) -> Result<(), String> {
        self.write(block, "online_movable")
    }

    fn offline(&mut self, block: u64) -> Result<(), String> {
        self.write(block, "offline")
    }
}

/// A signal after a time, so that a system call that does not end comes back.
mod alarm {
    use std::sync::Once;
    use std::time::Duration;

    static READY: Once = Once::new();

    extern "C" fn nothing(_: libc::c_int) {}

    /// Cancels the signal when it goes out of scope.
    pub(super) struct Bell;

    /// Rings once. The thread that holds the [`Bell`] must be the only one that can take the signal.
    pub(super) fn ring_after(time: Duration) -> Bell {
        READY.call_once(|| {
            let handler: extern "C" fn(libc::c_int) = nothing;
            // SAFETY: an action of all zeroes is a valid one, and the handler does nothing at all.
            unsafe {
                let mut action: libc::sigaction = std::mem::zeroed();
                action.sa_sigaction = handler as libc::sighandler_t;
                libc::sigaction(libc::SIGALRM, &raw const action, std::ptr::null_mut());
            }
        });
        let seconds = libc::c_uint::try_from(time.as_secs()).unwrap_or(libc::c_uint::MAX);
        // SAFETY: it takes no pointer; 0 rings never.
        unsafe { libc::alarm(seconds) };
        Bell
    }

    impl Drop for Bell {
        fn drop(&mut self) {
            // SAFETY: as above.
            unsafe { libc::alarm(0) };
        }
    }
}
