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

void weir_host_refill(struct weir_bucket *bucket, u64 bytes_per_sec, u64 ns, u64 room_bytes)
{
	weir_refill(bucket, bytes_per_sec, ns, room_bytes);
}

void weir_host_charge(struct weir_bucket *bucket, u64 bytes, u64 bytes_per_sec, u64 debt_ns)
{
	weir_charge(bucket, bytes, bytes_per_sec, debt_ns);
}

u64 weir_host_estimate(u64 intensity_bytes_per_sec, u64 run_ns)
{
	return weir_estimate(intensity_bytes_per_sec, run_ns);
}

s64 weir_host_owed(u64 counted, u64 others, s64 carry, s64 carry_max)
{
	return weir_owed(counted, others, carry, carry_max);
}

u64 weir_host_taken(struct weir_looks *looks, u64 estimated, u64 ns)
{
	return weir_taken(looks, estimated, ns);
}

void weir_host_look(struct weir_looks *looks, u64 bytes, u64 at_ns, u64 after, s64 most)
{
	weir_look(looks, bytes, at_ns, after, most);
}

u64 weir_host_after(u64 estimated, u64 at_ns, u64 now_ns, u64 ns)
{
	return weir_after(estimated, at_ns, now_ns, ns);
}

u64 weir_host_ratio(s64 owed, u64 estimated)
{
	return weir_ratio(owed, estimated);
}

u64 weir_host_scaled(u64 bytes, u64 ratio)
{
	return weir_scaled(bytes, ratio);
}

int weir_host_is_spent(const struct weir_bucket *bucket, u64 intensity_bytes_per_sec, u64 run_ns)
{
	return weir_is_spent(bucket, intensity_bytes_per_sec, run_ns);
}

u64 weir_host_turn(u64 waiting, u64 each_ns, u64 least_ns, u64 most_ns)
{
	return weir_turn(waiting, each_ns, least_ns, most_ns);
}

u32 weir_host_release_count(const struct weir_bucket *bucket, u64 intensity_bytes_per_sec,
			    u64 slice_ns, u32 most)
{
	return weir_release_count(bucket, intensity_bytes_per_sec, slice_ns, most);
}

u64 weir_host_room(u64 bytes_per_sec, u64 room_ns, u64 intensity_bytes_per_sec, u64 run_ns)
{
	return weir_room(bytes_per_sec, room_ns, intensity_bytes_per_sec, run_ns);
}

int weir_host_may_begin(const struct weir_bucket *bucket, u64 intensity_bytes_per_sec, u64 run_ns)
{
	return weir_may_begin(bucket, intensity_bytes_per_sec, run_ns);
}

s64 weir_host_beyond(s64 beyond, u64 counted, u64 set_point_bytes_per_sec, u64 ns, u64 fade_ns)
{
	return weir_beyond(beyond, counted, set_point_bytes_per_sec, ns, fade_ns);
}

int weir_host_takes_one(u64 load_bytes_per_sec, u64 set_point_bytes_per_sec, s64 beyond, u64 run_ns)
{
	return weir_takes_one(load_bytes_per_sec, set_point_bytes_per_sec, beyond, run_ns);
}

int weir_host_has_turn(u64 parked_at_ns, u64 now_ns, u64 turn_ns)
{
	return weir_has_turn(parked_at_ns, now_ns, turn_ns);
}

u64 weir_host_vtime(u64 run_ns, u64 task_weight, u64 share, u64 sum)
{
	return weir_vtime(run_ns, task_weight, share, sum);
}

u64 weir_host_vtime_back(u64 own, u64 now, u64 credit_ns)
{
	return weir_vtime_back(own, now, credit_ns);
}

int weir_host_is_silent(u64 heard_at_ns, u64 now_ns, u64 patience_ns)
{
	return weir_is_silent(heard_at_ns, now_ns, patience_ns);
}
