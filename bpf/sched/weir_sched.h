/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The arithmetic of weir's scheduler: plain functions over plain structs.
 *
 * Built three ways: into the BPF scheduler, into tests on the host, and into the
 * simulator. So there is no kernel here, no clock, no map and no loop without a
 * bound; 64-bit integers only, because BPF has no others. The including file
 * defines u32, u64 and s64.
 *
 * Words: a *budget* is the number of device bytes that a workload may still
 * transfer; below zero it is a *debt*. The *intensity* of a workload is device
 * bytes per second of CPU time. A task is *parked* while its workload is in debt.
 *
 * Charging. The device counts the bytes of an interval, but not which workload
 * transferred them. So each workload first gets an estimate, intensity times run
 * time, and then the estimates are scaled so that their sum is the device's count.
 * A wrong intensity shifts bytes between workloads, but the device stays at its
 * set-point (thesis, equation 3, with run time as the signal of access). Where the
 * kernel cannot read the device's counters, the daemon samples them some hundred
 * times a second (struct weir_ext_count).
 */
#ifndef WEIR_SCHED_H
#define WEIR_SCHED_H

/*
 * Settings of the scheduler that the simulator repeats. crates/weir-sched/build.rs makes Rust constants of
 * the lines from here to the next empty line: a comment of one line, then a name and a decimal number.
 */
/* Longest time slice, nanoseconds. Seldom reached, because ticks preempt tasks of workloads in debt. */
#define WEIR_SLICE_NS	4000000ULL
/* Parked tasks of one workload that one tick releases at most. */
#define WEIR_RELEASE_BATCH	64
/* A task that wakes has at most this much vtime less than the others, nanoseconds. */
#define WEIR_WAKEUP_CREDIT_NS	4000000ULL
/* The same for a task that was parked: those that wake come first, also if they have run a little. */
#define WEIR_RELEASE_CREDIT_NS	1000000ULL
/* A task that has run in the kernel for longer than this is parked there too, nanoseconds. */
#define WEIR_KERNEL_STAY_NS	8000000ULL
/* Longest time that a task is parked there without a turn, nanoseconds. */
#define WEIR_KERNEL_PARK_MAX_NS	64000000ULL
/* A waking task preempts a running one that is ahead of it by more vtime than this, nanoseconds. */
#define WEIR_PREEMPT_LAG_NS	500000ULL
/* Largest debt of a device towards capped workloads, as time at its set-point: bounds their wait. */
#define WEIR_OVERLOAD_CAP_DEBT_NS	100000000ULL
/* Largest error of earlier estimates that a sample of the daemon corrects, as time at the set-point. */
#define WEIR_EXT_ERROR_NS	200000000ULL
/* Time in which a device's recent overshoot fades, nanoseconds. */
#define WEIR_OVERSHOOT_FADE_NS	100000000ULL
/* A device whose counters cannot be read is read again after this time, nanoseconds; then after twice as long. */
#define WEIR_RETRY_FIRST_NS	2000000ULL
/* And never less often than this, nanoseconds. */
#define WEIR_RETRY_MOST_NS	1024000000ULL
/* Bits behind the binary point of scale factors. */
#define WEIR_SCALE_BITS	12
/* Slice of the thesis's schedulers for a task without a limit (5.4.1, equation 8), nanoseconds. */
#define WEIR_THESIS_SLICE_NS	20000000ULL
/* They read counters at most once in this time (5.4.1.1), nanoseconds. */
#define WEIR_THESIS_REFRESH_NS	1000000ULL
/* Weight of a new value in their running average (7.4.1), tenths. */
#define WEIR_THESIS_ALPHA_TENTHS	3
/* Their lowest limit (5.4.2), percent of a CPU. */
#define WEIR_THESIS_LIMIT_MIN_PERCENT	1
/* Resources of a flow: the CPUs, and memories. */
#define WEIR_RESOURCES_MAX	8
/* Bits behind the binary point of a flow's growth per nanosecond of a run. */
#define WEIR_FACTOR_BITS	24
/* C: a flow that wakes is at most this far behind the level, virtual nanoseconds. */
#define WEIR_FLOW_CREDIT_NS	4000000ULL
/* Delta: no clock of a flow lags further behind its largest, virtual nanoseconds. */
#define WEIR_FLOW_DELTA_NS	40000000ULL
/* Slice of a flow's task: shorter than the others', so that shares hold in windows of 100 ms. */
#define WEIR_FLOW_SLICE_NS	2000000ULL
/* A flow that leads by more waits while a memory that it uses is saturated, virtual nanoseconds. */
#define WEIR_FLOW_BOUND_NS	4000000ULL

#define WEIR_NS_PER_SEC		1000000000ULL
/* No interval is longer; a timer that slept through more was not working. */
#define WEIR_INTERVAL_NS_MAX	WEIR_NS_PER_SEC
/* 1 TB/s is above any device, and keeps all products below 2^63. */
#define WEIR_RATE_MAX		1000000000000ULL
#define WEIR_SCALE_ONE		(1ULL << WEIR_SCALE_BITS)
/* A device that transferred more than this many times the estimate: the estimate is worthless. */
#define WEIR_SCALE_MAX		(64 * WEIR_SCALE_ONE)

/**
 * struct weir_bucket - the budget of one workload
 * @bytes: bytes it may still transfer; below 0: its debt
 * @part: parts of a byte not yet in @bytes, in 1e-9 bytes
 */
struct weir_bucket {
	s64 bytes;
	u64 part;
};

static inline u64 weir_min(u64 a, u64 b)
{
	return a < b ? a : b;
}

static inline u64 weir_max(u64 a, u64 b)
{
	return a > b ? a : b;
}

static inline s64 weir_clamp(s64 value, s64 low, s64 high)
{
	return value < low ? low : value > high ? high : value;
}

/*
 * Bytes that @bytes_per_sec make in @ns. *part goes in and out, so that many
 * short intervals give as much as one long one.
 */
static inline u64 weir_bytes_exact(u64 bytes_per_sec, u64 ns, u64 *part)
{
	u64 rate = weir_min(bytes_per_sec, WEIR_RATE_MAX);
	u64 time = weir_min(ns, WEIR_INTERVAL_NS_MAX);
	/* rate = high * 10^6 + low, so high * time is in 10^-3 bytes. */
	u64 high = rate / 1000000 * time;
	u64 low = rate % 1000000 * time + high % 1000 * 1000000 + *part;

	*part = low % WEIR_NS_PER_SEC;
	return high / 1000 + low / WEIR_NS_PER_SEC;
}

/* The same without the remainder. */
static inline u64 weir_bytes(u64 bytes_per_sec, u64 ns)
{
	u64 part = 0;

	return weir_bytes_exact(bytes_per_sec, ns, &part);
}

/*
 * Largest budget that a workload can save up, as the burst of a token bucket: its rate times @burst_ns, and
 * in any case two runs of @run_ns, or a workload that runs rarely could never use its rate.
 */
static inline u64 weir_burst_bytes(u64 bytes_per_sec, u64 burst_ns, u64 intensity_bytes_per_sec, u64 run_ns)
{
	u64 runs = 2 * weir_bytes(intensity_bytes_per_sec, run_ns);

	return weir_max(weir_max(weir_bytes(bytes_per_sec, burst_ns), runs), 1);
}

/* An interval has passed: the budget grows, at most to @burst_bytes. */
static inline void weir_refill(struct weir_bucket *bucket, u64 bytes_per_sec, u64 ns, u64 burst_bytes)
{
	s64 burst = (s64)weir_min(burst_bytes, 1ULL << 60);

	bucket->bytes += (s64)weir_bytes_exact(bytes_per_sec, ns, &bucket->part);
	if (bucket->bytes > burst)
		bucket->bytes = burst;
}

/*
 * The workload transferred bytes. Debt carries over, so the mean is held whatever
 * one run overdrew; but not more debt than @debt_ns repay, or one wrong reading
 * would stop a workload for long.
 */
static inline void weir_charge(struct weir_bucket *bucket, u64 bytes, u64 bytes_per_sec, u64 debt_ns)
{
	s64 debt = (s64)weir_max(weir_bytes(bytes_per_sec, debt_ns), 1);

	bucket->bytes -= (s64)weir_min(bytes, 1ULL << 60);
	if (bucket->bytes < -debt)
		bucket->bytes = -debt;
}

/* Whether the tasks of this workload must wait. */
static inline int weir_in_debt(const struct weir_bucket *bucket)
{
	return bucket->bytes <= 0;
}

/* First estimate of the bytes that a workload transferred in @run_ns of CPU time. */
static inline u64 weir_estimate(u64 intensity_bytes_per_sec, u64 run_ns)
{
	u64 sec = weir_min(run_ns / WEIR_NS_PER_SEC, 1024);

	return weir_min(intensity_bytes_per_sec, WEIR_RATE_MAX) * sec +
	       weir_bytes(intensity_bytes_per_sec, run_ns % WEIR_NS_PER_SEC);
}

/*
 * Whether a budget is used up, with @run_ns since the last charge at their estimate: a CPU checks this by
 * itself when the tick is late.
 */
static inline int weir_budget_exhausted(const struct weir_bucket *bucket, u64 intensity_bytes_per_sec, u64 run_ns)
{
	return bucket->bytes <= (s64)weir_min(weir_estimate(intensity_bytes_per_sec, run_ns), 1ULL << 60);
}

/*
 * Bytes of a device's count that limited workloads are charged for: all but those
 * that other workloads may use, plus the remainder of the last intervals. @carry
 * is bounded on both sides: old intervals do not count.
 */
static inline s64 weir_billable_bytes(u64 counted, u64 others, s64 carry, s64 carry_max)
{
	s64 now = (s64)weir_min(counted, 1ULL << 60) - (s64)weir_min(others, 1ULL << 60);

	return weir_clamp(now + carry, -carry_max, carry_max);
}

/**
 * struct weir_ext_count - count of a device that only the daemon can read, from time to time
 * @bytes: count at the last sample
 * @at_ns: time of the last sample; 0: there was none
 * @estimated_bytes: sum of the estimates since then
 * @error_bytes: counted bytes less the bytes assumed so far (signed)
 * @spread_ns: most of the error is corrected in this time: the time between the last two samples, or less
 */
struct weir_ext_count {
	u64 bytes;
	u64 at_ns;
	u64 estimated_bytes;
	s64 error_bytes;
	u64 spread_ns;
};

/*
 * Bytes that such a device is assumed to have transferred in an interval: the estimate, and a part of the
 * open error. Over many samples the sum is the device's count, however bad the estimates are.
 */
static inline u64 weir_ext_count_advance(struct weir_ext_count *ext, u64 estimated, u64 ns)
{
	u64 size = ext->error_bytes < 0 ? -ext->error_bytes : ext->error_bytes;
	u64 part = weir_min(ns, ext->spread_ns) >> 10, of = weir_max(ext->spread_ns >> 10, 1);
	s64 estimate = (s64)weir_min(estimated, 1ULL << 60), due, assumed;

	/* 2^40 bytes are more than WEIR_RATE_MAX makes in an interval; times 2^20 the product fits. */
	due = (s64)(weir_min(size, 1ULL << 40) * weir_min(part, of) / of);
	assumed = weir_clamp(estimate + (ext->error_bytes < 0 ? -due : due), 0, 1LL << 61);
	ext->error_bytes -= assumed - estimate;
	ext->estimated_bytes += estimate;
	return (u64)assumed;
}

/* A count that stands still for longer does so because nothing is transferred. */
#define WEIR_EXT_STALE_NS	(WEIR_NS_PER_SEC / 2)
/* Most of the error is corrected within this. */
#define WEIR_EXT_SPREAD_NS	(WEIR_NS_PER_SEC / 20)

/*
 * A sample of the daemon: the count was @bytes at @at_ns. @after is the part of the estimates that came
 * later. A count that went back, or a sample after a long time, gives no error; at most @most is corrected.
 * A count that stands still while tasks run may be updated seldom: then the next sample that differs covers
 * all that time.
 */
static inline void weir_ext_count_update(struct weir_ext_count *ext, u64 bytes, u64 at_ns, u64 after, s64 most)
{
	u64 span = at_ns - ext->at_ns, before = ext->estimated_bytes - weir_min(after, ext->estimated_bytes);

	if (ext->at_ns && bytes == ext->bytes && before && span < WEIR_EXT_STALE_NS)
		return;
	if (ext->at_ns && at_ns > ext->at_ns && span <= WEIR_NS_PER_SEC && bytes >= ext->bytes) {
		ext->error_bytes += (s64)weir_min(bytes - ext->bytes, 1ULL << 60) -
				       (s64)weir_min(before, 1ULL << 60);
		ext->error_bytes = weir_clamp(ext->error_bytes, -most, most);
		ext->spread_ns = weir_min(span, WEIR_EXT_SPREAD_NS);
	} else {
		ext->error_bytes = 0;
	}
	ext->bytes = bytes;
	ext->at_ns = at_ns;
	ext->estimated_bytes = after;
}

/* The part of an interval's estimate that came after a sample; the interval of @ns ended at @now_ns. */
static inline u64 weir_ext_count_tail(u64 estimated, u64 at_ns, u64 now_ns, u64 ns)
{
	u64 since = now_ns > at_ns ? now_ns - at_ns : 0;

	if (since >= weir_min(ns, WEIR_INTERVAL_NS_MAX))
		return estimated;
	return weir_min(estimated, 1ULL << 40) * (since >> 10) / weir_max(ns >> 10, 1);
}

/* The factor that makes estimates with the sum @estimated as large as @owed. */
static inline u64 weir_scale_factor(s64 owed, u64 estimated)
{
	u64 most;

	if (owed <= 0 || !estimated)
		return 0;
	/* 2^50 bytes in one interval are more than WEIR_RATE_MAX. */
	most = weir_min((u64)owed, 1ULL << 50) << WEIR_SCALE_BITS;
	return weir_min(most / estimated, WEIR_SCALE_MAX);
}

static inline u64 weir_scale(u64 bytes, u64 ratio)
{
	return (weir_min(bytes, 1ULL << 44) * weir_min(ratio, WEIR_SCALE_MAX)) >> WEIR_SCALE_BITS;
}

/*
 * Number of parked tasks that the budget can feed for @slice_ns each: at least one if
 * there is any budget, so that release is gradual and never stops.
 */
static inline u32 weir_release_count(const struct weir_bucket *bucket, u64 intensity_bytes_per_sec,
				     u64 slice_ns, u32 most)
{
	u64 each, count;

	if (weir_in_debt(bucket))
		return 0;
	each = weir_max(weir_bytes(intensity_bytes_per_sec, slice_ns), 1);
	count = weir_max((u64)bucket->bytes / each, 1);
	return (u32)weir_min(count, most);
}

/*
 * Whether a workload with parked tasks may begin a run: not before its budget
 * lasts for @run_ns, or it would run for a moment, stop, and so on, and each
 * change of tasks costs.
 */
static inline int weir_run_affordable(const struct weir_bucket *bucket, u64 intensity_bytes_per_sec, u64 run_ns)
{
	return !weir_in_debt(bucket) &&
	       (u64)bucket->bytes >= weir_bytes(intensity_bytes_per_sec, run_ns);
}

/*
 * Time until counters that could not be read are read again, after a wait of @waited_ns; 0: they were read
 * before. A register of a device that does not answer holds a CPU until the completion timeout, 10 ms and
 * more, and a tick has interrupts off.
 */
static inline u64 weir_retry_ns(u64 waited_ns)
{
	if (waited_ns >= WEIR_RETRY_MOST_NS / 2)
		return WEIR_RETRY_MOST_NS;
	return weir_max(2 * waited_ns, WEIR_RETRY_FIRST_NS);
}

/*
 * Recent overshoot of a device: bytes above its set-point; below 0: bytes that it left unused. It fades
 * within @fade_ns, because the budgets have taken older intervals into account, and is bounded by the
 * set-point times a tenth of that.
 */
static inline s64 weir_overshoot_bytes(s64 overshoot, u64 counted, u64 set_point_bytes_per_sec, u64 ns, u64 fade_ns)
{
	s64 most = (s64)weir_bytes(set_point_bytes_per_sec, fade_ns / 10);
	u64 size;

	overshoot += (s64)weir_min(counted, 1ULL << 60) - (s64)weir_bytes(set_point_bytes_per_sec, ns);
	overshoot = weir_clamp(overshoot, -most, most);
	/* At most WEIR_RATE_MAX times a tenth of a second, times 2^20: the product fits. */
	size = overshoot < 0 ? -overshoot : overshoot;
	size -= weir_min(size * (weir_min(ns, fade_ns) >> 10) / weir_max(fade_ns >> 10, 1) + 1, size);
	return overshoot < 0 ? -(s64)size : (s64)size;
}

/*
 * Whether a device admits one more task: as long as the running tasks cannot fill it up to its set-point
 * and a quarter more. The quarter covers the gaps between runs: if one task would just fill the device, one
 * at a time would fall behind. A recent @overshoot is subtracted, so that it is repaid within a run: runs
 * end late, and the next run compensates for that. Without this check, all workloads with budgets that grow
 * in step would run at once, overload the device together and then wait together: the mean would be right,
 * and each access slow.
 */
static inline int weir_device_admits(u64 load_bytes_per_sec, u64 set_point_bytes_per_sec, s64 overshoot, u64 run_ns)
{
	u64 most = set_point_bytes_per_sec + set_point_bytes_per_sec / 4, repaid;

	if (load_bytes_per_sec >= most)
		return 0;
	if (overshoot <= 0)
		return 1;
	repaid = weir_bytes(most - load_bytes_per_sec, run_ns);
	return (u64)overshoot < repaid;
}

/*
 * Longest time that a task stays parked. A run after it is time that the workload's budget does not cover,
 * so the more of its tasks are parked, the rarer these runs are: one each @each_ns, as long as all fit into
 * @most_ns.
 */
static inline u64 weir_starvation_ns(u64 waiting, u64 each_ns, u64 least_ns, u64 most_ns)
{
	u64 all = weir_min(waiting, 1ULL << 20) * weir_min(each_ns, WEIR_NS_PER_SEC);

	return weir_min(weir_max(all, least_ns), most_ns);
}

/*
 * A parked task runs after @starvation_ns, debt or not: no task starves, and the kernel's watchdog does not
 * fire.
 */
static inline int weir_starvation_due(u64 parked_at_ns, u64 now_ns, u64 starvation_ns)
{
	return now_ns > parked_at_ns && now_ns - parked_at_ns >= starvation_ns;
}

/* Default weights of a task (the kernel's for nice 0) and of a cgroup; hweights are in the same unit. */
#define WEIR_WEIGHT_DEFAULT	100ULL
#define WEIR_WEIGHT_MAX		(1ULL << 20)

/*
 * Virtual time of a run in full mode: slower the larger the weight. A task's weight is its own; within a
 * cgroup with an hweight it is the task's part of that, @task_weight of @sum, so that a cgroup gets as much
 * with a hundred tasks as with one. @hweight 0: the task counts alone.
 */
static inline u64 weir_vtime(u64 run_ns, u64 task_weight, u64 hweight, u64 sum)
{
	u64 time = weir_min(run_ns, WEIR_INTERVAL_NS_MAX) * WEIR_WEIGHT_DEFAULT;
	u64 weight = weir_max(weir_min(task_weight, WEIR_WEIGHT_MAX), 1);

	if (!hweight)
		return time / weight;
	/* 10^11 times 2^20, and both divisors below 2^20. */
	sum = weir_max(weir_min(sum, WEIR_WEIGHT_MAX), weight);
	return time / weight * sum / weir_min(hweight, WEIR_WEIGHT_MAX);
}

/* A task that wakes is at most @credit_ns ahead of the others, however long it slept. */
static inline u64 weir_vtime_resume(u64 own, u64 now, u64 credit_ns)
{
	u64 least = now > credit_ns ? now - credit_ns : 0;

	return own > least ? own : least;
}

/* Whether the daemon's heartbeat has been missing for so long that limits are suspended. */
static inline int weir_heartbeat_lost(u64 heartbeat_ns, u64 now_ns, u64 heartbeat_timeout_ns)
{
	return now_ns > heartbeat_ns && now_ns - heartbeat_ns > heartbeat_timeout_ns;
}

#include "dove_tail.h"

#endif /* WEIR_SCHED_H */
