// SPDX-License-Identifier: Apache-2.0 OR MIT
// The claim: each hash of the watched slot is what the formula gives for its page, whatever pages the slots have and
// whenever their beats come and hashes are taken. Pages have a beat at most.
module hash (
    input clock,
    input beat_valid, ready,
    input [1:0] slot, watched,
    input [12:0] page_bytes,
    input [63:0] data
);
    reg running = 0; // low in the first clock, which is the reset
    always @(posedge clock) running <= 1;

    wire wrong;
    HashProof proof (
        .clock(clock),
        .reset(!running),
        .io_beat_valid(beat_valid),
        .io_beat_bits_slot(slot),
        .io_beat_bits_pageBytes(page_bytes),
        .io_beat_bits_data(data),
        .io_ready(ready),
        .io_watched(watched),
        .io_wrong(wrong)
    );
    always @(posedge clock) if (running) assert (!wrong);
endmodule
