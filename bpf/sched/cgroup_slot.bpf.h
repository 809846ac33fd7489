/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * From a task to the slot of its workload. A part of main.bpf.c.
 */
#ifndef WEIR_CGROUP_SLOT_BPF_H
#define WEIR_CGROUP_SLOT_BPF_H

/*
 * A task's slot is cached in its scx.dsq_vtime, which FIFO queues do not use: a word of the task itself
 * costs no lookup. From the top: id of the cgroup (32 bits), epoch of cgroup_to_workload (24), slot (8).
 */
#define TAG_SLOT	0xffULL
#define TAG_EPOCH	0xffffffULL

/* The tag of a valid cache: it changes with the task's cgroup and with the map. */
static u64 cgroup_tag(struct task_struct *p)
{
	u64 cgroup = task_cgroup_id(p);
	struct heartbeat *hb = daemon_heartbeat();

	return cgroup << 32 | ((hb ? hb->epoch : 0) & TAG_EPOCH) << 8;
}

/*
 * The entry of the cgroup of a task, or of a cgroup above it: one that is delegated is one workload, and has
 * an entry for all that its owner makes below it. No entry stands above another one.
 */
static __noinline u64 *find_workload(struct task_struct *p)
{
	const struct cgroup *cgrp = p->cgroups->dfl_cgrp->dom_cgrp;
	u64 cgroup = cgrp->kn->id;
	u64 *found = bpf_map_lookup_elem(&cgroup_to_workload, &cgroup);
	u32 level, levels = cgrp->level;

	if (found || !has_ancestors(cgrp))
		return found;
	for (level = 1; level <= MAX_WORKLOAD_LEVEL && level < levels; level++) {
		cgroup = id_of_ancestor(cgrp, level);
		found = bpf_map_lookup_elem(&cgroup_to_workload, &cgroup);
		if (found)
			return found;
	}
	return NULL;
}

/* Finds the cgroup's slot in the map and fills the cache. */
static __noinline u64 resolve_slot(struct task_struct *p, u64 tag)
{
	u64 *found = find_workload(p);
	u64 slot = found ? *found & SLOT_MASK : NO_SLOT;

	scx_bpf_task_set_dsq_vtime(p, tag | slot);
	return slot;
}

static u64 slot_of(struct task_struct *p)
{
	u64 tag = cgroup_tag(p), known = p->scx.dsq_vtime;

	if ((known & ~TAG_SLOT) == tag)
		return known & TAG_SLOT;
	return resolve_slot(p, tag);
}

/* The cached slot, valid or not: that of the time when the task became runnable. */
static u64 cached_slot(struct task_struct *p)
{
	return p->scx.dsq_vtime & TAG_SLOT;
}

/* A task enters the scheduler. Its tag may be left from an earlier load, with the same epochs. */
SEC("struct_ops/weir_enable")
void BPF_PROG(weir_enable, struct task_struct *p)
{
	resolve_slot(p, cgroup_tag(p));
}

#endif /* WEIR_CGROUP_SLOT_BPF_H */
