// SPDX-License-Identifier: Apache-2.0 OR MIT
package weir

import chisel3._
import chisel3.util._

/** Reads an LZ4 block: one sequence and up to `moveBytes` bytes a clock.
  *
  * {{{
  *  beats ─► splitter ─► low, high ─► window: token · literals · offset ──┐ what comes next
  *                                       │ literals                       ▼
  *           packer ◄─┬──────────── literals after the match's bytes ◄─ match: offset, bytes left
  *           (beats)  └─► history ──────────── match's bytes ────────────▲
  * }}}
  *
  * A clock moves the bytes of a match that is under way. If these are its last, the next sequence's
  * literals follow them in the same clock, and its offset and lengths are kept for the next. The bytes of
  * a length beyond the token's four bits take a clock each.
  *
  * Each clock gives bytes or uses some, so a block ends: `clock_bound` in the twin (`weir-type2`,
  * `engines/lz4`) says when.
  */
class Lz4Decoder(sizes: Lz4Sizes = Lz4Sizes()) extends Lz4Engine(sizes) {
  import Lz4Format._
  private val move = sizes.moveBytes
  private val lengthBits = sizes.lengthBits

  private object Part extends ChiselEnum { val token, literalLength, literals, matchLength = Value }
  private val part = Reg(Part())
  private val remaining = Reg(UInt(lengthBits.W))
  private val literals = Reg(UInt(lengthBits.W))
  private val matchCode = Reg(UInt(4.W))
  private val matchBytes = Reg(UInt(lengthBits.W))
  private val offset = Reg(UInt(16.W))
  private val window = Module(new PieceWindow(sizes))
  private val history = Module(new ByteMemory(sizes, readPorts = 1))

  // These are methods so that proofs can build decoders that get them wrong, and see them refuted.

  protected def isBeforeStart(offset: UInt, position: UInt): Bool = offset > position
  protected def matchPasses(end: UInt): Bool = end +& literalTailBytes.U > limitBytes
  protected def literalsPass(end: UInt): Bool = end > limitBytes
  protected def isTrailing(end: UInt): Bool = end +& matchStartTailBytes.U > limitBytes
  protected def matchMove(left: UInt): UInt = Mux(left > move.U, move.U, left)

  override protected def isPossible(command: Lz4Command): Bool =
    super.isPossible(command) && isLength(command.limitBytes)

  window.io.restart := isStarting
  window.io.piece <> splitter.io.piece
  window.io.isOver := splitter.io.isOver
  when(isStarting) {
    part := Part.token
    remaining := io.command.bits.inputBytes
    matchBytes := 0.U
  }

  private val go = isWorking && window.io.isFull && packer.io.isReady
  private val bytes = window.io.bytes
  private val isToken = part === Part.token
  private val isAtLiterals = part === Part.literals

  // The match under way.
  private val moved = matchMove(matchBytes)
  private val isMatchOver = matchBytes <= move.U
  private val afterMatch = position +& moved

  // The sequence at the window's front.
  private val before = Mux(isToken, 1.U, 0.U)
  private val tokenLiterals = bytes(0)(7, 4)
  private val sequenceLiterals = Mux(isToken, tokenLiterals, literals)
  private val isWhole = Mux(
    isToken,
    isMatchOver && tokenLiterals +& offsetBytes.U < move.U && tokenLiterals +& moved <= move.U,
    isAtLiterals && literals <= (move - offsetBytes).U
  )
  private val onlyLiterals = matchMove(literals)
  private val afterLiterals = afterMatch +& sequenceLiterals
  private val front = before +& sequenceLiterals
  private val isLast = front === remaining
  private val code = Mux(isToken, bytes(0)(3, 0), matchCode)
  private val lengthByte = bytes(0)

  private val flaw = MuxCase(
    Lz4Flaw.none.U,
    Seq(
      (matchBytes =/= 0.U && offset === 0.U) -> Lz4Flaw.offsetZero,
      (matchBytes =/= 0.U && isBeforeStart(offset, position)) -> Lz4Flaw.offsetBeforeStart,
      (matchBytes =/= 0.U && matchPasses(position +& matchBytes)) -> Lz4Flaw.outputBeyondLimit,
      (hasLiterals && literals > remaining) -> Lz4Flaw.literalsBeyondInput,
      (hasLiterals && literalsPass(position +& literals)) -> Lz4Flaw.outputBeyondLimit,
      (isToken && isMatchOver && remaining === 0.U) -> Lz4Flaw.truncated,
      (isWhole && front > remaining) -> Lz4Flaw.literalsBeyondInput,
      (isWhole && literalsPass(afterLiterals)) -> Lz4Flaw.outputBeyondLimit,
      (isWhole && !isLast && remaining - front < afterLiteralsMin.U) -> Lz4Flaw.truncated,
      (isWhole && !isLast && isTrailing(afterLiterals)) -> Lz4Flaw.trailingInput,
      (part === Part.matchLength && remaining <= afterMatchLengthMin.U) -> Lz4Flaw.truncated
    ).map { case (is, flaw) => is -> flaw.U }
  )
  private def hasLiterals: Bool = part === Part.literalLength || isAtLiterals

  /** After literals that are not the last: an offset, a token, and the literals at the page's end. */
  private def afterLiteralsMin: Int = offsetBytes + 1 + literalTailBytes

  /** After a match's length: less cannot be a last sequence that liblz4 takes. */
  private def afterMatchLengthMin: Int = 4

  // What is used, and what is given: the match's bytes, then literals.
  private val used = MuxCase(
    0.U,
    Seq(
      isWhole -> Mux(isLast, front, front +& offsetBytes.U),
      isToken -> Mux(isMatchOver, 1.U, 0.U),
      isAtLiterals -> onlyLiterals
    ) :+ (true.B -> 1.U)
  )(sizes.countBits - 1, 0)
  private val literalCount = Mux(isWhole, sequenceLiterals, Mux(isAtLiterals, onlyLiterals, 0.U))
  protected val count: UInt = (moved +& literalCount)(sizes.countBits - 1, 0)
  private val takenLiterals = Bytes.rotateRight(bytes, (before - moved)(sizes.moveBits - 1, 0))
  private val output = VecInit((0 until move).map(i => Mux(i.U < moved, matched(i), takenLiterals(i))))
  protected val isGood: Bool = go && flaw === Lz4Flaw.none.U

  history.io.readAddress(0) := position - offset
  history.io.writeAddress := position
  history.io.write.valid := isGood
  history.io.write.bits.bytes := output
  history.io.write.bits.count := count
  give(isGood, output, count)
  window.io.used := Mux(isGood, used, 0.U)

  /** Byte i of a match. Where it reaches into itself the bytes before it repeat. */
  private def matched(i: Int): UInt = {
    val read = history.io.read(0)
    if (i == 0) read(0)
    else {
      val repeated = VecInit((0 until move).map(offset => read(if (offset == 0) 0 else i % offset)))
      Mux(offset < move.U, repeated(offset(sizes.moveBits - 1, 0)), read(i))
    }
  }

  when(go && flaw =/= Lz4Flaw.none.U) { refuse(flaw) }
  when(isGood) { step() }

  private def step(): Unit = {
    remaining := remaining - used
    matchBytes := matchBytes - moved
    when(isWhole) {
      when(isLast) { finish() }.otherwise(keepMatch())
    }.elsewhen(isToken && isMatchOver) {
      matchCode := code
      literals := tokenLiterals
      part := Mux(tokenLiterals === lengthCodeMax.U, Part.literalLength, Part.literals)
    }.elsewhen(isAtLiterals) {
      literals := literals - onlyLiterals
      when(onlyLiterals === remaining) { finish() }
    }.elsewhen(part === Part.literalLength) {
      literals := literals + lengthByte
      when(lengthByte =/= lengthByteMax.U) { part := Part.literals }
    }.elsewhen(part === Part.matchLength) {
      matchBytes := matchBytes - moved + lengthByte
      when(lengthByte =/= lengthByteMax.U) { part := Part.token }
    }
  }

  private def keepMatch(): Unit = {
    val at = front(sizes.moveBits - 1, 0)
    offset := bytes(at + 1.U) ## bytes(at)
    matchBytes := code +& matchBytesMin.U
    matchCode := code
    part := Mux(code === lengthCodeMax.U, Part.matchLength, Part.token)
  }
}

/** The next `moveBytes` bytes of an input, out of two pieces of it. */
class PieceWindow(sizes: Lz4Sizes) extends Module {
  private val move = sizes.moveBytes
  val io = IO(new Bundle {
    val restart = Input(Bool())
    val piece = Flipped(Decoupled(UInt((8 * move).W)))

    /** No further piece comes. */
    val isOver = Input(Bool())

    /** The bytes are there, or all that are left. */
    val isFull = Output(Bool())
    val bytes = Output(Vec(move, UInt(8.W)))

    /** How many of them are used in this clock; 0 unless `isFull`. */
    val used = Input(UInt(sizes.countBits.W))
  })
  private val low = Reg(UInt((8 * move).W))
  private val high = Reg(UInt((8 * move).W))
  private val hasLow = RegInit(false.B)
  private val hasHigh = RegInit(false.B)
  private val at = RegInit(0.U(sizes.moveBits.W))

  io.isFull := hasLow && (hasHigh || io.isOver)
  io.bytes := VecInit(Bytes.rotateRight(Bytes.of(high ## low), 0.U(1.W) ## at).take(move))

  private val end = at +& io.used
  private val isShifted = end >= move.U
  io.piece.ready := !hasLow || !hasHigh || isShifted
  at := end
  private val keepsLow = Mux(isShifted, hasHigh, hasLow)
  private val keepsHigh = hasHigh && !isShifted
  when(isShifted) { low := high }
  when(io.piece.fire) {
    when(keepsLow) { high := io.piece.bits }.otherwise { low := io.piece.bits }
  }
  hasLow := keepsLow || io.piece.fire
  hasHigh := keepsHigh || (io.piece.fire && keepsLow)
  when(io.restart) {
    at := 0.U
    hasLow := false.B
    hasHigh := false.B
  }
}
