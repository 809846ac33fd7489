// SPDX-License-Identifier: Apache-2.0 OR MIT
// Traffic on the whole block, compared with counts kept in software.
//
// The block is driven at its pins only: taps in the clock of the counters, the bus in its own. Each
// access is also counted in software (SoftCounts). The host's values must then be equal to those:
//
//   live counters while counting   between the counts some clocks before the request and those at the answer
//   a snapshot, all groups         the counts at exactly the clock that the register snapshot_clocks names
//   all counters at the end        the counts
//
// Usage: traffic ACCESSES SNAPSHOTS SEED CORE_PS BUS_PS. Prints one line, exit status 1 on a difference.

#include "block.h"
#include "regs.h"
#include <cstdio>
#include <cstdlib>
#include <deque>

namespace {

constexpr uint64_t BASE = 0x2080000000; // 130 GiB: not aligned to any power of two of that size

struct Random { // xorshift64*
    uint64_t state;
    uint64_t next() {
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        return state * 0x2545f4914f6cdd1d;
    }
    uint32_t below(uint32_t n) { return uint32_t((next() >> 32) * n >> 32); }
};

struct Access {
    uint64_t clock;
    uint8_t direction;
    int32_t group; // -1: outside all groups
};

struct SoftCounts {
    std::vector<uint64_t> counts[DIRECTIONS];
    uint64_t outside[DIRECTIONS] = {};

    SoftCounts() {
        for (auto &direction : counts) direction.assign(GROUPS, 0);
    }
    void enter(const Access &a) {
        if (a.group < 0) outside[a.direction]++;
        else counts[a.direction][a.group]++;
    }
};

struct Waiting { // requests of one direction, for the latency registers
    uint64_t requests = 0, occupancy = 0, under_way = 0;
};

class Bench : public Block<Bench> {
  public:
    Bench(uint64_t seed, uint64_t core_ps, uint64_t bus_ps) : Block(core_ps, bus_ps), random{seed * 2 + 1} {
        reset();
        reset_until = clock;
    }

    uint64_t bus(uint32_t address, bool write, bool narrow, uint64_t data = 0) {
        uint64_t answer;
        if (!transact(address, write, narrow, data, 100000 + GROUPS, answer)) die("no answer", address, 0, 0);
        return answer;
    }
    uint64_t load(uint32_t address) { return bus(address, false, false); }
    uint32_t load32(uint32_t address) { return uint32_t(bus(address, false, true)); }
    uint64_t load_by_halves(uint32_t address) {
        uint64_t low = load32(address);
        return low | uint64_t(load32(address + 4)) << 32;
    }

    static void die(const char *what, uint64_t where, uint64_t is, uint64_t should) {
        printf("FAIL %s at %#" PRIx64 ": is %" PRIu64 ", should be %" PRIu64 "\n", what, where, is, should);
        exit(1);
    }
    void same(const char *what, uint64_t where, uint64_t is, uint64_t should) {
        compared++;
        if (is != should) die(what, where, is, should);
    }

    Random random;
    SoftCounts arrived, counted;
    Waiting waiting[DIRECTIONS];
    std::vector<Access> log; // since a snapshot was triggered
    std::vector<Waiting> log_waiting[DIRECTIONS];
    bool logging = false, traffic = false;
    uint64_t reset_until = 0, accesses = 0, compared = 0;

    // The inputs of clock `clock`, which the next edge takes.
    void after_core_edge() {
        while (!in_flight.empty() && in_flight.front().clock + CLOCKS_TO_COUNT <= clock) {
            counted.enter(in_flight.front());
            in_flight.pop_front();
        }
        for (int direction = 0; direction < DIRECTIONS; direction++) {
            Waiting &w = waiting[direction];
            if (logging) log_waiting[direction].push_back(w);
            w.occupancy += w.under_way;
            uint64_t accepted = 0, completed = 0;
            for (Pins &pin : pins[direction]) {
                // Requests are kept 0 to 64 deep, so that completions have something to complete.
                *pin.accepted = traffic && w.under_way < 64 && random.below(16) < 15;
                *pin.valid = traffic && completed < w.under_way && random.below(64) < density;
                accepted += *pin.accepted;
                if (!*pin.valid) continue;
                completed++;
                *pin.line = access(direction);
            }
            w.requests += accepted;
            w.under_way += accepted - completed;
        }
        if (random.below(4096) == 0) {
            pattern = random.below(5);
            density = random.below(8) == 0 ? 8 : 64;
            hot = random.below(GROUPS);
        }
    }

  private:
    uint64_t access(int direction) {
        int32_t group = 0;
        switch (pattern) {
        case 0: group = random.below(GROUPS); break;
        case 1: group = hot; break;
        case 2: group = (hot + random.below(2)) % GROUPS; break;
        case 3: group = (hot + random.below(4)) % GROUPS; break;
        case 4: group = walk++ % GROUPS; break;
        }
        uint64_t offset = (uint64_t(group) << GROUP_LOG2) + (random.next() & ((1ull << GROUP_LOG2) - 1));
        uint64_t address = BASE + offset;
        if (random.below(256) == 0) {
            group = -1;
            address = random.below(2) ? BASE - 64 - (random.next() & 0xfffffff)
                                      : BASE + (uint64_t(GROUPS) << GROUP_LOG2) + (random.next() & 0xfffffff);
        }
        Access a{clock, uint8_t(direction), group};
        arrived.enter(a);
        in_flight.push_back(a);
        if (logging) log.push_back(a);
        accesses++;
        return address >> 6;
    }

    std::deque<Access> in_flight;
    int pattern = 0;
    uint32_t density = 64, hot = 0, walk = 0;
};

uint32_t entry(uint32_t window, uint32_t group, int direction) { return window + group * 16 + direction * 8; }

void come_up(Bench &b) {
    // Traffic before the block is up is not counted, and must do no harm.
    while (b.load32(MAGIC_REG) != MAGIC_VALUE) {}
    b.same("group count", GROUP_COUNT_REG, b.load32(GROUP_COUNT_REG), GROUPS);
    b.bus(HOST_BASE_BYTES_REG, true, false, BASE);
    uint32_t table = uint32_t(b.load(GROUP_TABLE_OFFSET_BYTES_REG));
    for (uint32_t group = 0; group < GROUPS; group += 1 + GROUPS / 61) {
        b.same("group base", group, b.load(table + group * 16), BASE + (uint64_t(group) << GROUP_LOG2));
        b.same("group size", group, b.load(table + group * 16 + 8), 1ull << GROUP_LOG2);
    }
    b.traffic = true;
}

void compare_live(Bench &b) {
    uint32_t group = b.random.below(GROUPS);
    int direction = b.random.below(2);
    uint64_t least = b.counted.counts[direction][group];
    uint32_t address = entry(COUNTERS_OFFSET_BYTES, group, direction);
    // Two halves answer for the instant of the first.
    uint64_t is = b.random.below(2) ? b.load(address) : b.load_by_halves(address);
    uint64_t most = b.arrived.counts[direction][group];
    b.compared++;
    if (is < least || is > most) Bench::die("live counter", address, is, is < least ? least : most);
}

void snapshot(Bench &b) {
    while (b.load32(SNAPSHOT_CONTROL_REG) & 1) {}
    uint32_t before = b.load32(SNAPSHOT_COUNT_REG);
    SoftCounts soft = b.arrived;
    uint64_t log_start = b.clock;
    b.log.clear();
    for (auto &w : b.log_waiting) w.clear();
    b.logging = true;
    b.bus(SNAPSHOT_CONTROL_REG, true, true, 1);
    b.logging = false;
    b.same("snapshot count", SNAPSHOT_COUNT_REG, b.load32(SNAPSHOT_COUNT_REG), before + 1u);

    // clocks is 0 in the first clock after the zeroing sweep, which takes one clock a group. The first
    // clock of the new epoch is the one that shows snapshot_clocks; an access reaches the banks a clock after
    // the taps.
    uint64_t first = b.reset_until + GROUPS + b.load(SNAPSHOT_CLOCKS_REG);
    uint64_t last_tap = first - 2;
    if (last_tap < log_start) Bench::die("snapshot before it was triggered", SNAPSHOT_CLOCKS_REG, last_tap, log_start);
    for (const Access &a : b.log)
        if (a.clock <= last_tap) soft.enter(a);

    uint32_t window = uint32_t(b.load(SNAPSHOT_OFFSET_BYTES_REG));
    for (int direction = 0; direction < DIRECTIONS; direction++) {
        for (uint32_t group = 0; group < GROUPS; group++) {
            uint32_t address = entry(window, group, direction);
            b.same("snapshot counter", address, b.load(address), soft.counts[direction][group]);
        }
        uint32_t outside = direction ? SNAPSHOT_OUTSIDE_WRITES_REG : SNAPSHOT_OUTSIDE_READS_REG;
        b.same("snapshot, outside", outside, b.load(outside), soft.outside[direction]);
        const Waiting &w = b.log_waiting[direction].at(last_tap - log_start);
        uint32_t requests = direction ? SNAPSHOT_WRITE_REQUESTS_REG : SNAPSHOT_READ_REQUESTS_REG;
        b.same("snapshot, requests", requests, b.load(requests), w.requests);
        b.same("snapshot, occupancy", requests + 8, b.load(requests + 8), w.occupancy);
    }
}

void compare_all(Bench &b) {
    b.traffic = false;
    for (int i = 0; i < 200; i++) b.step();
    for (int direction = 0; direction < DIRECTIONS; direction++) {
        for (uint32_t group = 0; group < GROUPS; group++) {
            uint32_t address = entry(COUNTERS_OFFSET_BYTES, group, direction);
            b.same("counter", address, b.load(address), b.arrived.counts[direction][group]);
        }
        uint32_t outside = direction ? OUTSIDE_WRITES_REG : OUTSIDE_READS_REG;
        b.same("outside", outside, b.load(outside), b.arrived.outside[direction]);
        uint32_t requests = direction ? WRITE_REQUESTS_REG : READ_REQUESTS_REG;
        b.same("requests", requests, b.load(requests), b.waiting[direction].requests);
    }
}

} // namespace

int main(int argc, char **argv) {
    if (argc != 6) {
        fprintf(stderr, "usage: traffic ACCESSES SNAPSHOTS SEED CORE_PS BUS_PS\n");
        return 2;
    }
    uint64_t wanted = strtoull(argv[1], nullptr, 0), snapshots = strtoull(argv[2], nullptr, 0);
    uint64_t seed = strtoull(argv[3], nullptr, 0);
    Bench b(seed, strtoull(argv[4], nullptr, 0), strtoull(argv[5], nullptr, 0));
    come_up(b);
    for (uint64_t done = 0; done < snapshots; done++) {
        uint64_t until = wanted / (snapshots + 1) * (done + 1);
        while (b.accesses < until) compare_live(b);
        snapshot(b);
    }
    while (b.accesses < wanted) compare_live(b);
    compare_all(b);
    printf("PASS %d groups, %d channels, bus %s/%s ps, seed %" PRIu64 ": %" PRIu64 " accesses in %" PRIu64
           " clocks, %" PRIu64 " snapshots, %" PRIu64 " values compared, 0 differences\n",
           GROUPS, CHANNELS, argv[4], argv[5], seed, b.accesses, b.clock, snapshots, b.compared);
    return 0;
}
