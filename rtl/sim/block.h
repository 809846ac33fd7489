// SPDX-License-Identifier: Apache-2.0 OR MIT
// The whole block, driven at its pins only: taps in the clock of the counters, the bus in its own.
//
// A Driver derives from Block<Driver> and has `void after_core_edge()`, which sets the inputs that the
// next rising edge of the counters' clock takes. CHANNELS is what the Verilog was written for.
#pragma once

#include "VAccessCounters.h"
#include "verilated.h"
#include <cinttypes>
#include <memory>
#include <vector>

constexpr int DIRECTIONS = 2;       // 0 reads, 1 writes
constexpr int CLOCKS_TO_COUNT = 8;  // from the tap until a live read must see it

struct Pins {
    CData *valid, *accepted;
    QData *line;
};

template <class Driver> class Block {
  public:
    Block(uint64_t core_ps, uint64_t bus_ps) : core_ps(core_ps), bus_ps(bus_ps) {
#define CHANNEL(n)                                                                                            \
    pins[0].push_back({&dut->io_taps_reads_##n##_valid, &dut->io_taps_readsAccepted_##n, &dut->io_taps_reads_##n##_bits}); \
    pins[1].push_back({&dut->io_taps_writes_##n##_valid, &dut->io_taps_writesAccepted_##n, &dut->io_taps_writes_##n##_bits}); \
    fill.push_back(&dut->io_taps_queueFill_##n)
        CHANNEL(0);
#if CHANNELS >= 2
        CHANNEL(1);
#endif
#if CHANNELS >= 4
        CHANNEL(2);
        CHANNEL(3);
#endif
#undef CHANNEL
    }

    // To be called by the driver once it is complete.
    void reset() {
        dut->io_coreReset = dut->io_busReset = 1;
        for (int i = 0; i < 40; i++) step();
        dut->io_coreReset = dut->io_busReset = 0;
    }

    // Runs to the next rising edge of either clock.
    void step() {
        bool core = next_core <= next_bus;
        uint64_t now = core ? next_core : next_bus;
        bool both = next_core == next_bus;
        if (core) next_core = now + core_ps;
        if (!core || both) next_bus = now + bus_ps;
        dut->io_coreClock = core;
        dut->io_busClock = !core || both;
        dut->eval();
        if (core) {
            clock++;
            static_cast<Driver *>(this)->after_core_edge();
        }
        if (!core || both) answered = dut->io_answer_valid ? (answer = dut->io_answer_bits, true) : answered;
        bus_edges += !core || both;
        dut->io_coreClock = dut->io_busClock = 0;
        dut->eval();
    }

    // One transaction on the bus; false if the block does not answer within `patience` clocks.
    bool transact(uint32_t address, bool write, bool narrow, uint64_t data, uint64_t patience, uint64_t &result) {
        uint64_t start = clock;
        while (!dut->io_request_ready) {
            step();
            if (clock - start > patience) return false;
        }
        dut->io_request_valid = 1;
        dut->io_request_bits_address = address;
        dut->io_request_bits_write = write;
        dut->io_request_bits_narrow = narrow;
        dut->io_request_bits_data = data;
        answered = false;
        for (uint64_t edge = bus_edges; edge == bus_edges;) step();
        dut->io_request_valid = 0;
        for (start = clock; !answered;) {
            step();
            if (clock - start > patience) return false;
        }
        result = answer;
        return true;
    }

    std::unique_ptr<VAccessCounters> dut{new VAccessCounters};
    std::vector<Pins> pins[DIRECTIONS]; // by channel
    std::vector<CData *> fill;          // entries in the channels' request queues
    uint64_t clock = 0;                 // of the counters

  private:
    uint64_t core_ps, bus_ps, next_core = 1000, next_bus = 1700, bus_edges = 0;
    uint64_t answer = 0;
    bool answered = false;
};
