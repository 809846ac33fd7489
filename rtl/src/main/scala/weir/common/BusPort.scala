// SPDX-License-Identifier: Apache-2.0 OR MIT
package weir

import chisel3._
import chisel3.util._

/** The bus's view of the registers: loads and stores of 64 or 32 bits at BAR offsets. */
class BusRequest extends Bundle {
  val address = UInt(log2Ceil(RegisterMap.barBytes).W)
  val write = Bool()

  /** 32 bits; otherwise 64. */
  val narrow = Bool()

  /** A narrow store has its value in the lower half. */
  val data = UInt(64.W)
}

/** Makes aligned words of bus accesses, so that a 64-bit value is consistent even over a 32-bit bus.
  *
  * A narrow load of a lower half fetches the whole word and keeps its upper half, which the next narrow load
  * of that upper half returns. So two loads, the lower half first, give one value of one instant; that holds
  * for one reader at a time. Misaligned accesses load 0 and store nothing. A narrow answer has its value in
  * the lower half.
  */
class BusPort extends Module {
  val io = IO(new Bundle {
    val request = Flipped(Decoupled(new BusRequest))
    val answer = Valid(UInt(64.W))
    val word = Decoupled(new WordRequest)
    val wordAnswer = Flipped(Valid(UInt(64.W)))
  })

  private val idle :: asking :: waiting :: answering :: Nil = Enum(4)
  private val state = RegInit(idle)
  private val held = Reg(new BusRequest)
  private val result = Reg(UInt(64.W))
  private val keptHalf = Reg(UInt(32.W))
  private val keptAddress = Reg(UInt((io.request.bits.address.getWidth - 3).W))
  private val isKept = RegInit(false.B)

  private val upper = held.address(2)
  private val wordAddress = held.address >> 3
  private val arrives = io.request.bits
  private val misaligned = arrives.address(1, 0) =/= 0.U || (!arrives.narrow && arrives.address(2))
  private val fromKept =
    arrives.narrow && !arrives.write && arrives.address(2) && isKept && keptAddress === arrives.address >> 3

  io.request.ready := state === idle
  io.word.valid := state === asking
  io.word.bits.address := wordAddress ## 0.U(3.W)
  io.word.bits.write := held.write
  io.word.bits.halves := VecInit(!held.narrow || !upper, !held.narrow || upper)
  io.word.bits.data := Mux(held.narrow && upper, held.data(31, 0) ## 0.U(32.W), held.data)
  io.answer.valid := state === answering
  io.answer.bits := result

  switch(state) {
    is(idle) {
      when(io.request.fire) {
        held := arrives
        isKept := false.B
        result := Mux(fromKept && !misaligned, keptHalf, 0.U)
        state := Mux(misaligned || fromKept, answering, asking)
      }
    }
    is(asking) { when(io.word.fire) { state := waiting } }
    is(waiting) {
      when(io.wordAnswer.valid) {
        val word = io.wordAnswer.bits
        result := Mux(held.narrow, Mux(upper, word(63, 32), word(31, 0)), word)
        keptHalf := word(63, 32)
        keptAddress := wordAddress
        isKept := held.narrow && !upper && !held.write
        state := answering
      }
    }
    is(answering) { state := idle }
  }
}
