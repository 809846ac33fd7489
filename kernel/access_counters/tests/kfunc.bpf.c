// SPDX-License-Identifier: GPL-2.0-only
/*
 * Calls the kfunc from each kind of program it is offered to, and leaves what
 * came back in one array map. run-in-guest.sh loads this with bpftool, sets the
 * node in slot 0 and reads the other slots.
 *
 *   slot 0: the node to read
 *   slot 1, 2, 3: result, bytes read, bytes written, from a tracing program
 *   slot 4, 5, 6: the same from a sched_ext scheduler's init
 *   slot 7: how often the tracing program ran
 *
 * The system call program is only loaded: bpftool cannot run that type.
 *
 * No vmlinux.h: libbpf matches the members of struct_ops types by name.
 */

#include <linux/types.h>
#include <stdbool.h>
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#define SCX_OPS_SWITCH_PARTIAL	(1ULL << 3)

char LICENSE[] SEC("license") = "GPL";

extern int weir_cxl_counter_read(int nid, bool write, __u64 *bytes) __ksym;

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 8);
	__uint(pinning, LIBBPF_PIN_BY_NAME);	/* one map for all loads */
	__type(key, __u32);
	__type(value, __u64);
} weir_slots SEC(".maps");

static void put(__u32 slot, __u64 value)
{
	bpf_map_update_elem(&weir_slots, &slot, &value, BPF_ANY);
}

static int read_node(__u32 first)
{
	__u64 reads = 0, writes = 0, *nid;
	__u32 slot = 0;
	int ret;

	nid = bpf_map_lookup_elem(&weir_slots, &slot);
	if (!nid)
		return -1;
	ret = weir_cxl_counter_read(*nid, false, &reads);
	if (!ret)
		ret = weir_cxl_counter_read(*nid, true, &writes);
	put(first, (__s64)ret);
	put(first + 1, reads);
	put(first + 2, writes);
	return ret;
}

SEC("fentry/do_nanosleep")
int BPF_PROG(weir_trace)
{
	__u32 slot = 7;
	__u64 *runs;

	read_node(1);
	runs = bpf_map_lookup_elem(&weir_slots, &slot);
	if (runs)
		__sync_fetch_and_add(runs, 1);
	return 0;
}

SEC("syscall")
int weir_syscall(void *ctx)
{
	__u64 bytes = 0;

	return weir_cxl_counter_read(0, false, &bytes);
}

SEC("struct_ops.s/weir_init")
int BPF_PROG(weir_init)
{
	read_node(4);
	return 0;
}

struct sched_ext_ops {
	int (*init)(void);
	__u64 flags;
	char name[128];
};

/* Partial: it schedules no task, since none has the policy SCHED_EXT. */
SEC(".struct_ops.link")
struct sched_ext_ops weir_scx = {
	.init = (void *)weir_init,
	.flags = SCX_OPS_SWITCH_PARTIAL,
	.name = "weir_kfunc_test",
};
