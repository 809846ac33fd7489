/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Dove-tailing: one virtual time per resource, for shares of CPU, DRAM and CXL together. A part of
 * weir_sched.h, which includes it, built three ways as that.
 *
 * Words: a *flow* is a workload. Its *clock* on a resource grows by the time for which it had all of the
 * resource, divided by its weight. Its *dominant time* is the largest of its clocks. The *level* V_j of a
 * resource is how far the flows that wait for it have come. Clocks wrap around after years: they are compared
 * by difference, as the kernel compares jiffies.
 *
 * The sum of the clocks' growths is charged by the tick, exactly: no remainder is lost. Between two ticks a
 * run costs one multiplication, by the flow's factor; the tick replaces what that made.
 */
#ifndef WEIR_DOVE_TAIL_H
#define WEIR_DOVE_TAIL_H

/* More use than this many seconds of a whole resource is not charged at once. */
#define WEIR_USE_SEC_MAX	1024ULL
/* 4 TB/s, or 4398 CPUs in nanoseconds a second. */
#define WEIR_CAPACITY_MAX	(1ULL << 42)
#define WEIR_FLOW_WEIGHT_MAX	10000ULL
/*
 * Virtual nanoseconds per nanosecond of a run: a flow of weight 1 that has a whole resource needs 100. One
 * that takes more than that, of a memory with a small set-point, is charged the rest by the tick.
 */
#define WEIR_FACTOR_MAX		(128ULL << WEIR_FACTOR_BITS)
/* A flow that ran for less since the last tick keeps its factor. */
#define WEIR_FACTOR_RUN_NS	10000ULL

/**
 * struct weir_clock - virtual time of a flow on one resource
 * @ns: nanoseconds of the whole resource, of a flow of weight 100
 * @rest: hundredths of a nanosecond of the resource that are not yet in @ns: less than the weight
 * @part: parts of such a hundredth, in 1/capacity
 */
struct weir_clock {
	u64 ns;
	u64 rest;
	u64 part;
};

/**
 * struct weir_flow - what a workload had of each resource
 * @clock: by resource; 0 is the CPUs, then memories
 * @pending: growth of its dominant time by runs since the last tick, 2^-WEIR_FACTOR_BITS ns
 * @factor: growth per nanosecond of a run, in the same unit
 * @run_ns: these runs
 * @weight: 1 to 10000
 */
struct weir_flow {
	struct weir_clock clock[WEIR_RESOURCES_MAX];
	u64 pending;
	u64 factor;
	u64 run_ns;
	u64 weight;
};

/* Whether virtual time @a is after @b. */
static inline int weir_vtime_after(u64 a, u64 b)
{
	return (s64)(a - b) > 0;
}

/*
 * Hundredths of a nanosecond in which all of a resource of @capacity a second makes @use: bytes, or
 * nanoseconds of CPUs. Long division, because BPF has no 128 bits. *part goes in and out, so that nothing
 * is lost. A resource without a capacity is not charged.
 */
static inline u64 weir_use_time(u64 use, u64 capacity, u64 *part)
{
	u64 whole, rest, time;

	if (!capacity)
		return 0;
	capacity = weir_min(capacity, WEIR_CAPACITY_MAX);
	whole = use / capacity;
	rest = use % capacity;
	time = weir_min(whole, WEIR_USE_SEC_MAX) * (100 * WEIR_NS_PER_SEC);
	/* 10^11 in two digits: 2^42 times 10^6 is below 2^62. */
	rest *= 1000000;
	time += rest / capacity * 100000;
	rest = rest % capacity * 100000 + weir_min(*part, capacity - 1);
	*part = rest % capacity;
	return time + rest / capacity;
}

/* A flow of this weight used so much of a resource. */
static inline void weir_clock_advance(struct weir_clock *clock, u64 use, u64 capacity, u64 weight)
{
	u64 time = weir_use_time(use, capacity, &clock->part) + clock->rest;

	weight = weir_max(weir_min(weight, WEIR_FLOW_WEIGHT_MAX), 1);
	clock->ns += time / weight;
	clock->rest = time % weight;
}

/* The largest clock of a flow. */
static inline u64 weir_flow_dominant(const struct weir_flow *flow)
{
	u64 most = flow->clock[0].ns;
	u32 i;

	for (i = 1; i < WEIR_RESOURCES_MAX; i++)
		if (weir_vtime_after(flow->clock[i].ns, most))
			most = flow->clock[i].ns;
	return most;
}

/* A run of the flow has ended: the one multiplication of the hot path. */
static inline void weir_flow_run(struct weir_flow *flow, u64 run_ns)
{
	u64 run = weir_min(run_ns, WEIR_INTERVAL_NS_MAX);

	flow->run_ns += run;
	flow->pending = weir_min(flow->pending + run * weir_min(flow->factor, WEIR_FACTOR_MAX), 1ULL << 62);
}

/*
 * How far the flow leads: max over resources of v_ij - V_j, with its runs since the last tick. The order of
 * flows is that of their leads.
 */
static inline s64 weir_flow_lead(const struct weir_flow *flow, const u64 *level)
{
	s64 most = (s64)(flow->clock[0].ns - level[0]), lead;
	u32 i;

	for (i = 1; i < WEIR_RESOURCES_MAX; i++) {
		lead = (s64)(flow->clock[i].ns - level[i]);
		if (lead > most)
			most = lead;
	}
	return most + (s64)(flow->pending >> WEIR_FACTOR_BITS);
}

/* No clock is before @least: not further, and whatever was left over is forgotten. */
static inline void weir_clock_raise(struct weir_clock *clock, u64 least)
{
	if (!weir_vtime_after(least, clock->ns))
		return;
	clock->ns = least;
	clock->rest = 0;
	clock->part = 0;
}

/* A flow wakes: v_ij = max(v_ij, V_j - C), so that however long it slept it is @credit_ns behind at most. */
static inline void weir_flow_resume(struct weir_flow *flow, const u64 *level, u64 credit_ns)
{
	u32 i;

	for (i = 0; i < WEIR_RESOURCES_MAX; i++)
		weir_clock_raise(&flow->clock[i], level[i] - credit_ns);
}

/*
 * The tick: @use of each resource since the last one, run or not. Puts right what factors missed, and no
 * clock lags more than @delta_ns behind the largest: a flow that changes its dominant resource has the new
 * one before others for so long and no longer.
 */
static inline void weir_flow_tick(struct weir_flow *flow, const u64 *use, const u64 *capacity, u64 delta_ns)
{
	u64 before = weir_flow_dominant(flow), after, growth;
	u32 i;

	for (i = 0; i < WEIR_RESOURCES_MAX; i++)
		weir_clock_advance(&flow->clock[i], use[i], capacity[i], flow->weight);
	after = weir_flow_dominant(flow);
	for (i = 0; i < WEIR_RESOURCES_MAX; i++)
		weir_clock_raise(&flow->clock[i], after - delta_ns);
	if (flow->run_ns >= WEIR_FACTOR_RUN_NS) {
		/* 2^38 ns are more than a second at weight 1: the product fits. */
		growth = weir_min(after - before, 1ULL << 38) << WEIR_FACTOR_BITS;
		flow->factor = weir_min(growth / flow->run_ns, WEIR_FACTOR_MAX);
	}
	flow->pending = 0;
	flow->run_ns = 0;
}

/* The factor of a flow that was never seen to use a memory, on so many CPUs. */
static inline u64 weir_factor_of_cpus(u64 cpus, u64 weight)
{
	return (WEIR_WEIGHT_DEFAULT << WEIR_FACTOR_BITS) / weir_max(weir_min(cpus, 1ULL << 20) * weight, 1);
}

/*
 * Whether a memory is saturated: it served its set-point less a thirty-second in @ns, or would have with
 * @held, what the flows that wait at its gate took when they ran. Without that, a shut gate would open
 * itself.
 */
static inline int weir_memory_saturated(u64 served, u64 held, u64 set_point_bytes_per_sec, u64 ns)
{
	u64 due = weir_bytes(set_point_bytes_per_sec, ns);

	return due && weir_min(served, 1ULL << 60) + weir_min(held, 1ULL << 60) >= due - due / 32;
}

/*
 * Whether a flow that uses a saturated memory waits: it leads the level there by more than a bound. A flow
 * that waits goes on when it leads by half of that, so that it does not stop and go at each tick. The lead
 * is never cut: what was used stays used.
 */
static inline int weir_gate_shut(s64 lead, u64 bound_ns, int is_waiting)
{
	s64 bound = (s64)weir_min(bound_ns, 1ULL << 60);

	return lead > (is_waiting ? bound / 2 : bound);
}

#endif /* WEIR_DOVE_TAIL_H */
