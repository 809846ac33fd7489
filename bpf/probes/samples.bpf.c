// SPDX-License-Identifier: GPL-2.0-only
/*
 * Samples of accesses to device memory, by workload: an event of each CPU is sampled
 * with the physical address of the access. Samples within the memory of a group are
 * counted for the cgroup or process that ran.
 *
 *   sample ──► physical address ──► group ──► count of the cgroup or
 *                                             process (per CPU)
 *
 * Since Linux 6.3 the kernel prepares a sample before it runs the program; nothing
 * goes to the ring buffer. With PEBS and IBS the program runs in an NMI, so it uses
 * per-CPU hash maps only.
 */

#include "vmlinux_min.h"
#include "delegated.bpf.h"
#include "samples_intf.h"

char LICENSE[] SEC("license") = "GPL";

/* Of linux/perf_event.h. */
#define SAMPLE_DATA_SRC		(1U << 15)
#define SAMPLE_PHYS_ADDR	(1U << 19)
/* mem_lvl_num of a data source, and its values for caches. */
#define LEVEL_SHIFT		33
#define LEVEL_MASK		0xf
#define LEVELS_OF_CACHES	(0x7e | 1 << 0xb | 1 << 0xc)

union perf_mem_data_src {
	u64 val;
} CORE;

struct perf_sample_data {
	u64 sample_flags;
	union perf_mem_data_src data_src;
	u64 phys_addr;
} CORE;

struct bpf_perf_event_data_kern {
	struct perf_sample_data *data;
} CORE;

extern void *bpf_cast_to_kern_ctx(void *) __ksym;

/* Set before loading. */
const volatile u64 by_process;

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct memory_ranges);
} device_memory SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_HASH);
	__uint(max_entries, MAX_KEYS);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, u64);
	__type(value, struct sample_counts);
} sample_counts SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct sample_stats);
} sample_stats SEC(".maps");

static __always_inline bool is_from_cache(const struct perf_sample_data *data)
{
	if (!(data->sample_flags & SAMPLE_DATA_SRC))
		return false;
	return LEVELS_OF_CACHES >> (data->data_src.val >> LEVEL_SHIFT & LEVEL_MASK) & 1;
}

/* The group with this address; MAX_GROUPS for none. */
static __always_inline u64 group_of(u64 address)
{
	const struct memory_ranges *all;
	u32 zero = 0;
	int i;

	all = bpf_map_lookup_elem(&device_memory, &zero);
	if (!all)
		return MAX_GROUPS;
	for (i = 0; i < MAX_RANGES; i++) {
		if (i >= all->count)
			break;
		if (address >= all->ranges[i].first && address <= all->ranges[i].last)
			return all->ranges[i].group;
	}
	return MAX_GROUPS;
}

static __always_inline bool count_sample(u64 group)
{
	struct sample_counts none = {};
	struct sample_counts *sum;
	u64 key;

	key = by_process ? bpf_get_current_pid_tgid() >> 32 :
			   workload_cgroup_id(bpf_get_current_task_btf());
	sum = bpf_map_lookup_elem(&sample_counts, &key);
	if (!sum) {
		bpf_map_update_elem(&sample_counts, &key, &none, BPF_NOEXIST);
		sum = bpf_map_lookup_elem(&sample_counts, &key);
	}
	if (!sum || group >= MAX_GROUPS)
		return false;
	sum->by_group[group]++;
	return true;
}

SEC("perf_event")
int weir_sample_memory(void *ctx)
{
	struct bpf_perf_event_data_kern *kernel = bpf_cast_to_kern_ctx(ctx);
	const struct perf_sample_data *data = kernel->data;
	struct sample_stats *stats;
	u64 address, group;
	u32 zero = 0;

	stats = bpf_map_lookup_elem(&sample_stats, &zero);
	if (!stats)
		return 0;
	address = data->sample_flags & SAMPLE_PHYS_ADDR ? data->phys_addr : 0;
	if (!address) {
		stats->without_address++;
		return 0;
	}
	group = group_of(address);
	if (group >= MAX_GROUPS)
		stats->elsewhere++;
	else if (is_from_cache(data))
		stats->from_cache++;
	else if (count_sample(group))
		stats->counted++;
	else
		stats->lost++;
	return 0;
}
