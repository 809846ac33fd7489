// SPDX-License-Identifier: Apache-2.0 OR MIT
package weir

import chisel3._
import chisel3.util._

/** Some bytes, the first of a vector. */
class CountedBytes(sizes: Lz4Sizes) extends Bundle {
  val bytes = Vec(sizes.moveBytes, UInt(8.W))
  val count = UInt(sizes.countBits.W)
}

/** Makes beats of moves of 0 to `moveBytes` bytes. A full beat waits in a register of its own, so that
  * moves go on. */
class BeatPacker(sizes: Lz4Sizes) extends Module {
  val io = IO(new Bundle {
    val restart = Input(Bool())

    /** Only while `isReady`. */
    val move = Flipped(Valid(new CountedBytes(sizes)))

    /** Gives what is there as a beat; taken while `isReady`. */
    val flush = Input(Bool())
    val isReady = Output(Bool())
    val out = Decoupled(UInt((8 * sizes.beatBytes).W))

    /** No beat waits. */
    val isEmpty = Output(Bool())
  })
  private val rows = sizes.beatBytes / sizes.moveBytes
  private val line = Reg(Vec(rows, Vec(sizes.moveBytes, UInt(8.W))))
  private val fill = RegInit(0.U(log2Ceil(sizes.beatBytes).W))
  private val beat = Reg(UInt((8 * sizes.beatBytes).W))
  private val isHeld = RegInit(false.B)

  io.isReady := !isHeld || io.out.ready
  io.out.valid := isHeld
  io.out.bits := beat
  io.isEmpty := !isHeld

  private val shift = fill(sizes.moveBits - 1, 0)
  private val row = fill >> sizes.moveBits
  private val placed = Bytes.rotateLeft(io.move.bits.bytes, shift)
  private val full = WireDefault(line)
  for (lane <- 0 until sizes.moveBytes) {
    val isWritten = io.move.valid && (lane.U - shift)(sizes.moveBits - 1, 0) < io.move.bits.count
    val isNextRow = lane.U < shift
    for (r <- 0 until rows) {
      val isHere = isWritten && Mux(isNextRow, row === ((r + rows - 1) % rows).U, row === r.U)
      when(isHere) { line(r)(lane) := placed(lane) }
      // Row 0 after the last row belongs to the next beat.
      when(isHere && !(isNextRow && (r == 0).B)) { full(r)(lane) := placed(lane) }
    }
  }

  private val end = fill +& io.move.bits.count
  when(io.out.fire) { isHeld := false.B }
  when(io.move.valid) {
    fill := end
    when(end >= sizes.beatBytes.U) { hold(full) }
  }
  when(io.flush && io.isReady && fill =/= 0.U) {
    hold(line)
    fill := 0.U
  }
  when(io.restart) {
    fill := 0.U
    isHeld := false.B
  }

  private def hold(bytes: Vec[Vec[UInt]]): Unit = {
    beat := bytes.asUInt
    isHeld := true.B
  }
}
