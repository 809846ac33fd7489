/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Which groups are added, so that each byte of a node is counted once
 *
 * Several devices may count the same memory (hardware, and a simulation of it), and may
 * divide it differently: one has a group of 4 GiB where another has four of 1 GiB. A
 * count cannot be split, so whole groups are chosen:
 *
 *  1. groups of a node that overlap, directly or through others, are a run. Its memory has
 *     no holes;
 *  2. of the chains of groups that begin at the run's first byte and end at its last one,
 *     each group beginning where the one before ends, that with the fewest groups is
 *     taken: a read of the node costs an MMIO read for each;
 *  3. among equals the device with the lower number wins, from the first byte on, then its
 *     group with the lower number.
 *
 * A run without such a chain cannot be counted right: some of its memory would be counted
 * twice or not at all. It is kept as one entry without a device, so that reading the
 * node fails instead of giving a wrong sum.
 *
 * Time: n log n. No kernel function is called here: user space (tests/cover_test.c)
 * compiles the same text.
 */
#ifndef WEIR_COVER_H
#define WEIR_COVER_H

#include <linux/types.h>

struct weir_cxl;

/* No entry follows. */
#define WEIR_COVER_NONE	((u32)~0)

/**
 * struct weir_node_group - says that a group's memory is of a node
 * @cxl: the device; NULL: the memory cannot be counted once
 * @base: address of its first byte
 * @end: address behind its last byte
 * @device: number of the device
 * @group: the group
 * @nid: the node
 * @next: for weir_cover(): the best entry that begins where this one ends
 * @best: for weir_cover(): the best entry that begins where this one begins, in the first of those
 * @length: for weir_cover(): groups from this one to the end of its run; 0: it leads to no end
 */
struct weir_node_group {
	struct weir_cxl *cxl;
	u64 base;
	u64 end;
	u32 device;
	u32 group;
	int nid;
	u32 next;
	u32 best;
	u32 length;
};

/* Order of entries, for sort(): by node, address, device and group. */
static inline int weir_node_group_compare(const void *a, const void *b)
{
	const struct weir_node_group *left = a, *right = b;

	if (left->nid != right->nid)
		return left->nid < right->nid ? -1 : 1;
	if (left->base != right->base)
		return left->base < right->base ? -1 : 1;
	if (left->device != right->device)
		return left->device < right->device ? -1 : 1;
	if (left->group != right->group)
		return left->group < right->group ? -1 : 1;
	return 0;
}

/* The first entry of [first, behind) that begins at @base; WEIR_COVER_NONE if none does. */
static inline u32 weir_cover_find(const struct weir_node_group *entries, u32 first, u32 behind,
				  u64 base)
{
	u32 low = first, high = behind;

	while (low < high) {
		u32 middle = low + (high - low) / 2;

		if (entries[middle].base < base)
			low = middle + 1;
		else
			high = middle;
	}
	return low < behind && entries[low].base == base ? low : WEIR_COVER_NONE;
}

/* Sets next, best and length in a run, from its end: what follows an entry is done before it. */
static inline void weir_cover_chains(struct weir_node_group *entries, u32 first, u32 behind,
				     u64 end)
{
	u32 i, j, found;

	for (i = behind; i-- > first;) {
		struct weir_node_group *entry = &entries[i];

		entry->next = WEIR_COVER_NONE;
		entry->best = WEIR_COVER_NONE;
		entry->length = entry->end == end;
		found = weir_cover_find(entries, i + 1, behind, entry->end);
		if (found != WEIR_COVER_NONE && entries[found].best != WEIR_COVER_NONE) {
			entry->next = entries[found].best;
			entry->length = entries[entry->next].length + 1;
		}
		if (i > first && entries[i - 1].base == entry->base)
			continue;
		for (j = i; j < behind && entries[j].base == entry->base; j++) {
			if (entries[j].length &&
			    (entry->best == WEIR_COVER_NONE ||
			     entries[j].length < entries[entry->best].length))
				entry->best = j;
		}
	}
}

/**
 * weir_cover - leave the entries whose groups are added
 * @entries: ordered by weir_node_group_compare()
 * @count: how many
 *
 * Return: how many are left, at the beginning of @entries and in the same order.
 */
static inline u32 weir_cover(struct weir_node_group *entries, u32 count)
{
	u32 kept = 0, first, behind, i;

	for (first = 0; first < count; first = behind) {
		u64 end = entries[first].end;

		for (behind = first + 1; behind < count; behind++) {
			if (entries[behind].nid != entries[first].nid ||
			    entries[behind].base >= end)
				break;
			if (entries[behind].end > end)
				end = entries[behind].end;
		}
		weir_cover_chains(entries, first, behind, end);
		i = entries[first].best;
		if (i == WEIR_COVER_NONE) {
			entries[kept] = entries[first];
			entries[kept].cxl = NULL;
			entries[kept++].end = end;
			continue;
		}
		while (i != WEIR_COVER_NONE) {
			/* An entry is kept at or before its own place: what follows is intact. */
			u32 next = entries[i].next;

			entries[kept++] = entries[i];
			i = next;
		}
	}
	return kept;
}

/* The first entry of a node or of the next higher one. */
static inline u32 weir_cover_node(const struct weir_node_group *entries, u32 count, int nid)
{
	u32 low = 0, high = count;

	while (low < high) {
		u32 middle = low + (high - low) / 2;

		if (entries[middle].nid < nid)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

#endif /* WEIR_COVER_H */
