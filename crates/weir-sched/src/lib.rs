// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The arithmetic of weir's scheduler, callable from Rust: the very lines of `bpf/weir_sched.h` that run
//! in the kernel, built for this machine. The simulator decides with them, and the tests here put them to
//! the proof. What each does and why is told in the header.

/// `WEIR_RATIO_ONE`: a scale of 1.
pub const RATIO_ONE: u64 = 1 << 12;

/// The budget of one workload (`struct weir_bucket`).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bucket {
    /// What it may still move; below 0: its debt.
    pub bytes: i64,
    /// Parts of a byte, in 1e-9 bytes.
    pub part: u64,
}

/// What is known of a device whose counters are read only now and then (`struct weir_looks`).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Looks {
    /// Its count at the last look.
    pub seen_bytes: u64,
    /// When that was; 0: there was none.
    pub seen_ns: u64,
    /// Sum of the estimates since then.
    pub guessed_bytes: u64,
    /// What it moved beyond what it was taken to have moved.
    pub missed_bytes: i64,
    /// Time in which that is made up for.
    pub spread_ns: u64,
}

unsafe extern "C" {
    fn weir_host_bytes_exact(bytes_per_sec: u64, ns: u64, part: *mut u64) -> u64;
    fn weir_host_refill(bucket: *mut Bucket, bytes_per_sec: u64, ns: u64, room_bytes: u64);
    fn weir_host_charge(bucket: *mut Bucket, bytes: u64, bytes_per_sec: u64, debt_ns: u64);
    safe fn weir_host_estimate(intensity: u64, run_ns: u64) -> u64;
    safe fn weir_host_owed(counted: u64, others: u64, carry: i64, carry_max: i64) -> i64;
    fn weir_host_taken(looks: *mut Looks, estimated: u64, ns: u64) -> u64;
    fn weir_host_look(looks: *mut Looks, bytes: u64, at_ns: u64, after: u64, most: i64);
    safe fn weir_host_after(estimated: u64, at_ns: u64, now_ns: u64, ns: u64) -> u64;
    safe fn weir_host_ratio(owed: i64, estimated: u64) -> u64;
    safe fn weir_host_scaled(bytes: u64, ratio: u64) -> u64;
    fn weir_host_is_spent(bucket: *const Bucket, intensity: u64, run_ns: u64) -> i32;
    fn weir_host_release_count(bucket: *const Bucket, intensity: u64, ns: u64, most: u32) -> u32;
    safe fn weir_host_room(bytes_per_sec: u64, room_ns: u64, intensity: u64, run_ns: u64) -> u64;
    fn weir_host_may_begin(bucket: *const Bucket, intensity: u64, run_ns: u64) -> i32;
    safe fn weir_host_beyond(
        beyond: i64,
        counted: u64,
        set_point_bytes_per_sec: u64,
        ns: u64,
        fade_ns: u64,
    ) -> i64;
    safe fn weir_host_takes_one(
        load_bytes_per_sec: u64,
        set_point_bytes_per_sec: u64,
        beyond: i64,
        run_ns: u64,
    ) -> i32;
    safe fn weir_host_turn(waiting: u64, each_ns: u64, least_ns: u64, most_ns: u64) -> u64;
    safe fn weir_host_has_turn(parked_at_ns: u64, now_ns: u64, turn_ns: u64) -> i32;
    safe fn weir_host_vtime(run_ns: u64, task_weight: u64, share: u64, sum: u64) -> u64;
    safe fn weir_host_vtime_back(own: u64, now: u64, credit_ns: u64) -> u64;
    safe fn weir_host_is_silent(heard_at_ns: u64, now_ns: u64, patience_ns: u64) -> i32;
}

impl Bucket {
    /// An interval has passed.
    pub fn refill(&mut self, bytes_per_sec: u64, ns: u64, room_bytes: u64) {
        // SAFETY: `self` lives and has the layout of `struct weir_bucket`.
        unsafe { weir_host_refill(self, bytes_per_sec, ns, room_bytes) }
    }

    /// The workload moved bytes.
    pub fn charge(&mut self, bytes: u64, bytes_per_sec: u64, debt_ns: u64) {
        // SAFETY: as above.
        unsafe { weir_host_charge(self, bytes, bytes_per_sec, debt_ns) }
    }

    /// Whether its tasks are to wait (`weir_is_over`).
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.bytes <= 0
    }

    /// Whether a workload whose tasks are parked may begin a run of `run_ns`.
    #[must_use]
    pub fn may_begin(&self, intensity_bytes_per_sec: u64, run_ns: u64) -> bool {
        // SAFETY: as above, and it is only read.
        unsafe { weir_host_may_begin(self, intensity_bytes_per_sec, run_ns) != 0 }
    }

    /// Whether it is spent, if `run_ns` of CPU time since it was last charged cost their estimate.
    #[must_use]
    pub fn is_spent(&self, intensity_bytes_per_sec: u64, run_ns: u64) -> bool {
        // SAFETY: as above, and it is only read.
        unsafe { weir_host_is_spent(self, intensity_bytes_per_sec, run_ns) != 0 }
    }

    /// How many parked tasks the budget can feed for `slice_ns` each.
    #[must_use]
    pub fn release_count(&self, intensity_bytes_per_sec: u64, slice_ns: u64, most: u32) -> u32 {
        // SAFETY: as above, and it is only read.
        unsafe { weir_host_release_count(self, intensity_bytes_per_sec, slice_ns, most) }
    }
}

impl Looks {
    /// What the device is taken to have moved in an interval whose estimate is this.
    pub fn taken(&mut self, estimated: u64, ns: u64) -> u64 {
        // SAFETY: `self` lives and has the layout of `struct weir_looks`.
        unsafe { weir_host_taken(self, estimated, ns) }
    }

    /// A look, after which the part `after` of the estimates came. At most `most` is made up for.
    pub fn look(&mut self, bytes: u64, at_ns: u64, after: u64, most: i64) {
        // SAFETY: as above.
        unsafe { weir_host_look(self, bytes, at_ns, after, most) }
    }
}

/// The part of an interval's estimate that came after a look: the interval of `ns` ended at `now_ns`.
#[must_use]
pub fn after(estimated: u64, at_ns: u64, now_ns: u64, ns: u64) -> u64 {
    weir_host_after(estimated, at_ns, now_ns, ns)
}

/// Bytes that a rate makes in an interval, whose rest goes in and out in 1e-9 bytes.
pub fn bytes_exact(bytes_per_sec: u64, ns: u64, part: &mut u64) -> u64 {
    // SAFETY: `part` lives, and the function only reads and writes it.
    unsafe { weir_host_bytes_exact(bytes_per_sec, ns, part) }
}

/// What a workload moved in `run_ns` of CPU time, by its intensity.
#[must_use]
pub fn estimate(intensity_bytes_per_sec: u64, run_ns: u64) -> u64 {
    weir_host_estimate(intensity_bytes_per_sec, run_ns)
}

/// What of the counted bytes is owed by limited workloads. `carry_max` is at least 0.
#[must_use]
pub fn owed(counted: u64, others: u64, carry: i64, carry_max: i64) -> i64 {
    weir_host_owed(counted, others, carry, carry_max)
}

/// The factor that makes estimates with this sum as large as what is owed; [`RATIO_ONE`] is 1.
#[must_use]
pub fn ratio(owed: i64, estimated: u64) -> u64 {
    weir_host_ratio(owed, estimated)
}

/// An estimate with that factor.
#[must_use]
pub fn scaled(bytes: u64, ratio: u64) -> u64 {
    weir_host_scaled(bytes, ratio)
}

/// What a workload can save up, in bytes.
#[must_use]
pub fn room(bytes_per_sec: u64, room_ns: u64, intensity_bytes_per_sec: u64, run_ns: u64) -> u64 {
    weir_host_room(bytes_per_sec, room_ns, intensity_bytes_per_sec, run_ns)
}

/// What a device moved beyond its set-point of late, in bytes, after it moved `counted` in `ns`.
#[must_use]
pub fn beyond(
    beyond: i64,
    counted: u64,
    set_point_bytes_per_sec: u64,
    ns: u64,
    fade_ns: u64,
) -> i64 {
    weir_host_beyond(beyond, counted, set_point_bytes_per_sec, ns, fade_ns)
}

/// Whether a device that moved so many bytes beyond its set-point of late takes one more, beside those who run.
#[must_use]
pub fn takes_one(
    load_bytes_per_sec: u64,
    set_point_bytes_per_sec: u64,
    beyond: i64,
    run_ns: u64,
) -> bool {
    weir_host_takes_one(load_bytes_per_sec, set_point_bytes_per_sec, beyond, run_ns) != 0
}

/// How long a parked task waits for its turn at most, if so many wait.
#[must_use]
pub fn turn(waiting: u64, each_ns: u64, least_ns: u64, most_ns: u64) -> u64 {
    weir_host_turn(waiting, each_ns, least_ns, most_ns)
}

/// Whether a parked task has its turn, debt or not.
#[must_use]
pub fn has_turn(parked_at_ns: u64, now_ns: u64, turn_ns: u64) -> bool {
    weir_host_has_turn(parked_at_ns, now_ns, turn_ns) != 0
}

/// Virtual time of a run in full mode, in nanoseconds of a task of the usual weight (100).
#[must_use]
pub fn vtime(run_ns: u64, task_weight: u64, share: u64, sum: u64) -> u64 {
    weir_host_vtime(run_ns, task_weight, share, sum)
}

/// The virtual time of a task that comes back.
#[must_use]
pub fn vtime_back(own: u64, now: u64, credit_ns: u64) -> u64 {
    weir_host_vtime_back(own, now, credit_ns)
}

/// Whether the daemon has been silent for too long.
#[must_use]
pub fn is_silent(heard_at_ns: u64, now_ns: u64, patience_ns: u64) -> bool {
    weir_host_is_silent(heard_at_ns, now_ns, patience_ns) != 0
}

#[cfg(test)]
mod tests;
