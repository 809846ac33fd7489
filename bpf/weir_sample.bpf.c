// SPDX-License-Identifier: GPL-2.0-only
/*
 * Whose samples are of device memory: an event of each CPU is sampled with the
 * physical address of what was accessed, and samples within the memory of a
 * group are counted for who ran, by group.
 *
 *   sample ──► physical address ──► whose memory? ──► sum of its cgroup or
 *                                                     process (per CPU)
 *
 * The kernel prepares a sample before it runs the program since Linux 6.3; nothing
 * is handed on to the ring buffer. With PEBS and IBS this runs in an NMI: maps
 * of hashes that are per CPU, and nothing else.
 */

#include "weir_kernel.h"
#include "weir_sample_wire.h"

char LICENSE[] SEC("license") = "GPL";

/* Of linux/perf_event.h. */
#define SAMPLE_DATA_SRC		(1U << 15)
#define SAMPLE_PHYS_ADDR	(1U << 19)
/* mem_lvl_num of a data source, and its values that are caches. */
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
const volatile u64 weir_by_process;

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct weir_ranges);
} weir_memory SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_HASH);
	__uint(max_entries, WEIR_TAKERS);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, u64);
	__type(value, struct weir_taken);
} weir_samples SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct weir_fate);
} weir_fates SEC(".maps");

static __always_inline bool is_from_cache(const struct perf_sample_data *data)
{
	if (!(data->sample_flags & SAMPLE_DATA_SRC))
		return false;
	return LEVELS_OF_CACHES >> (data->data_src.val >> LEVEL_SHIFT & LEVEL_MASK) & 1;
}

/* Whose memory it is; WEIR_PLACES for nobody's. */
static __always_inline u64 place_of(u64 address)
{
	const struct weir_ranges *all;
	u32 zero = 0;
	int i;

	all = bpf_map_lookup_elem(&weir_memory, &zero);
	if (!all)
		return WEIR_PLACES;
	for (i = 0; i < WEIR_RANGES; i++) {
		if (i >= all->count)
			break;
		if (address >= all->of[i].first && address <= all->of[i].last)
			return all->of[i].place;
	}
	return WEIR_PLACES;
}

static __always_inline bool take(u64 place)
{
	struct weir_taken none = {};
	struct weir_taken *sum;
	u64 key;

	key = weir_by_process ? bpf_get_current_pid_tgid() >> 32 : weir_cgroup_id(bpf_get_current_task_btf());
	sum = bpf_map_lookup_elem(&weir_samples, &key);
	if (!sum) {
		bpf_map_update_elem(&weir_samples, &key, &none, BPF_NOEXIST);
		sum = bpf_map_lookup_elem(&weir_samples, &key);
	}
	if (!sum || place >= WEIR_PLACES)
		return false;
	sum->of[place]++;
	return true;
}

SEC("perf_event")
int weir_sample_memory(void *ctx)
{
	struct bpf_perf_event_data_kern *kernel = bpf_cast_to_kern_ctx(ctx);
	const struct perf_sample_data *data = kernel->data;
	struct weir_fate *fate;
	u64 address, place;
	u32 zero = 0;

	fate = bpf_map_lookup_elem(&weir_fates, &zero);
	if (!fate)
		return 0;
	address = data->sample_flags & SAMPLE_PHYS_ADDR ? data->phys_addr : 0;
	if (!address) {
		fate->without_address++;
		return 0;
	}
	place = place_of(address);
	if (place >= WEIR_PLACES)
		fate->elsewhere++;
	else if (is_from_cache(data))
		fate->from_cache++;
	else if (take(place))
		fate->taken++;
	else
		fate->lost++;
	return 0;
}
