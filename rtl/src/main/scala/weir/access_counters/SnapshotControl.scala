// SPDX-License-Identifier: Apache-2.0 OR MIT
package weir

import chisel3._
import chisel3.util._

/** Brings the counters up at zero, and orders their snapshots. One for all banks, so that a snapshot is one instant.
  *
  * After reset every group is cleared, one a clock; only then is the block `up`. A snapshot changes `epoch`.
  * Then the events that arrived before are waited for (`settled` is low), and the marks of the old epoch are
  * cleared, one group a clock; only then can the next snapshot be taken. So there are at least `groups` + 6
  * clocks between snapshots: 41 µs for 16 384 groups at 400 MHz.
  *
  * @param drainClocks how long the events that arrived before a snapshot take
  */
class SnapshotControl(groups: Int, drainClocks: Int = Bank.lagClocks) extends Module {
  private val groupBits = Parameters.indexBits(groups)
  val io = IO(new Bundle {
    val take = Input(Bool())

    /** Counting has begun. */
    val up = Output(Bool())

    /** A snapshot that is triggered in this clock will be taken. */
    val ready = Output(Bool())

    /** The last snapshot can be read. */
    val settled = Output(Bool())
    val epoch = Output(Bool())
    val count = Output(UInt(32.W))
    val sweep = Valid(UInt(groupBits.W))
    val sweepAll = Output(Bool())
  })

  private val zeroing :: idle :: draining :: sweeping :: Nil = Enum(4)
  private val state = RegInit(zeroing)
  private val index = RegInit(0.U(math.max(groupBits, 3).W))
  private val epoch = RegInit(false.B)
  private val count = RegInit(0.U(32.W))
  private val isLast = index === (groups - 1).U

  switch(state) {
    is(zeroing, sweeping) {
      index := Mux(isLast, 0.U, index + 1.U)
      when(isLast) { state := idle }
    }
    is(idle) {
      when(io.take) {
        epoch := !epoch
        count := count + 1.U
        state := draining
      }
    }
    is(draining) {
      val drained = index === (drainClocks - 1).U
      index := Mux(drained, 0.U, index + 1.U)
      when(drained) { state := sweeping }
    }
  }

  io.up := state =/= zeroing
  io.ready := state === idle
  io.settled := state === idle || state === sweeping
  io.epoch := epoch
  io.count := count
  io.sweep.valid := state === zeroing || state === sweeping
  io.sweep.bits := index(groupBits - 1, 0)
  io.sweepAll := state === zeroing
}
