// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Files of drivers that count, read.

use super::read_timing::ReadTiming;
use crate::inventory::driver_groups::{GROUP_COUNT_MAX, read_number};
use crate::inventory::numa::missing;
use crate::kernel::files::{open_file, open_root, read_path};
use crate::kernel::parse::sysfs::{Pair, counter_dump, pairs};
use rustix::fd::OwnedFd;
use std::io;
use std::path::Path;
use weir_core::seam::observation::GroupReading;
use weir_core::{Bytes, DeviceId, GroupId, Missing, Reading};

pub(super) fn open_counters(path: &Path) -> io::Result<OwnedFd> {
    let dir = open_root(path.parent().unwrap_or(Path::new("/")))?;
    Ok(open_file(&dir, "counters")?)
}

pub(super) fn read_attribute(
    path: &Path,
    fd: &mut Option<OwnedFd>,
    group_count: u32,
    space: &mut Vec<u8>,
) -> Result<Vec<Pair>, Missing> {
    let size = usize::try_from(group_count).unwrap_or(0) * 16;
    space.resize(size, 0);
    let kept = match fd.take() {
        Some(kept) => kept,
        None => {
            open_counters(path).map_err(|e| Missing::Lost(format!("{}: {e}", path.display())))?
        }
    };
    // sysfs gives at most one page a call; the rest follows at its offset.
    let mut count = 0;
    while count < size {
        match rustix::io::pread(&kept, &mut space[count..], count as u64) {
            Ok(0) => break,
            Ok(more) => count += more,
            Err(rustix::io::Errno::INTR) => {}
            // Whatever the kernel's word for it, a counter that answered before is lost now.
            Err(e) => return Err(Missing::Lost(format!("{}: {e}", path.display()))),
        }
    }
    *fd = Some(kept);
    Ok(pairs(&space[..count]).collect())
}

pub(super) fn read_text_files(
    device: DeviceId,
    dir: &Path,
    group_count: u32,
    timing: &mut ReadTiming,
    seen: &mut Vec<GroupReading>,
) {
    for index in 0..group_count {
        let group = dir.join(format!("group{index}"));
        let mut read = |name: &str| {
            let path = group.join(name);
            let (at, value) = timing.read(|| read_number(&path).map(Bytes));
            Reading { at, value }
        };
        seen.push(GroupReading {
            id: GroupId { device, index },
            read_bytes: read("read_bytes"),
            write_bytes: read("write_bytes"),
        });
    }
}

pub(super) fn read_dump(path: &Path) -> Result<Vec<Pair>, Missing> {
    let text = read_path(path).map_err(|e| missing(path, &e))?;
    counter_dump(&text, GROUP_COUNT_MAX as usize)
        .map_err(|e| Missing::Lost(format!("{}: {e}", path.display())))
}
