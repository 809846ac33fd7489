// SPDX-License-Identifier: Apache-2.0 OR MIT
package weir

import chisel3._
import chisel3.util._

/** Sizes of an engine; others than these defaults are for proofs.
  *
  * @param maxBytes  the longest page, and the longest block
  * @param beatBytes what crosses a port in a clock
  * @param moveBytes what is moved or compared in a clock
  */
case class Lz4Sizes(maxBytes: Int = 4096, beatBytes: Int = 64, moveBytes: Int = 16) {
  require(isPow2(maxBytes) && isPow2(beatBytes) && isPow2(moveBytes), s"$this: sizes are powers of two")
  require(moveBytes >= 4 && beatBytes > moveBytes, s"$this: a beat is longer than a move, and that at least 4")
  require(maxBytes >= 2 * beatBytes, s"$this: a page has at least two beats")

  /** Bits of a length, which may be the longest. */
  val lengthBits: Int = log2Ceil(maxBytes + 1)
  val moveBits: Int = log2Ceil(moveBytes)
  val countBits: Int = log2Ceil(moveBytes + 1)
}

/** Figures of LZ4's block format. */
object Lz4Format {
  val matchBytesMin = 4

  /** So many bytes at the end of a page belong to no match. */
  val literalTailBytes = 5

  /** No match begins in so many bytes at the end of a page. */
  val matchStartTailBytes = 12
  val offsetBytes = 2

  /** A length in the token that further bytes are added to. */
  val lengthCodeMax = 15

  /** A length byte that another one follows. */
  val lengthByteMax = 255
}

/** Why an engine gives no result; the twins have the same numbers. */
object Lz4Flaw {
  val none = 0
  val truncated = 1
  val literalsBeyondInput = 2
  val offsetZero = 3
  val offsetBeforeStart = 4
  val outputBeyondLimit = 5
  val trailingInput = 6

  /** The command's lengths are 0 or more than the engine takes. */
  val length = 7

  /** Of the encoder: the block would not be smaller than the page. */
  val incompressible = 1
}

class Lz4Command(sizes: Lz4Sizes) extends Bundle {
  val inputBytes = UInt(sizes.lengthBits.W)

  /** The most bytes that the decoder may give; the encoder ignores it. */
  val limitBytes = UInt(sizes.lengthBits.W)
}

class Lz4Result(sizes: Lz4Sizes) extends Bundle {
  val bytes = UInt(sizes.lengthBits.W)

  /** [[Lz4Flaw]]; if it is not 0, what was given is worthless. */
  val flaw = UInt(3.W)

  /** From the command to this result, both clocks included. */
  val clocks = UInt(16.W)
}

class Lz4Port(sizes: Lz4Sizes) extends Bundle {
  val command = Flipped(Decoupled(new Lz4Command(sizes)))

  /** The input's bytes, the first in the lowest bits. As many beats as hold its bytes are taken, whatever
   * comes. */
  val in = Flipped(Decoupled(UInt((8 * sizes.beatBytes).W)))

  /** The output's, in the same order; what lies beyond its bytes in the last beat has no meaning. */
  val out = Decoupled(UInt((8 * sizes.beatBytes).W))

  /** Comes when all beats are taken. */
  val result = Decoupled(new Lz4Result(sizes))
}

/** What encoder and decoder have in common: how an input comes in, its output goes out, and they end.
  *
  * {{{
  *  command ─► working ── finish, refuse ─► closing ── input taken, last beat given ─► done ─► result
  * }}}
  */
abstract class Lz4Engine(val sizes: Lz4Sizes) extends Module {
  val io = IO(new Lz4Port(sizes))

  private object State extends ChiselEnum { val idle, working, closing, done = Value }
  private val state = RegInit(State.idle)
  private val flaw = Reg(UInt(3.W))
  private val clocks = Reg(UInt(16.W))

  protected val inputBytes = Reg(UInt(sizes.lengthBits.W))
  protected val limitBytes = Reg(UInt(sizes.lengthBits.W))

  /** Bytes of output so far. */
  protected val position = RegInit(0.U(sizes.lengthBits.W))
  protected val splitter = Module(new BeatSplitter(sizes))
  protected val packer = Module(new BeatPacker(sizes))

  protected val isWorking: Bool = state === State.working
  protected val isStarting: Bool = io.command.fire

  /** Commands must wait. */
  protected val isHeldOff: Bool = WireDefault(false.B)

  /** Whether a command's lengths can be. */
  protected def isPossible(command: Lz4Command): Bool = isLength(command.inputBytes)
  protected def isLength(bytes: UInt): Bool = bytes =/= 0.U && bytes <= sizes.maxBytes.U

  /** Whether what is left of the input is taken and forgotten; proofs can get it wrong. */
  protected def drains(isClosing: Bool): Bool = isClosing

  splitter.io.start.valid := isStarting
  splitter.io.start.bits := Mux(isPossible(io.command.bits), io.command.bits.inputBytes, 0.U)
  splitter.io.drain := drains(state === State.closing)
  splitter.io.in <> io.in
  packer.io.restart := isStarting
  packer.io.flush := state === State.closing && flaw === 0.U
  io.out <> packer.io.out

  io.command.ready := state === State.idle && !isHeldOff
  io.result.valid := state === State.done && packer.io.isEmpty
  io.result.bits.bytes := position
  io.result.bits.flaw := flaw
  io.result.bits.clocks := clocks + 1.U
  when(!io.result.valid) { clocks := clocks + 1.U }
  when(isStarting) {
    val isGood = isPossible(io.command.bits)
    state := Mux(isGood, State.working, State.closing)
    flaw := Mux(isGood, 0.U, Lz4Flaw.length.U)
    clocks := 1.U
    inputBytes := io.command.bits.inputBytes
    limitBytes := io.command.bits.limitBytes
    position := 0.U
  }
  when(state === State.closing && splitter.io.isTaken && packer.io.isReady) { state := State.done }
  when(io.result.fire) { state := State.idle }

  /** The output is complete. */
  protected def finish(): Unit = state := State.closing

  protected def refuse(reason: UInt): Unit = {
    state := State.closing
    flaw := reason
  }

  /** Gives bytes, which are the next. */
  protected def give(isGiven: Bool, bytes: Vec[UInt], count: UInt): Unit = {
    packer.io.move.valid := isGiven
    packer.io.move.bits.bytes := bytes
    packer.io.move.bits.count := count
    when(isGiven) { position := position + count }
  }
}
