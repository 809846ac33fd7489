/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What is kept for people: what queueing costs, and why the scheduler left the kernel.
 * A part of weir.bpf.c.
 */
#ifndef WEIR_BOOKS_BPF_H
#define WEIR_BOOKS_BPF_H

/*
 * How long queueing takes is measured now and then: a look at the clock costs as much as the rest.
 */
#define TIMED_EVERY	64

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct weir_cost);
} weir_costs SEC(".maps");

/* When this one began, if it is to be timed; else 0. */
static u64 begin_enqueue(void)
{
	u32 zero = 0;
	struct weir_cost *cost = bpf_map_lookup_elem(&weir_costs, &zero);

	return cost && !(cost->enqueues++ % TIMED_EVERY) ? bpf_ktime_get_ns() : 0;
}

static void end_enqueue(u64 begun)
{
	u32 zero = 0;
	struct weir_cost *cost;
	u64 ns;

	if (!begun)
		return;
	cost = bpf_map_lookup_elem(&weir_costs, &zero);
	if (!cost)
		return;
	ns = bpf_ktime_get_ns() - begun;
	cost->timed++;
	cost->timed_ns += ns;
	cost->worst_ns = weir_max(cost->worst_ns, ns);
}

ARRAY(weir_end, 1, struct weir_end);

SEC("struct_ops/weir_exit")
void BPF_PROG(weir_exit, struct scx_exit_info *info)
{
	struct weir_end *end;
	u32 zero = 0;

	end = bpf_map_lookup_elem(&weir_end, &zero);
	if (!end)
		return;
	bpf_probe_read_kernel_str(end->reason, sizeof(end->reason), info->reason);
	bpf_probe_read_kernel_str(end->message, sizeof(end->message), info->msg);
	bpf_probe_read_kernel_str(end->dump, sizeof(end->dump), info->dump);
	end->code = info->exit_code;
	end->kind = info->kind;
}

#endif /* WEIR_BOOKS_BPF_H */
