// SPDX-License-Identifier: Apache-2.0 OR MIT
// The claim: whatever happens at the inputs, both designs of a bank answer every read alike, of live
// counts at any time and of the last snapshot whenever it is settled. Memories begin with any contents, and
// a RAM gives any word when the address it reads is written in the same clock.
module equal #(parameter GROUP_BITS = 2, COUNT_BITS = 4) (
    input clock,
    input event_valid,
    input [GROUP_BITS-1:0] event_group,
    input [GROUP_BITS-1:0] read_group,
    input read_snapshot,
    input take
);
    reg running = 0; // low in the first clock, which is the reset
    always @(posedge clock) running <= 1;

    wire up, ready, settled;
    wire [COUNT_BITS-1:0] registers, ram;
    BankPair pair (
        .clock(clock),
        .reset(!running),
        .io_event_valid(event_valid),
        .io_event_bits(event_group),
        .io_read_valid(1'b1),
        .io_read_bits(read_group),
        .io_readSnapshot(read_snapshot),
        .io_take(take),
        .io_up(up),
        .io_ready(ready),
        .io_settled(settled),
        .io_registers(registers),
        .io_ram(ram)
    );

    // Whether the answer that comes Bank.readClocks = 3 clocks after its question is one to compare.
    reg [2:0] compare = 0;
    always @(posedge clock) compare <= {compare[1:0], running && up && (settled || !read_snapshot)};
    always @(posedge clock) if (compare[2]) assert (registers == ram);
endmodule
