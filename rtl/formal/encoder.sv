// SPDX-License-Identifier: Apache-2.0 OR MIT The claims: whatever page comes, and whatever the encoder's
// memories hold, a sequence that the search finds lies within the page, the literals that are written do, and
// the block is smaller than the page; and if the source always has a beat and the sink always takes one
// (WAITS = 0), the result of at most CLOCKED_INPUT bytes is there within the clocks of the bound.
//
// The memories of page and table are cut out: each read gives any word. That is more than any page and any
// table can do. Where there are waits, so is the queue from search to emitter; what it gives is assumed to be
// within the page, as all that it takes is.
`include "lz4_engine.svh"
module encoder #(parameter LENGTH_BITS = 6, BEAT_BYTES = 16, COUNT_BITS = 4, WAITS = 1, CLOCKED_INPUT = 13) (
    `LZ4_INPUTS
);
    `LZ4_COMMAND

    wire found_valid, taken_valid;
    wire [LENGTH_BITS-1:0] written_position, literals_at;
    wire [LENGTH_BITS-1:0] found_anchor, found_literals, found_match, taken_anchor, taken_literals, taken_match;
    wire [COUNT_BITS-1:0] written_count;
    wire [2:0] flaw;
    FlawedEncoder encoder (
        `LZ4_PINS,
        .io_result_bits_flaw(flaw),
        .found_valid(found_valid),
        .found_bits_anchor(found_anchor),
        .found_bits_literals(found_literals),
        .found_bits_matchBytes(found_match),
        .taken_valid(taken_valid),
        .taken_bits_anchor(taken_anchor),
        .taken_bits_literals(taken_literals),
        .taken_bits_matchBytes(taken_match),
        .written_position(written_position),
        .written_count(written_count),
        .written_literalsAt(literals_at)
    );

    wire [LENGTH_BITS:0] bound = input_kept + input_beats + 10;

    function is_within(input [LENGTH_BITS-1:0] anchor, literals, matched);
        is_within = {2'b0, anchor} + literals + matched <= {2'b0, input_kept};
    endfunction
    always @* if (WAITS && taken_valid) assume (is_within(taken_anchor, taken_literals, taken_match));

    always @(posedge clock) if (running && busy) begin
        if (found_valid) assert (is_within(found_anchor, found_literals, found_match));
        if (written_valid) assert ({1'b0, written_position} + written_count < {1'b0, input_kept});
        if (written_valid) assert (literals_at <= input_kept);
        if (result_valid) assert (flaw != 0 || result_bytes < input_kept);
        if (WAITS == 0 && input_kept <= CLOCKED_INPUT) assert (clocks < bound);
    end
endmodule
