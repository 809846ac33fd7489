// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Files that the harness has put into the BAR of a PCI device, unpacked into the guest's file system.

use rustix::mm::{MapFlags, ProtFlags};
use std::fs::File;
use std::io::{Error, Result, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use weir_testbed::vm::image::files::{BAR_BYTES, HEADER_BYTES};

/// Unpacks them from the root on.
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
    let (header, rest) = bytes.split_at(HEADER_BYTES);
    let length = u64::from_le_bytes(header.try_into().map_err(Error::other)?);
    let archive = usize::try_from(length)
        .ok()
        .and_then(|length| rest.get(..length));
    let archive = archive
        .ok_or_else(|| Error::other(format!("an archive of {length} bytes is not there")))?;
    let mut cpio = Command::new("cpio")
        .args(["-i", "-d", "-u"])
        .current_dir("/")
        .stdin(Stdio::piped())
        .spawn()?;
    if let Some(mut to) = cpio.stdin.take() {
        to.write_all(archive)?;
    }
    match cpio.wait()?.success() {
        true => Ok(()),
        false => Err(Error::other("cpio does not take the archive")),
    }
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
