/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Whose a task is. A part of weir.bpf.c.
 */
#ifndef WEIR_WHOSE_BPF_H
#define WEIR_WHOSE_BPF_H

/*
 * Whose a task is stands in its scx.dsq_vtime, which queues in order of arrival do not use: a word of the
 * task itself costs no look-up. From the top: the cgroup's number (32 bits), the epoch of owners (24), the slot (8).
 */
#define STAMP_SLOT	0xffULL
#define STAMP_EPOCH	0xffffffULL

/* What a task's stamp has to be: it changes with its cgroup and with the owners. */
static u64 stamp_of(struct task_struct *p)
{
	u64 cgroup = weir_cgroup_id(p);
	struct weir_beat *beat = beat_of_daemon();

	return cgroup << 32 | ((beat ? beat->epoch : 0) & STAMP_EPOCH) << 8;
}

/* By the cgroup, which may have changed since the last time, as may the owners. */
static __noinline u64 find_slot(struct task_struct *p, u64 stamp)
{
	u64 cgroup = weir_cgroup_id(p);
	u64 *found = bpf_map_lookup_elem(&weir_owners, &cgroup);
	u64 slot = found ? *found & SLOT_MASK : NO_SLOT;

	scx_bpf_task_set_dsq_vtime(p, stamp | slot);
	return slot;
}

static u64 slot_of(struct task_struct *p)
{
	u64 stamp = stamp_of(p), known = p->scx.dsq_vtime;

	if ((known & ~STAMP_SLOT) == stamp)
		return known & STAMP_SLOT;
	return find_slot(p, stamp);
}

/* The same without a look at its cgroup: as it was when the task became runnable. */
static u64 slot_then(struct task_struct *p)
{
	return p->scx.dsq_vtime & STAMP_SLOT;
}

/* It comes here. A stamp may be left from another life of this scheduler, whose epochs began like ours. */
SEC("struct_ops/weir_enable")
void BPF_PROG(weir_enable, struct task_struct *p)
{
	find_slot(p, stamp_of(p));
}

#endif /* WEIR_WHOSE_BPF_H */
