// SPDX-License-Identifier: GPL-2.0-only
/*
 * cover.h in user space, on seeded random divisions of a node's memory
 *
 *   cc -o cover_test cover_test.c && ./cover_test FIRST_SEED SEEDS
 *
 * Each division is compared with what trying all subsets of its groups gives: whether
 * some of them count each byte of the memory exactly once, and with how few. So nothing of
 * cover.h judges itself. Status 1, and the seed with its groups, at the first difference.
 * The last line counts the runs of overlapping groups that have such a choice and those
 * that have none.
 */
#include <linux/types.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef __u32 u32;
typedef __u64 u64;

#include "../cover.h"

/* All subsets are tried: 2^14 of them. */
#define GROUPS_MAX	14
/*
 * Memory of both nodes, in the units that boundaries fall on; one bit each, those of node 1 behind
 * those of node 0.
 */
#define UNITS		32
/* Where node 1 begins: a group that begins before is of node 0, wherever it ends. */
#define NODE_1_UNIT	5
#define UNIT_BYTES	(1ULL << 30)

static u64 state;

/* xorshift64*, so that a seed means the same everywhere. */
static u32 chance(u32 below)
{
	state ^= state >> 12;
	state ^= state << 25;
	state ^= state >> 27;
	return ((state * 2685821657736338717ULL) >> 33) % below;
}

/* Memory as the driver has none: any address says which device it is. */
static struct weir_cxl *device_of(u32 number)
{
	return (struct weir_cxl *)(uintptr_t)(number + 1);
}

static u32 bits_of(const struct weir_node_group *entry)
{
	u64 first = entry->base / UNIT_BYTES, behind = entry->end / UNIT_BYTES;

	return (u32)(((1ULL << behind) - (1ULL << first)) << (entry->nid * UNITS / 2));
}

/* One device divides [from, to), with holes now and then. */
static u32 divide(struct weir_node_group *entries, u32 used, u32 device, u32 from, u32 to)
{
	u32 group = 0;

	while (from < to && used < GROUPS_MAX) {
		u32 size = 1 + chance(to - from);

		if (chance(8))
			entries[used++] = (struct weir_node_group) {
				.cxl = device_of(device), .device = device, .group = group++,
				.base = from * UNIT_BYTES, .end = (from + size) * UNIT_BYTES,
				.nid = from >= NODE_1_UNIT,
			};
		from += size;
	}
	return used;
}

static u32 made(struct weir_node_group *entries, u64 seed)
{
	u32 devices, device, used = 0;

	state = seed * 0x9e3779b97f4a7c15ULL + 1;
	devices = 1 + chance(4);
	for (device = 0; device < devices; device++) {
		/* Half of them divide all of the memory, as the hardware and a simulation do. */
		u32 from = 0, to = 8;

		if (chance(2)) {
			from = chance(7);
			to = from + 1 + chance(8 - from);
		}
		used = divide(entries, used, device, from, to);
	}
	return used;
}

/* Fewest groups that count each byte of @memory once; 0: no choice does. */
static u32 fewest(const struct weir_node_group *entries, u32 count, u32 memory)
{
	u32 subset, best = 0;

	for (subset = 1; subset < 1u << count; subset++) {
		u32 covered = 0, size = 0, i;

		for (i = 0; i < count; i++) {
			if (!(subset & 1u << i))
				continue;
			if (covered & bits_of(&entries[i]) || bits_of(&entries[i]) & ~memory)
				break;
			covered |= bits_of(&entries[i]);
			size++;
		}
		if (i == count && covered == memory && (!best || size < best))
			best = size;
	}
	return best;
}

static int fail(u64 seed, const char *what, const struct weir_node_group *entries, u32 count)
{
	u32 i;

	printf("seed %llu: %s\n", (unsigned long long)seed, what);
	for (i = 0; i < count; i++)
		printf("  node %d device %u group %u: %u to %u\n", entries[i].nid,
		       entries[i].device, entries[i].group, (u32)(entries[i].base / UNIT_BYTES),
		       (u32)(entries[i].end / UNIT_BYTES));
	return 1;
}

/* The memory that overlaps with bit @unit, through others too. */
static u32 run_of(const struct weir_node_group *entries, u32 count, u32 unit)
{
	u32 run = 1u << unit, before, i;

	do {
		before = run;
		for (i = 0; i < count; i++)
			if (bits_of(&entries[i]) & run)
				run |= bits_of(&entries[i]);
	} while (run != before);
	return run;
}

/* Of each run: what was kept counts its bytes once, with as few groups as can be, or is refused. */
static int check(u64 seed, u32 *solved, u32 *unsolved)
{
	struct weir_node_group all[GROUPS_MAX], kept[GROUPS_MAX];
	u32 count = made(all, seed), left, done = 0, unit, i, memory = 0;

	qsort(all, count, sizeof(all[0]), weir_node_group_compare);
	memcpy(kept, all, sizeof(all));
	left = weir_cover(kept, count);
	for (i = 0; i < count; i++)
		memory |= bits_of(&all[i]);
	for (unit = 0; unit < UNITS; unit++) {
		u32 run, wanted, groups = 0, used = 0, covered = 0;
		bool twice = false, refused = false;

		if (!(memory & ~done & 1u << unit))
			continue;
		run = run_of(all, count, unit);
		done |= run;
		wanted = fewest(all, count, run);
		for (i = 0; i < count; i++)
			groups += !!(bits_of(&all[i]) & run);
		for (i = 0; i < left; i++) {
			if (!(bits_of(&kept[i]) & run))
				continue;
			twice |= covered & bits_of(&kept[i]);
			refused |= !kept[i].cxl;
			covered |= bits_of(&kept[i]);
			used++;
		}
		if (twice || covered != run)
			return fail(seed, "the sum is not the union", all, count);
		if (refused != !wanted)
			return fail(seed, refused ? "refused, but there is a choice" :
						    "chosen, but there is none", all, count);
		if (!refused && used != wanted)
			return fail(seed, "fewer groups would do", all, count);
		*(refused ? unsolved : solved) += groups > 1;
	}
	for (i = 1; i < left; i++)
		if (weir_node_group_compare(&kept[i - 1], &kept[i]) >= 0)
			return fail(seed, "not in order", all, count);
	return 0;
}

/* Equal divisions: the device with the lower number wins. */
static int check_tie(void)
{
	struct weir_node_group all[4];
	u32 i;

	for (i = 0; i < 4; i++)
		all[i] = (struct weir_node_group) {
			.cxl = device_of(i % 2), .device = i % 2, .group = i / 2,
			.base = i / 2, .end = i / 2 + 1,
		};
	if (weir_cover(all, 4) != 2 || all[0].device || all[1].device)
		return fail(0, "the lower number must win", all, 4);
	return 0;
}

int main(int argc, char **argv)
{
	u64 first = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
	u64 seeds = argc > 2 ? strtoull(argv[2], NULL, 10) : 1000, seed;
	u32 solved = 0, unsolved = 0;
	int bad = check_tie();

	for (seed = first; !bad && seed < first + seeds; seed++)
		bad = check(seed, &solved, &unsolved);
	printf("%u counted once, %u refused\n", solved, unsolved);
	return bad;
}
