/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Statistics: cost of enqueueing, and why the scheduler left the kernel. A part of main.bpf.c.
 */
#ifndef WEIR_STATS_BPF_H
#define WEIR_STATS_BPF_H

/*
 * One enqueue in so many is timed: reading the clock costs as much as the rest.
 */
#define TIMED_ONE_IN	64

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct enqueue_stats);
} enqueue_stats SEC(".maps");

/* Start time of this enqueue if it is timed, else 0. */
static u64 enqueue_timing_begin(void)
{
	u32 zero = 0;
	struct enqueue_stats *es = bpf_map_lookup_elem(&enqueue_stats, &zero);

	return es && !(es->enqueues++ % TIMED_ONE_IN) ? bpf_ktime_get_ns() : 0;
}

static void enqueue_timing_end(u64 begun)
{
	u32 zero = 0;
	struct enqueue_stats *es;
	u64 ns;

	if (!begun)
		return;
	es = bpf_map_lookup_elem(&enqueue_stats, &zero);
	if (!es)
		return;
	ns = bpf_ktime_get_ns() - begun;
	es->timed++;
	es->timed_ns += ns;
	es->worst_ns = weir_max(es->worst_ns, ns);
}

ARRAY(exit_info, 1, struct user_exit_info);

SEC("struct_ops/weir_exit")
void BPF_PROG(weir_exit, struct scx_exit_info *info)
{
	struct user_exit_info *uei;
	u32 zero = 0;

	uei = bpf_map_lookup_elem(&exit_info, &zero);
	if (!uei)
		return;
	bpf_probe_read_kernel_str(uei->reason, sizeof(uei->reason), info->reason);
	bpf_probe_read_kernel_str(uei->message, sizeof(uei->message), info->msg);
	bpf_probe_read_kernel_str(uei->dump, sizeof(uei->dump), info->dump);
	uei->code = info->exit_code;
	uei->kind = info->kind;
}

#endif /* WEIR_STATS_BPF_H */
