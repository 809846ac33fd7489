/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Interface of cgroup_cpu.bpf.c: one page with a row for each cgroup. The daemon
 * writes the ids, the program the rest. crates/weir-linux/build.rs makes Rust of it.
 */
#ifndef WEIR_CGROUP_CPU_INTF_H
#define WEIR_CGROUP_CPU_INTF_H

/* Rows of a page; a power of 2. */
#define CGROUP_CPU_ROWS	1024

/* Bits of flags. */
/* The cgroup exists, and cpu_ns is valid. */
#define CGROUP_CPU_FOUND	1
/* It has a cpu controller, and throttled_ns is valid. */
#define CGROUP_CPU_THROTTLED	2

struct cgroup_cpu_row {
	/* In: the cgroup (v2), by the inode number of its directory. */
	__u64 id;
	__u64 flags;
	/* CPU time of all its tasks so far, as of the last time that the kernel added it up. */
	__u64 cpu_ns;
	/* Time that its CPU limit throttled it, summed over CPUs. */
	__u64 throttled_ns;
};

struct cgroup_cpu_page {
	/* In: rows in use. */
	__u64 count;
	struct cgroup_cpu_row rows[CGROUP_CPU_ROWS];
};

#endif
