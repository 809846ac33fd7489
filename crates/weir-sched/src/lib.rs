// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The arithmetic of weir's scheduler, callable from Rust: the very lines of `bpf/sched/weir_sched.h` that
//! run in the kernel, built for this machine. The simulator decides with them, and the tests here check
//! them. The header says what each does and why.
//!
//! Settings that the scheduler and the simulator share ([`SLICE_NS`] and so on) are read from the header by
//! `build.rs`.

mod flow;

pub use flow::{
    FLOW_RESOURCES, Flow, FlowClock, PerResource, factor_of_cpus, gate_shut, memory_saturated,
};

include!(concat!(env!("OUT_DIR"), "/settings.rs"));

/// `WEIR_SCALE_ONE`: a scale of 1.
pub const SCALE_ONE: u64 = 1 << SCALE_BITS;

/// The budget of one workload (`struct weir_bucket`).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bucket {
    /// Bytes it may still transfer; below 0: its debt.
    pub bytes: i64,
    /// Parts of a byte, in 1e-9 bytes.
    pub part: u64,
}

/// Count of a device that only the daemon can read, from time to time (`struct weir_ext_count`).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExtCount {
    /// Count at the last sample.
    pub bytes: u64,
    /// Time of the last sample; 0: there was none.
    pub at_ns: u64,
    /// Sum of the estimates since then.
    pub estimated_bytes: u64,
    /// Counted bytes less the bytes assumed so far.
    pub error_bytes: i64,
    /// Time in which most of the error is corrected.
    pub spread_ns: u64,
}

unsafe extern "C" {
    fn weir_host_bytes_exact(bytes_per_sec: u64, ns: u64, part: *mut u64) -> u64;
    fn weir_host_refill(bucket: *mut Bucket, bytes_per_sec: u64, ns: u64, burst_bytes: u64);
    fn weir_host_charge(bucket: *mut Bucket, bytes: u64, bytes_per_sec: u64, debt_ns: u64);
    safe fn weir_host_estimate(intensity: u64, run_ns: u64) -> u64;
    safe fn weir_host_billable_bytes(counted: u64, others: u64, carry: i64, carry_max: i64) -> i64;
    fn weir_host_ext_count_advance(ext: *mut ExtCount, estimated: u64, ns: u64) -> u64;
    fn weir_host_ext_count_update(
        ext: *mut ExtCount,
        bytes: u64,
        at_ns: u64,
        after: u64,
        most: i64,
    );
    safe fn weir_host_ext_count_tail(estimated: u64, at_ns: u64, now_ns: u64, ns: u64) -> u64;
    safe fn weir_host_retry_ns(waited_ns: u64) -> u64;
    safe fn weir_host_scale_factor(billable_bytes: i64, estimated: u64) -> u64;
    safe fn weir_host_scale(bytes: u64, scale_factor: u64) -> u64;
    fn weir_host_budget_exhausted(bucket: *const Bucket, intensity: u64, run_ns: u64) -> i32;
    fn weir_host_release_count(bucket: *const Bucket, intensity: u64, ns: u64, most: u32) -> u32;
    safe fn weir_host_burst_bytes(
        bytes_per_sec: u64,
        burst_ns: u64,
        intensity: u64,
        run_ns: u64,
    ) -> u64;
    fn weir_host_run_affordable(bucket: *const Bucket, intensity: u64, run_ns: u64) -> i32;
    safe fn weir_host_overshoot_bytes(
        overshoot_bytes: i64,
        counted: u64,
        set_point_bytes_per_sec: u64,
        ns: u64,
        fade_ns: u64,
    ) -> i64;
    safe fn weir_host_device_admits(
        load_bytes_per_sec: u64,
        set_point_bytes_per_sec: u64,
        overshoot_bytes: i64,
        run_ns: u64,
    ) -> i32;
    safe fn weir_host_starvation_ns(waiting: u64, each_ns: u64, least_ns: u64, most_ns: u64)
    -> u64;
    safe fn weir_host_starvation_due(parked_at_ns: u64, now_ns: u64, starvation_ns: u64) -> i32;
    safe fn weir_host_vtime(run_ns: u64, task_weight: u64, share: u64, sum: u64) -> u64;
    safe fn weir_host_vtime_resume(own: u64, now: u64, credit_ns: u64) -> u64;
    safe fn weir_host_heartbeat_lost(
        heard_at_ns: u64,
        now_ns: u64,
        heartbeat_timeout_ns: u64,
    ) -> i32;
}

impl Bucket {
    /// An interval has passed: the budget grows.
    pub fn refill(&mut self, bytes_per_sec: u64, ns: u64, burst_bytes: u64) {
        // SAFETY: `self` lives and has the layout of `struct weir_bucket`.
        unsafe { weir_host_refill(self, bytes_per_sec, ns, burst_bytes) }
    }

    /// The workload transferred bytes.
    pub fn charge(&mut self, bytes: u64, bytes_per_sec: u64, debt_ns: u64) {
        // SAFETY: as above.
        unsafe { weir_host_charge(self, bytes, bytes_per_sec, debt_ns) }
    }

    /// Whether its tasks must wait (`weir_in_debt`).
    #[must_use]
    pub fn in_debt(&self) -> bool {
        self.bytes <= 0
    }

    /// Whether a workload with parked tasks may begin a run of `run_ns`.
    #[must_use]
    pub fn run_affordable(&self, intensity_bytes_per_sec: u64, run_ns: u64) -> bool {
        // SAFETY: as above, and it is only read.
        unsafe { weir_host_run_affordable(self, intensity_bytes_per_sec, run_ns) != 0 }
    }

    /// Whether it is used up, with `run_ns` of CPU time since the last charge at their estimate.
    #[must_use]
    pub fn is_exhausted(&self, intensity_bytes_per_sec: u64, run_ns: u64) -> bool {
        // SAFETY: as above, and it is only read.
        unsafe { weir_host_budget_exhausted(self, intensity_bytes_per_sec, run_ns) != 0 }
    }

    /// Number of parked tasks that the budget can feed for `slice_ns` each.
    #[must_use]
    pub fn release_count(&self, intensity_bytes_per_sec: u64, slice_ns: u64, most: u32) -> u32 {
        // SAFETY: as above, and it is only read.
        unsafe { weir_host_release_count(self, intensity_bytes_per_sec, slice_ns, most) }
    }
}

impl ExtCount {
    /// Bytes that the device is assumed to have transferred in an interval with this estimate.
    pub fn advance(&mut self, estimated: u64, ns: u64) -> u64 {
        // SAFETY: `self` lives and has the layout of `struct weir_ext_count`.
        unsafe { weir_host_ext_count_advance(self, estimated, ns) }
    }

    /// A sample, after which the part `after` of the estimates came. At most `most` is corrected.
    pub fn update(&mut self, bytes: u64, at_ns: u64, after: u64, most: i64) {
        // SAFETY: as above.
        unsafe { weir_host_ext_count_update(self, bytes, at_ns, after, most) }
    }
}

/// The part of an interval's estimate that came after a sample; the interval of `ns` ended at `now_ns`.
#[must_use]
pub fn ext_count_tail(estimated: u64, at_ns: u64, now_ns: u64, ns: u64) -> u64 {
    weir_host_ext_count_tail(estimated, at_ns, now_ns, ns)
}

/// Bytes that a rate makes in an interval; the remainder goes in and out in 1e-9 bytes.
pub fn bytes_exact(bytes_per_sec: u64, ns: u64, part: &mut u64) -> u64 {
    // SAFETY: `part` lives, and the function only reads and writes it.
    unsafe { weir_host_bytes_exact(bytes_per_sec, ns, part) }
}

/// Bytes that a workload transferred in `run_ns` of CPU time, by its intensity.
#[must_use]
pub fn estimate(intensity_bytes_per_sec: u64, run_ns: u64) -> u64 {
    weir_host_estimate(intensity_bytes_per_sec, run_ns)
}

/// Bytes of a device's count that limited workloads are charged for. `carry_max` is at least 0.
#[must_use]
pub fn billable_bytes(counted: u64, others: u64, carry: i64, carry_max: i64) -> i64 {
    weir_host_billable_bytes(counted, others, carry, carry_max)
}

/// The factor that makes estimates with this sum as large as what is owed; [`SCALE_ONE`] is 1.
#[must_use]
pub fn scale_factor(billable_bytes: i64, estimated: u64) -> u64 {
    weir_host_scale_factor(billable_bytes, estimated)
}

/// An estimate with that factor.
#[must_use]
pub fn scale(bytes: u64, scale_factor: u64) -> u64 {
    weir_host_scale(bytes, scale_factor)
}

/// Largest budget that a workload can save up, bytes.
#[must_use]
pub fn burst_bytes(
    bytes_per_sec: u64,
    burst_ns: u64,
    intensity_bytes_per_sec: u64,
    run_ns: u64,
) -> u64 {
    weir_host_burst_bytes(bytes_per_sec, burst_ns, intensity_bytes_per_sec, run_ns)
}

/// Recent overshoot of a device above its set-point, bytes, after it transferred `counted` in `ns`.
#[must_use]
pub fn overshoot_bytes(
    overshoot_bytes: i64,
    counted: u64,
    set_point_bytes_per_sec: u64,
    ns: u64,
    fade_ns: u64,
) -> i64 {
    weir_host_overshoot_bytes(
        overshoot_bytes,
        counted,
        set_point_bytes_per_sec,
        ns,
        fade_ns,
    )
}

/// Whether a device with this recent overshoot admits one more task, beside the running ones.
#[must_use]
pub fn device_admits(
    load_bytes_per_sec: u64,
    set_point_bytes_per_sec: u64,
    overshoot_bytes: i64,
    run_ns: u64,
) -> bool {
    weir_host_device_admits(
        load_bytes_per_sec,
        set_point_bytes_per_sec,
        overshoot_bytes,
        run_ns,
    ) != 0
}

/// Time until counters that could not be read are read again, after a wait of `waited_ns`; 0: they were read.
#[must_use]
pub fn retry_ns(waited_ns: u64) -> u64 {
    weir_host_retry_ns(waited_ns)
}

/// Longest time that a task stays parked, if so many are parked. Nanoseconds.
#[must_use]
pub fn starvation_ns(waiting: u64, each_ns: u64, least_ns: u64, most_ns: u64) -> u64 {
    weir_host_starvation_ns(waiting, each_ns, least_ns, most_ns)
}

/// Whether a parked task runs now, debt or not.
#[must_use]
pub fn starvation_due(parked_at_ns: u64, now_ns: u64, starvation_ns: u64) -> bool {
    weir_host_starvation_due(parked_at_ns, now_ns, starvation_ns) != 0
}

/// Virtual time of a run in full mode, in nanoseconds of a task of the usual weight (100).
#[must_use]
pub fn vtime(run_ns: u64, task_weight: u64, share: u64, sum: u64) -> u64 {
    weir_host_vtime(run_ns, task_weight, share, sum)
}

/// The virtual time of a task that wakes.
#[must_use]
pub fn vtime_resume(own: u64, now: u64, credit_ns: u64) -> u64 {
    weir_host_vtime_resume(own, now, credit_ns)
}

/// Whether the daemon's heartbeat has been missing for too long.
#[must_use]
pub fn heartbeat_lost(heard_at_ns: u64, now_ns: u64, heartbeat_timeout_ns: u64) -> bool {
    weir_host_heartbeat_lost(heard_at_ns, now_ns, heartbeat_timeout_ns) != 0
}

#[cfg(test)]
mod tests;
