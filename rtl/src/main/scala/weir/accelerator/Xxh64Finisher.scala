// SPDX-License-Identifier: Apache-2.0 OR MIT
package weir

import chisel3._
import chisel3.util._

/** A page whose stripes are in its accumulators. */
class HashedStripes(p: Xxh64Parameters) extends Bundle {
  val slot = UInt(p.slotBits.W)
  val pageBytes = UInt(p.lengthBits.W)
  val accumulators = Vec(4, UInt(p.wordBits.W))

  /** What is left of the page: its length modulo 32, in bytes. */
  val rest = UInt(p.stripeBits.W)
}

/** The end of XXH64: merges the accumulators, takes the rest in, and mixes. One page at a time, one multiplier,
  * and `slots` clocks a product: three for each accumulator and each word of the rest, two for half a word,
  * for each byte, and for mixing. A page of 4096 bytes has 14.
  */
class Xxh64Finisher(p: Xxh64Parameters) extends Module {
  val io = IO(new Bundle {

    /** It must be idle: a hash that is taken makes it so. */
    val page = Flipped(Valid(new HashedStripes(p)))
    val hash = Decoupled(new SlotHash(p))
  })

  private val running = RegInit(false.B)
  private val done = RegInit(false.B)
  private val slot = Reg(UInt(p.slotBits.W))
  private val pageBytes = Reg(UInt(p.lengthBits.W))
  private val accumulators = Reg(Vec(4, UInt(p.wordBits.W)))
  private val rest = Reg(UInt(p.stripeBits.W))
  private val hash = Reg(UInt(p.wordBits.W))
  private val round = Reg(UInt(p.wordBits.W))

  private val accumulatorsLeft = Reg(UInt(3.W))
  private val wordsLeft = Reg(UInt(2.W))
  private val halfLeft = Reg(Bool())
  private val bytesLeft = Reg(UInt(2.W))
  private val part = Reg(UInt(2.W))
  private val phase = Reg(UInt(log2Ceil(p.slots).W))

  private val merges = accumulatorsLeft =/= 0.U
  private val takesWord = !merges && wordsLeft =/= 0.U
  private val takesHalf = !merges && !takesWord && halfLeft
  private val takesByte = !merges && !takesWord && !takesHalf && bytesLeft =/= 0.U
  private val isRound = merges || takesWord
  private val isLastPart = part === Mux(isRound, 2.U, 1.U)

  private val word = rest(p.wordBits - 1, 0)
  private val halfWord = rest(p.wordBits / 2 - 1, 0)
  private val byte = rest(p.byteBits - 1, 0)

  // The product of this part, in the last of its clocks.
  private val mixed = Mux(part === 0.U, hash ^ p.shifted(hash, 33), hash ^ p.shifted(hash, 29))
  private val first = MuxCase(mixed, Seq(merges -> accumulators(0), takesWord -> word, takesHalf -> halfWord, takesByte -> byte))
  private val isMixing = !isRound && !takesHalf && !takesByte
  private val operand = RegNext(
    Mux(part === 0.U || isMixing, first, Mux(isRound && part === 1.U, round, hash))
  )
  private val factor = RegNext(
    Mux(
      part === 0.U,
      MuxCase(p.p2, Seq(takesHalf -> p.p1, takesByte -> p.p5)),
      MuxCase(p.p1, Seq(takesHalf -> p.p2, isMixing -> p.p3))
    )
  )
  private val product = ShiftRegister((operand * factor)(p.wordBits - 1, 0), p.slots - 2)

  private val isLastMerge = accumulatorsLeft === 1.U
  private val turned = Seq(1, 7, 12, 18).zip(accumulators).map { case (by, word) => p.rotated(word, by) }
  when(running) {
    phase := phase + 1.U
    when(phase === 0.U && part === 0.U && accumulatorsLeft === 4.U) { hash := turned.reduce(_ + _) }
    when(phase === (p.slots - 1).U) {
      phase := 0.U
      part := Mux(isLastPart, 0.U, part + 1.U)
      val taken = hash ^ product
      when(isRound) {
        when(part === 0.U) { round := p.rotated(product, 31) }
        when(part === 1.U) { hash := Mux(merges, taken, p.rotated(taken, 27)) }
        when(part === 2.U) { hash := product + p.p4 + Mux(isLastMerge, pageBytes, 0.U) }
      }.elsewhen(takesHalf) {
        hash := Mux(part === 0.U, p.rotated(taken, 23), product + p.p3)
      }.elsewhen(takesByte) {
        hash := Mux(part === 0.U, p.rotated(taken, 11), product)
      }.otherwise {
        hash := product
      }
      when(isLastPart) {
        when(merges) {
          accumulatorsLeft := accumulatorsLeft - 1.U
          accumulators := VecInit(accumulators.tail :+ accumulators.head)
        }.elsewhen(takesWord) {
          wordsLeft := wordsLeft - 1.U
          rest := rest >> p.wordBits
        }.elsewhen(takesHalf) {
          halfLeft := false.B
          rest := rest >> (p.wordBits / 2)
        }.elsewhen(takesByte) {
          bytesLeft := bytesLeft - 1.U
          rest := rest >> p.byteBits
        }.otherwise {
          running := false.B
          done := true.B
        }
      }
    }
  }

  when(io.page.valid) {
    val page = io.page.bits
    running := true.B
    slot := page.slot
    pageBytes := page.pageBytes
    accumulators := page.accumulators
    rest := page.rest
    hash := (p.p5 +& page.pageBytes)(p.wordBits - 1, 0)
    accumulatorsLeft := Mux(page.pageBytes >= 32.U, 4.U, 0.U)
    wordsLeft := page.pageBytes(4, 3)
    halfLeft := page.pageBytes(2)
    bytesLeft := page.pageBytes(1, 0)
    part := 0.U
    phase := 0.U
  }

  io.hash.valid := done
  io.hash.bits.slot := slot
  io.hash.bits.value := hash ^ p.shifted(hash, 32)
  when(io.hash.fire) { done := false.B }
}
