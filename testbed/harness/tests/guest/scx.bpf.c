// SPDX-License-Identifier: GPL-2.0-only
/*
 * The smallest sched_ext scheduler: no decision of its own, so the kernel's
 * defaults serve one queue in order. The test needs only that it is loaded.
 *
 *   -DFULL      every ordinary task is scheduled by it
 *   -DPARTIAL   only tasks of policy SCHED_EXT are: none here
 *
 * No vmlinux.h: libbpf matches the members of struct_ops types by name.
 */

#include <linux/types.h>
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#define SCX_OPS_SWITCH_PARTIAL	(1ULL << 3)

char LICENSE[] SEC("license") = "GPL";

SEC("struct_ops.s/scx_init")
int BPF_PROG(scx_init)
{
	return 0;
}

struct sched_ext_ops {
	int (*init)(void);
	__u64 flags;
	char name[128];
};

SEC(".struct_ops.link")
struct sched_ext_ops weir_scx = {
	.init = (void *)scx_init,
#ifdef PARTIAL
	.flags = SCX_OPS_SWITCH_PARTIAL,
	.name = "partial_test",
#else
	.name = "full_test",
#endif
};
