// SPDX-License-Identifier: Apache-2.0 OR MIT
// An LZ4 engine against what its twin in Rust answers. Cases come on standard input, from `lz4_vectors` of
// weir-type2, which says how they are written. -DENGINE is 0 for the decoder, or the encoder's positions.
//
// Each case runs twice. First the source always has a beat and the sink always takes one: bytes, flaw and
// clocks must be the twin's. Then both wait at random: bytes and flaw. The memories begin with anything.
//
// `corpus`: the cases are those of a program's memory. No page need be refused then, and one case in 16 runs
// with waits.
//
// Prints PASS or FAIL and figures.
#include "verilated.h"
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>
#if ENGINE == 0
#include "VLz4Decoder.h"
using Engine = VLz4Decoder;
#else
#include "VLz4Encoder.h"
using Engine = VLz4Encoder;
#endif

static const size_t BEAT = 64;
static const uint64_t CLOCKS_MAX = 100000;

struct Case {
    uint32_t input_bytes, limit_bytes, flaw, clocks, output_bytes;
    std::vector<uint8_t> input, output;
};

static bool read_case(Case &c) {
    uint32_t head[5];
    size_t read = fread(head, 1, sizeof head, stdin);
    if (read == 0) return false;
    c.input_bytes = head[0], c.limit_bytes = head[1], c.flaw = head[2], c.clocks = head[3], c.output_bytes = head[4];
    c.input.resize(c.input_bytes);
    c.output.resize(c.output_bytes);
    if (read == sizeof head && fread(c.input.data(), 1, c.input_bytes, stdin) == c.input_bytes &&
        fread(c.output.data(), 1, c.output_bytes, stdin) == c.output_bytes)
        return true;
    puts("FAIL the input ends within a case");
    exit(1);
}

static uint64_t random_state = 1;
static uint32_t draw() {
    random_state ^= random_state << 13, random_state ^= random_state >> 7, random_state ^= random_state << 17;
    return random_state >> 32;
}

struct Run {
    std::vector<uint8_t> output;
    size_t beats_in = 0;
    uint32_t bytes = 0, flaw = 0, clocks = 0;
    bool ended = false;
};

static void set_limit(Engine &engine, const Case &c) {
#if ENGINE == 0
    engine.io_command_bits_limitBytes = c.limit_bytes;
#else
    (void)engine, (void)c; // The encoder has no such pin.
#endif
}

static Run run(Engine &engine, const Case &c, bool waits) {
    Run r;
    bool commanded = false;
    for (uint64_t clock = 0; clock < CLOCKS_MAX && !r.ended; clock++) {
        engine.io_command_valid = !commanded;
        engine.io_command_bits_inputBytes = c.input_bytes;
        set_limit(engine, c);
        size_t at = r.beats_in * BEAT;
        uint32_t beat[BEAT / 4];
        for (auto &word : beat) word = draw();
        if (at < c.input.size()) memcpy(beat, &c.input[at], std::min(BEAT, c.input.size() - at));
        memcpy(&engine.io_in_bits, beat, BEAT);
        engine.io_in_valid = !(waits && draw() % 3);
        engine.io_out_ready = !(waits && draw() % 3);
        engine.io_result_ready = !(waits && draw() % 3);
        engine.clock = 0;
        engine.eval();
        if (!commanded && engine.io_command_ready) commanded = true;
        if (engine.io_in_valid && engine.io_in_ready) r.beats_in++;
        if (engine.io_out_valid && engine.io_out_ready) {
            uint8_t out[BEAT];
            memcpy(out, &engine.io_out_bits, BEAT);
            r.output.insert(r.output.end(), out, out + BEAT);
        }
        if (engine.io_result_valid && engine.io_result_ready) {
            r.ended = true;
            r.bytes = engine.io_result_bits_bytes;
            r.flaw = engine.io_result_bits_flaw;
            r.clocks = engine.io_result_bits_clocks;
        }
        engine.clock = 1;
        engine.eval();
    }
    return r;
}

// What is wrong, or nothing.
static const char *judge(const Case &c, const Run &r, bool waits) {
    if (!r.ended) return "no result";
    if (r.flaw != c.flaw) return "flaw";
    if (!waits && r.clocks != c.clocks) return "clocks";
    if (r.beats_in != (c.input_bytes + BEAT - 1) / BEAT) return "beats of input";
    size_t limit = ENGINE == 0 ? c.limit_bytes : c.input_bytes;
    if (r.output.size() > (limit + BEAT - 1) / BEAT * BEAT || r.bytes > limit) return "bytes beyond the limit";
    if (c.flaw) return nullptr;
    if (r.bytes != c.output_bytes || r.output.size() != (r.bytes + BEAT - 1) / BEAT * BEAT) return "length";
    if (memcmp(r.output.data(), c.output.data(), c.output_bytes)) return "bytes";
    return nullptr;
}

int main(int count, char **arguments) {
    const bool corpus = count > 1 && !strcmp(arguments[1], "corpus");
    Verilated::randReset(2);
    Verilated::randSeed(1);
    Engine engine;
    engine.reset = 1;
    for (int i = 0; i < 2; i++) engine.clock = 0, engine.eval(), engine.clock = 1, engine.eval();
    engine.reset = 0;
    Case c;
    uint64_t cases = 0, refused = 0, clocks = 0;
    for (; read_case(c); cases++, refused += c.flaw != 0, clocks += c.clocks) {
        for (bool waits : {false, true}) {
            if (waits && corpus && cases % 16) continue;
            Run r = run(engine, c, waits);
            if (const char *what = judge(c, r, waits)) {
                printf("FAIL case %lu%s: %s; %u bytes, flaw %u, %u clocks; twin %u bytes, flaw %u, %u clocks\n", cases,
                       waits ? ", waiting" : "", what, r.bytes, r.flaw, r.clocks, c.output_bytes, c.flaw, c.clocks);
                return 1;
            }
        }
    }
    engine.final();
    if ((!refused && !corpus) || refused == cases) return printf("FAIL %lu cases, %lu refused: no test\n", cases, refused), 1;
    printf("PASS %lu cases, %lu of them refused, %lu clocks\n", cases, refused, clocks);
}
