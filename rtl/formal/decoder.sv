// SPDX-License-Identifier: Apache-2.0 OR MIT
// The claims: whatever block comes, with whatever lengths in the command, the decoder writes its history
// below the limit, gives no beat beyond it, and shows a length within it; and if the source always has a
// beat and the sink always takes one (WAITS = 0), the result of at most CLOCKED_INPUT bytes into
// CLOCKED_LIMIT is there within the clocks of the bound. This is for moves of 4 bytes, where two clocks
// give at least 4 bytes.
module decoder #(parameter LENGTH_BITS = 6, BEAT_BYTES = 8, COUNT_BITS = 3, WAITS = 1, CLOCKED_LIMIT = 12, CLOCKED_INPUT = 24) (
    input clock,
    input command_valid,
    input [LENGTH_BITS-1:0] input_bytes,
    input [LENGTH_BITS-1:0] limit_bytes,
    input in_valid,
    input [8*BEAT_BYTES-1:0] in_bits,
    input out_ready,
    input result_ready
);
    reg running = 0; // low in the first clock, which is the reset
    always @(posedge clock) running <= 1;

    wire command_ready, in_ready, out_valid, result_valid, written_valid;
    wire [LENGTH_BITS-1:0] result_bytes, written_address;
    wire [COUNT_BITS-1:0] written_count;
    FlawedDecoder decoder (
        .clock(clock),
        .reset(!running),
        .io_command_valid(command_valid),
        .io_command_ready(command_ready),
        .io_command_bits_inputBytes(input_bytes),
        .io_command_bits_limitBytes(limit_bytes),
        .io_in_valid(in_valid || WAITS == 0),
        .io_in_ready(in_ready),
        .io_in_bits(in_bits),
        .io_out_ready(out_ready || WAITS == 0),
        .io_out_valid(out_valid),
        .io_result_ready(result_ready),
        .io_result_valid(result_valid),
        .io_result_bits_bytes(result_bytes),
        .written_valid(written_valid),
        .written_address(written_address),
        .written_count(written_count)
    );

    // The command under way, the beats it has given, and its clocks.
    reg busy = 0;
    reg [LENGTH_BITS-1:0] input_kept, limit;
    reg [LENGTH_BITS:0] beats_bytes;
    reg [LENGTH_BITS:0] clocks;
    wire [LENGTH_BITS:0] input_beats = ({1'b0, input_kept} + BEAT_BYTES - 1) / BEAT_BYTES;
    wire [LENGTH_BITS:0] bound = limit / 2 + input_beats + 12;
    always @(posedge clock) begin
        if (running && command_valid && command_ready) begin
            busy <= 1;
            input_kept <= input_bytes;
            limit <= limit_bytes;
            beats_bytes <= 0;
            clocks <= 1;
        end else begin
            if (result_valid) busy <= 0;
            if (out_valid && (out_ready || WAITS == 0)) beats_bytes <= beats_bytes + BEAT_BYTES;
            if (busy && WAITS == 0) clocks <= clocks + 1;
        end
    end

    always @(posedge clock) if (running && busy) begin
        if (written_valid) assert ({1'b0, written_address} + written_count <= {1'b0, limit});
        if (out_valid) assert (beats_bytes < limit);
        if (result_valid) assert (result_bytes <= limit);
        if (WAITS == 0 && limit <= CLOCKED_LIMIT && input_kept <= CLOCKED_INPUT) assert (clocks < bound);
    end
endmodule
