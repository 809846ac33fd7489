/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the daemon asks of cgroups, and what it is told: one page with a row for
 * each cgroup, written by the daemon with ids and read back with the rest. The
 * other side is crates/weir-linux/src/usage/page.rs; a test compares the two.
 */
#ifndef WEIR_USAGE_WIRE_H
#define WEIR_USAGE_WIRE_H

/* Rows of a page; a power of 2. */
#define WEIR_USAGE_ROWS	1024

/* Bits of flags. */
/* The cgroup is there, and cpu_ns is of it. */
#define WEIR_USAGE_THERE	1
/* It has a cpu controller, and throttled_ns is of it. */
#define WEIR_USAGE_THROTTLED	2

struct weir_usage {
	/* In: the cgroup (v2), by the inode number of its directory. */
	__u64 id;
	__u64 flags;
	/* Of all its tasks so far, as of the last time that the kernel added it up. */
	__u64 cpu_ns;
	/* For which its CPU limit held it back, summed over CPUs. */
	__u64 throttled_ns;
};

struct weir_usage_page {
	/* In: rows in use. */
	__u64 count;
	struct weir_usage rows[WEIR_USAGE_ROWS];
};

#endif
