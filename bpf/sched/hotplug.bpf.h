/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * CPU hotplug. A part of main.bpf.c; without the two callbacks the kernel would
 * unload the scheduler at each change.
 *
 * A CPU goes offline only when no task is queued there. By then it no longer calls
 * dispatch(), so a task bound to it would wait in our queue for the CPU, and the CPU
 * for the task. So all tasks queued for it move to its local queue; from there the
 * kernel migrates them and widens their affinity. The kernel itself puts later tasks
 * there.
 */
#ifndef WEIR_HOTPLUG_BPF_H
#define WEIR_HOTPLUG_BPF_H

GLOBAL_FN int hand_over_queue(u64 queue, u64 cpu)
{
	struct task_struct *p;

	bpf_rcu_read_lock();
	bpf_for_each(scx_dsq, p, queue, 0) {
		if ((u64)scx_bpf_task_cpu(p) == cpu)
			scx_bpf_dsq_move(FOR_EACH_ITER, p, SCX_DSQ_LOCAL_ON | cpu, 0);
	}
	bpf_rcu_read_unlock();
	return 0;
}

SEC("struct_ops/weir_cpu_online")
void BPF_PROG(weir_cpu_online, s32 cpu)
{
}

/* Parked tasks first: a tick may be releasing them meanwhile. */
SEC("struct_ops/weir_cpu_offline")
void BPF_PROG(weir_cpu_offline, s32 cpu)
{
	u32 i;

	cpu_ctx_of(cpu)->since = 0;
	bpf_for(i, 1, MAX_SLOTS)
		hand_over_queue(i, cpu);
	bpf_for(i, 0, full_mode ? MAX_QUEUES : 1)
		hand_over_queue(RUN_QUEUE + i, cpu);
}

#endif /* WEIR_HOTPLUG_BPF_H */
