// SPDX-License-Identifier: Apache-2.0 OR MIT
package weir

import chisel3._
import chisel3.util._

/** Takes beats into a register and hands them on in pieces of `moveBytes`, one a clock. A beat is taken
  * with the last
  * piece of the one before it.
  */
class BeatSplitter(sizes: Lz4Sizes) extends Module {
  val io = IO(new Bundle {

    /** An input of so many bytes begins. */
    val start = Flipped(Valid(UInt(sizes.lengthBits.W)))

    /** Beats that are still to come are taken and forgotten. */
    val drain = Input(Bool())
    val in = Flipped(Decoupled(UInt((8 * sizes.beatBytes).W)))
    val piece = Decoupled(UInt((8 * sizes.moveBytes).W))

    /** All beats of the input are taken. */
    val isTaken = Output(Bool())

    /** All pieces of the input are handed on. */
    val isOver = Output(Bool())
  })
  private val perBeat = sizes.beatBytes / sizes.moveBytes
  private val beatsLeft = RegInit(0.U(log2Ceil(sizes.maxBytes / sizes.beatBytes + 1).W))
  private val piecesLeft = RegInit(0.U(log2Ceil(sizes.maxBytes / sizes.moveBytes + 1).W))
  private val beat = Reg(UInt((8 * sizes.beatBytes).W))
  private val isHeld = RegInit(false.B)
  private val index = Reg(UInt(log2Ceil(perBeat).W))
  private val isLast = index === (perBeat - 1).U || piecesLeft === 1.U

  io.piece.valid := isHeld && !io.drain
  io.piece.bits := beat
  io.in.ready := beatsLeft =/= 0.U && (!isHeld || io.drain || (io.piece.fire && isLast))
  io.isTaken := beatsLeft === 0.U
  io.isOver := piecesLeft === 0.U

  when(io.piece.fire) {
    beat := beat >> (8 * sizes.moveBytes)
    index := index + 1.U
    piecesLeft := piecesLeft - 1.U
    when(isLast) { isHeld := false.B }
  }
  when(io.in.fire) {
    beat := io.in.bits
    index := 0.U
    isHeld := true.B
    beatsLeft := beatsLeft - 1.U
  }
  when(io.start.valid) {
    beatsLeft := ceilDivide(sizes.beatBytes)
    piecesLeft := ceilDivide(sizes.moveBytes)
    isHeld := false.B
  }

  private def ceilDivide(by: Int): UInt = (io.start.bits +& (by - 1).U) >> log2Ceil(by)
}
