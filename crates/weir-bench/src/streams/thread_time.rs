// SPDX-License-Identifier: Apache-2.0 OR MIT
//! CPU time of a stream's threads within measurements.

use crate::cpu;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// CPU time of the calling thread, added to that of all threads of a stream.
pub(crate) struct ThreadTime {
    all_ns: Arc<AtomicU64>,
    /// CPU time of the thread when the measurement began.
    began_ns: Option<u64>,
}

impl ThreadTime {
    pub(crate) fn new(all_ns: &Arc<AtomicU64>) -> ThreadTime {
        ThreadTime {
            all_ns: Arc::clone(all_ns),
            began_ns: None,
        }
    }

    /// Follows the beginning and the end of a measurement. Called by the thread itself.
    pub(crate) fn follow(&mut self, is_measuring: bool) {
        match (is_measuring, self.began_ns) {
            (true, None) => self.began_ns = Some(cpu::thread_cpu_ns()),
            (false, Some(began)) => {
                let used = cpu::thread_cpu_ns().saturating_sub(began);
                self.all_ns.fetch_add(used, Ordering::Relaxed);
                self.began_ns = None;
            }
            _ => {}
        }
    }

    pub(crate) fn is_measuring(&self) -> bool {
        self.began_ns.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_is_that_of_the_measurement_only() {
        let all = Arc::default();
        let mut time = ThreadTime::new(&all);
        cpu::spin(1000);
        time.follow(false);
        assert_eq!(all.load(Ordering::Relaxed), 0);
        let before = cpu::thread_cpu_ns();
        time.follow(true);
        assert!(time.is_measuring());
        cpu::spin(1000);
        time.follow(true);
        time.follow(false);
        let (all, most) = (all.load(Ordering::Relaxed), cpu::thread_cpu_ns() - before);
        assert!(0 < all && all <= most, "{all} {most}");
    }
}
