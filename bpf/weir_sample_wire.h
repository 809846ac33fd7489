/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the sampling program and the daemon tell each other. The other side is
 * crates/weir-linux/src/shares/samples/wire.rs; a test compares the two.
 */
#ifndef WEIR_SAMPLE_WIRE_H
#define WEIR_SAMPLE_WIRE_H

/* Pieces of memory that are looked for, and groups that are told apart. */
#define WEIR_RANGES	16
#define WEIR_PLACES	16
/* Cgroups or processes that are told apart. */
#define WEIR_TAKERS	65536

/* A piece of physical memory, both ends within, and the group that it belongs to. */
struct weir_range {
	__u64 first;
	__u64 last;
	__u64 place;
};

/* All of them. */
struct weir_ranges {
	__u64 count;
	struct weir_range of[WEIR_RANGES];
};

/* Somebody's samples on a CPU, by group. */
struct weir_taken {
	__u64 of[WEIR_PLACES];
};

/* What became of all samples of a CPU. */
struct weir_fate {
	__u64 taken;
	__u64 without_address;
	__u64 elsewhere;
	__u64 from_cache;
	__u64 lost;
};

#endif
