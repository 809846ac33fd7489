/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Tasks are parked where they return to user space. A part of main.bpf.c.
 *
 * A task that is stopped inside the kernel keeps the locks that it holds there: of a directory, a pipe, an
 * address space. Every task that needs one of them then waits as long, limited or not. So a task of a
 * throttled workload is only marked where it is found, and runs on. At its return to user space, where it
 * holds no lock, the kernel calls at_user_return(), and there it is preempted and parked. The kernel
 * throttles tasks of cpu.max in the same way (task work, since Linux 6.18).
 *
 * What it does until then is charged as always. But a debt has a bound, and a call may take seconds: a task
 * that has run in the kernel for longer than critical sections take (WEIR_KERNEL_STAY_NS) is parked there,
 * for as long as it has run there (at most WEIR_KERNEL_PARK_MAX_NS). Then it runs for a tick, so what waits
 * for its lock goes on. Budget releases it before, as any other.
 *
 * A task that ends, and a kernel thread, do not return to user space, and are never parked.
 *
 * A task that is parked inside the callback is bound to its CPU, as in any BPF program: after its release it
 * goes on there. In partial mode an ordinary task may use that CPU for a second meanwhile, beside an idle
 * one. So the tick preempts a task before it marks it: one that was in user space then is on its way back to
 * it, holds no lock, and is parked there, bound to nothing.
 */
#ifndef WEIR_USER_RETURN_BPF_H
#define WEIR_USER_RETURN_BPF_H

struct user_return {
	struct bpf_task_work work;
};

/* By task (pid). A mark that is pushed out is made again when the task is preempted next. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384);
	__type(key, u32);
	__type(value, struct user_return);
} user_returns SEC(".maps");

/*
 * Runs as the task. The kick is an interrupt on this CPU, so the task is preempted before the flag is
 * cleared; if it came later, the task would be marked again.
 */
static int at_user_return(struct bpf_map *map, void *key, void *value)
{
	struct task_struct *p = bpf_get_current_task_btf();
	struct task_ctx *taskc;

	taskc = bpf_task_storage_get(&task_ctxs, p, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!taskc)
		return 0;
	taskc->marked_run_ns = 0;
	if (!is_throttled(full_mode ? taskc->slot : cached_slot(p)))
		return 0;
	taskc->returns_to_user = 1;
	scx_bpf_kick_cpu(bpf_get_smp_processor_id(), SCX_KICK_PREEMPT);
	taskc->returns_to_user = 0;
	return 0;
}

/*
 * Whether a task has run in the kernel for longer than a critical section takes, since it was marked. Marks
 * it, if it is not.
 */
static __noinline bool stays_in_kernel(struct task_struct *p)
{
	struct user_return *mark, unmarked = {};
	u64 ran = p->se.sum_exec_runtime;
	struct task_ctx *taskc;
	u32 pid = p->pid;

	if (p->flags & (PF_KTHREAD | PF_EXITING))
		return false;
	taskc = bpf_task_storage_get(&task_ctxs, p, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);
	mark = bpf_map_lookup_elem(&user_returns, &pid);
	if (!mark) {
		bpf_map_update_elem(&user_returns, &pid, &unmarked, BPF_NOEXIST);
		mark = bpf_map_lookup_elem(&user_returns, &pid);
	}
	/* -EBUSY: it is marked already. */
	if (mark && !bpf_task_work_schedule_resume(p, &mark->work, &user_returns, at_user_return) && taskc)
		taskc->marked_run_ns = weir_max(ran, 1);
	if (!taskc || !taskc->marked_run_ns || ran <= taskc->marked_run_ns + WEIR_KERNEL_STAY_NS)
		return false;
	taskc->stay_ns = weir_min(ran - taskc->marked_run_ns, WEIR_KERNEL_PARK_MAX_NS);
	return true;
}

/* Whether the task on this CPU must give it up. Where that is not known, it must not. */
static bool needs_resched(void)
{
	const int *count;

	if (!bpf_ksym_exists(&__preempt_count))
		return false;
	count = bpf_this_cpu_ptr(&__preempt_count);
	return !(*count & PREEMPT_NEED_RESCHED);
}

/*
 * How deep the kernel's stack is, from a task's saved registers on, where a task that was interrupted in
 * user space calls the scheduler on its way back: 256 to 271 bytes on Linux 7.0. One that faulted and waits
 * is deeper by the calls of the memory management. Where frames are larger, no task is found on its way.
 */
#define WAY_BACK_STACK_BYTES	384

/*
 * Whether the current task was interrupted in user space, and is on its way back: it holds no lock. There it
 * calls the scheduler itself, because it must give up the CPU. That alone says little: a task that spins for
 * a mutex calls it too when it must give up the CPU (mutex_optimistic_spin), and one that waits may have
 * what it waits for by then. Both came by a system call, or are deeper in the kernel by a fault. @stack is
 * an address on the stack at that call.
 */
static bool is_on_way_back(u64 stack)
{
	struct task_struct *p = bpf_get_current_task_btf();
	struct pt_regs___x86 *regs;

	if (!needs_resched() || (p->flags & (PF_KTHREAD | PF_EXITING)))
		return false;
	regs = (void *)bpf_task_pt_regs(p);
	if (!bpf_core_field_exists(regs->orig_ax))
		return false;
	return BPF_CORE_READ(regs, orig_ax) < 0 && (u64)regs - stack <= WAY_BACK_STACK_BYTES;
}

/* The kernel's scheduler begins: to preempt a task inside the kernel, or by that task's own call. */
SEC("tp_btf/sched_entry_tp")
int BPF_PROG(weir_sched_entry, bool preempt)
{
	struct cpu_ctx *cpuc = cpu_ctx_of(bpf_get_smp_processor_id());

	cpuc->from_user_space = !preempt && is_on_way_back((u64)ctx);
	return 0;
}

static bool was_in_user_space(struct task_struct *p)
{
	return bpf_get_current_task_btf() == p && cpu_ctx_of(bpf_get_smp_processor_id())->from_user_space;
}

/* Whether a task may be parked here. If not, it is marked, and comes again at its return to user space. */
static bool may_park(struct task_struct *p)
{
	struct task_ctx *taskc = lookup_task_ctx(p);

	if (was_in_user_space(p)) {
		if (taskc)
			taskc->marked_run_ns = 0;
		return true;
	}
	return (taskc && taskc->returns_to_user) || stays_in_kernel(p);
}

/*
 * Ends the run of the task on a CPU: at once if it is in user space. Else it is marked there, and left alone
 * until it returns: preempted again and again, it would hold its locks while it waits for a CPU.
 */
static void end_run(s32 cpu)
{
	struct task_struct *curr, *p = NULL;
	struct task_ctx *taskc;

	bpf_rcu_read_lock();
	curr = scx_bpf_cpu_curr(cpu);
	if (curr)
		p = bpf_task_acquire(curr);
	bpf_rcu_read_unlock();
	if (!p)
		return;
	taskc = lookup_task_ctx(p);
	if (!taskc || !taskc->marked_run_ns || stays_in_kernel(p))
		scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
	bpf_task_release(p);
}

#endif /* WEIR_USER_RETURN_BPF_H */
