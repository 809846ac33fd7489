// SPDX-License-Identifier: GPL-2.0-only
/*
 * All tasks in one read: an iterator (BPF_TRACE_ITER, Linux 5.8) writes a row for
 * each thread. It replaces reading cgroup.procs of each cgroup, stat of each process
 * and the scheduling policy of each thread.
 *
 *   daemon reads ──► kernel goes through its process ids ──► a row each, and an end
 *
 * A row is a thread and not a process: the kernel visits one task at a time, in the
 * order of their ids. The reader folds threads into processes (one real-time thread
 * makes a process real-time; CPU time is a sum). Visiting the threads of a process in
 * here needs Linux 6.7 and makes one step as long as the process has threads.
 *
 * Rows are made without locks. A name that is just being changed may be a mixture of
 * both; the kernel keeps its last byte NUL at all times.
 */

#include "vmlinux_min.h"
#include <bpf/bpf_core_read.h>
#include "delegated.bpf.h"
#include "task_iter_intf.h"

char LICENSE[] SEC("license") = "GPL";

/* Never read: it makes the compiler emit the BTF type of a row, of which Rust's is made. */
struct task_row row_for_btf SEC(".data.unused");

struct seq_file;

struct bpf_iter_meta {
	struct seq_file *seq;
	u64 seq_num;
} CORE;

struct bpf_iter__task {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
} CORE;

/* Of linux/sched.h and linux/sched/prio.h. */
#define SCHED_FIFO	1
#define SCHED_RR	2
#define SCHED_DEADLINE	6
#define NICE_0_PRIO	120

static __always_inline u64 flags_of(const struct task_struct *task)
{
	u64 flags = 0;

	if (task->flags & PF_KTHREAD)
		flags |= TASK_ROW_KERNEL;
	if (task->policy == SCHED_FIFO || task->policy == SCHED_RR ||
	    task->policy == SCHED_DEADLINE)
		flags |= TASK_ROW_REAL_TIME;
	if (task->signal->live.counter <= 0)
		flags |= TASK_ROW_DEAD;
	return flags;
}

/* Resident pages of the process, as in /proc/PID/stat: off by a few for each CPU. */
static __always_inline u64 resident_pages_of(const struct task_struct *task)
{
	const struct mm_struct *mm = task->mm;
	s64 pages;

	if (!mm)
		return 0;
	if (!bpf_core_field_exists(mm->rss_stat[0].count))
		return TASK_ROW_PAGES_UNKNOWN;
	pages = mm->rss_stat[MM_FILEPAGES].count + mm->rss_stat[MM_ANONPAGES].count +
		mm->rss_stat[MM_SHMEMPAGES].count;
	return pages > 0 ? pages : 0;
}

SEC("iter/task")
int weir_task_iter(struct bpf_iter__task *ctx)
{
	const struct task_struct *task = ctx->task;
	struct task_row row = {};

	if (!task) {
		/* seq_num is that of the last task, from 0 (kernel/bpf/bpf_iter.c); there always is one. */
		row.pid = ctx->meta->seq_num + 1;
		row.flags = TASK_ROW_END;
		bpf_seq_write(ctx->meta->seq, &row, sizeof(row));
		return 0;
	}
	row.pid = task->pid;
	row.tgid = task->tgid;
	row.cgroup = workload_cgroup_id(task);
	row.flags = flags_of(task);
	row.start_ns = task->start_boottime;
	row.cpu_ns = task->se.sum_exec_runtime;
	row.faults = task->min_flt + task->maj_flt;
	if (task->pid == task->tgid) {
		row.cpu_ns += task->signal->sum_sched_runtime;
		row.faults += task->signal->min_flt + task->signal->maj_flt;
		row.resident_pages = resident_pages_of(task);
	}
	row.nice = (s64)task->static_prio - NICE_0_PRIO;
	bpf_probe_read_kernel(row.comm, sizeof(row.comm), task->comm);
	bpf_seq_write(ctx->meta->seq, &row, sizeof(row));
	return 0;
}
