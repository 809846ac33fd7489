// SPDX-License-Identifier: GPL-2.0-only
/*
 * KUnit tests of the driver's pure parts: which groups are added (cover.h), counts that go on
 * over a reset (counts.h). cover_test.c puts random divisions to cover.h in user space.
 */

#include <kunit/test.h>
#include <linux/module.h>
#include <linux/sizes.h>
#include <linux/sort.h>

#include "../counts.h"
#include "../cover.h"

/* Any address says which device it is: none is read. */
static struct weir_cxl *device_of(u32 number)
{
	return (struct weir_cxl *)(uintptr_t)(number + 1);
}

static struct weir_node_group group_of(u32 device, u32 group, int nid, u64 base, u64 size)
{
	return (struct weir_node_group) {
		.cxl = device_of(device), .device = device, .group = group, .nid = nid,
		.base = base, .end = base + size,
	};
}

static u32 covered(struct weir_node_group *entries, u32 count)
{
	sort(entries, count, sizeof(*entries), weir_node_group_compare, NULL);
	return weir_cover(entries, count);
}

/* Device 1 has one group of 4 GiB, device 0 four of 1 GiB: 4 GiB are counted, not 8. */
static void weir_divided_differently(struct kunit *test)
{
	struct weir_node_group entries[5];
	u32 i;

	entries[0] = group_of(1, 0, 2, SZ_4G, SZ_4G);
	for (i = 0; i < 4; i++)
		entries[i + 1] = group_of(0, i, 2, SZ_4G + i * (u64)SZ_1G, SZ_1G);
	KUNIT_ASSERT_EQ(test, covered(entries, 5), 1);
	KUNIT_EXPECT_PTR_EQ(test, entries[0].cxl, device_of(1));
	KUNIT_EXPECT_EQ(test, entries[0].end - entries[0].base, (u64)SZ_4G);
}

static void weir_divided_alike(struct kunit *test)
{
	struct weir_node_group entries[4];
	u32 i;

	for (i = 0; i < 4; i++)
		entries[i] = group_of(i % 2, i / 2, 0, (i / 2) * (u64)SZ_1G, SZ_1G);
	KUNIT_ASSERT_EQ(test, covered(entries, 4), 2);
	KUNIT_EXPECT_EQ(test, entries[0].device, 0);
	KUNIT_EXPECT_EQ(test, entries[1].device, 0);
}

/* Two halves that overlap by a quarter: neither alone nor both count each byte once. */
static void weir_overlap_is_refused(struct kunit *test)
{
	struct weir_node_group entries[3];

	entries[0] = group_of(0, 0, 1, 0, SZ_2G);
	entries[1] = group_of(1, 0, 1, SZ_1G, SZ_2G);
	entries[2] = group_of(1, 1, 3, SZ_4G, SZ_1G);
	KUNIT_ASSERT_EQ(test, covered(entries, 3), 2);
	KUNIT_EXPECT_NULL(test, entries[0].cxl);
	KUNIT_EXPECT_PTR_EQ(test, entries[1].cxl, device_of(1));
}

static void weir_node_is_found(struct kunit *test)
{
	struct weir_node_group entries[4];

	entries[0] = group_of(0, 0, 1, 0, SZ_1G);
	entries[1] = group_of(0, 1, 1, SZ_1G, SZ_1G);
	entries[2] = group_of(0, 2, 4, SZ_4G, SZ_1G);
	entries[3] = group_of(0, 3, 9, SZ_8G, SZ_1G);
	KUNIT_EXPECT_EQ(test, weir_cover_node(entries, 4, 0), 0);
	KUNIT_EXPECT_EQ(test, weir_cover_node(entries, 4, 1), 0);
	KUNIT_EXPECT_EQ(test, weir_cover_node(entries, 4, 2), 2);
	KUNIT_EXPECT_EQ(test, weir_cover_node(entries, 4, 9), 3);
	KUNIT_EXPECT_EQ(test, weir_cover_node(entries, 4, 10), 4);
	KUNIT_EXPECT_EQ(test, weir_cover_node(entries, 0, 1), 0);
}

/* What a reader sees rises by what was counted, whether the register begins at 0 or not. */
static void weir_count_over_a_reset(struct kunit *test)
{
	struct weir_count count;

	weir_count_begin(&count, 1000);
	KUNIT_EXPECT_EQ(test, weir_count_of(&count, 1500), 1500);
	weir_count_resume(&count, 0);
	KUNIT_EXPECT_EQ(test, weir_count_of(&count, 7), 1507);
	weir_count_resume(&count, 7);
	KUNIT_EXPECT_EQ(test, weir_count_of(&count, 9), 1509);
	weir_count_resume(&count, U64_MAX);
	KUNIT_EXPECT_EQ(test, weir_count_of(&count, 0), 1510);
}

static void weir_count_wraps(struct kunit *test)
{
	struct weir_count count;

	weir_count_begin(&count, U64_MAX);
	KUNIT_EXPECT_EQ(test, weir_count_of(&count, 4), 4);
	KUNIT_EXPECT_EQ(test, count.last, 4);
	weir_count_resume(&count, 0);
	KUNIT_EXPECT_EQ(test, weir_count_of(&count, 1), 5);
}

/* Of two readers at once, that which read first may end last. */
static void weir_count_keeps_the_later(struct kunit *test)
{
	struct weir_count count;

	weir_count_begin(&count, 10);
	KUNIT_EXPECT_EQ(test, weir_count_of(&count, 30), 30);
	KUNIT_EXPECT_EQ(test, weir_count_of(&count, 20), 20);
	weir_count_resume(&count, 0);
	KUNIT_EXPECT_EQ(test, weir_count_of(&count, 0), 30);
}

static struct kunit_case weir_cases[] = {
	KUNIT_CASE(weir_divided_differently),
	KUNIT_CASE(weir_divided_alike),
	KUNIT_CASE(weir_overlap_is_refused),
	KUNIT_CASE(weir_node_is_found),
	KUNIT_CASE(weir_count_over_a_reset),
	KUNIT_CASE(weir_count_wraps),
	KUNIT_CASE(weir_count_keeps_the_later),
	{ }
};

static struct kunit_suite weir_suite = {
	.name = "weir_cxl",
	.test_cases = weir_cases,
};

kunit_test_suite(weir_suite);

MODULE_DESCRIPTION("KUnit tests of weir_cxl");
MODULE_LICENSE("GPL");
