/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The simulated block as a shared library: what `rtl/build-model` builds and `weir-cosim` loads.
 *
 * One thread at a time. Change WEIR_RTL_ABI with anything here.
 */
#ifndef WEIR_RTL_MODEL_H
#define WEIR_RTL_MODEL_H

#include <stddef.h>
#include <stdint.h>

#define WEIR_RTL_ABI 1

/* One access of one line. */
struct weir_rtl_access {
    uint64_t line;       /* bits 51 to 6 of its host-physical address */
    uint32_t is_write;   /* 0 or 1 */
    uint32_t queue_fill; /* entries it found in the device's request queue, at most 255 */
};

#ifdef __cplusplus
extern "C" {
#endif

uint32_t weir_rtl_abi(void);

/* The block after its reset, with all registers as they come up. */
void *weir_rtl_new(void);
void weir_rtl_free(void *block);

/* Accesses at the taps: requests that are accepted, and completions some clocks later. All of them are
 * counted when this returns. */
void weir_rtl_count(void *block, const struct weir_rtl_access *accesses, size_t count);

/* Lets clocks of the counters pass without an access. */
void weir_rtl_idle(void *block, uint64_t clocks);

/* One transaction on the bus, of 32 bits if `narrow`, else of 64. A load puts its result into `answer`.
 * Returns 0, or -1 if the block does not answer. */
int weir_rtl_bus(void *block, uint32_t address, int write, int narrow, uint64_t data, uint64_t *answer);

/* Clocks of the counters since power-on, those in reset included. */
uint64_t weir_rtl_clocks(const void *block);

#ifdef __cplusplus
}
#endif
#endif
