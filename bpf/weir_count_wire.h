/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the counting program and the daemon tell each other. The other side is
 * crates/weir-linux/src/shares/wire.rs; a test compares the two.
 */
#ifndef WEIR_COUNT_WIRE_H
#define WEIR_COUNT_WIRE_H

/* Events that are read at each switch, at most. */
#define WEIR_COUNTED	2
/* Cgroups that can be told apart. */
#define WEIR_KEYS	65536

/* What somebody did while it ran: counts of the first and the second event, how
 * long each was to count, and how long it did. */
struct weir_sum {
	__u64 first;
	__u64 first_enabled_ns;
	__u64 first_running_ns;
	__u64 second;
	__u64 second_enabled_ns;
	__u64 second_running_ns;
};

/* What a CPU is at: key is of who runs (0: nobody), known says whether `last`
 * was read, lost counts runs that could not be given to anybody. */
struct weir_turn {
	__u64 key;
	__u64 known;
	__u64 lost;
	struct weir_sum last;
};

#endif
