// SPDX-License-Identifier: Apache-2.0 OR MIT
package weir

import chisel3._
import chisel3.util._

/** A request of the host to the registers: one 64-bit word, aligned. */
class WordRequest extends Bundle {
  val address = UInt(log2Ceil(RegisterMap.barBytes).W) // its lowest three bits are 0
  val write = Bool()

  /** Of a write: which halves. */
  val halves = Vec(2, Bool())
  val data = UInt(64.W)
}

/** Carries requests from the clock of the bus to that of the counters, and answers back; one at a time.
  *
  * Each side holds its word still and flips a flag; the other sees the flip two or three of its clocks later
  * and takes the word. So only the flags pass through synchronisers, and no word is ever seen half. The two
  * clocks need no relation. The resets must overlap, or a flag would be taken for a flip.
  */
class ClockCrossing extends RawModule {
  val io = IO(new Bundle {
    val busClock = Input(Clock())
    val busReset = Input(Bool())
    val coreClock = Input(Clock())
    val coreReset = Input(Bool())

    /** In the clock of the bus. */
    val request = Flipped(Decoupled(new WordRequest))
    val answer = Valid(UInt(64.W))

    /** In the clock of the counters. `coreRequest` stays until `coreAnswer`. */
    val coreRequest = Valid(new WordRequest)
    val coreAnswer = Flipped(Valid(UInt(64.W)))
  })

  private val asked = Wire(Bool())
  private val answered = Wire(Bool())
  private val request = Wire(new WordRequest)
  private val answer = Wire(UInt(64.W))

  withClockAndReset(io.busClock, io.busReset) {
    val flag = RegInit(false.B)
    val word = Reg(new WordRequest)
    val waiting = RegInit(false.B)
    val seen = synchronised(answered)
    io.request.ready := !waiting
    when(io.request.fire) {
      flag := !flag
      word := io.request.bits
      waiting := true.B
    }
    io.answer.valid := waiting && seen === flag
    io.answer.bits := answer
    when(io.answer.valid) { waiting := false.B }
    asked := flag
    request := word
  }

  withClockAndReset(io.coreClock, io.coreReset) {
    val flag = RegInit(false.B)
    val word = Reg(UInt(64.W))
    val seen = synchronised(asked)
    io.coreRequest.valid := seen =/= flag
    io.coreRequest.bits := request
    when(io.coreRequest.valid && io.coreAnswer.valid) {
      flag := !flag
      word := io.coreAnswer.bits
    }
    answered := flag
    answer := word
  }

  /** Two flip-flops, between which metastability settles. */
  private def synchronised(flag: Bool): Bool = RegNext(RegNext(flag, false.B), false.B)
}
