// SPDX-License-Identifier: Apache-2.0 OR MIT
//! All books of leases that a weir process may leave behind, and `weir reset`.

use crate::backends::LIMITS;
use crate::error::LinuxError;
use crate::leases::restore::{self, ResetReport};
use crate::leases::{self, BookSpec};
use crate::options::Roots;
use crate::task_traffic::COUNTING;
use weir_core::seam::topology::Fact;

/// First the book of a weir process that limits; a weir process that only observes may hold the others.
pub(crate) const BOOKS: &[BookSpec] = &[LIMITS, COUNTING];

/// Restores what a weir process that died has left, from its journals, and removes them when everything is
/// dealt with. Without a journal there is nothing to do, and the report is empty.
///
/// # Errors
/// [`LinuxError::Locked`] while a weir process is alive (stop it: it restores what it set),
/// [`LinuxError::Distrusted`] if another user could have written the journal of limits, and errors of the
/// operating system. Trouble with another journal is a problem in the report.
pub fn reset(roots: &Roots) -> Result<ResetReport, LinuxError> {
    restore::reset(roots, BOOKS)
}

/// Does so from the journals of a weir process that may be alive. That one finds its limits changed by
/// another program, and may set them again; its journals are left as they are.
///
/// # Errors
/// As [`reset`], except for the lock.
pub fn reset_even_if_running(roots: &Roots) -> Result<ResetReport, LinuxError> {
    restore::reset_even_if_running(roots, BOOKS)
}

pub(crate) fn fact(roots: &Roots) -> Fact {
    leases::fact(roots, BOOKS)
}
