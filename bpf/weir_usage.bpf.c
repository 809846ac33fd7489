// SPDX-License-Identifier: GPL-2.0-only
/*
 * CPU time of many cgroups at once: what cpu.stat of each says, without opening,
 * printing and parsing a file for each of them.
 *
 *   daemon writes ids ──► runs this ──► rows filled ──► daemon reads the page
 *
 * The kernel keeps these sums for each CPU and adds them up when somebody reads
 * cpu.stat, of that cgroup and of all below it. The function that does it is for
 * other kinds of programs than this one, so the daemon reads cpu.stat of a few
 * ancestors before it runs this (crates/weir-linux/src/usage).
 *
 * Nothing is locked: a sum is one word, and what is added up is seen whole or not
 * yet. bpf_cgroup_from_id() may be called from here since Linux 6.10.
 */

#include "weir_kernel.h"
#include <bpf/bpf_core_read.h>
#include "weir_usage_wire.h"

char LICENSE[] SEC("license") = "GPL";

struct cfs_bandwidth {
	u64 throttled_time;
} CORE;

/* Its first member is the state that cgroup->subsys points to (kernel/sched/sched.h). */
struct task_group {
	struct cfs_bandwidth cfs_bandwidth;
} CORE;

enum cgroup_subsys_id {
	cpu_cgrp_id,
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct weir_usage_page);
} weir_usage_page SEC(".maps");

extern struct cgroup *bpf_cgroup_from_id(u64 id) __ksym;
extern void bpf_cgroup_release(struct cgroup *cgroup) __ksym;

/* Nothing if it has no cpu controller. */
static __always_inline struct task_group *task_group_of(struct cgroup *cgroup)
{
	u64 nr = bpf_core_enum_value(enum cgroup_subsys_id, cpu_cgrp_id);
	struct task_group *tg = NULL;

	bpf_probe_read_kernel(&tg, sizeof(tg), (void *)&cgroup->subsys + nr * sizeof(tg));
	return tg;
}

static __always_inline void look(struct weir_usage *row)
{
	struct cgroup *cgroup = bpf_cgroup_from_id(row->id);
	struct task_group *tg;

	row->flags = 0;
	if (!cgroup)
		return;
	row->cpu_ns = cgroup->bstat.cputime.sum_exec_runtime;
	row->flags = WEIR_USAGE_THERE;
	tg = task_group_of(cgroup);
	if (tg && bpf_core_field_exists(tg->cfs_bandwidth) &&
	    !bpf_probe_read_kernel(&row->throttled_ns, sizeof(row->throttled_ns),
				   &tg->cfs_bandwidth.throttled_time))
		row->flags |= WEIR_USAGE_THROTTLED;
	bpf_cgroup_release(cgroup);
}

SEC("syscall")
int weir_usage(void *ctx)
{
	struct weir_usage_page *page;
	u32 zero = 0, i;

	page = bpf_map_lookup_elem(&weir_usage_page, &zero);
	if (!page)
		return -1;
	bpf_for(i, 0, WEIR_USAGE_ROWS) {
		if (i >= page->count)
			break;
		look(&page->rows[i & (WEIR_USAGE_ROWS - 1)]);
	}
	return 0;
}
