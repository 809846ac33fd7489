// SPDX-License-Identifier: Apache-2.0 OR MIT
// The host of the accelerator's bench: requests, and memory.
#pragma once
#include "regs.h"
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <set>
#include <unordered_map>
#include <vector>

static const uint64_t READ_CLOCKS = 20;

using Line = std::array<uint8_t, 64>;

static size_t current = 0; // the request that is looked at

[[noreturn]] static void fail(const char *what, uint64_t found = 0, uint64_t wanted = 0) {
    printf("FAIL request %zu: %s", current, what);
    if (found || wanted) printf(" is %lu, not %lu", found, wanted);
    puts("");
    exit(1);
}

static uint64_t random_state = 1;
static uint32_t draw() {
    random_state ^= random_state << 13, random_state ^= random_state >> 7, random_state ^= random_state << 17;
    return random_state >> 32;
}

// A request, what is to come of it, and the bytes that were written to its destination.
struct Case {
    uint32_t op, source_bytes, flags, destination_bytes, broken_line, status, result_bytes, engine_clocks;
    uint64_t source, second, destination, value;
    std::vector<uint8_t> page, other, result;
    std::map<uint64_t, uint8_t> written;

    bool read() {
        uint32_t n[16];
        size_t read = fread(n, 1, sizeof n, stdin);
        if (!read) return false;
        auto wide = [&](int at) { return n[at] | (uint64_t)n[at + 1] << 32; };
        op = n[0], source_bytes = n[1], flags = n[2], destination_bytes = n[3];
        source = wide(4), second = wide(6), destination = wide(8);
        broken_line = n[10], status = n[11], result_bytes = n[12], value = wide(13), engine_clocks = n[15];
        bool ok = read == sizeof n;
        for (auto bytes : {&page, &other, &result}) {
            uint32_t count = 0;
            ok = ok && fread(&count, sizeof count, 1, stdin) == 1;
            bytes->resize(count);
            ok = ok && fread(bytes->data(), 1, count, stdin) == count;
        }
        if (!ok) puts("FAIL the input ends within a request"), exit(1);
        return true;
    }
    bool writes() const { return (op == OP_LZ4_ENCODE || op == OP_LZ4_DECODE) && !is_impossible(); }
    bool is_impossible() const { return status >= STATUS_BAD_OP && status <= STATUS_BAD_ADDRESS; }

    Line descriptor(uint64_t tag) const {
        Line line;
        for (auto &byte : line) byte = draw();
        auto put = [&](uint64_t at, auto value) { memcpy(&line[at], &value, sizeof value); };
        put(DESCRIPTOR_OP_REG, op), put(DESCRIPTOR_SOURCE_BYTES_REG, source_bytes);
        put(DESCRIPTOR_SOURCE_REG, source), put(DESCRIPTOR_SECOND_REG, second);
        put(DESCRIPTOR_DESTINATION_REG, destination), put(DESCRIPTOR_DESTINATION_BYTES_REG, destination_bytes);
        put(DESCRIPTOR_FLAGS_REG, flags), put(DESCRIPTOR_TAG_REG, tag);
        return line;
    }
    void take(uint64_t at, uint8_t byte) {
        if (at >= destination_bytes) fail("a byte behind the room", at, destination_bytes);
        if (status == STATUS_DONE && at >= result.size()) fail("a byte behind the result", at, result.size());
        if (!written.emplace(at, byte).second) fail("a byte written twice", at);
    }
    // What is wrong with the destination, if the request is done.
    const char *wrong() const {
        if (status != STATUS_DONE) return nullptr;
        if (written.size() != result.size()) return "bytes are missing in the destination";
        for (auto [at, byte] : written)
            if (result[at] != byte) return "a byte of the destination";
        return nullptr;
    }
};

// Answers a line READ_CLOCKS later, or some time later and by turns of the tags.
class HostMemory {
    bool steady;
    std::unordered_map<uint64_t, Line> lines;
    std::set<uint64_t> broken;
    std::map<int, std::deque<std::pair<uint64_t, uint64_t>>> asked;

  public:
    explicit HostMemory(bool steady) : steady(steady) {}
    Line &line(uint64_t at) { return lines[at]; }

    // Of a request that can be done: others may name lines that are not theirs.
    void place(const Case &c) {
        if (c.is_impossible()) return;
        place(c.source, c.page), place(c.second, c.other);
        if (~c.broken_line) broken.insert(c.source / 64 + c.broken_line);
    }
    void place(uint64_t address, const std::vector<uint8_t> &bytes) {
        for (size_t at = 0; at < bytes.size(); at += 64) {
            Line line;
            for (auto &byte : line) byte = draw();
            memcpy(line.data(), &bytes[at], std::min<size_t>(64, bytes.size() - at));
            lines[address / 64 + at / 64] = line;
        }
    }
    void forget(const Case &c) {
        if (c.is_impossible()) return;
        for (uint64_t at = 0; at < 64; at++) lines.erase(c.source / 64 + at), lines.erase(c.second / 64 + at);
        if (~c.broken_line) broken.erase(c.source / 64 + c.broken_line);
    }
    bool is_ready() { return steady || draw() % 3; }
    void ask(uint64_t clock, int tag, uint64_t line) {
        asked[tag].push_back({clock + (steady ? READ_CLOCKS : 1 + draw() % 200), line});
    }
    template <class Data> void answer(uint64_t clock, uint8_t &valid, uint8_t &tag, Data *data, uint8_t &error) {
        std::vector<int> due;
        for (auto &[tag, queue] : asked)
            if (!queue.empty() && queue.front().first <= clock) due.push_back(tag);
        valid = !due.empty();
        if (!valid) return;
        tag = due[draw() % due.size()];
        uint64_t line = asked[tag].front().second;
        asked[tag].pop_front();
        memcpy(data, this->line(line).data(), 64);
        error = broken.count(line);
    }
};
