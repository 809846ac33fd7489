// SPDX-License-Identifier: Apache-2.0 OR MIT
package weir

import chisel3._
import chisel3.util._

/** Makes an LZ4 block from a page.
  *
  * {{{
  *  beats ─► splitter ─► page ─┬─► Lz4Search ─► 4 sequences ─► Lz4Emitter ─► packer ─► beats
  *                             │   16 bytes at the position,   ▲
  *                             │   16 where they were seen     │ 16 literals
  *                             └───────────────────────────────┘
  * }}}
  *
  * The search begins while the page comes in. It is ahead of what writes the sequences by up to four of them.
  *
  * @param positions positions of the page that are looked up in a clock: 1, 2, 4 or 8
  */
class Lz4Encoder(val positions: Int = 4, sizes: Lz4Sizes = Lz4Sizes()) extends Lz4Engine(sizes) {
  require(Seq(1, 2, 4, 8).contains(positions), s"positions is $positions: 1, 2, 4 or 8 are allowed")
  private val loadedBytes = Reg(UInt(sizes.lengthBits.W))
  private val page = Module(new ByteMemory(sizes, readPorts = 3))
  protected val search: Lz4Search = Module(makeSearch())
  protected val emitter: Lz4Emitter = Module(makeEmitter())
  private val queue = Module(new Queue(new Lz4Sequence(sizes), 4, hasFlush = true))

  splitter.io.piece.ready := isWorking
  page.io.write.valid := splitter.io.piece.fire
  page.io.write.bits.bytes := Bytes.of(splitter.io.piece.bits)
  page.io.write.bits.count := sizes.moveBytes.U
  page.io.writeAddress := loadedBytes
  when(splitter.io.piece.fire) {
    val end = loadedBytes +& sizes.moveBytes.U
    loadedBytes := Mux(end > inputBytes, inputBytes, end)
  }
  when(isStarting) { loadedBytes := 0.U }

  search.io.restart := isStarting
  search.io.isWorking := isWorking
  search.io.inputBytes := inputBytes
  search.io.loadedBytes := loadedBytes
  page.io.readAddress(0) := search.io.at
  page.io.readAddress(1) := search.io.seen
  search.io.atBytes := page.io.read(0)
  search.io.seenBytes := page.io.read(1)
  isHeldOff := search.io.isSweeping

  queue.io.flush.get := isStarting
  queue.io.enq <> search.io.found
  emitter.io.sequence <> queue.io.deq
  emitter.io.restart := isStarting
  emitter.io.isGoing := isWorking && packer.io.isReady
  emitter.io.inputBytes := inputBytes
  emitter.io.position := position
  page.io.readAddress(2) := emitter.io.literalsAt
  emitter.io.literals := page.io.read(2)
  give(emitter.io.move.valid, emitter.io.move.bits.bytes, emitter.io.move.bits.count)
  when(emitter.io.isOver) { finish() }
  when(emitter.io.isTooLarge) { refuse(Lz4Flaw.incompressible.U) }

  // Methods, so that proofs can build encoders that get them wrong.

  protected def makeSearch(): Lz4Search = new Lz4Search(positions, sizes)
  protected def makeEmitter(): Lz4Emitter = new Lz4Emitter(sizes)
}

/** Literals, and a match unless it is the last sequence. */
class Lz4Sequence(sizes: Lz4Sizes) extends Bundle {

  /** Byte of the page where the literals begin. */
  val anchor = UInt(sizes.lengthBits.W)
  val literals = UInt(sizes.lengthBits.W)
  val offset = UInt(16.W)

  /** 0: this is the last sequence. */
  val matchBytes = UInt(sizes.lengthBits.W)
}
