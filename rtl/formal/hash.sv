// SPDX-License-Identifier: Apache-2.0 OR MIT The claim: each hash of a slot is what the formula gives for its
// page, whatever bytes the page has. All pages have PAGE_BYTES bytes; their beats come as soon as the slot
// wants them, and hashes are taken at once.
module hash #(parameter PAGE_BYTES = 64) (
    input clock,
    input [63:0] data
);
    reg running = 0; // low in the first clock, which is the reset
    always @(posedge clock) running <= 1;

    wire wrong;
    HashProof proof (
        .clock(clock),
        .reset(!running),
        .io_beat_valid(1'b1),
        .io_beat_bits_slot(2'd0),
        .io_beat_bits_pageBytes(PAGE_BYTES[12:0]),
        .io_beat_bits_data(data),
        .io_ready(1'b1),
        .io_watched(2'd0),
        .io_wrong(wrong)
    );
    always @(posedge clock) if (running) assert (!wrong);
endmodule
