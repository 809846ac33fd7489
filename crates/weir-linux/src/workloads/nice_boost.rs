// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Niceness while the mappings of a process are read, where weir limits. Since Linux 7 `numa_maps` is read
//! inside of the kernel's RCU. If the reader had to wait for a CPU meanwhile, among many runnable tasks, all
//! of the kernel would wait for it, and after 21 s the kernel takes any sched_ext scheduler out
//! (`scx_rcu_cpu_stall`). The boost is on only meanwhile, and only where there are so many: a discovery
//! thread that goes before limited tasks takes their CPU, and the device does not stay at its set-point (seen
//! live on slow CPUs, full mode: RMSE 8 and 14 % with the boost all the time, 3.5 and 5.5 % with none).

use crate::kernel::files::Buffer;
use crate::kernel::parse::process::runnable;
use rustix::fd::OwnedFd;
use rustix::process::{getpriority_process, setpriority_process};

/// The niceness while mappings are read. The loop of weir has a lower one, −20, so that it goes before this
/// thread.
const NICE: i32 = -15;

/// More runnable threads for each CPU than this are a crowd: each has a slice of some milliseconds before its
/// turn.
const CROWD: usize = 8;

/// Whether a task that waits for a CPU may wait for long.
pub(crate) fn is_crowded(proc: &OwnedFd, buffer: &mut Buffer) -> bool {
    let cpus = std::thread::available_parallelism().map_or(1, |count| count.get());
    let text = buffer.read_once_at(proc, "loadavg").ok();
    // An unknown count may be a crowd.
    let count = text.and_then(|text| runnable(text).ok());
    count.is_none_or(|count| count > (CROWD * cpus) as u64)
}

/// The calling thread has niceness [`NICE`] as long as this lives.
#[derive(Debug)]
pub(crate) struct NiceBoost {
    usual: i32,
}

impl NiceBoost {
    /// Nothing for a thread that has this niceness or a lower one already, or may not lower it.
    pub(crate) fn begin() -> Option<NiceBoost> {
        let usual = getpriority_process(None).ok().filter(|own| *own > NICE)?;
        match setpriority_process(None, NICE) {
            Ok(()) => Some(NiceBoost { usual }),
            Err(error) => {
                tracing::debug!("niceness stays at {usual}: {error}");
                None
            }
        }
    }
}

impl Drop for NiceBoost {
    fn drop(&mut self) {
        // A lower priority is always granted.
        let _ = setpriority_process(None, self.usual);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crowd_is_many_for_each_cpu_or_an_unknown_number() {
        let dir = tempfile::tempdir().unwrap();
        let proc = crate::kernel::files::open_root(dir.path()).unwrap();
        let cpus = std::thread::available_parallelism().unwrap().get();
        let with = |text: &str| {
            std::fs::write(dir.path().join("loadavg"), text).unwrap();
            is_crowded(&proc, &mut Buffer::new())
        };
        assert!(!with(&format!("0.00 0.01 0.05 {}/900 12\n", CROWD * cpus)));
        assert!(with(&format!(
            "0.00 0.01 0.05 {}/900 12\n",
            CROWD * cpus + 1
        )));
        assert!(with("0.00 0.01\n"));
    }

    #[test]
    fn a_boost_ends_and_a_thread_of_lower_niceness_keeps_it() {
        let own = || getpriority_process(None).unwrap();
        std::thread::spawn(move || {
            let usual = own();
            let Some(boost) = NiceBoost::begin() else {
                eprintln!("SKIP nice boost: niceness may not be lowered here");
                return;
            };
            assert_eq!(own(), NICE);
            assert!(NiceBoost::begin().is_none());
            drop(boost);
            assert_eq!(own(), usual);
            setpriority_process(None, NICE - 5).unwrap();
            assert!(NiceBoost::begin().is_none());
            assert_eq!(own(), NICE - 5);
        })
        .join()
        .unwrap();
    }
}
