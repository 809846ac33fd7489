// SPDX-License-Identifier: GPL-2.0-only
/*
 * The counters for BPF programs: kfunc weir_cxl_counter_read()
 *
 *   extern int weir_cxl_counter_read(int nid, bool write, __u64 *bytes) __ksym;
 *
 *   __u64 bytes = 0;
 *   if (!weir_cxl_counter_read(nid, false, &bytes))
 *           ... bytes read from the memory of NUMA node nid ...
 *
 * The thesis passes a NUMA node and gets the counter (5.1.4, 5.4.1); so here,
 * with an error beside the count, because "no such counter" is not "no
 * traffic". A node may hold several groups: their counts are added. Memory that two
 * devices count (hardware, and a simulation of it) is counted once, also where they
 * divide it differently (cover.h says whose groups are added).
 *
 * Programs call this from a scheduler with a run queue locked, or from an NMI.
 * So it takes no lock, does not sleep, and does a bounded number of MMIO reads
 * (one takes about a microsecond on hardware): nodes with more than
 * WEIR_BPF_GROUPS_MAX groups are refused. The way from a node to its groups is
 * a sorted array, made anew when a device comes or goes and read under RCU. The
 * removal of a device waits for the readers of the old array.
 *
 * A loaded program that calls the kfunc holds the module: rmmod says it is in use.
 */

#include <linux/bpf.h>
#include <linux/btf.h>
#include <linux/btf_ids.h>
#include <linux/module.h>
#include <linux/numa.h>
#include <linux/rcupdate.h>
#include <linux/slab.h>
#include <linux/sort.h>

#include "cover.h"
#include "weir_cxl.h"

#define WEIR_BPF_GROUPS_MAX	16

/**
 * struct weir_index - the groups whose counts are added for each node
 * @count: how many
 * @entries: ordered by node, then by address
 */
struct weir_index {
	u32 count;
	struct weir_node_group entries[] __counted_by(count);
};

/* Replaced under weir_cxl_lock, read under RCU. NULL without devices. */
static struct weir_index __rcu *weir_index;

static int weir_node_read(const struct weir_index *index, int nid, bool write, u64 *bytes)
{
	u32 first = weir_cover_node(index->entries, index->count, nid);
	u64 sum = 0, part;
	u32 i;
	int ret;

	for (i = first; i < index->count && index->entries[i].nid == nid; i++) {
		if (i - first == WEIR_BPF_GROUPS_MAX)
			return -E2BIG;
		if (!index->entries[i].cxl)
			return -EINVAL;
		ret = weir_cxl_read(index->entries[i].cxl, index->entries[i].group, write, &part);
		if (ret)
			return ret;
		sum += part;
	}
	if (i == first)
		return -ENODEV;

	*bytes = sum;
	return 0;
}

__bpf_kfunc_start_defs();

/**
 * weir_cxl_counter_read - bytes moved from or to the memory of a NUMA node
 * @nid: the node
 * @write: bytes written, else bytes read
 * @bytes: set to the count since the device was reset, modulo 2^64
 *
 * Return: 0; -ENODEV if no counter covers the node or its device is lost; -EBUSY while
 * the device is being reset; -E2BIG if more than 16 groups would be added; -EINVAL if groups
 * overlap so that no choice of them counts each byte once. @bytes is only set with 0.
 */
__bpf_kfunc int weir_cxl_counter_read(int nid, bool write, u64 *bytes)
{
	const struct weir_index *index;

	guard(rcu)();
	index = rcu_dereference(weir_index);
	return index ? weir_node_read(index, nid, write, bytes) : -ENODEV;
}

__bpf_kfunc_end_defs();

BTF_KFUNCS_START(weir_kfunc_ids)
BTF_ID_FLAGS(func, weir_cxl_counter_read)
BTF_KFUNCS_END(weir_kfunc_ids)

static const struct btf_kfunc_id_set weir_kfuncs = {
	.owner = THIS_MODULE,
	.set = &weir_kfunc_ids,
};

/**
 * weir_bpf_init - offer the kfunc to schedulers, system call and tracing programs
 *
 * Return: 0 or an error of the BPF subsystem. Taken back when the module goes.
 */
int weir_bpf_init(void)
{
	int ret;

	ret = register_btf_kfunc_id_set(BPF_PROG_TYPE_STRUCT_OPS, &weir_kfuncs);
	ret = ret ?: register_btf_kfunc_id_set(BPF_PROG_TYPE_SYSCALL, &weir_kfuncs);
	return ret ?: register_btf_kfunc_id_set(BPF_PROG_TYPE_TRACING, &weir_kfuncs);
}

/* NULL with *ret 0 is the index of no groups. */
static struct weir_index *weir_index_make(int *ret)
{
	struct weir_index *index;
	struct weir_cxl *cxl;
	u32 used = 0, i;

	*ret = 0;
	list_for_each_entry(cxl, &weir_cxl_devices, entry)
		used += cxl->group_count;
	if (!used)
		return NULL;
	index = kvzalloc(struct_size(index, entries, used), GFP_KERNEL);
	if (!index) {
		*ret = -ENOMEM;
		return NULL;
	}

	index->count = used;
	used = 0;
	list_for_each_entry(cxl, &weir_cxl_devices, entry) {
		for (i = 0; i < cxl->group_count; i++) {
			const struct weir_group *group = &cxl->groups[i];
			int nid = phys_to_target_node(group->base);

			if (nid == NUMA_NO_NODE)
				continue;
			index->entries[used++] = (struct weir_node_group) {
				.cxl = cxl,
				.base = group->base,
				.end = group->base + group->size_bytes,
				.device = cxl->id,
				.group = i,
				.nid = nid,
			};
		}
	}
	index->count = used;
	sort(index->entries, used, sizeof(index->entries[0]), weir_node_group_compare, NULL);
	index->count = weir_cover(index->entries, used);
	return index;
}

/**
 * weir_bpf_update - rebuild the index of nodes from weir_cxl_devices
 *
 * Called with weir_cxl_lock held. When it returns, no program reads a device
 * that is not in the list, also on failure; then no counters are found at all
 * until the next update.
 *
 * Return: 0 or -ENOMEM.
 */
int weir_bpf_update(void)
{
	struct weir_index *new, *old;
	int ret;

	new = weir_index_make(&ret);
	old = rcu_replace_pointer(weir_index, new, lockdep_is_held(&weir_cxl_lock));
	synchronize_rcu();
	kvfree(old);
	return ret;
}
