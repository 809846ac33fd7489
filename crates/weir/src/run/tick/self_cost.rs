// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What weir itself costs, measured in CPU time: the loop sleeps inside `observe`, so wall time
//! would say nothing. Reading the thread's CPU clock costs well under a microsecond.

use rustix::time::{ClockId, clock_gettime};
use std::collections::VecDeque;
use weir_core::seam::snapshot::SelfCost;
use weir_core::{CpuShare, Nanos};

/// CPU time of the calling thread so far.
pub fn thread_cpu() -> Nanos {
    read(ClockId::ThreadCPUTime)
}

/// CPU time of all threads of this process so far.
pub fn process_cpu() -> Nanos {
    read(ClockId::ProcessCPUTime)
}

fn read(clock: ClockId) -> Nanos {
    let time = clock_gettime(clock);
    let secs = u64::try_from(time.tv_sec).unwrap_or(0);
    let nanos = u64::try_from(time.tv_nsec).unwrap_or(0);
    Nanos(secs.saturating_mul(1_000_000_000).saturating_add(nanos))
}

/// CPU time of each stage of one iteration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stages {
    pub observe: Nanos,
    pub step: Nanos,
    pub apply: Nanos,
    /// Snapshot, change log, files.
    pub publish: Nanos,
}

impl Stages {
    pub fn total(&self) -> Nanos {
        Nanos(self.observe.0 + self.step.0 + self.apply.0 + self.publish.0)
    }
}

/// Keeps the running figures.
pub struct Meter {
    interval: Nanos,
    cost: SelfCost,
    last_tick: Option<Nanos>,
    /// Time on the platform's clock and process CPU time, over about the last second.
    window: VecDeque<(Nanos, Nanos)>,
}

const WINDOW: Nanos = Nanos::from_millis(1000);

impl Meter {
    /// A meter for a loop that ticks each `interval`.
    pub fn new(interval: Nanos) -> Meter {
        Meter {
            interval,
            cost: SelfCost::default(),
            last_tick: None,
            window: VecDeque::new(),
        }
    }

    /// A new tick has begun at `at`; returns the figures so far.
    pub fn tick(&mut self, at: Nanos, process_cpu: Nanos) -> SelfCost {
        if let Some(span) = self.last_tick.and_then(|last| at.since(last))
            && span.0 > self.interval.0 + self.interval.0 / 2
        {
            self.cost.late_ticks_total += 1;
        }
        self.last_tick = Some(at);
        self.window.push_back((at, process_cpu));
        while self.window.len() > 2 && self.window.get(1).is_some_and(|(t, _)| older(*t, at)) {
            self.window.pop_front();
        }
        if let Some((start, used)) = self.window.front()
            && let Some(span) = at.since(*start)
        {
            let used = Nanos(process_cpu.0.saturating_sub(used.0));
            self.cost.process_cpus = CpuShare::over(used, span);
        }
        self.cost
    }

    /// The iteration is over.
    pub fn done(&mut self, stages: &Stages) {
        self.cost.loop_cpu_ns = stages.total();
        self.cost.loop_cpu_ns_max = self.cost.loop_cpu_ns_max.max(stages.total());
    }
}

fn older(then: Nanos, now: Nanos) -> bool {
    now.since(then).is_some_and(|span| span >= WINDOW)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_use_is_that_of_the_last_second() {
        let mut meter = Meter::new(Nanos::from_millis(50));
        let mut last = SelfCost::default();
        for tick in 0..100u64 {
            // A quarter of a CPU for 2 s, then nothing.
            let used = Nanos::from_millis(tick.min(40) * 50 / 4);
            last = meter.tick(Nanos::from_millis(tick * 50), used);
            if tick == 40 {
                assert!((last.process_cpus.get() - 0.25).abs() < 0.01, "{last:?}");
            }
        }
        assert_eq!(last.process_cpus.get(), 0.0, "old use is forgotten");
        assert_eq!(last.late_ticks_total, 0);
    }

    #[test]
    fn a_tick_is_late_after_one_and_a_half_intervals() {
        let mut meter = Meter::new(Nanos::from_millis(50));
        for at in [0, 75, 151] {
            meter.tick(Nanos::from_millis(at), Nanos(0));
        }
        let cost = meter.tick(Nanos::from_millis(200), Nanos(0));
        assert_eq!(cost.late_ticks_total, 1, "75 ms is not late, 76 ms is");
    }
}
