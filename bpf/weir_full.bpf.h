/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Full mode: all ordinary tasks are weir's. A part of weir.bpf.c.
 *
 * - Queues: one for each memory node, in order of virtual time. A CPU takes from its
 *   own node's, then from the others', so none is idle while somebody waits.
 * - Fairness: virtual time goes the slower the more weight (niceness). A cgroup's
 *   tasks share what the daemon says the cgroup's part is (cpu.weight, along the
 *   tree of cgroups); where it says nothing, each task is for itself.
 * - Idle CPUs: the kernel's own choice, which knows cores, caches and nodes.
 * - Who wakes and is behind who runs on its CPU takes it from him: a task that
 *   mostly sleeps does not wait for the end of somebody's slice.
 * - Kernel threads that belong to one CPU run at once: others wait for them.
 * - Who is limited is charged, cut, parked and released as in partial mode. It keeps
 *   its place in virtual time, so that it is soon to run when it is let in.
 */
#ifndef WEIR_FULL_BPF_H
#define WEIR_FULL_BPF_H

/* Who comes back from sleep is at most so far ahead of the others. */
#define CREDIT_NS	SLICE_NS
/* Who runs is interrupted for who is this far behind. */
#define AHEAD_NS	500000ULL

/* A cgroup's part of the CPUs, in the unit of a task's weight; 0: each task is for itself. The daemon's. */
ARRAY(weir_shares, WEIR_SHARES, u64);
/* Weights of its tasks that run or wait. */
ARRAY(weir_sums, WEIR_SHARES, u64);

/* The furthest virtual time anybody has run at in his turn. */
u64 weir_vtime_now;

static u64 *sum_of(u64 share)
{
	u32 key = share & (WEIR_SHARES - 1);

	return bpf_map_lookup_elem(&weir_sums, &key);
}

static __noinline void look_up(struct task_struct *p, struct weir_task *task, u64 stamp)
{
	u64 cgroup = weir_cgroup_id(p);
	u64 *found = bpf_map_lookup_elem(&weir_owners, &cgroup);

	task->stamp = stamp;
	task->slot = found ? *found & STAMP_SLOT : NO_SLOT;
	task->share = found ? *found >> 8 : 0;
}

/* What is remembered of a task, as it is now. */
static struct weir_task *who(struct task_struct *p)
{
	struct weir_task *task = task_of(p);
	u64 stamp = stamp_of(p);

	if (task && task->stamp != stamp)
		look_up(p, task, stamp);
	return task;
}

/* A task no longer counts among those who share its cgroup's part. */
static void count_out(struct weir_task *task)
{
	u64 *sum = sum_of(task->counted_in);

	if (task->counted && sum)
		__sync_fetch_and_add(sum, -task->counted);
	task->counted = 0;
	task->counted_in = 0;
}

/* It counts among those of the cgroup it is in now; @task->share may have changed while it ran. */
static __noinline void count_in(struct task_struct *p, struct weir_task *task)
{
	u64 *sum = sum_of(task->share);

	count_out(task);
	if (!task->share || !sum)
		return;
	task->counted_in = task->share;
	task->counted = p->scx.weight;
	__sync_fetch_and_add(sum, task->counted);
}

static u64 queue_of(s32 cpu)
{
	return RUN_QUEUE + ((u64)scx_bpf_cpu_node(cpu) & QUEUE_MASK);
}

static bool is_over(struct weir_task *task)
{
	return task && task->slot != NO_SLOT && waits(task->slot);
}

SEC("struct_ops/weir_full_select_cpu")
s32 BPF_PROG(weir_full_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	bool is_idle = false;
	s32 cpu = scx_bpf_select_cpu_dfl(p, prev_cpu, wake_flags, &is_idle);

	if (is_idle && !is_over(who(p)))
		scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, SLICE_NS, 0);
	return cpu;
}

/* Who runs on a CPU gives way, if it has had so much more than the task that is to come. */
static void make_room(s32 cpu, u64 vtime)
{
	struct weir_cpu *there = cpu_of(cpu);
	u64 since = there->since, now;

	if (!since)
		return;
	now = scx_bpf_now();
	if (there->vtime + (now > since ? now - since : 0) > vtime + AHEAD_NS)
		scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
}

static void full_enqueue(struct task_struct *p, u64 enq_flags)
{
	struct weir_task *task = who(p);
	s32 cpu = scx_bpf_task_cpu(p);
	u64 vtime = weir_vtime_now;

	if ((p->flags & PF_KTHREAD) && p->nr_cpus_allowed == 1) {
		scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, SLICE_NS, enq_flags | SCX_ENQ_PREEMPT);
		return;
	}
	if (task) {
		if (task->counted_in != task->share)
			count_in(p, task);
		if (is_over(task) || (!p->scx.slice && is_spent(task->slot, 0))) {
			park(p, task->slot, enq_flags);
			return;
		}
		vtime = weir_vtime_back(task->vtime, vtime, CREDIT_NS);
		task->vtime = vtime;
	}
	scx_bpf_dsq_insert_vtime(p, queue_of(cpu), SLICE_NS, vtime, enq_flags);
	if (enq_flags & SCX_ENQ_REENQ)
		wake_a_cpu(p);
	else if (enq_flags & SCX_ENQ_LAST)
		scx_bpf_kick_cpu(cpu, 0);
	else if (enq_flags & SCX_ENQ_WAKEUP)
		make_room(cpu, vtime);
}

SEC("struct_ops/weir_full_enqueue")
void BPF_PROG(weir_full_enqueue, struct task_struct *p, u64 enq_flags)
{
	u64 begun = begin_enqueue();

	full_enqueue(p, enq_flags);
	end_enqueue(begun);
}

/*
 * What a task's virtual time grows by in a run, of whose beginning @here knows. A cgroup's part is shared with those
 * who wanted it all the time: who takes the CPU from the task the moment it wakes had nothing of this run.
 */
static u64 vtime_of_run(struct task_struct *p, struct weir_task *task, struct weir_cpu *here, u64 run)
{
	u64 *share = NULL, *sum = NULL;
	u32 key;

	if (task->counted) {
		key = task->counted_in & (WEIR_SHARES - 1);
		share = bpf_map_lookup_elem(&weir_shares, &key);
		sum = sum_of(key);
	}
	return weir_vtime(run, p->scx.weight, share ? *share : 0, sum ? weir_min(*sum, here->sum) : 0);
}

/* How long who runs here has run; 0 if nobody of ours does. */
static u64 run_here(struct weir_cpu *here)
{
	u64 since = here->since, now = scx_bpf_now();

	return since && now > since ? now - since : 0;
}

/*
 * The kernel asks for the next task before it queues the one whose slice is over. Whoever is first in
 * virtual time would so wait for one of the others after each slice, if it is to run twice.
 */
static __noinline bool is_first(struct task_struct *prev, struct weir_cpu *here, u64 queue, u64 run)
{
	struct weir_task *task = task_of(prev);
	struct task_struct *head;
	bool is_first = true;

	if (!task)
		return false;
	bpf_rcu_read_lock();
	head = scx_bpf_dsq_peek(queue);
	if (head)
		is_first = head->scx.dsq_vtime > task->vtime + vtime_of_run(prev, task, here, run);
	bpf_rcu_read_unlock();
	return is_first;
}

/*
 * From here on it runs at its virtual time, and time is there: unless it was given the CPU out of turn, ahead of who
 * is first in the queue, whom nobody who wakes may have to wait for then. If another CPU was faster its word stands,
 * which is as good; but time never goes back, or who has run at the later one would wait until all others are there.
 */
static __noinline int note_vtime(struct weir_cpu *cpu, struct weir_task *task, u64 queue)
{
	u64 now = weir_vtime_now, reached, *sum;
	struct task_struct *head;

	if (!cpu || !task)
		return 0;
	reached = task->vtime;
	if (reached > now) {
		bpf_rcu_read_lock();
		head = scx_bpf_dsq_peek(queue);
		if (head)
			reached = weir_min(reached, head->scx.dsq_vtime);
		bpf_rcu_read_unlock();
	}
	if (reached > now)
		__sync_val_compare_and_swap(&weir_vtime_now, now, reached);
	sum = task->counted ? sum_of(task->counted_in) : NULL;
	cpu->vtime = task->vtime;
	cpu->sum = sum ? *sum : 0;
	return 0;
}

/* Who keeps its CPU is not stopped: what it had so far is booked here, or its virtual time would stand still. */
static void note_stay(struct weir_cpu *here, struct task_struct *p, struct weir_task *task, u64 queue)
{
	u64 run = note_run(here);

	here->since = scx_bpf_now();
	if (!task)
		return;
	task->vtime += vtime_of_run(p, task, here, run);
	note_vtime(here, task, queue);
}

SEC("struct_ops/weir_full_dispatch")
void BPF_PROG(weir_full_dispatch, s32 cpu, struct task_struct *prev)
{
	bool may_stay = prev && (prev->scx.flags & SCX_TASK_QUEUED);
	struct weir_settings *set = settings();
	struct weir_cpu *here = cpu_of(cpu);
	u64 queue = queue_of(cpu), run;
	struct weir_task *task = NULL;
	u32 i;

	if (!set)
		return;
	if (may_stay) {
		run = run_here(here);
		task = who(prev);
		/* If the owners changed while it ran, it is to be queued anew. */
		may_stay = task && task->slot == here->slot && !waits(here->slot) &&
			   !is_spent(here->slot, run);
		if (may_stay && is_first(prev, here, queue, run))
			goto stay;
	}
	bpf_for(i, 0, set->queue_count) {
		if (scx_bpf_dsq_move_to_local(queue))
			return;
		queue = queue + 1 < RUN_QUEUE + set->queue_count ? queue + 1 : RUN_QUEUE;
	}
	if (!may_stay)
		return;
stay:
	note_stay(here, prev, task, queue);
	scx_bpf_task_set_slice(prev, SLICE_NS);
}

/* A task begins to want a CPU. */
SEC("struct_ops/weir_full_runnable")
void BPF_PROG(weir_full_runnable, struct task_struct *p, u64 enq_flags)
{
	struct weir_task *task = who(p);

	if (task && task->counted_in != task->share)
		count_in(p, task);
}

SEC("struct_ops/weir_full_quiescent")
void BPF_PROG(weir_full_quiescent, struct task_struct *p, u64 deq_flags)
{
	struct weir_task *task = task_of(p);

	if (task)
		count_out(task);
}

SEC("struct_ops/weir_full_running")
void BPF_PROG(weir_full_running, struct task_struct *p)
{
	struct weir_cpu *cpu = where_it_runs(p);
	struct weir_task *task = task_of(p);

	cpu->slot = NO_SLOT;
	if (task) {
		task->vtime = weir_vtime_back(task->vtime, weir_vtime_now, CREDIT_NS);
		cpu->slot = task->slot;
		note_vtime(cpu, task, queue_of(scx_bpf_task_cpu(p)));
	}
	cpu->since = scx_bpf_now();
}

SEC("struct_ops/weir_full_stopping")
void BPF_PROG(weir_full_stopping, struct task_struct *p, bool runnable)
{
	struct weir_cpu *here = where_it_runs(p);
	struct weir_task *task = task_of(p);
	u64 run = note_run(here);

	if (task)
		task->vtime += vtime_of_run(p, task, here, run);
}

/* One of its own for each task; without, it would be as if new at each turn. */
SEC("struct_ops.s/weir_full_init_task")
s32 BPF_PROG(weir_full_init_task, struct task_struct *p, struct scx_init_task_args *args)
{
	return bpf_task_storage_get(&weir_tasks, p, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE) ? 0 : -12;
}

SEC("struct_ops/weir_full_enable")
void BPF_PROG(weir_full_enable, struct task_struct *p)
{
	struct weir_task *task = task_of(p);

	if (task)
		task->vtime = weir_vtime_now;
}

#endif /* WEIR_FULL_BPF_H */
