/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef WEIR_ANCESTORS_BPF_H
#define WEIR_ANCESTORS_BPF_H

#include <bpf/bpf_core_read.h>

/* A delegated cgroup below more levels than this is no workload of its own: all in it have their own. */
#define MAX_WORKLOAD_LEVEL	16

/* Whether the kernel keeps the ancestors of a cgroup in a list (Linux 6.1). */
static __always_inline bool has_ancestors(const struct cgroup *cgrp)
{
	return bpf_core_field_exists(cgrp->ancestors);
}

/* Id of the cgroup at this level above @cgrp, or of itself; 0 if it cannot be read. */
static __always_inline u64 id_of_ancestor(const struct cgroup *cgrp, u32 level)
{
	struct cgroup *above = NULL;

	if (bpf_probe_read_kernel(&above, sizeof(above), &cgrp->ancestors[level]) || !above)
		return 0;
	return BPF_CORE_READ(above, kn, id);
}

#endif /* WEIR_ANCESTORS_BPF_H */
