/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the iterator over tasks tells the daemon: a row for each thread, and one
 * more at the end that says how many there were. The other side is
 * crates/weir-linux/src/tasks/census.rs; a test compares the two.
 */
#ifndef WEIR_TASKS_WIRE_H
#define WEIR_TASKS_WIRE_H

/* Bits of flags. */
#define WEIR_TASK_KERNEL	1
#define WEIR_TASK_REAL_TIME	2
/* No thread of its process lives any more: a zombie. */
#define WEIR_TASK_DEAD	4
/* The last row; its pid is the number of rows before it. */
#define WEIR_TASK_END	8

/* The kernel counts resident pages in a way this program does not know. */
#define WEIR_PAGES_UNKNOWN	(~0ULL)

/* Ids are those of the initial namespaces. */
struct weir_task {
	__u64 pid;
	__u64 tgid;
	/* Id of the cgroup (v2) whose cgroup.procs lists the process: the inode number of its directory. */
	__u64 cgroup;
	__u64 flags;
	/* Since boot, time asleep included. */
	__u64 start_ns;
	/* The first thread of a process has that of all that ended with its own. */
	__u64 cpu_ns;
	/* Page faults, minor and major; the first thread has those of all that ended. */
	__u64 faults;
	/* Of the process, in its first thread's row. */
	__u64 resident_pages;
	__s64 nice;
	/* Ends with a NUL. */
	char comm[16];
};

#endif
