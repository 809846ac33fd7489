/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The arithmetic of weir's scheduler: plain functions over plain structs.
 *
 * Built three ways: into the BPF scheduler, into tests on the host, and into the
 * simulator. So there is no kernel here, no clock, no map and no loop without a
 * bound; 64-bit integers only, because BPF has no others. The including file
 * defines u32, u64 and s64.
 *
 * Words: a *budget* is a number of device bytes a workload may still move; below
 * zero it is a *debt*. The *intensity* of a workload is device bytes per second
 * of CPU time. A task is *parked* while its workload is in debt.
 *
 * Charging. What a device moved in one interval is counted by the device; whose
 * bytes they were is not. So each workload first gets an estimate, intensity
 * times run time, and then the estimates are scaled so that their sum is what
 * was counted. A wrong intensity then shifts bytes between workloads, but the
 * device stays at its set-point (thesis, equation 3, with run time as the sign
 * of access). Where the device's counters cannot be read from the kernel, the
 * daemon says what they show some hundred times a second (weir_looks).
 */
#ifndef WEIR_SCHED_H
#define WEIR_SCHED_H

#define WEIR_NS_PER_SEC		1000000000ULL
/* No interval is longer; a timer that slept through more was not working. */
#define WEIR_INTERVAL_NS_MAX	WEIR_NS_PER_SEC
/* 1 TB/s is beyond any device, and keeps all products below 2^63. */
#define WEIR_RATE_MAX		1000000000000ULL
/* Scale factors are fixed-point numbers with this many bits behind the point. */
#define WEIR_RATIO_BITS		12
#define WEIR_RATIO_ONE		(1ULL << WEIR_RATIO_BITS)
/* A device that moved this many times the estimate: the estimate is worthless. */
#define WEIR_RATIO_MAX		(64 * WEIR_RATIO_ONE)

/**
 * struct weir_bucket - the budget of one workload
 * @bytes: what it may still move; below 0: its debt
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

/* The same without the rest. */
static inline u64 weir_bytes(u64 bytes_per_sec, u64 ns)
{
	u64 part = 0;

	return weir_bytes_exact(bytes_per_sec, ns, &part);
}

/*
 * What a workload can save up: what its rate makes in @room_ns, and in any case
 * enough for two runs of @run_ns, or one that is rarely let in could never use its rate.
 */
static inline u64 weir_room(u64 bytes_per_sec, u64 room_ns, u64 intensity_bytes_per_sec, u64 run_ns)
{
	u64 runs = 2 * weir_bytes(intensity_bytes_per_sec, run_ns);

	return weir_max(weir_max(weir_bytes(bytes_per_sec, room_ns), runs), 1);
}

/* An interval has passed: the budget grows, but not beyond @room_bytes. */
static inline void weir_refill(struct weir_bucket *bucket, u64 bytes_per_sec, u64 ns, u64 room_bytes)
{
	s64 room = (s64)weir_min(room_bytes, 1ULL << 60);

	bucket->bytes += (s64)weir_bytes_exact(bytes_per_sec, ns, &bucket->part);
	if (bucket->bytes > room)
		bucket->bytes = room;
}

/*
 * The workload moved bytes. Debt carries over, so the mean is held whatever one
 * run overdrew; but not more of it than @debt_ns repay, or one wrong reading
 * would stop a workload for long.
 */
static inline void weir_charge(struct weir_bucket *bucket, u64 bytes, u64 bytes_per_sec, u64 debt_ns)
{
	s64 debt = (s64)weir_max(weir_bytes(bytes_per_sec, debt_ns), 1);

	bucket->bytes -= (s64)weir_min(bytes, 1ULL << 60);
	if (bucket->bytes < -debt)
		bucket->bytes = -debt;
}

/* Whether the tasks of this workload are to wait. */
static inline int weir_is_over(const struct weir_bucket *bucket)
{
	return bucket->bytes <= 0;
}

/* Its first estimate: what it moved in @run_ns of CPU time. */
static inline u64 weir_estimate(u64 intensity_bytes_per_sec, u64 run_ns)
{
	u64 sec = weir_min(run_ns / WEIR_NS_PER_SEC, 1024);

	return weir_min(intensity_bytes_per_sec, WEIR_RATE_MAX) * sec +
	       weir_bytes(intensity_bytes_per_sec, run_ns % WEIR_NS_PER_SEC);
}

/*
 * Whether a budget is spent, if what ran since it was last charged is charged at its estimate: how a
 * CPU can tell by itself when the look at all budgets is late.
 */
static inline int weir_is_spent(const struct weir_bucket *bucket, u64 intensity_bytes_per_sec, u64 run_ns)
{
	return bucket->bytes <= (s64)weir_min(weir_estimate(intensity_bytes_per_sec, run_ns), 1ULL << 60);
}

/*
 * What of a device's counted bytes is owed by limited workloads: all but what
 * others may use, plus what the last intervals left open. @carry is bounded on
 * both sides: what was long ago does not count.
 */
static inline s64 weir_owed(u64 counted, u64 others, s64 carry, s64 carry_max)
{
	s64 now = (s64)weir_min(counted, 1ULL << 60) - (s64)weir_min(others, 1ULL << 60);

	return weir_clamp(now + carry, -carry_max, carry_max);
}

/**
 * struct weir_looks - what is known of a device whose counters only the daemon can read, now and then
 * @seen_bytes: its count at the last look
 * @seen_ns: when that was; 0: there was none
 * @guessed_bytes: sum of the estimates since then
 * @missed_bytes: what it moved beyond what it was taken to have moved (signed)
 * @spread_ns: in this time most of that is made up for: as long as between the last two looks, or less
 */
struct weir_looks {
	u64 seen_bytes;
	u64 seen_ns;
	u64 guessed_bytes;
	s64 missed_bytes;
	u64 spread_ns;
};

/*
 * What such a device is taken to have moved in an interval: the estimate, and its part of what is still missed. Over
 * many looks the sum is what was counted, whatever the estimates are worth.
 */
static inline u64 weir_taken(struct weir_looks *looks, u64 estimated, u64 ns)
{
	u64 size = looks->missed_bytes < 0 ? -looks->missed_bytes : looks->missed_bytes;
	u64 part = weir_min(ns, looks->spread_ns) >> 10, of = weir_max(looks->spread_ns >> 10, 1);
	s64 guessed = (s64)weir_min(estimated, 1ULL << 60), due, taken;

	/* 2^40 bytes are beyond what WEIR_RATE_MAX makes in an interval; times 2^20 the product fits. */
	due = (s64)(weir_min(size, 1ULL << 40) * weir_min(part, of) / of);
	taken = weir_clamp(guessed + (looks->missed_bytes < 0 ? -due : due), 0, 1LL << 61);
	looks->missed_bytes -= taken - guessed;
	looks->guessed_bytes += guessed;
	return (u64)taken;
}

/* A count that stands still for longer does so because nothing is moved. */
#define WEIR_STALE_NS	(WEIR_NS_PER_SEC / 2)
/* Most of what was missed is made up for within this. */
#define WEIR_SPREAD_NS	(WEIR_NS_PER_SEC / 20)

/*
 * The daemon has looked: the count was @bytes at @at_ns. @after is the part of the estimates that came later. A count
 * that went back or was not looked at for long says nothing of what was missed, nor is more than @most made up for. One
 * that stands still while tasks run may be brought up to date seldom: then the next that moves tells of all that time.
 */
static inline void weir_look(struct weir_looks *looks, u64 bytes, u64 at_ns, u64 after, s64 most)
{
	u64 span = at_ns - looks->seen_ns, before = looks->guessed_bytes - weir_min(after, looks->guessed_bytes);

	if (looks->seen_ns && bytes == looks->seen_bytes && before && span < WEIR_STALE_NS)
		return;
	if (looks->seen_ns && at_ns > looks->seen_ns && span <= WEIR_NS_PER_SEC && bytes >= looks->seen_bytes) {
		looks->missed_bytes += (s64)weir_min(bytes - looks->seen_bytes, 1ULL << 60) -
				       (s64)weir_min(before, 1ULL << 60);
		looks->missed_bytes = weir_clamp(looks->missed_bytes, -most, most);
		looks->spread_ns = weir_min(span, WEIR_SPREAD_NS);
	} else {
		looks->missed_bytes = 0;
	}
	looks->seen_bytes = bytes;
	looks->seen_ns = at_ns;
	looks->guessed_bytes = after;
}

/* The part of an interval's estimate that came after a look: @ns long, it has ended at @now_ns. */
static inline u64 weir_after(u64 estimated, u64 at_ns, u64 now_ns, u64 ns)
{
	u64 since = now_ns > at_ns ? now_ns - at_ns : 0;

	if (since >= weir_min(ns, WEIR_INTERVAL_NS_MAX))
		return estimated;
	return weir_min(estimated, 1ULL << 40) * (since >> 10) / weir_max(ns >> 10, 1);
}

/* The factor that makes estimates with the sum @estimated as large as what is owed. */
static inline u64 weir_ratio(s64 owed, u64 estimated)
{
	u64 most;

	if (owed <= 0 || !estimated)
		return 0;
	/* 2^50 bytes in one interval are beyond WEIR_RATE_MAX. */
	most = weir_min((u64)owed, 1ULL << 50) << WEIR_RATIO_BITS;
	return weir_min(most / estimated, WEIR_RATIO_MAX);
}

static inline u64 weir_scaled(u64 bytes, u64 ratio)
{
	return (weir_min(bytes, 1ULL << 44) * weir_min(ratio, WEIR_RATIO_MAX)) >> WEIR_RATIO_BITS;
}

/*
 * How many parked tasks the budget can feed for @slice_ns each: at least one if
 * there is any budget, so that release is gradual and never stops.
 */
static inline u32 weir_release_count(const struct weir_bucket *bucket, u64 intensity_bytes_per_sec,
				     u64 slice_ns, u32 most)
{
	u64 each, count;

	if (weir_is_over(bucket))
		return 0;
	each = weir_max(weir_bytes(intensity_bytes_per_sec, slice_ns), 1);
	count = weir_max((u64)bucket->bytes / each, 1);
	return (u32)weir_min(count, most);
}

/*
 * Whether a workload whose tasks are parked may begin a run: not before its budget
 * lasts for @run_ns, or it would run for a moment, stop, and so on, and each
 * change of tasks costs.
 */
static inline int weir_may_begin(const struct weir_bucket *bucket, u64 intensity_bytes_per_sec, u64 run_ns)
{
	return !weir_is_over(bucket) &&
	       (u64)bucket->bytes >= weir_bytes(intensity_bytes_per_sec, run_ns);
}

/*
 * What a device moved beyond its set-point of late; below 0: what it left unused. It fades within @fade_ns, because
 * what happened long ago is in the budgets already, and is never more than a tenth of that makes.
 */
static inline s64 weir_beyond(s64 beyond, u64 counted, u64 set_point_bytes_per_sec, u64 ns, u64 fade_ns)
{
	s64 most = (s64)weir_bytes(set_point_bytes_per_sec, fade_ns / 10);
	u64 size;

	beyond += (s64)weir_min(counted, 1ULL << 60) - (s64)weir_bytes(set_point_bytes_per_sec, ns);
	beyond = weir_clamp(beyond, -most, most);
	/* At most what WEIR_RATE_MAX makes in a tenth of a second, times 2^20: the product fits. */
	size = beyond < 0 ? -beyond : beyond;
	size -= weir_min(size * (weir_min(ns, fade_ns) >> 10) / weir_max(fade_ns >> 10, 1) + 1, size);
	return beyond < 0 ? -(s64)size : (s64)size;
}

/*
 * Whether a device takes one more: as long as those who run cannot fill it up to its set-point, and a quarter beyond,
 * because between two runs nobody runs: where one by itself would just fill the device, one at a time falls behind.
 * What it moved @beyond its set-point is taken off, so that it is paid within a run: runs do not end when they
 * are to, and who follows makes up for it. Without this, all whose budgets grow in step would run at once, overload
 * the device together and then wait together: the mean would be right, and each access late.
 */
static inline int weir_takes_one(u64 load_bytes_per_sec, u64 set_point_bytes_per_sec, s64 beyond, u64 run_ns)
{
	u64 most = set_point_bytes_per_sec + set_point_bytes_per_sec / 4, paid;

	if (load_bytes_per_sec >= most)
		return 0;
	if (beyond <= 0)
		return 1;
	paid = weir_bytes(most - load_bytes_per_sec, run_ns);
	return (u64)beyond < paid;
}

/*
 * How long a parked task waits for its turn at most. A turn is time the workload did not earn, so the
 * more of its tasks wait, the rarer they are: one each @each_ns, as long as all fit into @most_ns.
 */
static inline u64 weir_turn(u64 waiting, u64 each_ns, u64 least_ns, u64 most_ns)
{
	u64 all = weir_min(waiting, 1ULL << 20) * weir_min(each_ns, WEIR_NS_PER_SEC);

	return weir_min(weir_max(all, least_ns), most_ns);
}

/* A parked task has its turn after @turn_ns, debt or not: nobody starves, and the watchdog sleeps. */
static inline int weir_has_turn(u64 parked_at_ns, u64 now_ns, u64 turn_ns)
{
	return now_ns > parked_at_ns && now_ns - parked_at_ns >= turn_ns;
}

/* Usual weights of a task (the kernel's for niceness 0) and of a cgroup; shares are in the same unit. */
#define WEIR_WEIGHT_USUAL	100ULL
#define WEIR_WEIGHT_MAX		(1ULL << 20)

/*
 * Virtual time of a run in full mode: slower the more weight. A task's weight is its own; within a cgroup
 * with a share it is its part of that share, @task_weight of @sum, so that a cgroup gets as much with
 * a hundred tasks as with one. @share 0: the task is for itself.
 */
static inline u64 weir_vtime(u64 run_ns, u64 task_weight, u64 share, u64 sum)
{
	u64 time = weir_min(run_ns, WEIR_INTERVAL_NS_MAX) * WEIR_WEIGHT_USUAL;
	u64 weight = weir_max(weir_min(task_weight, WEIR_WEIGHT_MAX), 1);

	if (!share)
		return time / weight;
	/* 10^11 times 2^20, and both divisors below 2^20. */
	sum = weir_max(weir_min(sum, WEIR_WEIGHT_MAX), weight);
	return time / weight * sum / weir_min(share, WEIR_WEIGHT_MAX);
}

/* Who slept comes back at most @credit_ns ahead of the others, however long that was. */
static inline u64 weir_vtime_back(u64 own, u64 now, u64 credit_ns)
{
	u64 least = now > credit_ns ? now - credit_ns : 0;

	return own > least ? own : least;
}

/* Whether the daemon has been silent for so long that nothing is to be limited any more. */
static inline int weir_is_silent(u64 heard_at_ns, u64 now_ns, u64 patience_ns)
{
	return now_ns > heard_at_ns && now_ns - heard_at_ns > patience_ns;
}

#endif /* WEIR_SCHED_H */
