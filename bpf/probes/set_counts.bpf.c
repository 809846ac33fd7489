// SPDX-License-Identifier: GPL-2.0-only
/*
 * Counts of event sets by cgroup, for profiles. The sets are open on each CPU for all
 * tasks, and take turns; what one counts is added to the cgroup that ran meanwhile.
 *
 *   sched_switch ─────► same owner: nothing is read
 *                └────► another: read the set ─► difference ─► sum of the owner (per CPU)
 *   weir_set_now ──────► read the set ──────────┘
 *
 * The owner of a task is the innermost counted cgroup above it. The daemon adds up
 * nested ones. A CPU that notices a turn of the sets late loses nothing: until a
 * switch is noticed, all that counted is of the task that runs, and a set that does
 * not count keeps its counts.
 */

#include "vmlinux_min.h"
#include <bpf/bpf_tracing.h>
#include "set_counts_intf.h"

char LICENSE[] SEC("license") = "GPL";

/* Written by the daemon. MAX_SETS: a turn begins, any set may have counted. */
volatile u32 counting_set;
/* Events of each set; 0: it is not open. */
volatile u32 set_sizes[MAX_SETS];

/* MAX_SETS times MAX_SET_EVENTS for each CPU; the loader sets how many. */
struct {
	__uint(type, BPF_MAP_TYPE_PERF_EVENT_ARRAY);
	__uint(key_size, sizeof(u32));
	__uint(value_size, sizeof(u32));
	__uint(max_entries, MAX_SETS * MAX_SET_EVENTS);
} set_events SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct set_cpu_ctx);
} set_cpu_ctxs SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_SET_CGROUPS);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, u64);
	__type(value, u64);
} counted_cgroups SEC(".maps");

/* From any cgroup to its owner, 0 where it has none. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, MAX_SET_OWNERS);
	__type(key, u64);
	__type(value, u64);
} cgroup_owners SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_HASH);
	__uint(max_entries, MAX_SET_CGROUPS * MAX_SETS);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct set_sum_key);
	__type(value, struct set_sum);
} set_sums SEC(".maps");

static __always_inline u64 cgroup_of(struct task_struct *task)
{
	return task->pid ? task->cgroups->dfl_cgrp->kn->id : 0;
}

static __noinline u64 owner_of(struct task_struct *task, u64 id)
{
	u64 *known = bpf_map_lookup_elem(&cgroup_owners, &id);
	struct cgroup_subsys_state *css;
	struct cgroup *cgroup;
	u64 owner = 0, above;
	int level;

	if (known)
		return *known;
	cgroup = task->cgroups->dfl_cgrp;
	for (level = 0; level < MAX_CGROUP_DEPTH && cgroup; level++) {
		above = cgroup->kn->id;
		if (bpf_map_lookup_elem(&counted_cgroups, &above)) {
			owner = above;
			break;
		}
		css = cgroup->self.parent;
		if (!css)
			break;
		cgroup = css->cgroup;
	}
	bpf_map_update_elem(&cgroup_owners, &id, &owner, BPF_ANY);
	return owner;
}

static __always_inline struct set_sum *sum_of(u64 owner, u64 set)
{
	struct set_sum_key key = { .cgroup = owner, .set = set };
	struct set_sum *sum = bpf_map_lookup_elem(&set_sums, &key);
	static const struct set_sum none;

	if (sum)
		return sum;
	bpf_map_update_elem(&set_sums, &key, &none, BPF_NOEXIST);
	return bpf_map_lookup_elem(&set_sums, &key);
}

/* Adds what a set counted since it was read last. No other CPU writes a per-CPU sum. */
static __noinline int settle(struct set_cpu_ctx *cpuc, u32 set)
{
	struct bpf_perf_event_value value = {};
	struct set_sum *last, *sum = NULL;
	u32 size, place, n;

	if (!cpuc || set >= MAX_SETS)
		return 0;
	size = set_sizes[set];
	last = &cpuc->last[set];
	place = (bpf_get_smp_processor_id() * MAX_SETS + set) * MAX_SET_EVENTS;
	for (n = 0; n < MAX_SET_EVENTS && n < size; n++) {
		if (bpf_perf_event_read_value(&set_events, place + n, &value, sizeof(value))) {
			cpuc->lost++;
			return 0;
		}
		/* The events of a set are one group: the times of the first are those of all. */
		if (!n) {
			if (value.enabled == last->enabled_ns)
				return 0;
			/* The CPU was offline, and its events are new. */
			if (value.enabled < last->enabled_ns || value.counter < last->counts[0])
				__builtin_memset(last, 0, sizeof(*last));
			if (cpuc->owner) {
				sum = sum_of(cpuc->owner, set);
				if (!sum)
					cpuc->lost++;
			}
			if (sum) {
				sum->enabled_ns += value.enabled - last->enabled_ns;
				sum->running_ns += value.running - last->running_ns;
			}
			last->enabled_ns = value.enabled;
			last->running_ns = value.running;
		}
		if (sum)
			sum->counts[n] += value.counter - last->counts[n];
		last->counts[n] = value.counter;
	}
	return 0;
}

static __always_inline void settle_all(struct set_cpu_ctx *cpuc)
{
	u32 now = counting_set, set;

	if (cpuc->set == now && now < MAX_SETS) {
		settle(cpuc, now);
		return;
	}
	for (set = 0; set < MAX_SETS; set++)
		settle(cpuc, set);
	cpuc->set = now;
}

static __always_inline struct set_cpu_ctx *this_cpu(void)
{
	u32 zero = 0;

	return bpf_map_lookup_elem(&set_cpu_ctxs, &zero);
}

SEC("tp_btf/sched_switch")
int BPF_PROG(weir_set_switch, bool preempt, struct task_struct *prev,
	     struct task_struct *next)
{
	struct set_cpu_ctx *cpuc = this_cpu();
	u64 cgroup = cgroup_of(next), owner = 0;

	if (!cpuc || cpuc->cgroup == cgroup)
		return 0;
	if (cgroup)
		owner = owner_of(next, cgroup);
	if (owner != cpuc->owner) {
		settle_all(cpuc);
		cpuc->owner = owner;
	}
	cpuc->cgroup = cgroup;
	return 0;
}

/* Run by the daemon, on a CPU of its choice. */
SEC("raw_tp")
int weir_set_now(void *ctx)
{
	struct task_struct *current = bpf_get_current_task_btf();
	struct set_cpu_ctx *cpuc = this_cpu();
	u64 cgroup = cgroup_of(current);

	if (!cpuc)
		return 0;
	settle_all(cpuc);
	cpuc->cgroup = cgroup;
	cpuc->owner = cgroup ? owner_of(current, cgroup) : 0;
	return 0;
}
