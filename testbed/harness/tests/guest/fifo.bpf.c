// SPDX-License-Identifier: GPL-2.0-only
/*
 * The least a sched_ext scheduler can do: one queue, in order of arrival, for tasks only
 * of policy SCHED_EXT. What weir's own scheduler costs is measured against it, so it has the same
 * callbacks: they do nothing else.
 *
 * No vmlinux.h: libbpf matches the members of struct_ops types by name.
 */

#include <linux/types.h>
#include <stdbool.h>
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#define SCX_OPS_SWITCH_PARTIAL	(1ULL << 3)
#define QUEUE			1

typedef __u32 u32;
typedef __s32 s32;
typedef __u64 u64;

char LICENSE[] SEC("license") = "GPL";

struct task_struct {
	int pid;
} __attribute__((preserve_access_index));

extern s32 scx_bpf_create_dsq(u64 dsq_id, s32 node) __ksym;
extern void scx_bpf_dsq_insert(struct task_struct *p, u64 dsq_id, u64 slice, u64 enq_flags) __ksym;
extern bool scx_bpf_dsq_move_to_local(u64 dsq_id) __ksym;

SEC("struct_ops/fifo_enqueue")
void BPF_PROG(fifo_enqueue, struct task_struct *p, u64 enq_flags)
{
	scx_bpf_dsq_insert(p, QUEUE, 4000000, enq_flags);
}

SEC("struct_ops/fifo_dispatch")
void BPF_PROG(fifo_dispatch, s32 cpu, struct task_struct *prev)
{
	scx_bpf_dsq_move_to_local(QUEUE);
}

SEC("struct_ops/fifo_running")
void BPF_PROG(fifo_running, struct task_struct *p)
{
}

SEC("struct_ops/fifo_stopping")
void BPF_PROG(fifo_stopping, struct task_struct *p, bool runnable)
{
}

SEC("struct_ops.s/fifo_init")
s32 BPF_PROG(fifo_init)
{
	return scx_bpf_create_dsq(QUEUE, -1);
}

struct sched_ext_ops {
	void (*enqueue)(struct task_struct *p, u64 enq_flags);
	void (*dispatch)(s32 cpu, struct task_struct *prev);
	void (*running)(struct task_struct *p);
	void (*stopping)(struct task_struct *p, bool runnable);
	s32 (*init)(void);
	u64 flags;
	char name[128];
};

SEC(".struct_ops.link")
struct sched_ext_ops fifo = {
	.enqueue = (void *)fifo_enqueue,
	.dispatch = (void *)fifo_dispatch,
	.running = (void *)fifo_running,
	.stopping = (void *)fifo_stopping,
	.init = (void *)fifo_init,
	.flags = SCX_OPS_SWITCH_PARTIAL,
	.name = "fifo_test",
};
