// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Time: the monotonic clock, the tick grid, and the CPU clock of a process.

use rustix::thread::clock_nanosleep_absolute;
use rustix::time::{ClockId, Timespec, clock_getres, clock_gettime};
use std::time::Duration;
use weir_core::Nanos;

fn to_nanos(spec: Timespec) -> Nanos {
    let secs = u64::try_from(spec.tv_sec).unwrap_or(0);
    let nanos = u64::try_from(spec.tv_nsec).unwrap_or(0);
    Nanos(secs.saturating_mul(1_000_000_000).saturating_add(nanos))
}

fn to_timespec(at: Nanos) -> Timespec {
    // 2^64 ns are 584 years: both parts fit.
    Timespec {
        tv_sec: i64::try_from(at.0 / 1_000_000_000).unwrap_or(i64::MAX),
        tv_nsec: i64::try_from(at.0 % 1_000_000_000).unwrap_or(0),
    }
}

pub(crate) fn now() -> Nanos {
    #[cfg(test)]
    if let Some(at) = made::next() {
        return at;
    }
    to_nanos(clock_gettime(ClockId::Monotonic))
}

/// CPU time of the calling thread so far.
pub(crate) fn thread_cpu() -> Nanos {
    to_nanos(clock_gettime(ClockId::ThreadCPUTime))
}

/// Sleeps for a span; a signal may make it shorter.
pub(crate) fn sleep(span: Nanos) {
    sleep_until(Nanos(now().0.saturating_add(span.0)));
}

/// Sleeps until a moment of the monotonic clock; a signal may make it shorter.
pub(crate) fn sleep_until(until: Nanos) {
    let _ = reaches(until);
}

/// Sleeps until a moment; false if a signal came first.
fn reaches(until: Nanos) -> bool {
    #[cfg(test)]
    if made::reach(until) {
        return true;
    }
    clock_nanosleep_absolute(ClockId::Monotonic, &to_timespec(until)).is_ok()
}

/// A span of the standard library's as nanoseconds.
pub(crate) fn nanos(span: Duration) -> Nanos {
    Nanos(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX))
}

/// The scheduler tick. The kernel's coarse clocks step once a tick, so their resolution is the tick:
/// 4 ms at `CONFIG_HZ=250` (kernel, `clock_getres` of `CLOCK_MONOTONIC_COARSE` is `KTIME_LOW_RES`).
/// Needs no kernel configuration file, which many systems do not ship.
pub(crate) fn scheduler_tick() -> Nanos {
    to_nanos(clock_getres(ClockId::MonotonicCoarse))
}

/// CPU time of all threads of a process, ended ones included, in nanoseconds; nothing once it is
/// gone. `/proc/PID/stat` has the same sum in steps of 10 ms, and `/proc/PID/schedstat` only that
/// of the first thread.
pub(crate) fn process_cpu(pid: u32) -> Option<Nanos> {
    // The kernel's encoding of "CPU clock, scheduler's count, of process PID" (time/posix-cpu-timers
    // and clock_getcpuclockid(3)): the inverted id above three bits, of which 2 is CPUCLOCK_SCHED.
    const CPUCLOCK_SCHED: libc::clockid_t = 2;
    // The shift must not lose a bit; the kernel's ids end at 2^22 (PID_MAX_LIMIT).
    let pid = libc::clockid_t::try_from(pid)
        .ok()
        .filter(|p| *p > 0 && *p < 1 << 28)?;
    let clock = (!pid << 3) | CPUCLOCK_SCHED;
    let mut spec = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `spec` is a valid timespec to write to; an unknown clock id is refused by the kernel.
    if unsafe { libc::clock_gettime(clock, &mut spec) } != 0 {
        return None;
    }
    Some(to_nanos(Timespec {
        tv_sec: spec.tv_sec,
        tv_nsec: spec.tv_nsec,
    }))
}

/// Points in time, `interval` apart, counted from the first call of [`Ticker::wait`].
#[derive(Default)]
pub(crate) struct Ticker {
    interval: Nanos,
    next: Option<Nanos>,
    /// How long there are ticks, and until when.
    length: Option<Nanos>,
    end: Option<Nanos>,
}

impl Ticker {
    pub(crate) fn new(interval: Duration) -> Self {
        Ticker {
            interval: nanos(interval),
            ..Ticker::default()
        }
    }

    /// The last tick comes so long after the first one, also where the interval is longer.
    pub(crate) fn ending_after(self, length: Option<Duration>) -> Self {
        Ticker {
            length: length.map(nanos),
            ..self
        }
    }

    /// Sleeps until the next tick; the first is at once. After a late tick those that were missed are skipped
    /// and the grid stays where it was: two readings in quick succession would measure noise. A signal ends
    /// the sleep early, so that a loop with a long interval can be stopped.
    ///
    /// Where `every` is given, `between` is called that long after one another until then; not where the tick
    /// is near.
    pub(crate) fn wait(&mut self, every: Option<Nanos>, mut between: impl FnMut()) {
        let mut due = now();
        if self.next.is_none() {
            self.end = self
                .length
                .map(|length| Nanos(due.0.saturating_add(length.0)));
        }
        let tick = self
            .next
            .map(|next| self.end.map_or(next, |end| end.min(next)));
        while let Some(tick) = tick
            && tick > now()
        {
            let step = every.map(|every| {
                due = Nanos(due.0.saturating_add(every.0.max(1)).max(now().0));
                (due, Nanos(due.0.saturating_add(every.0 / 2)))
            });
            let step = step.filter(|(_, near)| *near < tick).map(|(due, _)| due);
            // Interrupted or refused, the next step is the same: the tick begins now.
            if !reaches(step.unwrap_or(tick)) || step.is_none() {
                break;
            }
            between();
        }
        self.next = Some(self.after(now()));
    }

    /// The next tick is to come this soon, unless it comes sooner; the grid begins anew there.
    pub(crate) fn pull(&mut self, span: Nanos) {
        let soon = Nanos(now().0.saturating_add(span.0));
        self.next = self.next.map(|next| next.min(soon));
    }

    pub(crate) fn interval(&self) -> Nanos {
        self.interval
    }

    /// The first point of the grid after `at`.
    fn after(&self, at: Nanos) -> Nanos {
        let grid = self.next.unwrap_or(at);
        if grid > at || self.interval.0 == 0 {
            return grid;
        }
        let missed = (at.0 - grid.0) / self.interval.0;
        Nanos(
            grid.0
                .saturating_add((missed + 1).saturating_mul(self.interval.0)),
        )
    }
}

/// A clock that a test sets, in place of the machine's, for the test's own thread. Between two reads of it a
/// microsecond passes, and a sleep ends at once.
#[cfg(test)]
pub(crate) mod made {
    use std::cell::Cell;
    use weir_core::Nanos;

    thread_local! {
        static AT: Cell<Option<Nanos>> = const { Cell::new(None) };
    }

    /// The thread has such a clock until this goes.
    pub(crate) struct Clock(());

    pub(crate) fn clock() -> Clock {
        AT.set(Some(Nanos::from_millis(1_000_000)));
        Clock(())
    }

    impl Clock {
        pub(crate) fn advance(&self, span: Nanos) {
            AT.set(AT.get().map(|at| Nanos(at.0 + span.0)));
        }
    }

    impl Drop for Clock {
        fn drop(&mut self) {
            AT.set(None);
        }
    }

    pub(crate) fn next() -> Option<Nanos> {
        let at = Nanos(AT.get()?.0 + 1000);
        AT.set(Some(at));
        Some(at)
    }

    pub(crate) fn reach(until: Nanos) -> bool {
        let at = AT.get();
        AT.set(at.map(|at| at.max(until)));
        at.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missed_ticks_are_skipped_and_the_grid_stays() {
        let ticker = Ticker {
            interval: Nanos(50),
            next: Some(Nanos(100)),
            ..Ticker::default()
        };
        for (late, next) in [(99, 100), (100, 150), (149, 150), (150, 200), (471, 500)] {
            assert_eq!(
                ticker.after(Nanos(late)),
                Nanos(next),
                "tick served at {late}"
            );
        }
        let first = Ticker {
            interval: Nanos(50),
            ..Ticker::default()
        };
        assert_eq!(first.after(Nanos(7)), Nanos(57));
        let far = Ticker {
            interval: Nanos(u64::MAX),
            next: Some(Nanos(5)),
            ..Ticker::default()
        };
        assert_eq!(far.after(Nanos(6)), Nanos(u64::MAX));
    }

    #[test]
    fn waiting_lands_on_the_grid() {
        let mut ticker = Ticker::new(Duration::from_millis(5));
        let never = || panic!("no call between ticks was requested");
        ticker.wait(None, never);
        let grid = ticker.next.unwrap();
        ticker.wait(None, never);
        assert!(now() >= grid);
        assert_eq!((ticker.next.unwrap().0 - grid.0) % 5_000_000, 0);
        Ticker::new(Duration::ZERO).wait(None, never);
    }

    #[test]
    fn between_two_ticks_samples_are_taken() {
        let clock = made::clock();
        let mut ticker = Ticker::new(Duration::from_millis(100));
        ticker.wait(None, || ());
        let tick = ticker.next.unwrap();
        let mut samples = 0;
        ticker.wait(Some(Nanos::from_millis(10)), || samples += 1);
        assert!(now() >= tick);
        assert_eq!(samples, 9);
        // One that is due at the next tick is that tick.
        ticker.wait(Some(Nanos::from_millis(70)), || panic!("too near"));
        // Samples that take longer than what is left are not caught up with.
        ticker.wait(Some(Nanos::from_millis(10)), || {
            samples += 1;
            clock.advance(Nanos::from_millis(35));
        });
        assert_eq!(samples, 9 + 3);
    }

    #[test]
    fn the_last_tick_is_at_the_end_however_long_the_interval() {
        for (length_ms, ticks_ms) in [(20, [0, 20]), (15_000, [0, 10_000])] {
            let _clock = made::clock();
            let mut ticker = Ticker::new(Duration::from_secs(10))
                .ending_after(Some(Duration::from_millis(length_ms)));
            let mut at = || {
                ticker.wait(None, || ());
                now().0 / 1_000_000 - 1_000_000
            };
            assert_eq!([at(), at()], ticks_ms);
            assert_eq!(at(), length_ms);
        }
    }

    #[test]
    fn our_own_cpu_clock_runs() {
        let before = process_cpu(std::process::id()).unwrap();
        let mut sum = 0u64;
        while process_cpu(std::process::id()).unwrap().0 < before.0 + 1_000_000 {
            sum = std::hint::black_box(sum.wrapping_add(1));
        }
        for free in [0, 1 << 28, u32::MAX] {
            assert_eq!(process_cpu(free), None, "{free}");
        }
    }

    #[test]
    fn the_tick_is_that_of_some_kernel() {
        let tick = scheduler_tick().0;
        assert!((500_000..=10_000_000).contains(&tick), "{tick} ns");
    }
}
