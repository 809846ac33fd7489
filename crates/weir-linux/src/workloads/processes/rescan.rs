// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Signs that the memory of a process has changed, and when it is read again.
//!
//! A rescan (`numa_maps`) walks page tables. The signs of a change are cheap: the page faults of a process
//! and its resident pages, which discovery reads anyway, and the pages the kernel has moved in all of the
//! machine. As long as all three are as they were before the last scan, so is the memory, and there is no
//! rescan. Where one of them is not:
//!
//! * the next scan comes after 1.5 s at the earliest, or a hundred times the CPU time of the last one;
//! * a process with the memory that the last scan found waits twice as long for the next, up to 30 s;
//! * one that has since become larger or smaller by an eighth, and by 16 MiB, waits no longer;
//! * nor does one that is larger while memory of a node has no owner ([`super::node_balance`]).
//!
//! A change of memory that shows in none of the three (KSM, a page that `madvise` frees while another comes
//! by a write) is found by a scan every five minutes.

use crate::kernel::files::Buffer;
use crate::kernel::parse::process::moved_pages;
use rustix::fd::OwnedFd;
use weir_core::Nanos;

/// Shortest time between two scans of the memory of a process.
pub(crate) const SCAN_EVERY: Nanos = Nanos::from_millis(1500);
/// Longest, for a process with memory that does not change.
const SCAN_EVERY_MAX: Nanos = Nanos::from_millis(30_000);
/// Longest while nothing shows a change.
const SCAN_ANYWAY: Nanos = Nanos::from_millis(300_000);
/// A scan may cost one part in this many of the time until the next. What counts is its CPU time and not its
/// duration: a scan that waited for a CPU among ordinary tasks put off the next one by 28 s, and the device
/// stood at 22.7 MB/s where 8.4 were wanted.
const COST_PART: u64 = 100;
/// More or fewer pages than this, and than one part in this many of all, are a great change.
const GREAT_PAGES: u64 = 4096;
const GREAT_PART: u64 = 8;

/// What changes with the memory of a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ChangeSigns {
    /// Page faults of all its threads so far.
    pub(crate) faults: u64,
    /// Pages it has, as the kernel counts them without a sum over the CPUs.
    pub(crate) resident_pages: u64,
}

impl ChangeSigns {
    fn is_far_from(self, other: ChangeSigns) -> bool {
        let apart = self.resident_pages.abs_diff(other.resident_pages);
        apart > GREAT_PAGES && apart > other.resident_pages / GREAT_PART
    }
}

/// Pages that the kernel has moved so far, of all processes. Nothing where it does not say so.
pub(crate) fn moved(proc: &OwnedFd, buffer: &mut Buffer) -> Option<u64> {
    moved_pages(buffer.read_once_at(proc, "vmstat").ok()?).ok()
}

#[derive(Clone, Copy, Debug)]
struct Before {
    at: Nanos,
    signs: Option<ChangeSigns>,
    moved: Option<u64>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Due {
    at: Nanos,
    /// Before this the last scan would cost too much.
    not_before: Nanos,
    /// Time between the last scan and the next.
    pause: Nanos,
    /// The signs when it was last met.
    signs: Option<ChangeSigns>,
    met_at: Nanos,
    /// They were the same when it was met before.
    is_calm: bool,
    before: Option<Before>,
}

impl Due {
    /// The schedule of a process that was never scanned: it is due at once.
    pub(crate) fn new(signs: Option<ChangeSigns>, met_at: Nanos) -> Due {
        Due {
            at: Nanos(0),
            not_before: Nanos(0),
            pause: SCAN_EVERY,
            signs,
            met_at,
            is_calm: false,
            before: None,
        }
    }

    pub(crate) fn at(&self) -> Nanos {
        self.at
    }

    /// What is known of it is void: it is due as a process that was never scanned.
    pub(crate) fn renew(&mut self) {
        *self = Due::new(self.signs, self.met_at);
    }

    /// It was met again at `at`, with these signs.
    pub(crate) fn note(&mut self, signs: Option<ChangeSigns>, at: Nanos) {
        self.is_calm = signs.is_some() && self.signs == signs;
        self.signs = signs;
        self.met_at = at;
        let before = self.before.and_then(|before| before.signs);
        let is_far = |(new, old): (ChangeSigns, ChangeSigns)| new.is_far_from(old);
        if signs.zip(before).is_some_and(is_far) {
            self.at = self.at.min(self.not_before);
        }
    }

    /// Memory has come to the machine, and its owner is not known.
    pub(crate) fn search(&mut self) {
        let grown = self.signs.zip(self.before.and_then(|before| before.signs));
        if grown.is_some_and(|(now, then)| now.resident_pages > then.resident_pages) {
            self.at = self.at.min(self.not_before);
        }
    }

    /// Whether nothing showed a change between the last two times it was met.
    pub(crate) fn is_calm(&self) -> bool {
        self.is_calm
    }

    /// Whether a scan at `at` would find what the last one found.
    pub(crate) fn is_as_it_was(&self, at: Nanos, moved: Option<u64>) -> bool {
        let is_same = |before: Before| {
            let since = at.0.saturating_sub(before.at.0);
            let is_known = self.signs.is_some() && moved.is_some();
            is_known && (before.signs, before.moved) == (self.signs, moved) && since < SCAN_ANYWAY.0
        };
        self.before.is_some_and(is_same)
    }

    /// It was passed over, as nothing had changed until it was last met: when that was.
    pub(crate) fn passed(&mut self, at: Nanos) -> Nanos {
        self.at = Nanos(at.0.saturating_add(SCAN_EVERY.0));
        self.met_at
    }

    /// It was scanned in a round of `at`, for so much CPU time. `moved` is from before the scan.
    pub(crate) fn scanned(&mut self, at: Nanos, cost: Nanos, found_same: bool, moved: Option<u64>) {
        let settled = Nanos(self.pause.0.saturating_mul(2)).min(SCAN_EVERY_MAX);
        self.pause = if found_same { settled } else { SCAN_EVERY };
        let after = |pause: Nanos| {
            let pause = pause.0.max(cost.0.saturating_mul(COST_PART));
            Nanos(at.0.saturating_add(pause))
        };
        self.at = after(self.pause);
        self.not_before = after(SCAN_EVERY);
        let signs = self.signs;
        self.before = Some(Before { at, signs, moved });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINE: ChangeSigns = ChangeSigns {
        faults: 7,
        resident_pages: 80_000,
    };

    fn scanned(at: Nanos) -> Due {
        let mut due = Due::new(Some(MINE), Nanos(0));
        assert!(!due.is_as_it_was(at, Some(3)));
        due.scanned(at, Nanos(0), false, Some(3));
        due
    }

    /// The process has grown by less than an eighth, after a scan that found what the one before did.
    #[test]
    fn one_that_has_grown_is_due_when_memory_has_no_owner() {
        for (pages, is_due) in [(1000, true), (0, false)] {
            let mut due = scanned(Nanos(0));
            due.scanned(Nanos(0), Nanos(0), true, Some(3));
            let signs = ChangeSigns {
                resident_pages: MINE.resident_pages + pages,
                ..MINE
            };
            due.note(Some(signs), Nanos(1));
            assert!(due.at() > SCAN_EVERY);
            due.search();
            assert_eq!(due.at() == SCAN_EVERY, is_due, "{pages}");
        }
    }

    #[test]
    fn there_is_no_scan_while_nothing_shows_a_change() {
        let begun = Nanos::from_millis(5000);
        let mut due = scanned(begun);
        let next = due.at();
        assert_eq!(next.0, begun.0 + SCAN_EVERY.0);
        assert!(due.is_as_it_was(next, Some(3)));
        due.note(Some(MINE), Nanos(next.0 - 9));
        assert_eq!(due.passed(next).0, next.0 - 9, "no later than it was met");
        assert_eq!(due.at().0, next.0 + SCAN_EVERY.0);
        let long_after = Nanos(begun.0 + SCAN_ANYWAY.0);
        assert!(due.is_as_it_was(Nanos(long_after.0 - 1), Some(3)));
        assert!(!due.is_as_it_was(long_after, Some(3)), "for once, anyway");
    }

    #[test]
    fn each_sign_of_a_change_brings_a_scan() {
        let at = Nanos::from_millis(9000);
        let due = scanned(Nanos::from_millis(5000));
        assert!(!due.is_as_it_was(at, Some(4)), "pages were moved");
        assert!(!due.is_as_it_was(at, None), "unknown");
        for signs in [
            ChangeSigns { faults: 8, ..MINE },
            ChangeSigns {
                resident_pages: 79_999,
                ..MINE
            },
        ] {
            let mut due = due;
            due.note(Some(signs), at);
            assert!(!due.is_as_it_was(at, Some(3)), "{signs:?}");
            assert_eq!(due.at(), scanned(Nanos::from_millis(5000)).at());
        }
        let mut unknown = Due::new(Some(MINE), Nanos(0));
        unknown.scanned(Nanos(1), Nanos(0), false, None);
        assert!(!unknown.is_as_it_was(at, None));
        let mut signless = Due::new(None, Nanos(0));
        signless.scanned(Nanos(1), Nanos(0), false, Some(3));
        assert!(!signless.is_as_it_was(at, Some(3)));
    }

    #[test]
    fn a_process_with_the_same_signs_twice_is_calm() {
        let mut due = Due::new(Some(MINE), Nanos(0));
        assert!(!due.is_calm(), "the state before is unknown");
        let faults = |faults| Some(ChangeSigns { faults, ..MINE });
        for (signs, is_calm) in [
            (faults(7), true),
            (faults(8), false),
            (faults(8), true),
            (None, false),
            (None, false),
            (faults(8), false),
        ] {
            due.note(signs, Nanos(1));
            assert_eq!(due.is_calm(), is_calm, "{signs:?}");
        }
    }

    #[test]
    fn a_process_that_changed_much_is_scanned_before_half_a_minute() {
        let mut due = Due::new(Some(MINE), Nanos(0));
        let mut at = Nanos(1);
        for _ in 0..8 {
            due.scanned(at, Nanos::from_millis(30), true, Some(3));
            at = due.at();
        }
        let last = Nanos(at.0 - SCAN_EVERY_MAX.0);
        let with = |resident_pages| {
            Some(ChangeSigns {
                resident_pages,
                ..MINE
            })
        };
        due.note(with(80_000 + 10_000), at);
        assert_eq!(due.at(), at, "an eighth is not much");
        due.note(with(80_000 + 10_001), at);
        assert_eq!(due.at().0, last.0 + 3_000_000_000, "what a scan costs");
        let mut small = Due::new(with(10), Nanos(0));
        small.scanned(at, Nanos(0), true, Some(3));
        let due = small.at();
        small.note(with(10 + 4096), at);
        assert_eq!(small.at(), due);
        small.note(with(11 + 4096), at);
        assert_eq!(small.at().0, at.0 + SCAN_EVERY.0);
    }
}
