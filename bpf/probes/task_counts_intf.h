/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Interface of task_counts.bpf.c. crates/weir-linux/build.rs makes Rust of it.
 */
#ifndef WEIR_TASK_COUNTS_INTF_H
#define WEIR_TASK_COUNTS_INTF_H

/* Events that are read at each switch, at most. */
#define MAX_EVENTS	2
/* Cgroups that are counted. */
#define MAX_CGROUPS	65536

/* Counts of the first and the second event while a cgroup or process ran, with the
 * time that each was enabled and the time that it counted. */
struct event_counts {
	__u64 first;
	__u64 first_enabled_ns;
	__u64 first_running_ns;
	__u64 second;
	__u64 second_enabled_ns;
	__u64 second_running_ns;
};

/* State of a CPU: key of the running cgroup or process (0: idle), known: `last` was
 * read, lost: runs that could not be counted. */
struct cpu_state {
	__u64 key;
	__u64 known;
	__u64 lost;
	struct event_counts last;
};

#endif
