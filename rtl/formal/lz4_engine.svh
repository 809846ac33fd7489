// SPDX-License-Identifier: Apache-2.0 OR MIT
// What the claims about the LZ4 decoder and the encoder have in common. The module has LENGTH_BITS, BEAT_BYTES and
// WAITS (0: the source always has a beat, and the sink always takes one).

// Inputs of the module: what source, sink and host do.
`define LZ4_INPUTS \
    input clock, \
    input command_valid, \
    input [LENGTH_BITS-1:0] input_bytes, \
    input in_valid, \
    input [8*BEAT_BYTES-1:0] in_bits, \
    input out_ready, \
    input result_ready

// The pins that both engines have.
`define LZ4_PINS \
    .clock(clock), \
    .reset(!running), \
    .io_command_valid(command_valid), \
    .io_command_ready(command_ready), \
    .io_command_bits_inputBytes(input_bytes), \
    .io_in_valid(in_valid || WAITS == 0), \
    .io_in_ready(in_ready), \
    .io_in_bits(in_bits), \
    .io_out_ready(takes_out), \
    .io_out_valid(out_valid), \
    .io_result_ready(result_ready), \
    .io_result_valid(result_valid), \
    .io_result_bits_bytes(result_bytes), \
    .written_valid(written_valid)

// The command under way (`busy`), the bytes and beats of its input, and its clocks where nothing waits.
`define LZ4_COMMAND \
    reg running = 0; /* low in the first clock, which is the reset */ \
    wire command_ready, in_ready, out_valid, result_valid, written_valid; \
    wire [LENGTH_BITS-1:0] result_bytes; \
    wire takes_out = out_ready || WAITS == 0; \
    wire begins = running && command_valid && command_ready; \
    reg busy = 0; \
    reg [LENGTH_BITS-1:0] input_kept; \
    reg [LENGTH_BITS:0] clocks; \
    wire [LENGTH_BITS:0] input_beats = ({1'b0, input_kept} + BEAT_BYTES - 1) / BEAT_BYTES; \
    always @(posedge clock) begin \
        running <= 1; \
        if (begins) begin \
            busy <= 1; \
            input_kept <= input_bytes; \
            clocks <= 1; \
        end else begin \
            if (result_valid) busy <= 0; \
            if (busy && WAITS == 0) clocks <= clocks + 1; \
        end \
    end
