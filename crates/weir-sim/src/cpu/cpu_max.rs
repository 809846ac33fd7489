// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `cpu.max` as the kernel does it, without a clock of its own (kernel/sched/fair.c, 6.18;
//! Documentation/scheduler/sched-bwc.rst).
//!
//! ```text
//!  period timer ─► pool (≤ quota) ─► slices (5 ms) ─► one CPU's remainder ─► charged at ticks
//!        ▲                                                    │ ≤ 0 and pool empty
//!        └── hands out what throttled CPUs owe, in order ◄── throttled list
//! ```
//!
//! - A CPU draws from the pool when its remainder is used up, and it notices that at a tick: a task runs
//!   to the end of its tick whatever its quota. The surplus stays as debt and is taken off
//!   the next period's quota, so the mean holds.
//! - **A write refills**: the pool is filled up to the quota, debts are forgiven, all tasks may run
//!   (`tg_set_cfs_bandwidth`). A timer that runs is not restarted: it adds the new period when it
//!   fires next. One that had stopped starts in its old phase.
//! - The timer stops after a period in which no CPU drew quota.
//! - A CPU where the group goes to sleep gives back all but 1 ms; 5 ms later that is handed out.
//! - Each group's timer has a random phase (since Linux 6.3).

/// `sched_cfs_bandwidth_slice_us`, what a CPU takes from the pool at once, unless the operator changed it.
pub(crate) const DEFAULT_SLICE_NS: i64 = 5_000_000;
/// `min_cfs_rq_runtime`: what a CPU keeps when the group sleeps there.
const KEEP_NS: i64 = 1_000_000;
/// `cfs_bandwidth_slack_period`: from giving back to handing out.
pub(crate) const SLACK_NS: u64 = 5_000_000;

/// A limit: quota and period, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuMax {
    /// CPU time in each period.
    pub quota_ns: u64,
    pub period_ns: u64,
}

impl CpuMax {
    /// The quota and period that the kernel makes of it: both at least 1 ms, the period at most 1 s, in whole
    /// microseconds.
    #[must_use]
    pub fn accepted(self) -> Self {
        let micros = |ns: u64| ns / 1000 * 1000;
        CpuMax {
            quota_ns: micros(self.quota_ns.max(1_000_000)),
            period_ns: micros(self.period_ns.clamp(1_000_000, 1_000_000_000)),
        }
    }

    /// The limit in CPUs.
    pub fn cpus(&self) -> f64 {
        self.quota_ns as f64 / self.period_ns as f64
    }
}

/// `cpu.stat`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuStat {
    /// Periods that ended while the group was busy.
    pub nr_periods: u64,
    /// Those in which it was throttled.
    pub nr_throttled: u64,
    /// Time CPUs were throttled, summed up.
    pub throttled_ns: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Side {
    remaining: i64,
    throttled_since: Option<u64>,
}

#[derive(Clone, Debug)]
pub(crate) struct Quota {
    /// What a CPU takes from the pool at once.
    slice_ns: i64,
    limit: Option<CpuMax>,
    pool: i64,
    sides: Vec<Side>,
    throttled: Vec<u32>,
    expires: u64,
    is_active: bool,
    is_idle: bool,
    stat: CpuStat,
    /// Raised when the timer must be armed for [`Quota::expires`].
    pub(crate) wants_timer: bool,
    /// Raised when the slack timer must be armed.
    pub(crate) wants_slack: bool,
}

impl Quota {
    /// Without a limit; `phase` is the moment of the timer's imaginary first expiry.
    pub(crate) fn new(cpu_count: usize, phase: u64, slice_ns: i64) -> Self {
        Quota {
            slice_ns,
            limit: None,
            pool: 0,
            sides: vec![Side::default(); cpu_count],
            throttled: Vec::new(),
            expires: phase,
            is_active: false,
            is_idle: false,
            stat: CpuStat::default(),
            wants_timer: false,
            wants_slack: false,
        }
    }

    pub(crate) fn limit(&self) -> Option<CpuMax> {
        self.limit
    }

    pub(crate) fn expires(&self) -> u64 {
        self.expires
    }

    pub(crate) fn is_active(&self) -> bool {
        self.is_active
    }

    pub(crate) fn is_throttled(&self, cpu: u32) -> bool {
        self.sides[cpu as usize].throttled_since.is_some()
    }

    /// CPU time left before the next draw from the pool.
    pub(crate) fn remaining(&self, cpu: u32) -> i64 {
        self.sides[cpu as usize].remaining
    }

    /// Statistics; time of CPUs that are throttled now is in it.
    pub(crate) fn stat(&self, now: u64) -> CpuStat {
        let since = self.sides.iter().filter_map(|s| s.throttled_since);
        let running: u64 = since.map(|s| now - s).sum();
        CpuStat {
            throttled_ns: self.stat.throttled_ns + running,
            ..self.stat
        }
    }

    /// A write of `cpu.max`. Gives the CPUs that may run again.
    ///
    /// As in the kernel (`tg_set_cfs_bandwidth`), the pool is filled up to the quota and debts are forgiven:
    /// the gift that weir's controller accounts for. Simulated and measured CPU time of a task agree within
    /// 10 % for quotas of 1 to 3 ms that are rewritten every 10 to 200 ms (docs/evidence/simulator.md).
    pub(crate) fn write(&mut self, limit: Option<CpuMax>, now: u64) -> Vec<u32> {
        self.limit = limit.map(CpuMax::accepted);
        if self.limit.is_some() {
            self.refill();
            self.start(now);
        }
        let released = std::mem::take(&mut self.throttled);
        for cpu in &released {
            self.unthrottle(*cpu, now);
        }
        self.sides.iter_mut().for_each(|s| s.remaining = 1);
        released
    }

    fn refill(&mut self) {
        if let Some(limit) = self.limit {
            let quota = i64::try_from(limit.quota_ns).unwrap_or(i64::MAX / 2);
            self.pool = (self.pool + quota).min(quota);
        }
    }

    /// `start_cfs_bandwidth`: the timer keeps its phase.
    fn start(&mut self, now: u64) {
        let Some(limit) = self.limit else { return };
        if self.is_active {
            return;
        }
        self.is_active = true;
        self.is_idle = false;
        if self.expires <= now {
            self.expires += ((now - self.expires) / limit.period_ns + 1) * limit.period_ns;
        }
        self.wants_timer = true;
    }

    /// A CPU ran the group for `delta_ns`. True when it has nothing left.
    pub(crate) fn charge(&mut self, cpu: u32, delta_ns: u64, now: u64) -> bool {
        if self.limit.is_none() {
            return false;
        }
        self.sides[cpu as usize].remaining -= i64::try_from(delta_ns).unwrap_or(i64::MAX / 2);
        self.is_short(cpu, now)
    }

    /// Draws from the pool where the remainder is used up. True when it still has nothing.
    pub(crate) fn is_short(&mut self, cpu: u32, now: u64) -> bool {
        if self.limit.is_none() || self.sides[cpu as usize].remaining > 0 {
            return false;
        }
        self.take(cpu, self.slice_ns, now);
        self.sides[cpu as usize].remaining <= 0
    }

    fn take(&mut self, cpu: u32, target: i64, now: u64) {
        self.start(now);
        let side = &mut self.sides[cpu as usize];
        let amount = self.pool.min(target - side.remaining).max(0);
        self.pool -= amount;
        side.remaining += amount;
        if amount > 0 {
            self.is_idle = false;
        }
    }

    /// Stops the group on a CPU. False if quota came in at the last moment.
    pub(crate) fn throttle(&mut self, cpu: u32, now: u64) -> bool {
        self.take(cpu, 1, now);
        let side = &mut self.sides[cpu as usize];
        if side.remaining > 0 || side.throttled_since.is_some() {
            return side.throttled_since.is_some();
        }
        side.throttled_since = Some(now);
        self.throttled.push(cpu);
        true
    }

    fn unthrottle(&mut self, cpu: u32, now: u64) {
        if let Some(since) = self.sides[cpu as usize].throttled_since.take() {
            self.stat.throttled_ns += now - since;
        }
    }

    /// The period timer fires. Gives the CPUs that may run again.
    pub(crate) fn period(&mut self, now: u64) -> Vec<u32> {
        let Some(limit) = self.limit else {
            self.is_active = false;
            return Vec::new();
        };
        self.stat.nr_periods += 1;
        self.refill();
        if self.throttled.is_empty() {
            if self.is_idle {
                self.is_active = false;
                return Vec::new();
            }
            self.is_idle = true;
        } else {
            self.stat.nr_throttled += 1;
            self.is_idle = false;
        }
        self.expires += limit.period_ns;
        self.wants_timer = true;
        self.hand_out(now)
    }

    /// Pays debts from the pool, in the order of throttling.
    pub(crate) fn hand_out(&mut self, now: u64) -> Vec<u32> {
        let mut released = Vec::new();
        let (mut pool, sides) = (self.pool, &mut self.sides);
        self.throttled.retain(|cpu| {
            let side = &mut sides[*cpu as usize];
            let amount = (1 - side.remaining).min(pool).max(0);
            pool -= amount;
            side.remaining += amount;
            if side.remaining > 0 {
                released.push(*cpu);
            }
            side.remaining <= 0
        });
        self.pool = pool;
        for cpu in &released {
            self.unthrottle(*cpu, now);
        }
        released
    }

    /// The group went to sleep on a CPU.
    pub(crate) fn give_back(&mut self, cpu: u32) {
        let side = &mut self.sides[cpu as usize];
        let spare = side.remaining - KEEP_NS;
        if self.limit.is_none() || spare <= 0 {
            return;
        }
        side.remaining -= spare;
        self.pool += spare;
        self.wants_slack |= self.pool > self.slice_ns && !self.throttled.is_empty();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn limited(quota_ms: u64, period_ms: u64) -> Quota {
        let mut quota = Quota::new(2, 0, DEFAULT_SLICE_NS);
        let limit = CpuMax {
            quota_ns: quota_ms * MS,
            period_ns: period_ms * MS,
        };
        assert!(quota.write(Some(limit), 0).is_empty());
        quota
    }

    #[test]
    fn debt_is_paid_before_anybody_runs() {
        let mut quota = limited(2, 100);
        assert!(quota.charge(0, 8 * MS, 8 * MS), "6 ms too long");
        assert!(quota.throttle(0, 8 * MS));
        assert_eq!(quota.period(100 * MS), [], "4 ms of debt are left");
        assert_eq!(quota.period(200 * MS), []);
        assert_eq!(quota.period(300 * MS), [0]);
        assert_eq!(quota.stat(300 * MS).throttled_ns, 292 * MS);
        assert_eq!(quota.stat(300 * MS).nr_throttled, 3);
    }

    #[test]
    fn a_write_forgives_and_refills() {
        let mut quota = limited(2, 100);
        assert!(quota.charge(0, 8 * MS, 8 * MS) && quota.throttle(0, 8 * MS));
        assert_eq!(quota.write(quota.limit(), 9 * MS), [0]);
        assert!(!quota.charge(0, MS, 10 * MS), "a fresh quota");
        assert_eq!(quota.expires(), 100 * MS, "a running timer is left alone");
    }

    #[test]
    fn slices_go_to_cpus_and_come_back() {
        let mut quota = limited(20, 100);
        assert!(!quota.charge(0, 1, 1));
        assert!(!quota.charge(1, 1, 1));
        assert_eq!(quota.pool, 10 * MS as i64, "5 ms each");
        quota.give_back(0);
        assert_eq!(quota.pool, 14 * MS as i64, "all but 1 ms");
        assert_eq!(quota.remaining(0), MS as i64);
    }

    #[test]
    fn the_timer_rests_with_the_group_and_keeps_its_phase() {
        let mut quota = limited(2, 10);
        quota.period(10 * MS);
        quota.period(20 * MS);
        assert!(!quota.is_active(), "a period without a question");
        assert!(!quota.charge(0, MS, 37 * MS));
        assert_eq!((quota.is_active(), quota.expires()), (true, 40 * MS));
    }

    #[test]
    fn the_kernel_refuses_less_than_a_millisecond() {
        let odd = CpuMax {
            quota_ns: 10,
            period_ns: 5_000_000_123,
        }
        .accepted();
        assert_eq!(
            odd,
            CpuMax {
                quota_ns: MS,
                period_ns: 1000 * MS
            }
        );
    }
}
