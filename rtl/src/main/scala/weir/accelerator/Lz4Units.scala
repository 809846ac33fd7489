// SPDX-License-Identifier: Apache-2.0 OR MIT
package weir

import chisel3._
import chisel3.util._
import AcceleratorMap.{Flag, Op, Status}

/** Works on the source with an LZ4 engine, and writes what it gives to the destination.
  *
  * {{{
  *  memory ─► LineReader ─► engine ─► beats, bytes of the result and of the room alone ─► memory
  * }}}
  *
  * No byte behind the result or the room is written. What does not fit is refused; what was written before a
  * refusal is worthless. The engine's result comes when all its beats are taken, so the completion is behind
  * all writes.
  */
abstract class Lz4Unit(p: AcceleratorParameters, op: Int)
    extends RequestUnit(p, op, Seq(_.source), writes = true) {
  protected def makeEngine(): Lz4Engine
  protected val engine: Lz4Engine = Module(makeEngine())
  private val write = io.write.get
  private val reader = readers.head

  /** Bytes of the destination that may be written: no result is longer than a page. */
  private val room = Mux(request.destinationBytes > 4096.U, 4096.U, request.destinationBytes(12, 0))

  private val isAsked = RegInit(false.B)
  when(isStarting) { isAsked := true.B }.elsewhen(engine.io.command.fire) { isAsked := false.B }
  engine.io.command.valid := isAsked
  engine.io.command.bits.inputBytes := bytes
  engine.io.command.bits.limitBytes := room
  engine.io.in <> reader.io.out

  // Of a beat, the bytes that are the result's. They are all there when the beat is.
  private val at = Reg(UInt(13.W))
  when(isStarting) { at := 0.U }.elsewhen(engine.io.out.fire) { at := at + 64.U }
  private val length = engine.io.result.bits.bytes
  private val writeEnd = writtenEnd(length, room)
  private val fits = writeEnd > at
  write.valid := engine.io.out.valid && fits
  write.bits.line := (request.destination >> 6) + (at >> 6)
  write.bits.data := engine.io.out.bits
  write.bits.strobe := VecInit((0 until 64).map(byte => at +& byte.U < writeEnd)).asUInt
  engine.io.out.ready := isTaken(write.ready) || !fits

  private val waitsForRead = engine.io.in.ready && !engine.io.in.valid
  private val waitsForWrite = write.valid && !write.ready
  when(isRunning && (waitsForRead || waitsForWrite)) { stall() }

  engine.io.result.ready := true.B
  protected val isEnded: Bool = engine.io.result.valid
  protected val resultBytes: UInt = length
  protected val problem: UInt =
    Mux(engine.io.result.bits.flaw =/= Lz4Flaw.none.U || length > room, Status.refused.U, Status.done.U)

  // Methods, so that tests can build units that get them wrong.

  /** The end of what is written, from the destination on. */
  protected def writtenEnd(length: UInt, room: UInt): UInt = Mux(length > room, room, length)

  /** Whether memory takes a beat. */
  protected def isTaken(ready: Bool): Bool = ready
}

class Lz4DecodeUnit(p: AcceleratorParameters) extends Lz4Unit(p, Op.lz4Decode) {
  override protected def makeEngine(): Lz4Engine = new Lz4Decoder
  when(isEnded) { end(bytes = resultBytes, problem = problem) }
}

/** Encodes; if asked to, decodes the block and compares, before it answers. */
class Lz4EncodeUnit(p: AcceleratorParameters) extends Lz4Unit(p, Op.lz4Encode) {
  private val verifier = Module(new Lz4Verifier)
  private val blockBytes = Reg(UInt(13.W))

  verifier.io.restart := isStarting
  verifier.io.source.valid := engine.io.in.fire
  verifier.io.source.bits := engine.io.in.bits
  verifier.io.block.valid := engine.io.out.fire
  verifier.io.block.bits := engine.io.out.bits
  private val verifies = request.flags(Flag.verify) && problem === Status.done.U
  verifier.io.start.valid := isEnded && verifies
  verifier.io.start.bits.inputBytes := resultBytes
  verifier.io.start.bits.limitBytes := bytes
  when(isEnded) {
    blockBytes := resultBytes
    when(!verifies) { end(bytes = resultBytes, problem = problem) }
  }
  when(verifier.io.isSame.valid) {
    val isSame = verified(verifier.io.isSame.bits)
    end(bytes = blockBytes, problem = Mux(isSame, Status.done.U, Status.verifyFailed.U))
  }

  override protected def makeEngine(): Lz4Engine = new Lz4Encoder(p.positions)

  /** What is found of a block; tests can build a unit that gets it wrong. */
  protected def verified(isSame: Bool): Bool = isSame
}

/** Keeps a page and its block as they pass, then decodes the block and compares. */
class Lz4Verifier extends Module {
  private val sizes = Lz4Sizes()
  val io = IO(new Bundle {

    /** Another page begins. */
    val restart = Input(Bool())

    /** Beats of the page, and of its block. */
    val source = Flipped(Valid(UInt(512.W)))
    val block = Flipped(Valid(UInt(512.W)))

    /** All are here: bytes of the block, and of the page. */
    val start = Flipped(Valid(new Lz4Command(sizes)))

    /** Whether the block is the page's. */
    val isSame = Valid(Bool())
  })
  private val decoder = Module(new Lz4Decoder(sizes))
  private val page = new BeatStore(io.restart, io.source)
  private val block = new BeatStore(io.restart, io.block)
  private val left = Reg(UInt(sizes.lengthBits.W))
  private val pageBytes = Reg(UInt(sizes.lengthBits.W))
  private val isEqual = Reg(Bool())

  decoder.io.command.valid := io.start.valid
  decoder.io.command.bits := io.start.bits
  decoder.io.in.valid := true.B
  decoder.io.in.bits := block.next
  decoder.io.out.ready := true.B
  decoder.io.result.ready := true.B
  when(decoder.io.in.fire) { block.step() }
  when(decoder.io.out.fire) {
    val differs = (0 until 64).map { byte =>
      left > byte.U && decoder.io.out.bits(8 * byte + 7, 8 * byte) =/= page.next(8 * byte + 7, 8 * byte)
    }
    when(differs.reduce(_ || _)) { isEqual := false.B }
    left := Mux(left > 64.U, left - 64.U, 0.U)
    page.step()
  }
  when(io.start.valid) {
    left := io.start.bits.limitBytes
    pageBytes := io.start.bits.limitBytes
    isEqual := true.B
  }
  private val result = decoder.io.result
  io.isSame.valid := result.valid
  io.isSame.bits := isEqual && result.bits.flaw === Lz4Flaw.none.U && result.bits.bytes === pageBytes
}

/** Keeps the beats of a page, and reads them in their order. */
private class BeatStore(restart: Bool, beat: Valid[UInt]) {
  private val beats = Mem(64, UInt(512.W))
  private val written = Reg(UInt(6.W))
  private val read = Reg(UInt(6.W))
  when(beat.valid) {
    beats(written) := beat.bits
    written := written + 1.U
  }
  when(restart) {
    written := 0.U
    read := 0.U
  }

  val next: UInt = beats(read)
  def step(): Unit = read := read + 1.U
}
