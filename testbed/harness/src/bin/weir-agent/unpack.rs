// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Files that the harness has put into the BAR of a PCI device, unpacked into the guest's file system.

use rustix::mm::{MapFlags, ProtFlags};
use std::fs::{File, Permissions};
use std::io::{Error, Result};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use weir_testbed::vm::image::files::{BAR_BYTES, Entry, unpacked};

/// Puts each where it belongs, in one write from the device's memory.
pub fn unpack() -> Result<()> {
    let file = File::options().read(true).write(true).open(bar()?)?;
    // SAFETY: a fresh mapping that lives until the process ends; nothing writes to it meanwhile.
    let bytes = unsafe {
        let at = rustix::mm::mmap(
            std::ptr::null_mut(),
            BAR_BYTES,
            ProtFlags::READ,
            MapFlags::SHARED,
            &file,
            0,
        )?;
        std::slice::from_raw_parts(at.cast::<u8>(), BAR_BYTES)
    };
    let files = unpacked(bytes).ok_or_else(|| Error::other("no files are there"))?;
    for (Entry { to, mode, .. }, content) in files {
        let path = Path::new("/").join(to);
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent)?;
        }
        std::fs::write(&path, content)?;
        std::fs::set_permissions(&path, Permissions::from_mode(mode))?;
    }
    Ok(())
}

/// The device is known by the size of its BAR.
fn bar() -> Result<PathBuf> {
    for entry in std::fs::read_dir("/sys/bus/pci/devices")?.flatten() {
        let path = entry.path().join("resource2");
        if path.metadata().is_ok_and(|m| m.len() == BAR_BYTES as u64) {
            return Ok(path);
        }
    }
    Err(Error::other("no PCI device has the files"))
}
