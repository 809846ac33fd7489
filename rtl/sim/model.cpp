// SPDX-License-Identifier: Apache-2.0 OR MIT
// The block as a shared library, for a device that others drive (model.h).
//
// Lines go to channels round-robin, as interleaved memory does; each channel takes one read and one write a
// clock. Their order within a direction of a channel is kept. Simulated clocks are 400 and 125 MHz, whatever
// time they take.

#include "model.h"
#include "block.h"

namespace {

constexpr uint64_t CORE_PS = 2500, BUS_PS = 8000;
constexpr int UNDER_WAY_CLOCKS = 8; // from a request that is accepted to its completion
constexpr uint64_t PATIENCE_CLOCKS = 100000;

struct Slot {
    bool taken;
    uint64_t line;
};

class Model : public Block<Model> {
  public:
    Model() : Block(CORE_PS, BUS_PS) { reset(); }

    void count(const weir_rtl_access *accesses, size_t count) {
        next = accesses;
        end = accesses + count;
        while (next != end) step();
        idle(UNDER_WAY_CLOCKS + CLOCKS_TO_COUNT);
    }

    void idle(uint64_t clocks) {
        for (uint64_t until = clock + clocks; clock < until;) step();
    }

    // The slots of this clock complete what was accepted when they were last used, and take what
    // is accepted now.
    void after_core_edge() {
        Slot(&slots)[DIRECTIONS][CHANNELS] = under_way[clock % UNDER_WAY_CLOCKS];
        for (int direction = 0; direction < DIRECTIONS; direction++) {
            for (int channel = 0; channel < CHANNELS; channel++) {
                Slot &slot = slots[direction][channel];
                *pins[direction][channel].valid = slot.taken;
                *pins[direction][channel].line = slot.line;
                slot.taken = false;
            }
        }
        for (CData *entries : fill) *entries = 0;
        for (; next != end; next++) {
            int channel = next->line % CHANNELS;
            Slot &slot = slots[next->is_write & 1][channel];
            if (slot.taken) break;
            slot = {true, next->line};
            CData entries = next->queue_fill > 255 ? 255 : next->queue_fill;
            if (entries > *fill[channel]) *fill[channel] = entries;
        }
        for (int direction = 0; direction < DIRECTIONS; direction++)
            for (int channel = 0; channel < CHANNELS; channel++)
                *pins[direction][channel].accepted = slots[direction][channel].taken;
    }

  private:
    Slot under_way[UNDER_WAY_CLOCKS][DIRECTIONS][CHANNELS] = {};
    const weir_rtl_access *next = nullptr, *end = nullptr;
};

Model *model(void *block) { return static_cast<Model *>(block); }

} // namespace

uint32_t weir_rtl_abi(void) { return WEIR_RTL_ABI; }

void *weir_rtl_new(void) { return new Model; }

void weir_rtl_free(void *block) { delete model(block); }

void weir_rtl_count(void *block, const struct weir_rtl_access *accesses, size_t count) {
    model(block)->count(accesses, count);
}

void weir_rtl_idle(void *block, uint64_t clocks) { model(block)->idle(clocks); }

int weir_rtl_bus(void *block, uint32_t address, int write, int narrow, uint64_t data, uint64_t *answer) {
    return model(block)->transact(address, write, narrow, data, PATIENCE_CLOCKS, *answer) ? 0 : -1;
}

uint64_t weir_rtl_clocks(const void *block) { return static_cast<const Model *>(block)->clock; }
