/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Nobody who could run waits in a run queue for ever. A part of weir.bpf.c.
 *
 * - Full mode: in order of virtual time, who has little weight among many may wait for longer than
 *   the kernel's watchdog does. It may be inside the kernel, where others then wait for it.
 * - A CPU that leaves asks no scheduler for tasks, but first waits until all who are inside of an RCU
 *   reader have left it: also for who was interrupted in one, waits in our queue, and may run nowhere
 *   else. It is on its way out by then, and weir_cpus.bpf.h not yet asked.
 *
 * So all queues are looked at a few times a second, and who was found waiting for WEIR_LATE_LOOKS of
 * them, by the kernel's own book, is given to the CPU it ran on last, whatever its virtual time. A few
 * at a time: the order of the others is hardly changed.
 */
#ifndef WEIR_LATE_BPF_H
#define WEIR_LATE_BPF_H

#define LATE_LOOK_NS	250000000ULL
#define LATE_LOOKED_AT	16384

/* The kernel's book has the time it was parked too; that is another queue's. */
static bool was_let_in_lately(struct task_struct *p, u64 now)
{
	struct weir_task *task = task_of(p);

	return task && now < task->let_in_at + WEIR_LATE_LOOKS * LATE_LOOK_NS;
}

/* Whoever waits since before @mark, in the kernel's jiffies. */
ALONE int weir_hasten(u32 index, u64 mark, u64 now)
{
	u64 queue = RUN_QUEUE + (index & QUEUE_MASK);
	struct weir_settings *set = settings();
	struct weir_clockwork *work;
	struct weir_life *all = life();
	struct task_struct *p;
	u32 zero = 0;

	work = bpf_map_lookup_elem(&weir_timer, &zero);
	if (!work || !set || !all || scx_bpf_dsq_nr_queued(queue) <= 0)
		return 0;
	work->left = set->cpu_count;
	work->looked = 0;
	bpf_rcu_read_lock();
	/* From the end: who has the largest virtual time. */
	bpf_for_each(scx_dsq, p, queue, SCX_DSQ_ITER_REV) {
		if (++work->looked > LATE_LOOKED_AT || !work->left)
			break;
		if ((s64)(mark - p->scx.runnable_at) <= 0 || was_let_in_lately(p, now))
			continue;
		/* In partial mode they came in order; who has a choice of CPUs is soon to run. */
		if (!weir_is_full && p->nr_cpus_allowed != 1)
			continue;
		if (scx_bpf_dsq_move(THIS_ITER, p, SCX_DSQ_LOCAL_ON | (u64)scx_bpf_task_cpu(p), 0)) {
			work->left--;
			all->late++;
		}
	}
	bpf_rcu_read_unlock();
	return 0;
}

/* Called at each tick. */
static void hasten(struct weir_settings *set, u64 now)
{
	struct weir_clockwork *work;
	u64 mark, at;
	u32 zero = 0, i;

	work = bpf_map_lookup_elem(&weir_timer, &zero);
	if (!work || now - work->late_ns < LATE_LOOK_NS)
		return;
	work->late_ns = now;
	at = work->late_looks++ & (WEIR_LATE_LOOKS - 1);
	mark = work->late_marks[at];
	work->late_marks[at] = bpf_jiffies64();
	if (work->late_looks <= WEIR_LATE_LOOKS)
		return;
	bpf_for(i, 0, weir_is_full ? set->queue_count : 1)
		weir_hasten(i, mark, now);
}

#endif /* WEIR_LATE_BPF_H */
