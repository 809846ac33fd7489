// SPDX-License-Identifier: Apache-2.0 OR MIT The claims about the ring: each completion is of a request that
// was asked for and has none yet, whatever memory, units and host do; and once these cooperate, no request
// stays open.
module ring (
    input clock,
    input rings, fetch_ready, answers, is_sound, completion_ready, cooperates,
    input [3:0] doorbell,
    input [2:0] finishes
);
    reg running = 0; // low in the first clock, which is the reset
    always @(posedge clock) running <= 1;

    wire wrong, late;
    RingProof proof (
        .clock(clock),
        .reset(!running),
        .io_rings(rings),
        .io_doorbell(doorbell),
        .io_fetchReady(fetch_ready),
        .io_answers(answers),
        .io_isSound(is_sound),
        .io_finishes_0(finishes[0]),
        .io_finishes_1(finishes[1]),
        .io_finishes_2(finishes[2]),
        .io_completionReady(completion_ready),
        .io_cooperates(cooperates),
        .io_wrong(wrong),
        .io_late(late)
    );
    always @(posedge clock) if (running) assert (!wrong && !late);
endmodule
