// SPDX-License-Identifier: Apache-2.0 OR MIT
// The claims: whatever page comes, and whatever the encoder's memories hold, a sequence that the search finds lies
// within the page, the literals that are written do, and the block is smaller than the page; and if the source always
// has a beat and the sink always takes one (WAITS = 0), the result of at most CLOCKED_INPUT bytes is there within the
// clocks of the bound.
//
// The memories of page and table are cut out: each read gives any word. That is more than any page and any table can
// do. Where there are waits, so is the queue from search to emitter; what it gives is assumed to be within the page, as all
// that it takes is.
module encoder #(parameter LENGTH_BITS = 6, BEAT_BYTES = 16, COUNT_BITS = 4, WAITS = 1, CLOCKED_INPUT = 13) (
    input clock,
    input command_valid,
    input [LENGTH_BITS-1:0] input_bytes,
    input in_valid,
    input [8*BEAT_BYTES-1:0] in_bits,
    input out_ready,
    input result_ready
);
    reg running = 0; // low in the first clock, which is the reset
    always @(posedge clock) running <= 1;

    wire command_ready, in_ready, out_valid, result_valid, written_valid, found_valid, taken_valid;
    wire [LENGTH_BITS-1:0] result_bytes, written_position, literals_at;
    wire [LENGTH_BITS-1:0] found_anchor, found_literals, found_match, taken_anchor, taken_literals, taken_match;
    wire [COUNT_BITS-1:0] written_count;
    wire [2:0] flaw;
    FlawedEncoder encoder (
        .clock(clock),
        .reset(!running),
        .io_command_valid(command_valid),
        .io_command_ready(command_ready),
        .io_command_bits_inputBytes(input_bytes),
        .io_in_valid(in_valid || WAITS == 0),
        .io_in_ready(in_ready),
        .io_in_bits(in_bits),
        .io_out_ready(out_ready || WAITS == 0),
        .io_out_valid(out_valid),
        .io_result_ready(result_ready),
        .io_result_valid(result_valid),
        .io_result_bits_bytes(result_bytes),
        .io_result_bits_flaw(flaw),
        .found_valid(found_valid),
        .found_bits_anchor(found_anchor),
        .found_bits_literals(found_literals),
        .found_bits_matchBytes(found_match),
        .taken_valid(taken_valid),
        .taken_bits_anchor(taken_anchor),
        .taken_bits_literals(taken_literals),
        .taken_bits_matchBytes(taken_match),
        .written_valid(written_valid),
        .written_position(written_position),
        .written_count(written_count),
        .written_literalsAt(literals_at)
    );

    // The command under way, and its clocks.
    reg busy = 0;
    reg [LENGTH_BITS-1:0] input_kept;
    reg [LENGTH_BITS:0] clocks;
    wire [LENGTH_BITS:0] input_beats = ({1'b0, input_kept} + BEAT_BYTES - 1) / BEAT_BYTES;
    wire [LENGTH_BITS:0] bound = input_kept + input_beats + 10;
    always @(posedge clock) begin
        if (running && command_valid && command_ready) begin
            busy <= 1;
            input_kept <= input_bytes;
            clocks <= 1;
        end else begin
            if (result_valid) busy <= 0;
            if (busy && WAITS == 0) clocks <= clocks + 1;
        end
    end

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
