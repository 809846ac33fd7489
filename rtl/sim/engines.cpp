// SPDX-License-Identifier: Apache-2.0 OR MIT Bench of the hash (-DXXH64) and of the comparison: drives an
// engine at its pins as its Rust twin was driven, and compares each result and the clock it came in with what
// the twin gave. Runs come on standard input, from `engine_vectors` of weir-type2, which says how they are
// written.
//
// Prints PASS or FAIL and figures.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <memory>
#include <vector>

#ifdef XXH64
#include "VXxh64.h"
using Engine = VXxh64;
#else
#include "VPageCompare.h"
using Engine = VPageCompare;
#endif

namespace {

constexpr size_t beat_bytes = 64;

struct Result {
    uint32_t clock, low, high;
};

struct Run {
    uint32_t seed;
    std::vector<std::vector<uint8_t>> left, right;
    std::vector<Result> wanted;
};

// As `engines/stalls.rs`.
struct Stalls {
    uint64_t state;
    explicit Stalls(uint32_t seed) : state(seed * 0x9e3779b97f4a7c15u) {}
    void clock(bool &source, bool &sink) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        source = state >> 20 & 1;
        sink = state >> 40 & 1;
    }
};

void need(void *into, size_t bytes) {
    if (fread(into, 1, bytes, stdin) != bytes) {
        puts("FAIL the input ends within a run");
        exit(1);
    }
}

uint32_t word() {
    uint32_t value;
    need(&value, sizeof value);
    return value;
}

bool read_run(Run &run) {
    if (fread(&run.seed, 1, sizeof run.seed, stdin) != sizeof run.seed) return false;
    uint32_t pages = word();
    run.left.assign(pages, {});
    run.right.assign(pages, {});
    run.wanted.assign(pages, {});
    for (uint32_t page = 0; page < pages; page++) {
        uint32_t bytes = word();
        run.left[page].resize(bytes);
        need(run.left[page].data(), bytes);
#ifndef XXH64
        run.right[page].resize(bytes);
        need(run.right[page].data(), bytes);
#endif
    }
    need(run.wanted.data(), pages * sizeof(Result));
    return true;
}

// Bytes of a page from an offset on, into a port; what is beyond its end is no zero.
template <class Port> size_t beat(Port &port, const std::vector<uint8_t> &page, size_t from) {
    size_t bytes = page.size() - from < beat_bytes ? page.size() - from : beat_bytes;
    uint8_t whole[beat_bytes];
    memset(whole, 0xa5, sizeof whole);
    memcpy(whole, page.data() + from, bytes);
    memcpy(&port, whole, sizeof whole);
    return bytes;
}

void edge(Engine &engine) {
    engine.clock = 1;
    engine.eval();
    engine.clock = 0;
    engine.eval();
}

void reset(Engine &engine) {
    engine.reset = 1;
    edge(engine);
    engine.reset = 0;
}

#ifdef XXH64
constexpr int slots = 5;

bool wants(const Engine &engine, int slot) {
    const bool all[slots] = {bool(engine.io_wants_0), bool(engine.io_wants_1), bool(engine.io_wants_2),
                             bool(engine.io_wants_3), bool(engine.io_wants_4)};
    return all[slot];
}

// As `hash_timed` of the twin.
std::vector<Result> drive(Engine &engine, const Run &run) {
    size_t pages = run.left.size(), next = 0, done = 0;
    std::vector<Result> found(pages);
    Stalls stalls(run.seed);
    size_t page_of[slots] = {}, sent[slots] = {};
    bool feeds[slots] = {};
    std::deque<size_t> under_way[slots];
    int next_slot = 0;
    for (uint32_t clock = 0; done < pages && clock < 100000 + 10000 * pages; clock++) {
        bool source, sink;
        stalls.clock(source, sink);
        engine.io_hash_ready = !sink;
        engine.io_beat_valid = 0;
        for (int n = 0; n < slots && !source; n++) {
            int slot = (next_slot + n) % slots;
            if (!wants(engine, slot) || (!feeds[slot] && next == pages)) continue;
            if (!feeds[slot]) {
                page_of[slot] = next;
                sent[slot] = 0;
                feeds[slot] = true;
                under_way[slot].push_back(next++);
            }
            const auto &page = run.left[page_of[slot]];
            engine.io_beat_valid = 1;
            engine.io_beat_bits_slot = slot;
            engine.io_beat_bits_pageBytes = page.size();
            sent[slot] += beat(engine.io_beat_bits_data, page, sent[slot]);
            feeds[slot] = sent[slot] < page.size();
            next_slot = (slot + 1) % slots;
            break;
        }
        engine.eval();
        if (engine.io_hash_valid && !sink) {
            auto &queue = under_way[engine.io_hash_bits_slot];
            if (queue.empty()) return {};
            uint64_t value = engine.io_hash_bits_value;
            found[queue.front()] = {clock, uint32_t(value), uint32_t(value >> 32)};
            queue.pop_front();
            done++;
        }
        edge(engine);
    }
    return done == pages ? found : std::vector<Result>();
}
#else
// As `compare_timed` of the twin.
std::vector<Result> drive(Engine &engine, const Run &run) {
    size_t pages = run.left.size(), page = 0, sent = 0;
    std::vector<Result> found;
    Stalls stalls(run.seed);
    for (uint32_t clock = 0; found.size() < pages && clock < 100000 + 10000 * pages; clock++) {
        bool source, sink;
        stalls.clock(source, sink);
        engine.io_result_ready = !sink;
        bool offers = !source && page < pages;
        size_t bytes = 0;
        engine.io_pair_valid = offers;
        if (offers) {
            bytes = beat(engine.io_pair_bits_left, run.left[page], sent);
            beat(engine.io_pair_bits_right, run.right[page], sent);
            engine.io_pair_bits_bytes = bytes;
            engine.io_pair_bits_isFirst = sent == 0;
            engine.io_pair_bits_isLast = sent + bytes == run.left[page].size();
        }
        engine.eval();
        if (offers && engine.io_pair_ready) {
            sent += bytes;
            if (engine.io_pair_bits_isLast) page++, sent = 0;
        }
        if (engine.io_result_valid && !sink) {
            if (page == found.size() && sent > 0) page++, sent = 0;
            uint32_t sign = engine.io_result_bits_isLess ? uint32_t(-1) : engine.io_result_bits_differs;
            found.push_back({clock, engine.io_result_bits_firstDifference, sign});
        }
        edge(engine);
    }
    return found.size() == pages ? found : std::vector<Result>();
}
#endif

} // namespace

int main() {
    auto engine = std::make_unique<Engine>();
    Run run;
    size_t runs = 0, pages = 0;
    uint64_t clocks = 0;
    for (; read_run(run); runs++) {
        reset(*engine);
        auto found = drive(*engine, run);
        if (found.empty()) {
            printf("FAIL run %zu: not all results came\n", runs);
            return 1;
        }
        uint32_t last = 0;
        for (size_t page = 0; page < found.size(); page++) {
            const auto &a = found[page], &b = run.wanted[page];
            if (memcmp(&a, &b, sizeof a) != 0) {
                printf("FAIL run %zu, page %zu of %zu bytes: the RTL gives %08x%08x in clock %u, the twin %08x%08x in %u\n",
                       runs, page, run.left[page].size(), a.high, a.low, a.clock, b.high, b.low, b.clock);
                return 1;
            }
            last = a.clock > last ? a.clock : last;
        }
        pages += found.size();
        clocks += last + 1;
    }
    if (pages == 0) {
        puts("FAIL no runs");
        return 1;
    }
    printf("PASS %zu runs, %zu pages, %llu clocks\n", runs, pages, (unsigned long long)clocks);
}
