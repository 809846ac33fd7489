/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Full mode: weir schedules all ordinary tasks. A part of main.bpf.c.
 *
 * - Queues: one for each memory node, ordered by vtime. A CPU takes from its own
 *   node's queue, then from the others', so no CPU is idle while a task waits.
 * - Fairness: vtime goes the slower the larger the weight (nice value). The tasks of
 *   a cgroup share the cgroup's hierarchical weight (hweight: cpu.weight along the
 *   tree of cgroups), which the daemon computes; without one, each task counts alone.
 * - Idle CPUs: the kernel's own choice, which knows cores, caches and nodes.
 * - Wakeup preemption: a task that wakes with a smaller vtime than the running task
 *   preempts it, so a task that mostly sleeps does not wait for the end of a slice.
 * - Kernel threads bound to one CPU run at once: other tasks wait for them.
 * - Tasks of limited workloads are charged, preempted, parked and released as in
 *   partial mode. They keep their vtime, so that they run soon after their release.
 */
#ifndef WEIR_FULL_BPF_H
#define WEIR_FULL_BPF_H

/*
 * Written by the daemon: a cgroup's part of the CPUs, in the unit of a task's weight; 0: each task counts
 * alone.
 */
ARRAY(cgroup_hweights, MAX_HWEIGHTS, u64);
/* Sum of the weights of the cgroup's tasks that run or wait. */
ARRAY(active_weights, MAX_HWEIGHTS, u64);

/* The largest vtime at which a task was dispatched in order. */
u64 vtime_now;

static u64 *active_weight_of(u64 hweight_id)
{
	u32 key = hweight_id & (MAX_HWEIGHTS - 1);

	return bpf_map_lookup_elem(&active_weights, &key);
}

static __noinline void refresh_task_ctx(struct task_struct *p, struct task_ctx *taskc, u64 tag)
{
	u64 *found = find_workload(p);

	taskc->tag = tag;
	taskc->slot = found ? *found & TAG_SLOT : NO_SLOT;
	taskc->hweight_id = found ? *found >> 8 : 0;
}

/* A task's context, refreshed after a change of its cgroup or of the map. */
static struct task_ctx *task_ctx_of(struct task_struct *p)
{
	struct task_ctx *taskc = lookup_task_ctx(p);
	u64 tag = cgroup_tag(p);

	if (taskc && taskc->tag != tag)
		refresh_task_ctx(p, taskc, tag);
	return taskc;
}

/* Takes a task's weight out of the sum of its cgroup. */
static void leave_weight_sum(struct task_ctx *taskc)
{
	u64 *sum = active_weight_of(taskc->summed_in);

	if (taskc->summed_weight && sum)
		__sync_fetch_and_add(sum, -taskc->summed_weight);
	taskc->summed_weight = 0;
	taskc->summed_in = 0;
}

/* Adds it to the sum of its present cgroup; @taskc->hweight_id may have changed while it ran. */
static __noinline void join_weight_sum(struct task_struct *p, struct task_ctx *taskc)
{
	u64 *sum = active_weight_of(taskc->hweight_id);

	leave_weight_sum(taskc);
	if (!taskc->hweight_id || !sum)
		return;
	taskc->summed_in = taskc->hweight_id;
	taskc->summed_weight = p->scx.weight;
	__sync_fetch_and_add(sum, taskc->summed_weight);
}

static u64 queue_of(s32 cpu)
{
	return RUN_QUEUE + ((u64)scx_bpf_cpu_node(cpu) & QUEUE_MASK);
}

static bool is_task_throttled(struct task_ctx *taskc)
{
	return taskc && taskc->slot != NO_SLOT && is_throttled(taskc->slot);
}

SEC("struct_ops/weir_full_select_cpu")
s32 BPF_PROG(weir_full_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	bool is_idle = false;
	s32 cpu = scx_bpf_select_cpu_dfl(p, prev_cpu, wake_flags, &is_idle);

	if (is_idle && !is_task_throttled(task_ctx_of(p)))
		scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, WEIR_SLICE_NS, 0);
	return cpu;
}

/* Preempts the task that runs on a CPU, if its vtime is ahead of @vtime by more than the lag. */
static void preempt_for(s32 cpu, u64 vtime)
{
	struct cpu_ctx *cpuc = cpu_ctx_of(cpu);
	u64 since = cpuc->since, now;

	if (!since)
		return;
	now = scx_bpf_now();
	if (cpuc->vtime + (now > since ? now - since : 0) > vtime + WEIR_PREEMPT_LAG_NS)
		scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
}

static void full_enqueue(struct task_struct *p, u64 enq_flags)
{
	struct task_ctx *taskc = task_ctx_of(p);
	s32 cpu = scx_bpf_task_cpu(p);
	u64 vtime = vtime_now;

	if ((p->flags & PF_KTHREAD) && p->nr_cpus_allowed == 1) {
		scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, WEIR_SLICE_NS, enq_flags | SCX_ENQ_PREEMPT);
		return;
	}
	if (taskc) {
		if (taskc->summed_in != taskc->hweight_id)
			join_weight_sum(p, taskc);
		if ((is_task_throttled(taskc) || (!p->scx.slice && budget_exhausted(taskc->slot, 0))) &&
		    may_park(p)) {
			park(p, taskc->slot, enq_flags);
			return;
		}
		vtime = weir_vtime_resume(taskc->vtime, vtime, WEIR_WAKEUP_CREDIT_NS);
		taskc->vtime = vtime;
	}
	scx_bpf_dsq_insert_vtime(p, queue_of(cpu), WEIR_SLICE_NS, vtime, enq_flags);
	if (enq_flags & SCX_ENQ_REENQ)
		kick_idle_cpu(p);
	else if (enq_flags & SCX_ENQ_LAST)
		scx_bpf_kick_cpu(cpu, 0);
	else if (enq_flags & SCX_ENQ_WAKEUP)
		preempt_for(cpu, vtime);
}

SEC("struct_ops/weir_full_enqueue")
void BPF_PROG(weir_full_enqueue, struct task_struct *p, u64 enq_flags)
{
	u64 begun = enqueue_timing_begin();

	full_enqueue(p, enq_flags);
	enqueue_timing_end(begun);
}

/*
 * Growth of a task's vtime in a run. A cgroup's hweight is shared by the tasks that were runnable during
 * the whole run: a task that wakes and preempts had no part of it. So the smaller sum of weights counts,
 * that of the beginning (in @cpuc) or that of now.
 */
static u64 vtime_of_run(struct task_struct *p, struct task_ctx *taskc, struct cpu_ctx *cpuc, u64 run)
{
	u64 *hweight = NULL, *sum = NULL;
	u32 key;

	if (taskc->summed_weight) {
		key = taskc->summed_in & (MAX_HWEIGHTS - 1);
		hweight = bpf_map_lookup_elem(&cgroup_hweights, &key);
		sum = active_weight_of(key);
	}
	return weir_vtime(run, p->scx.weight, hweight ? *hweight : 0, sum ? weir_min(*sum, cpuc->active_weight) : 0);
}

/* Run time of the present run on a CPU; 0 if no task of ours runs there. */
static u64 current_run_ns(struct cpu_ctx *cpuc)
{
	u64 since = cpuc->since, now = scx_bpf_now();

	return since && now > since ? now - since : 0;
}

/*
 * The kernel calls dispatch() before it enqueues the task with an expired slice. Without this check, a task
 * with the smallest vtime would wait for another task after each slice.
 */
static __noinline bool is_first_in_queue(struct task_struct *prev, struct cpu_ctx *cpuc, u64 queue, u64 run)
{
	struct task_ctx *taskc = lookup_task_ctx(prev);
	struct task_struct *head;
	bool is_first = true;

	if (!taskc)
		return false;
	bpf_rcu_read_lock();
	head = scx_bpf_dsq_peek(queue);
	if (head)
		is_first = head->scx.dsq_vtime > taskc->vtime + vtime_of_run(prev, taskc, cpuc, run);
	bpf_rcu_read_unlock();
	return is_first;
}

/*
 * A task begins to run: vtime_now advances to its vtime, but not past the head of the queue, since a task
 * may be dispatched out of order. If another CPU was faster, its value stands, which is as good. vtime_now
 * never goes back: a task that ran at the later value would wait until all others have reached it.
 */
static __noinline int advance_vtime(struct cpu_ctx *cpuc, struct task_ctx *taskc, u64 queue)
{
	u64 now = vtime_now, reached, *sum;
	struct task_struct *head;

	if (!cpuc || !taskc)
		return 0;
	reached = taskc->vtime;
	if (reached > now) {
		bpf_rcu_read_lock();
		head = scx_bpf_dsq_peek(queue);
		if (head)
			reached = weir_min(reached, head->scx.dsq_vtime);
		bpf_rcu_read_unlock();
	}
	if (reached > now)
		__sync_val_compare_and_swap(&vtime_now, now, reached);
	sum = taskc->summed_weight ? active_weight_of(taskc->summed_in) : NULL;
	cpuc->vtime = taskc->vtime;
	cpuc->active_weight = sum ? *sum : 0;
	return 0;
}

/* stopping() is not called for a task that keeps its CPU: its run so far is accounted here. */
static void account_continued_run(struct cpu_ctx *cpuc, struct task_struct *p, struct task_ctx *taskc, u64 queue)
{
	u64 run = account_run(cpuc);

	cpuc->since = scx_bpf_now();
	if (!taskc)
		return;
	taskc->vtime += vtime_of_run(p, taskc, cpuc, run);
	advance_vtime(cpuc, taskc, queue);
}

SEC("struct_ops/weir_full_dispatch")
void BPF_PROG(weir_full_dispatch, s32 cpu, struct task_struct *prev)
{
	bool may_stay = prev && (prev->scx.flags & SCX_TASK_QUEUED);
	struct sched_settings *set = get_settings();
	struct cpu_ctx *cpuc = cpu_ctx_of(cpu);
	u64 queue = queue_of(cpu), run;
	struct task_ctx *taskc = NULL;
	u32 i;

	if (!set)
		return;
	if (may_stay) {
		run = current_run_ns(cpuc);
		taskc = task_ctx_of(prev);
		/* If its slot changed while it ran, it must be enqueued anew. */
		may_stay = taskc && taskc->slot == cpuc->slot && !is_throttled(cpuc->slot) &&
			   !budget_exhausted(cpuc->slot, run);
		if (may_stay && is_first_in_queue(prev, cpuc, queue, run))
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
	account_continued_run(cpuc, prev, taskc, queue);
	scx_bpf_task_set_slice(prev, WEIR_SLICE_NS);
}

/* A task becomes runnable. */
SEC("struct_ops/weir_full_runnable")
void BPF_PROG(weir_full_runnable, struct task_struct *p, u64 enq_flags)
{
	struct task_ctx *taskc = task_ctx_of(p);

	if (taskc && taskc->summed_in != taskc->hweight_id)
		join_weight_sum(p, taskc);
}

SEC("struct_ops/weir_full_quiescent")
void BPF_PROG(weir_full_quiescent, struct task_struct *p, u64 deq_flags)
{
	struct task_ctx *taskc = lookup_task_ctx(p);

	if (taskc)
		leave_weight_sum(taskc);
}

SEC("struct_ops/weir_full_running")
void BPF_PROG(weir_full_running, struct task_struct *p)
{
	struct cpu_ctx *cpuc = cpu_ctx_of_task(p);
	struct task_ctx *taskc = lookup_task_ctx(p);

	cpuc->slot = NO_SLOT;
	if (taskc) {
		taskc->vtime = weir_vtime_resume(taskc->vtime, vtime_now, WEIR_WAKEUP_CREDIT_NS);
		cpuc->slot = taskc->slot;
		advance_vtime(cpuc, taskc, queue_of(scx_bpf_task_cpu(p)));
	}
	cpuc->since = scx_bpf_now();
}

SEC("struct_ops/weir_full_stopping")
void BPF_PROG(weir_full_stopping, struct task_struct *p, bool runnable)
{
	struct cpu_ctx *cpuc = cpu_ctx_of_task(p);
	struct task_ctx *taskc = lookup_task_ctx(p);
	u64 run = account_run(cpuc);

	if (taskc)
		taskc->vtime += vtime_of_run(p, taskc, cpuc, run);
}

/* Each task needs a context: without one it would have no vtime of its own. */
SEC("struct_ops.s/weir_full_init_task")
s32 BPF_PROG(weir_full_init_task, struct task_struct *p, struct scx_init_task_args *args)
{
	return bpf_task_storage_get(&task_ctxs, p, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE) ? 0 : -12;
}

SEC("struct_ops/weir_full_enable")
void BPF_PROG(weir_full_enable, struct task_struct *p)
{
	struct task_ctx *taskc = lookup_task_ctx(p);

	if (taskc)
		taskc->vtime = vtime_now;
}

#endif /* WEIR_FULL_BPF_H */
