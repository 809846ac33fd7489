// SPDX-License-Identifier: Apache-2.0 OR MIT
package weir

import chisel3._
import chisel3.util._

/** Finds matches: looks up some positions a clock, then compares `moveBytes` bytes a clock.
  *
  * Where nothing is found the search goes faster: after four clocks it leaves out as many positions as it
  * looks up.
  */
class Lz4Search(positions: Int, sizes: Lz4Sizes) extends Module {
  import Lz4Format._
  private val move = sizes.moveBytes
  private val lengthBits = sizes.lengthBits
  private val patienceClocks = 4
  val io = IO(new Bundle {
    val restart = Input(Bool())
    val isWorking = Input(Bool())
    val inputBytes = Input(UInt(lengthBits.W))
    val loadedBytes = Input(UInt(lengthBits.W))

    /** Two places of the page, and the bytes there in the same clock. */
    val at = Output(UInt(lengthBits.W))
    val seen = Output(UInt(lengthBits.W))
    val atBytes = Input(Vec(move, UInt(8.W)))
    val seenBytes = Input(Vec(move, UInt(8.W)))
    val found = Decoupled(new Lz4Sequence(sizes))

    /** The table is not yet empty after a reset. */
    val isSweeping = Output(Bool())
  })
  private object Stage extends ChiselEnum { val look, compare, over = Value }
  private val stage = RegInit(Stage.over)

  /** Where is looked, or compared, next. */
  private val at = Reg(UInt(lengthBits.W))
  private val seen = Reg(UInt(lengthBits.W))

  /** Where the match under way begins. */
  private val start = Reg(UInt(lengthBits.W))

  /** The first byte that no sequence has. */
  private val anchor = Reg(UInt(lengthBits.W))
  private val misses = Reg(UInt(log2Ceil(patienceClocks + 1).W))
  private val table = Module(new Lz4HashTable(positions, sizes))

  io.at := at
  io.seen := seen
  io.isSweeping := table.io.isSweeping
  table.io.restart := io.restart

  private val isLoaded = io.loadedBytes === io.inputBytes || io.loadedBytes >= at +& move.U
  private val go = io.isWorking && isLoaded && io.found.ready
  private val isLast = at +& matchStartTailBytes.U > io.inputBytes
  private val looks = go && stage === Stage.look && !isLast
  private val compares = go && stage === Stage.compare

  table.io.isLooking := looks
  table.io.at := at
  for ((key, i) <- table.io.keys.zipWithIndex) {
    key.valid := at +& (i + matchStartTailBytes).U <= io.inputBytes
    key.bits := VecInit(io.atBytes.slice(i, i + 2 * matchBytesMin)).asUInt
  }

  // Of what is found at once, the bytes that may belong to a match: only at the last position are they
  // fewer than 4.
  private val lookStart = at + table.io.lane
  private val isLastStart = lookStart +& matchStartTailBytes.U === io.inputBytes
  private val more = Mux(isLastStart && table.io.more === 4.U, 3.U, table.io.more)
  private val lookEnd = lookStart + matchBytesMin.U + more
  private val lookSeen = table.io.position + matchBytesMin.U + more

  // Of what is compared.
  private val room = tailAt - at
  private val differs = (0 until move).map(i => io.atBytes(i) =/= io.seenBytes(i) || i.U === room)
  private val equal = PriorityMux(differs.zipWithIndex.map { case (d, i) => d -> i.U } :+ (true.B -> move.U))
  private val compareEnd = at + equal
  private val compareSeen = seen + equal

  private val lookFinds = looks && table.io.isFound && more =/= matchBytesMin.U
  private val compareFinds = compares && equal =/= move.U
  private val isOver = go && stage === Stage.look && isLast
  private val matchStart = Mux(compares, start, lookStart)
  private val matchEnd = Mux(compares, compareEnd, lookEnd)
  io.found.valid := lookFinds || compareFinds || isOver
  io.found.bits.anchor := anchor
  io.found.bits.literals := Mux(isOver, io.inputBytes, matchStart) - anchor
  io.found.bits.offset := matchEnd - Mux(compares, compareSeen, lookSeen)
  io.found.bits.matchBytes := Mux(isOver, 0.U, matchEnd - matchStart)

  when(looks) {
    when(table.io.isFound) {
      misses := 0.U
      start := lookStart
      at := lookEnd
      seen := lookSeen
      when(!lookFinds) { stage := Stage.compare }
    }.otherwise {
      val isPatient = misses =/= patienceClocks.U
      misses := misses + isPatient
      at := at + Mux(isPatient, positions.U, (2 * positions).U)
    }
  }
  when(compares) {
    at := compareEnd
    seen := compareSeen
  }
  when(lookFinds || compareFinds) {
    anchor := matchEnd
    stage := Stage.look
  }
  when(isOver) { stage := Stage.over }
  /** Where the page's tail begins, which belongs to no match; proofs can get it wrong. */
  protected def tailAt: UInt = io.inputBytes - literalTailBytes.U

  when(io.restart) {
    stage := Stage.look
    at := 0.U
    anchor := 0.U
    misses := 0.U
  }
}
