/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The cgroup that a task counts for. In a delegated cgroup the owner makes others at will, of any depth and
 * number, and moves tasks between them at any time: all of them count for the topmost cgroup that is
 * delegated, which the daemon limits as one workload.
 *
 * The daemon says which cgroups these are and how deep the deepest lies. Levels above are root's, so no owner
 * of a delegated cgroup makes this search longer. What was found is kept for each cgroup, in a map that
 * forgets: thousands of cgroups that come and go cost their owner's neighbours nothing.
 */
#ifndef WEIR_DELEGATED_BPF_H
#define WEIR_DELEGATED_BPF_H

#include "ancestors.bpf.h"

/* Delegated cgroups, and cgroups of which it is kept where they count. */
#define MAX_DELEGATED	4096
#define MAX_FOUND	16384

struct found_cgroup {
	u64 id;
	u64 epoch;
};

/* By id. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_DELEGATED);
	__type(key, u64);
	__type(value, u64);
} delegated_cgroups SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, MAX_FOUND);
	__type(key, u64);
	__type(value, struct found_cgroup);
} found_cgroups SEC(".maps");

/* The deepest of them; 0: there are none. */
u64 delegated_level;
/* Another one each time that they change. */
u64 delegated_epoch;

/* Of cgroup @cgrp with this id. */
static __noinline u64 find_delegated(const struct cgroup *cgrp, u64 id)
{
	u32 levels = cgrp->level, level;
	u64 above;

	for (level = 1; level <= MAX_WORKLOAD_LEVEL; level++) {
		if (level > levels || level > delegated_level)
			break;
		above = id_of_ancestor(cgrp, level);
		if (bpf_map_lookup_elem(&delegated_cgroups, &above))
			return above;
	}
	return id;
}

/* Id of the cgroup that @task counts for. */
static __always_inline u64 workload_cgroup_id(const struct task_struct *task)
{
	const struct cgroup *cgrp = task->cgroups->dfl_cgrp->dom_cgrp;
	struct found_cgroup found, *known;
	u64 id = cgrp->kn->id;

	if (!delegated_level || !has_ancestors(cgrp))
		return id;
	known = bpf_map_lookup_elem(&found_cgroups, &id);
	if (known && known->epoch == delegated_epoch)
		return known->id;
	found.epoch = delegated_epoch;
	found.id = find_delegated(cgrp, id);
	bpf_map_update_elem(&found_cgroups, &id, &found, BPF_ANY);
	return found.id;
}

#endif /* WEIR_DELEGATED_BPF_H */
