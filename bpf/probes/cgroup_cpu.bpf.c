// SPDX-License-Identifier: GPL-2.0-only
/*
 * CPU time of many cgroups at once: the values of their cpu.stat, without opening,
 * printing and parsing a file for each of them.
 *
 *   daemon writes ids ──► runs this ──► rows filled ──► daemon reads the page
 *
 * The kernel keeps these sums for each CPU. It adds them up, for a cgroup and all
 * below it, when its cpu.stat is read. BPF programs of this type may not call the
 * function that does so; therefore the daemon reads cpu.stat of a few ancestors
 * before it runs this program (crates/weir-linux/src/workloads/cpu_time/bpf).
 *
 * Nothing is locked: a sum is one word, and an update is seen whole or not at all.
 * Programs of this type may call bpf_cgroup_from_id() since Linux 6.10.
 */

#include "vmlinux_min.h"
#include <bpf/bpf_core_read.h>
#include "cgroup_cpu_intf.h"

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
	__type(value, struct cgroup_cpu_page);
} cgroup_cpu_page SEC(".maps");

extern struct cgroup *bpf_cgroup_from_id(u64 id) __ksym;
extern void bpf_cgroup_release(struct cgroup *cgroup) __ksym;

/* NULL if it has no cpu controller. */
static __always_inline struct task_group *task_group_of(struct cgroup *cgroup)
{
	u64 nr = bpf_core_enum_value(enum cgroup_subsys_id, cpu_cgrp_id);
	struct task_group *tg = NULL;

	bpf_probe_read_kernel(&tg, sizeof(tg), (void *)&cgroup->subsys + nr * sizeof(tg));
	return tg;
}

static __always_inline void fill_row(struct cgroup_cpu_row *row)
{
	struct cgroup *cgroup = bpf_cgroup_from_id(row->id);
	struct task_group *tg;

	row->flags = 0;
	if (!cgroup)
		return;
	row->cpu_ns = cgroup->bstat.cputime.sum_exec_runtime;
	row->flags = CGROUP_CPU_FOUND;
	tg = task_group_of(cgroup);
	if (tg && bpf_core_field_exists(tg->cfs_bandwidth) &&
	    !bpf_probe_read_kernel(&row->throttled_ns, sizeof(row->throttled_ns),
				   &tg->cfs_bandwidth.throttled_time))
		row->flags |= CGROUP_CPU_THROTTLED;
	bpf_cgroup_release(cgroup);
}

SEC("syscall")
int weir_cgroup_cpu(void *ctx)
{
	struct cgroup_cpu_page *page;
	u32 zero = 0, i;

	page = bpf_map_lookup_elem(&cgroup_cpu_page, &zero);
	if (!page)
		return -1;
	bpf_for(i, 0, CGROUP_CPU_ROWS) {
		if (i >= page->count)
			break;
		fill_row(&page->rows[i & (CGROUP_CPU_ROWS - 1)]);
	}
	return 0;
}
