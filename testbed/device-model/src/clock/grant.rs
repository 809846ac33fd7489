// SPDX-License-Identifier: GPL-2.0-or-later
//! Time as the harness grants it: a word of the ground truth says until when the guest may run, another
//! where time stands. Both sides sleep on the other's word.

use rustix::thread::futex;
use std::sync::atomic::{AtomicU32, AtomicU64};
use std::time::Duration;
use weir_ipc::ground_truth::GroundTruth;

/// The device model's end.
pub struct Grant {
    ground_truth: GroundTruth<'static>,
}

impl Grant {
    /// Over a ground-truth file that the harness has made.
    pub fn new(ground_truth: GroundTruth<'static>) -> Self {
        Grant { ground_truth }
    }

    /// Until when the guest may run.
    pub fn until_ns(&self) -> u64 {
        self.ground_truth.until_ns()
    }

    /// Publishes for the harness how far time has come.
    pub fn now(&self, now_ns: u64) {
        self.ground_truth.set_now(now_ns);
    }

    /// Notifies the harness that time stands.
    pub fn stand_at(&self, now_ns: u64) {
        if self.ground_truth.stopped_at_ns() != now_ns {
            self.ground_truth.set_stopped_at(now_ns);
            let _ = futex::wake(
                low_half(self.ground_truth.stopped_at_word()),
                futex::Flags::empty(),
                u32::MAX,
            );
        }
    }

    /// Waits until more is granted than `granted_ns`, but no longer than `most`.
    pub fn wait_past(&self, granted_ns: u64, most: Duration) {
        let most = futex::Timespec {
            tv_sec: most.as_secs() as i64,
            tv_nsec: i64::from(most.subsec_nanos()),
        };
        let word = low_half(self.ground_truth.until_word());
        let _ = futex::wait(word, futex::Flags::empty(), granted_ns as u32, Some(&most));
    }
}

/// The half of a word that changes, which is what the kernel compares.
fn low_half(word: &AtomicU64) -> &AtomicU32 {
    // SAFETY: the first half of an aligned word, on a machine that keeps the low half first.
    unsafe { AtomicU32::from_ptr(word.as_ptr().cast()) }
}
