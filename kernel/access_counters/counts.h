/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Arithmetic of counts that go on over a reset, modulo 2^64
 *
 * A reset of the function sets the device's counters to 0 or leaves them; readers do not
 * know of it, and take differences. So each count that leaves the driver is the register
 * plus an offset, which is chosen anew after a reset: the count goes on from the last one that any
 * reader saw. tests/weir_cxl_kunit.c has its tests.
 */
#ifndef WEIR_COUNTS_H
#define WEIR_COUNTS_H

#include <linux/atomic.h>
#include <linux/compiler.h>
#include <linux/types.h>

/**
 * struct weir_count - one counter's past, in lines
 * @offset: lines that the register no longer holds
 * @last: the highest count that a reader saw
 */
struct weir_count {
	u64 offset;
	u64 last;
};

/* The first count of a register is what it holds. */
static inline void weir_count_begin(struct weir_count *count, u64 lines)
{
	count->offset = 0;
	WRITE_ONCE(count->last, lines);
}

/*
 * The count of a register that holds @lines. From any context; of two readers at once the
 * later count stays, whichever ends first.
 */
static inline u64 weir_count_of(struct weir_count *count, u64 lines)
{
	u64 now = count->offset + lines;
	u64 last = READ_ONCE(count->last);

	while ((s64)(now - last) > 0 && !try_cmpxchg64_relaxed(&count->last, &last, now))
		;
	return now;
}

/* After a reset the register holds @lines. No reader runs. */
static inline void weir_count_resume(struct weir_count *count, u64 lines)
{
	count->offset = count->last - lines;
}

#endif /* WEIR_COUNTS_H */
