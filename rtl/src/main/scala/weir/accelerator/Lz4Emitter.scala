// SPDX-License-Identifier: Apache-2.0 OR MIT
package weir

import chisel3._
import chisel3.util._

/** Writes sequences: up to `moveBytes` bytes of block a clock.
  *
  * A clock writes a token, literals if they and the offset fit beside it, and the offset. Where there are
  * more literals the token has a clock of its own; each byte of a length has one too.
  */
class Lz4Emitter(sizes: Lz4Sizes) extends Module {
  import Lz4Format._
  private val moveBytes = sizes.moveBytes
  private val lengthBits = sizes.lengthBits
  val io = IO(new Bundle {
    val restart = Input(Bool())

    /** This clock may write. */
    val isGoing = Input(Bool())
    val inputBytes = Input(UInt(lengthBits.W))

    /** Bytes of the block so far. */
    val position = Input(UInt(lengthBits.W))
    val sequence = Flipped(Decoupled(new Lz4Sequence(sizes)))

    /** The page's bytes that are needed next, and these in the same clock. */
    val literalsAt = Output(UInt(lengthBits.W))
    val literals = Input(Vec(moveBytes, UInt(8.W)))
    val move = Valid(new CountedBytes(sizes))

    /** The block is complete with this clock's bytes. */
    val isOver = Output(Bool())

    /** The block would not be smaller than the page. */
    val isTooLarge = Output(Bool())
  })
  private object Part extends ChiselEnum { val token, literalLength, literals, matchLength = Value }
  private val part = Reg(Part())

  /** The sequence under way, its literals those still to come. */
  private val held = Reg(new Lz4Sequence(sizes))

  /** What is left of a length. */
  private val length = Reg(UInt(lengthBits.W))

  private val isToken = part === Part.token
  private val isAtLiterals = part === Part.literals
  private val isLength = !isToken && !isAtLiterals
  private val go = io.isGoing && (!isToken || io.sequence.valid)
  private val sequence = Mux(isToken, io.sequence.bits, held)
  io.sequence.ready := go && isToken
  io.literalsAt := sequence.anchor

  private val isLast = sequence.matchBytes === 0.U
  private val matchCode = Mux(isLast, 0.U, sequence.matchBytes - matchBytesMin.U)
  private def code(length: UInt): UInt = Mux(length > lengthCodeMax.U, lengthCodeMax.U, length)(3, 0)
  private val token = code(sequence.literals) ## code(matchCode)
  private val before = Mux(isToken, 1.U, 0.U)
  private val isWhole = Mux(
    isToken,
    sequence.literals <= (moveBytes - 1 - offsetBytes).U,
    isAtLiterals && sequence.literals <= (moveBytes - offsetBytes).U
  )
  private val onlyLiterals = Mux(sequence.literals > moveBytes.U, moveBytes.U, sequence.literals)
  private val front = before +& sequence.literals
  private val lengthByte = Mux(length > lengthByteMax.U, lengthByteMax.U, length)(7, 0)
  private val count = MuxCase(
    1.U, // a token alone, or a byte of a length
    Seq(
      isWhole -> Mux(isLast, front, front +& offsetBytes.U),
      isAtLiterals -> onlyLiterals
    )
  )(sizes.countBits - 1, 0)

  private val shifted = Bytes.rotateLeft(io.literals, before)
  private val end = position(front)
  io.move.bits.bytes := VecInit((0 until moveBytes).map { i =>
    val isFirst = if (i == 0) !isAtLiterals else false.B
    MuxCase(
      shifted(i),
      Seq(
        isFirst -> Mux(isLength, lengthByte, token),
        (isWhole && end === i.U) -> sequence.offset(7, 0),
        (isWhole && (end +& 1.U) === i.U) -> sequence.offset(15, 8)
      )
    )
  })
  io.move.bits.count := count
  private def position(front: UInt): UInt = front(sizes.moveBits, 0)

  private val isTokenTooLarge = isToken && passes(io.position +& 1.U +& sequence.literals)
  io.isTooLarge := go && (isTokenTooLarge || passes(io.position +& count))
  io.move.valid := go && !io.isTooLarge
  private val isComplete = isLast && Mux(isWhole, true.B, isAtLiterals && sequence.literals <= moveBytes.U)
  io.isOver := io.move.valid && isComplete

  /** Whether a block that is at least so long would not be smaller than the page; proofs can get it wrong. */
  protected def passes(end: UInt): Bool = end >= io.inputBytes

  when(io.move.valid) { step() }
  when(io.restart) { part := Part.token }

  private def step(): Unit = {
    when(isToken) { held := io.sequence.bits }
    when(isWhole) {
      part := Mux(matchCode >= lengthCodeMax.U, Part.matchLength, Part.token)
      length := matchCode - lengthCodeMax.U
    }.elsewhen(isToken) {
      part := Mux(sequence.literals >= lengthCodeMax.U, Part.literalLength, Part.literals)
      length := sequence.literals - lengthCodeMax.U
    }.elsewhen(isAtLiterals) {
      held.anchor := held.anchor + onlyLiterals
      held.literals := held.literals - onlyLiterals
    }.otherwise {
      length := length - lengthByte
      when(lengthByte =/= lengthByteMax.U) {
        part := Mux(part === Part.literalLength, Part.literals, Part.token)
      }
    }
  }
}
