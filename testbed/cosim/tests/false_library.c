/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * A library that says it is the simulated RTL, and is wrong in what the test defines.
 */
#include "model.h"

#ifndef ABI
#define ABI WEIR_RTL_ABI
#endif
#ifndef MAGIC
#define MAGIC 0x52494557
#endif
#ifndef VERSION
#define VERSION 1
#endif
#ifndef GROUP_COUNT
#define GROUP_COUNT 2
#endif
#ifndef FEATURES
#define FEATURES 0xf
#endif
#ifndef STATUS
#define STATUS 0
#endif

static int block;

uint32_t weir_rtl_abi(void) { return ABI; }
void *weir_rtl_new(void) { return &block; }
void weir_rtl_free(void *at) { (void)at; }
void weir_rtl_count(void *at, const struct weir_rtl_access *accesses, size_t count)
{
    (void)at, (void)accesses, (void)count;
}
#ifndef NO_IDLE
void weir_rtl_idle(void *at, uint64_t clocks) { (void)at, (void)clocks; }
#endif
uint64_t weir_rtl_clocks(const void *at) { return !at; }

int weir_rtl_bus(void *at, uint32_t address, int write, int narrow, uint64_t data, uint64_t *answer)
{
    (void)at, (void)write, (void)narrow, (void)data;
    switch (address) {
    case 0x18000: *answer = MAGIC; break;
    case 0x18004: *answer = VERSION; break;
    case 0x18008: *answer = GROUP_COUNT; break;
    case 0x18010: *answer = 0x60000; break;
    case 0x18018: *answer = FEATURES; break;
    case 0x60008: *answer = 1 << 27; break;
    default: *answer = 0;
    }
    return STATUS;
}
