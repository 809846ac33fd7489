/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Starvation guard: a runnable task is dispatched after about two seconds, whatever its vtime.
 * A part of main.bpf.c.
 *
 * - Full mode orders tasks by vtime. A task of small weight among many may wait for longer than the
 *   kernel's watchdog allows. It may hold kernel resources that other tasks wait for.
 * - CPU offlining first waits for an RCU grace period, and no longer calls dispatch(). A task bound to
 *   that CPU and preempted inside an RCU read-side section would block it. The callback of
 *   hotplug.bpf.h comes only later.
 *
 * So all queues are scanned a few times a second. A task that was runnable for STALL_CHECKS scans, by
 * the kernel's own time stamp, moves to the local queue of its last CPU. Only a few at a time: the
 * order of the others hardly changes.
 */
#ifndef WEIR_STALL_GUARD_BPF_H
#define WEIR_STALL_GUARD_BPF_H

#define STALL_CHECK_NS	250000000ULL
#define STALL_SCAN_MAX	16384

/* The kernel's time stamp includes the time it was parked, which does not count here. */
static bool was_released_recently(struct task_struct *p, u64 now)
{
	struct task_ctx *taskc = lookup_task_ctx(p);

	return taskc && now < taskc->released_at + STALL_CHECKS * STALL_CHECK_NS;
}

/* Dispatches tasks of a queue that are runnable since before @mark, in jiffies. */
GLOBAL_FN int dispatch_stalled_in(u32 index, u64 mark, u64 now)
{
	u64 queue = RUN_QUEUE + (index & QUEUE_MASK);
	struct sched_settings *set = get_settings();
	struct timer_ctx *timerc;
	struct sched_stats *stats = get_stats();
	struct task_struct *p;
	u32 zero = 0;

	timerc = bpf_map_lookup_elem(&budget_timer, &zero);
	if (!timerc || !set || !stats || scx_bpf_dsq_nr_queued(queue) <= 0)
		return 0;
	timerc->left = set->cpu_count;
	timerc->scanned = 0;
	bpf_rcu_read_lock();
	/* From the end: the largest vtime first. */
	bpf_for_each(scx_dsq, p, queue, SCX_DSQ_ITER_REV) {
		if (++timerc->scanned > STALL_SCAN_MAX || !timerc->left)
			break;
		if ((s64)(mark - p->scx.runnable_at) <= 0 || was_released_recently(p, now))
			continue;
		/* Partial mode is FIFO: a task with a choice of CPUs runs soon. */
		if (!full_mode && p->nr_cpus_allowed != 1)
			continue;
		if (scx_bpf_dsq_move(FOR_EACH_ITER, p, SCX_DSQ_LOCAL_ON | (u64)scx_bpf_task_cpu(p), 0)) {
			timerc->left--;
			stats->stalled_dispatches++;
		}
	}
	bpf_rcu_read_unlock();
	return 0;
}

/* Called at each tick. */
static void dispatch_stalled(struct sched_settings *set, u64 now)
{
	struct timer_ctx *timerc;
	u64 mark, at;
	u32 zero = 0, i;

	timerc = bpf_map_lookup_elem(&budget_timer, &zero);
	if (!timerc || now - timerc->stall_check_ns < STALL_CHECK_NS)
		return;
	timerc->stall_check_ns = now;
	at = timerc->stall_checks++ & (STALL_CHECKS - 1);
	mark = timerc->stall_marks[at];
	timerc->stall_marks[at] = bpf_jiffies64();
	if (timerc->stall_checks <= STALL_CHECKS)
		return;
	bpf_for(i, 0, full_mode ? set->queue_count : 1)
		dispatch_stalled_in(i, mark, now);
}

#endif /* WEIR_STALL_GUARD_BPF_H */
