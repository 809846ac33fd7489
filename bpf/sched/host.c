// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * The arithmetic of weir_sched.h as functions with a name, for the host:
 * crates/weir-sched calls them.
 */
#include <stdint.h>

typedef uint32_t u32;
typedef uint64_t u64;
typedef int64_t s64;

#include "weir_sched.h"

u64 weir_host_bytes_exact(u64 bytes_per_sec, u64 ns, u64 *part)
{
	return weir_bytes_exact(bytes_per_sec, ns, part);
}

void weir_host_refill(struct weir_bucket *bucket, u64 bytes_per_sec, u64 ns, u64 burst_bytes)
{
	weir_refill(bucket, bytes_per_sec, ns, burst_bytes);
}

void weir_host_charge(struct weir_bucket *bucket, u64 bytes, u64 bytes_per_sec, u64 debt_ns)
{
	weir_charge(bucket, bytes, bytes_per_sec, debt_ns);
}

u64 weir_host_estimate(u64 intensity_bytes_per_sec, u64 run_ns)
{
	return weir_estimate(intensity_bytes_per_sec, run_ns);
}

s64 weir_host_billable_bytes(u64 counted, u64 others, s64 carry, s64 carry_max)
{
	return weir_billable_bytes(counted, others, carry, carry_max);
}

u64 weir_host_ext_count_advance(struct weir_ext_count *ext, u64 estimated, u64 ns)
{
	return weir_ext_count_advance(ext, estimated, ns);
}

void weir_host_ext_count_update(struct weir_ext_count *ext, u64 bytes, u64 at_ns, u64 after, s64 most)
{
	weir_ext_count_update(ext, bytes, at_ns, after, most);
}

u64 weir_host_ext_count_tail(u64 estimated, u64 at_ns, u64 now_ns, u64 ns)
{
	return weir_ext_count_tail(estimated, at_ns, now_ns, ns);
}

u64 weir_host_retry_ns(u64 waited_ns)
{
	return weir_retry_ns(waited_ns);
}

u64 weir_host_scale_factor(s64 billable_bytes, u64 estimated)
{
	return weir_scale_factor(billable_bytes, estimated);
}

u64 weir_host_scale(u64 bytes, u64 scale_factor)
{
	return weir_scale(bytes, scale_factor);
}

int weir_host_budget_exhausted(const struct weir_bucket *bucket, u64 intensity_bytes_per_sec, u64 run_ns)
{
	return weir_budget_exhausted(bucket, intensity_bytes_per_sec, run_ns);
}

u64 weir_host_starvation_ns(u64 waiting, u64 each_ns, u64 least_ns, u64 most_ns)
{
	return weir_starvation_ns(waiting, each_ns, least_ns, most_ns);
}

u32 weir_host_release_count(const struct weir_bucket *bucket, u64 intensity_bytes_per_sec,
			    u64 slice_ns, u32 most)
{
	return weir_release_count(bucket, intensity_bytes_per_sec, slice_ns, most);
}

u64 weir_host_burst_bytes(u64 bytes_per_sec, u64 burst_ns, u64 intensity_bytes_per_sec, u64 run_ns)
{
	return weir_burst_bytes(bytes_per_sec, burst_ns, intensity_bytes_per_sec, run_ns);
}

int weir_host_run_affordable(const struct weir_bucket *bucket, u64 intensity_bytes_per_sec, u64 run_ns)
{
	return weir_run_affordable(bucket, intensity_bytes_per_sec, run_ns);
}

s64 weir_host_overshoot_bytes(s64 overshoot_bytes, u64 counted, u64 set_point_bytes_per_sec, u64 ns, u64 fade_ns)
{
	return weir_overshoot_bytes(overshoot_bytes, counted, set_point_bytes_per_sec, ns, fade_ns);
}

int weir_host_device_admits(u64 load_bytes_per_sec, u64 set_point_bytes_per_sec, s64 overshoot_bytes, u64 run_ns)
{
	return weir_device_admits(load_bytes_per_sec, set_point_bytes_per_sec, overshoot_bytes, run_ns);
}

int weir_host_starvation_due(u64 parked_at_ns, u64 now_ns, u64 starvation_ns)
{
	return weir_starvation_due(parked_at_ns, now_ns, starvation_ns);
}

u64 weir_host_vtime(u64 run_ns, u64 task_weight, u64 share, u64 sum)
{
	return weir_vtime(run_ns, task_weight, share, sum);
}

u64 weir_host_vtime_resume(u64 own, u64 now, u64 credit_ns)
{
	return weir_vtime_resume(own, now, credit_ns);
}

int weir_host_heartbeat_lost(u64 heard_at_ns, u64 now_ns, u64 heartbeat_timeout_ns)
{
	return weir_heartbeat_lost(heard_at_ns, now_ns, heartbeat_timeout_ns);
}

void weir_host_clock_advance(struct weir_clock *clock, u64 use, u64 capacity, u64 weight)
{
	weir_clock_advance(clock, use, capacity, weight);
}

u64 weir_host_flow_dominant(const struct weir_flow *flow)
{
	return weir_flow_dominant(flow);
}

void weir_host_flow_run(struct weir_flow *flow, u64 run_ns)
{
	weir_flow_run(flow, run_ns);
}

s64 weir_host_flow_lead(const struct weir_flow *flow, const u64 *level)
{
	return weir_flow_lead(flow, level);
}

void weir_host_flow_resume(struct weir_flow *flow, const u64 *level, u64 credit_ns)
{
	weir_flow_resume(flow, level, credit_ns);
}

void weir_host_flow_tick(struct weir_flow *flow, const u64 *use, const u64 *capacity, u64 delta_ns)
{
	weir_flow_tick(flow, use, capacity, delta_ns);
}

u64 weir_host_factor_of_cpus(u64 cpus, u64 weight)
{
	return weir_factor_of_cpus(cpus, weight);
}

int weir_host_memory_saturated(u64 served, u64 held, u64 set_point_bytes_per_sec, u64 ns)
{
	return weir_memory_saturated(served, held, set_point_bytes_per_sec, ns);
}

int weir_host_gate_shut(s64 lead, u64 bound_ns, int is_waiting)
{
	return weir_gate_shut(lead, bound_ns, is_waiting);
}
