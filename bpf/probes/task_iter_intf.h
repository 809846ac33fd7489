/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Interface of task_iter.bpf.c: a row for each thread, and a last row with the number
 * of rows. crates/weir-linux/build.rs makes Rust of it.
 */
#ifndef WEIR_TASK_ITER_INTF_H
#define WEIR_TASK_ITER_INTF_H

/* Bits of flags. */
#define TASK_ROW_KERNEL	1
#define TASK_ROW_REAL_TIME	2
/* Its process has no live thread: a zombie. */
#define TASK_ROW_DEAD	4
/* The last row; its pid is the number of rows before it. */
#define TASK_ROW_END	8

/* The kernel counts resident pages in a way this program does not know. */
#define TASK_ROW_PAGES_UNKNOWN	(~0ULL)

/* Ids are those of the initial namespaces. */
struct task_row {
	__u64 pid;
	__u64 tgid;
	/* Id of the cgroup (v2) with the process in its cgroup.procs: the inode number of its directory. */
	__u64 cgroup;
	__u64 flags;
	/* Start, since boot, suspend included. */
	__u64 start_ns;
	/* CPU time; the first thread of a process includes that of all ended threads. */
	__u64 cpu_ns;
	/* Page faults, minor and major; the first thread includes those of all ended threads. */
	__u64 faults;
	/* Of the process, in its first thread's row. */
	__u64 resident_pages;
	__s64 nice;
	/* Ends with a NUL. */
	char comm[16];
};

#endif
