/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * CPUs come and go. A part of weir.bpf.c; without the two callbacks the kernel
 * would take the scheduler out each time.
 *
 * A CPU that is to leave waits until nobody is queued there any more. It asks no
 * scheduler for tasks by then, so who may run nowhere else would wait in a queue
 * of ours for the CPU, and the CPU for him. So all that are queued there are handed
 * to the CPU itself, from where the kernel moves them, and their affinity, on. Who
 * comes later is put there by the kernel.
 */
#ifndef WEIR_CPUS_BPF_H
#define WEIR_CPUS_BPF_H

ALONE int weir_hand_over(u64 queue, u64 cpu)
{
	struct task_struct *p;

	bpf_rcu_read_lock();
	bpf_for_each(scx_dsq, p, queue, 0) {
		if ((u64)scx_bpf_task_cpu(p) == cpu)
			scx_bpf_dsq_move(THIS_ITER, p, SCX_DSQ_LOCAL_ON | cpu, 0);
	}
	bpf_rcu_read_unlock();
	return 0;
}

SEC("struct_ops/weir_cpu_online")
void BPF_PROG(weir_cpu_online, s32 cpu)
{
}

/* Parked ones first: a tick may be letting them in meanwhile. */
SEC("struct_ops/weir_cpu_offline")
void BPF_PROG(weir_cpu_offline, s32 cpu)
{
	u32 i;

	cpu_of(cpu)->since = 0;
	bpf_for(i, 1, WEIR_SLOTS)
		weir_hand_over(i, cpu);
	bpf_for(i, 0, weir_is_full ? WEIR_QUEUES : 1)
		weir_hand_over(RUN_QUEUE + i, cpu);
}

#endif /* WEIR_CPUS_BPF_H */
