// SPDX-License-Identifier: Apache-2.0 OR MIT
// The claims: whatever block comes, with whatever lengths in the command, the decoder writes its history
// below the limit, gives no beat beyond it, and shows a length within it; and if the source always has a
// beat and the sink always takes one (WAITS = 0), the result of at most CLOCKED_INPUT bytes into
// CLOCKED_LIMIT is there within the clocks of the bound. This is for moves of 4 bytes, where two clocks
// give at least 4 bytes.
`include "lz4_engine.svh"
module decoder #(parameter LENGTH_BITS = 6, BEAT_BYTES = 8, COUNT_BITS = 3, WAITS = 1, CLOCKED_LIMIT = 12, CLOCKED_INPUT = 24) (
    `LZ4_INPUTS,
    input [LENGTH_BITS-1:0] limit_bytes
);
    `LZ4_COMMAND

    wire [LENGTH_BITS-1:0] written_address;
    wire [COUNT_BITS-1:0] written_count;
    FlawedDecoder decoder (
        `LZ4_PINS,
        .io_command_bits_limitBytes(limit_bytes),
        .written_address(written_address),
        .written_count(written_count)
    );

    // The command's limit, and the beats it has given.
    reg [LENGTH_BITS-1:0] limit;
    reg [LENGTH_BITS:0] beats_bytes;
    wire [LENGTH_BITS:0] bound = limit / 2 + input_beats + 12;
    always @(posedge clock) begin
        if (begins) begin
            limit <= limit_bytes;
            beats_bytes <= 0;
        end else if (out_valid && takes_out) beats_bytes <= beats_bytes + BEAT_BYTES;
    end

    always @(posedge clock) if (running && busy) begin
        if (written_valid) assert ({1'b0, written_address} + written_count <= {1'b0, limit});
        if (out_valid) assert (beats_bytes < limit);
        if (result_valid) assert (result_bytes <= limit);
        if (WAITS == 0 && limit <= CLOCKED_LIMIT && input_kept <= CLOCKED_INPUT) assert (clocks < bound);
    end
endmodule
