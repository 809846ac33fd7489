/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Interface of set_counts.bpf.c. crates/weir-linux/build.rs makes Rust of it.
 */
#ifndef WEIR_SET_COUNTS_INTF_H
#define WEIR_SET_COUNTS_INTF_H

/* Events of a set, at most: a core has eight counters for any event, and four fixed ones. */
#define MAX_SET_EVENTS	16
/* Sets that take turns on a CPU, at most. */
#define MAX_SETS	16
/* Cgroups that are counted, at most. */
#define MAX_SET_CGROUPS	4096
/* Cgroups of which it is remembered to which counted one they belong. */
#define MAX_SET_OWNERS	16384
/* Levels of the tree that are searched for a counted cgroup. */
#define MAX_CGROUP_DEPTH	32

/* What a set counted, and the time for which it was enabled and had its counters. */
struct set_sum {
	__u64 counts[MAX_SET_EVENTS];
	__u64 enabled_ns;
	__u64 running_ns;
};

/* Key of a sum: cgroup and set. */
struct set_sum_key {
	__u64 cgroup;
	__u64 set;
};

/*
 * State of a CPU: cgroup of the task that runs (0: idle), the counted cgroup that this
 * one belongs to (0: none), the set that counted last, runs that could not be counted,
 * and what each set had counted when it was read last.
 */
struct set_cpu_ctx {
	__u64 cgroup;
	__u64 owner;
	__u64 set;
	__u64 lost;
	struct set_sum last[MAX_SETS];
};

#endif
