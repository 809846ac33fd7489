// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Pages that the kernel has migrated (`/proc/vmstat`; kernel, mm/vmstat.c): `pgdemote_*` to slower memory,
//! `pgpromote_success` to faster, and `pgmigrate_success` all of them, with those that compaction, DAMON and
//! programs move. Each counts small pages, of huge ones all that are in it.

use crate::kernel::clock::now;
use crate::kernel::files::{Buffer, open_file};
use crate::kernel::parse::process::{MigratedPages, migrated_pages};
use rustix::fd::OwnedFd;
use weir_core::seam::observation::{PageMigrationReading, Reading};
use weir_core::{Bytes, Missing};

const FILE: &str = "vmstat";

/// The file, kept open: it is read at each tick.
#[derive(Default)]
pub(crate) struct PageMigration {
    file: Option<OwnedFd>,
}

impl PageMigration {
    /// Nothing where the kernel does not count them.
    pub(crate) fn read(
        &mut self,
        proc: &OwnedFd,
        buffer: &mut Buffer,
    ) -> Option<PageMigrationReading> {
        if self.file.is_none() {
            self.file = open_file(proc, FILE).ok();
        }
        let text = buffer.read_all(self.file.as_ref()?);
        let at = now();
        let size = rustix::param::page_size() as u64;
        let pages = match text {
            Ok(text) => migrated_pages(text).ok()?,
            Err(e) => {
                let lost = || Reading::missing(at, Missing::Lost(format!("{FILE}: {e}")));
                return Some(PageMigrationReading {
                    demoted_bytes: lost(),
                    promoted_bytes: lost(),
                    other_bytes: lost(),
                });
            }
        };
        let MigratedPages {
            all,
            demoted,
            promoted,
        } = pages;
        let bytes = |pages: u64| Reading::new(at, Bytes(pages.saturating_mul(size)));
        Some(PageMigrationReading {
            demoted_bytes: bytes(demoted),
            promoted_bytes: bytes(promoted),
            other_bytes: bytes(all.saturating_sub(demoted).saturating_sub(promoted)),
        })
    }
}
