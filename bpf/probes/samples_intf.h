/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Interface of samples.bpf.c. crates/weir-linux/build.rs makes Rust of it.
 */
#ifndef WEIR_SAMPLES_INTF_H
#define WEIR_SAMPLES_INTF_H

/* Ranges of memory, and groups. */
#define MAX_RANGES	16
#define MAX_GROUPS	16
/* Cgroups or processes that are counted. */
#define MAX_KEYS	65536

/* A range of physical addresses, both ends included, and its group. */
struct memory_range {
	__u64 first;
	__u64 last;
	__u64 group;
};

/* All ranges. */
struct memory_ranges {
	__u64 count;
	struct memory_range ranges[MAX_RANGES];
};

/* Samples of one cgroup or process on a CPU, by group. */
struct sample_counts {
	__u64 by_group[MAX_GROUPS];
};

/* All samples of a CPU, by outcome. */
struct sample_stats {
	__u64 counted;
	__u64 without_address;
	__u64 elsewhere;
	__u64 from_cache;
	__u64 lost;
};

#endif
