// SPDX-License-Identifier: Apache-2.0 OR MIT
package weir

import chisel3._
import chisel3.util._

/** Up to 64 bytes of two pages, as many of each. */
class ComparePair extends Bundle {
  val left = UInt(512.W)
  val right = UInt(512.W)

  /** Bytes of each that count, 1 to 64. */
  val bytes = UInt(7.W)
  val isFirst = Bool()
  val isLast = Bool()
}

/** What a comparison says. */
class Comparison extends Bundle {

  /** Byte of the first difference, or the length where there is none. */
  val firstDifference = UInt(13.W)
  val differs = Bool()

  /** There the first page has the smaller byte. */
  val isLess = Bool()
}

/** Compares two pages, 64 bytes of each a clock, as memcmp does. Its twin is
  * crates/weir-type2/src/engines/page_compare.rs, equal to it in results and in clocks.
  *
  * A pair's result is there three clocks later: a bit a byte, the first of them, the result. Pages follow
  * each other without a gap. A difference is a result at once: the source may begin the next page, and pairs
  * of the old one are ignored. A result that is not taken holds all stages.
  */
class PageCompare extends Module {
  val io = IO(new Bundle {
    val pair = Flipped(Decoupled(new ComparePair))
    val result = Decoupled(new Comparison)
  })
  private val beatBytes = 64

  private class Stage extends Bundle {
    val bytes = UInt(7.W)
    val isFirst = Bool()
    val isLast = Bool()
  }

  private val resultValid = RegInit(false.B)
  private val result = Reg(new Comparison)
  private val moves = !resultValid || io.result.ready
  io.pair.ready := moves
  io.result.valid := resultValid
  io.result.bits := result

  // A bit a byte.
  private def bytesOf(beat: UInt): Seq[UInt] = (0 until beatBytes).map(i => beat(8 * i + 7, 8 * i))
  private val bytes = bytesOf(io.pair.bits.left).zip(bytesOf(io.pair.bits.right))
  private val compared = RegEnable(io.pair.valid, false.B, moves)
  private val comparedStage = RegEnable(stage(io.pair.bits), moves)
  private val differs = RegEnable(
    VecInit(bytes.zipWithIndex.map { case ((left, right), i) => left =/= right && i.U < io.pair.bits.bytes }),
    moves
  )
  private val less = RegEnable(VecInit(bytes.map { case (left, right) => left < right }), moves)

  // The first of them.
  private val encoded = RegEnable(compared, false.B, moves)
  private val encodedStage = RegEnable(comparedStage, moves)
  private val found = RegEnable(differs.asUInt.orR, moves)
  private val index = RegEnable(PriorityEncoder(differs), moves)
  private val isLess = RegEnable(PriorityMux(differs, less), moves)

  // The result: of the first pair with a difference, or of the last.
  private val isOpen = RegInit(false.B)
  private val before = Reg(UInt(13.W))
  private val start = Mux(encodedStage.isFirst, 0.U, before)
  private val counts = encoded && (encodedStage.isFirst || isOpen)
  private val says = counts && (found || encodedStage.isLast)
  when(moves) {
    resultValid := says
    result.firstDifference := start + Mux(found, index, encodedStage.bytes)
    result.differs := found
    result.isLess := found && isLess
    when(counts) {
      isOpen := !says
      before := start + beatBytes.U
    }
  }

  private def stage(pair: ComparePair): Stage = {
    val stage = Wire(new Stage)
    stage.bytes := pair.bytes
    stage.isFirst := pair.isFirst
    stage.isLast := pair.isLast
    stage
  }
}
