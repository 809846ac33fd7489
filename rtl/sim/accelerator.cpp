// SPDX-License-Identifier: Apache-2.0 OR MIT The accelerator beside host memory, against what the twins of
// its engines answer. Requests come on standard input, from `accelerator_vectors` of weir-type2, which says
// how they are written.
//
// They run twice. First one at a time, with a memory that takes each request and answers 20 clocks later:
// what a request takes is its engines' clocks and a constant of each operation. Then in a ring of eight, with
// a memory that holds requests back and answers up to 200 clocks late, by turns of the tags. A request
// completes once, after its writes; these stay within result and room; statuses, values, bytes, interrupts
// and counters must be right.
//
// accelerator [FLAW]: 1 to 3, 5 are to fail (FlawedAccelerator.scala). 4 flips bits in encoders: what is
// verified must be right or say so.
//
// Prints PASS or FAIL and figures.
#include "VFlawedAccelerator.h"
#include "host.h"
#include "verilated.h"

static const int ENTRIES_LOG2 = 3, ENTRIES = 1 << ENTRIES_LOG2;
static const uint64_t RING = 0x10000, COMPLETIONS = 0x20000;
static const uint64_t CLOCKS_MAX = 20000; // between completions

struct Bench {
    VFlawedAccelerator dut;
    HostMemory memory;
    std::vector<Case> &cases;
    bool alone;
    uint32_t flaw;
    uint64_t clock = 0, last = 0, interrupts = 0, verify_failed = 0;
    std::vector<uint32_t> completed; // clocks of each; 0: open
    size_t rung = 0, done = 0, oldest = 0;
    std::map<uint64_t, size_t> writers; // open requests by the line where their destination begins
    std::map<uint32_t, uint32_t> constants;

    Bench(std::vector<Case> &cases, bool alone, uint32_t flaw)
        : memory(alone), cases(cases), alone(alone), flaw(flaw), completed(cases.size()) {}

    void edge() {
        dut.clock = 1, dut.eval();
        dut.clock = 0, dut.eval();
        clock++;
    }
    void poke(uint64_t address, int bits, uint64_t value, bool write) {
        int shift = address % 8 * 8;
        dut.io_request_valid = 1, dut.io_request_bits_write = write;
        dut.io_request_bits_address = address & ~7ull;
        dut.io_request_bits_halves_0 = bits == 64 || shift == 0;
        dut.io_request_bits_halves_1 = bits == 64 || shift != 0;
        dut.io_request_bits_data = value << shift;
    }
    void store(uint64_t address, int bits, uint64_t value) {
        poke(address, bits, value, true);
        edge();
        dut.io_request_valid = 0;
    }
    uint64_t load(uint64_t address, int bits) {
        poke(address, bits, 0, false);
        dut.eval();
        uint64_t word = dut.io_answer_bits >> (address % 8 * 8);
        dut.io_request_valid = 0, dut.eval();
        return bits == 64 ? word : word & 0xffffffff;
    }
    void start() {
        dut.reset = 1, dut.flaw = flaw, edge(), edge(), dut.reset = 0;
        store(RING_BASE_BYTES_REG, 64, RING), store(COMPLETION_BASE_BYTES_REG, 64, COMPLETIONS);
        store(RING_ENTRIES_LOG2_REG, 32, ENTRIES_LOG2), store(INTERRUPT_ENABLE_REG, 32, 1);
        store(CONTROL_REG, 32, 1);
        for (int i = 0; alone && i < 200; i++) edge(); // Encoders have swept their tables.
    }

    // Gives the next requests to the ring.
    void ring() {
        while (oldest < rung && completed[oldest]) oldest++;
        size_t room = std::min(oldest + (alone ? 1 : ENTRIES), cases.size()) - rung;
        if (!room || (!alone && rung && draw() % 20)) return; // The first with the clock after enabling.
        for (size_t n = alone ? 1 : 1 + draw() % room; n; n--, rung++) {
            const Case &c = cases[rung];
            memory.place(c);
            memory.line(RING / 64 + rung % ENTRIES) = c.descriptor(rung * 1000 + 7);
            if (c.writes()) writers[c.destination / 64] = rung;
        }
        poke(DOORBELL_REG, 32, rung, true);
    }

    // A line that is written.
    void take(uint64_t line, const uint8_t *data, uint64_t strobe) {
        if (line >= COMPLETIONS / 64 && line < COMPLETIONS / 64 + ENTRIES / 2) {
            bool upper = strobe == 0xffffffff00000000;
            if (!upper && strobe != 0xffffffff) fail("a completion of other bytes");
            return complete(line % (ENTRIES / 2) * 2 + upper, data + 32 * upper);
        }
        auto writer = writers.upper_bound(line);
        if (writer == writers.begin()) return fail("a write to nowhere");
        size_t n = (--writer)->second;
        uint64_t at = (line - writer->first) * 64;
        for (int byte = 0; byte < 64; byte++)
            if (strobe >> byte & 1) cases[n].take(at + byte, data[byte]);
    }

    void complete(size_t slot, const uint8_t *bytes) {
        auto word = [&](int at) { uint32_t w; memcpy(&w, bytes + at, 4); return w; };
        size_t n = word(COMPLETION_SEQUENCE_REG) - 1;
        if (n >= rung || completed[n] || n % ENTRIES != slot) return fail("a completion of no open request");
        Case &c = cases[n];
        uint32_t status = word(COMPLETION_STATUS_REG), clocks = word(COMPLETION_CLOCKS_REG);
        uint64_t value = word(COMPLETION_VALUE_REG) | (uint64_t)word(COMPLETION_VALUE_REG + 4) << 32;
        current = n;
        completed[n] = std::max(clocks, 1u), done++, last = clock;
        if (word(COMPLETION_TAG_REG) != n * 1000 + 7 || word(COMPLETION_TAG_REG + 4)) fail("tag");
        bool flips = flaw >= 4 && c.op == OP_LZ4_ENCODE && c.status == STATUS_DONE;
        if (flips && status == STATUS_VERIFY_FAILED && c.flags & FLAG_VERIFY) verify_failed++;
        else if (flips && !(c.flags & FLAG_VERIFY)) ; // It may be wrong.
        else judge(c, status, word(COMPLETION_RESULT_BYTES_REG), value);
        c.status = status; // What the counters go by.
        if (alone && !flips && c.engine_clocks) count(c, clocks);
        writers.erase(c.destination / 64);
        memory.forget(c);
    }
    void judge(const Case &c, uint32_t status, uint32_t bytes, uint64_t value) {
        if (status != c.status) fail("status", status, c.status);
        if (value != c.value) fail("value");
        if (bytes != (status == STATUS_DONE ? c.result.size() : 0)) fail("bytes of the result", bytes, c.result.size());
        if (const char *what = c.wrong()) fail(what);
    }
    // Beside its engines a request takes as many clocks as others of its kind.
    void count(const Case &c, uint32_t clocks) {
        bool verified = c.flags & FLAG_VERIFY && c.status == STATUS_DONE;
        auto constant = constants.emplace(c.op * 2 + verified, clocks - c.engine_clocks).first->second;
        if (clocks - c.engine_clocks != constant) fail("clocks", clocks, c.engine_clocks + constant);
    }

    void step() {
        dut.io_dma_ready = memory.is_ready();
        memory.answer(clock, dut.io_dmaAnswer_valid, dut.io_dmaAnswer_bits_tag, &dut.io_dmaAnswer_bits_data,
                      dut.io_dmaAnswer_bits_error);
        dut.eval();
        if (dut.io_dma_ready && dut.io_dma_valid) {
            uint64_t line = dut.io_dma_bits_line;
            if (!dut.io_dma_bits_write) memory.ask(clock, dut.io_dma_bits_tag, line);
            else take(line, (const uint8_t *)&dut.io_dma_bits_data, dut.io_dma_bits_strobe);
        }
        interrupts += dut.io_interrupt;
        edge();
        dut.io_request_valid = 0;
    }

    void check_sums() {
        for (int i = 0; i < 3; i++) dut.io_dma_ready = 0, dut.io_dmaAnswer_valid = 0, interrupts += dut.io_interrupt, edge();
        uint64_t wanted = 0;
        for (auto &c : cases) wanted += c.flags & FLAG_INTERRUPT;
        if (interrupts != wanted || load(INTERRUPTS_REG, 32) != wanted) fail("interrupts", interrupts, wanted);
        if (load(COMPLETED_REG, 32) != cases.size() || load(FETCHED_REG, 32) != cases.size()) fail("sums");
        if (load(STATE_REG, 32) != 1) fail("state", load(STATE_REG, 32), 1);
        if (load(REFUSED_DOORBELLS_REG, 32)) fail("refused doorbells", load(REFUSED_DOORBELLS_REG, 32));
        if (load(FEATURES_REG, 32) != FEATURE_VERIFY || load(OP_MASK_REG, 32) != 0x1e) fail("capabilities");
        for (uint32_t op = 0; op <= OP_COMPARE; op++) {
            uint64_t pages = 0, errors = 0, clocks = 0, at = COUNTERS_OFFSET_BYTES + op * COUNTER_STRIDE_BYTES;
            for (size_t n = 0; n < cases.size(); n++) {
                const Case &c = cases[n];
                if ((c.status == STATUS_BAD_OP ? 0 : c.op) != op) continue;
                pages += c.status == STATUS_DONE, errors += c.status != STATUS_DONE;
                clocks += c.is_impossible() ? 0 : completed[n];
            }
            current = op;
            if (load(at + COUNTER_PAGES_REG, 64) != pages) fail("the counter of pages", 0, pages);
            if (load(at + COUNTER_ERRORS_REG, 64) != errors) fail("the counter of errors", 0, errors);
            if (load(at + COUNTER_CLOCKS_REG, 64) != clocks) fail("the counter of clocks", 0, clocks);
            if (load(at + COUNTER_STALLS_REG, 64) > clocks) fail("the counter of stalls");
        }
    }

    void run() {
        start();
        for (last = clock; done < cases.size(); step()) {
            if (clock - last > CLOCKS_MAX) fail("no completion");
            ring();
        }
        check_sums();
    }
};

int main(int arguments, char **argument) {
    Verilated::randReset(2);
    Verilated::randSeed(1);
    uint32_t flaw = arguments > 1 ? atoi(argument[1]) : 0;
    std::vector<Case> cases;
    for (Case c; c.read();) cases.push_back(c);
    uint64_t clocks = 0, verify_failed = 0, statuses[8] = {};
    std::map<uint32_t, uint32_t> constants;
    for (auto &c : cases) statuses[c.status & 7]++;
    for (bool alone : {true, false}) {
        std::vector<Case> own = cases;
        Bench bench(own, alone, flaw);
        bench.run();
        clocks += bench.clock, verify_failed += bench.verify_failed;
        if (alone) constants = bench.constants;
    }
    for (uint32_t status = STATUS_DONE; status <= STATUS_DMA_ERROR; status++)
        if (!statuses[status]) return printf("FAIL no case has status %u: no test\n", status), 1;
    if (flaw == 4 && !verify_failed) return puts("FAIL no block failed its verification: no test"), 1;
    printf("PASS %zu requests, %lu done, %lu clocks", cases.size(), statuses[STATUS_DONE], clocks);
    if (flaw) return printf(", %lu blocks failed their verification\n", verify_failed), 0;
    for (auto [kind, beside] : constants)
        printf(", operation %u%s %u beside its engines", kind / 2, kind % 2 ? " verified" : "", beside);
    puts("");
}
