// SPDX-License-Identifier: Apache-2.0 OR MIT
package weir

import chisel3._
import chisel3.util._

/** A read or write of one line of 64 bytes. Writes are posted: those of the port take effect in the order in which
  * they are taken, and are not answered.
  */
class DmaRequest(tagBits: Int) extends Bundle {
  val write = Bool()

  /** Of a read: its answer has it too. */
  val tag = UInt(tagBits.W)

  /** Bits 63 to 6 of the address. */
  val line = UInt(58.W)
  val data = UInt(512.W)

  /** Of a write: which bytes. */
  val strobe = UInt(64.W)
}

/** The answer of a read. Those with one tag come in order. The device takes each at once. */
class DmaAnswer(tagBits: Int) extends Bundle {
  val tag = UInt(tagBits.W)
  val data = UInt(512.W)
  val error = Bool()
}

/** What a reader asks, and gets: bits 63 to 6 of an address. */
class ReadPort extends Bundle {
  val request = Decoupled(UInt(58.W))
  val answer = Flipped(Valid(new DmaAnswer(0)))
}

/** Bytes of a line that a unit writes. */
class LineWrite extends Bundle {
  val line = UInt(58.W)
  val data = UInt(512.W)
  val strobe = UInt(64.W)
}

/** Lines that follow each other in memory. */
class LineRange extends Bundle {
  val line = UInt(58.W)
  val lines = UInt(7.W)
}

/** Reads lines ahead, up to `depth` of them, and hands them on in order. */
class LineReader(depth: Int) extends Module {
  val io = IO(new Bundle {

    /** Taken when it is idle. */
    val range = Flipped(Valid(new LineRange))

    /** Lines that are not handed on are thrown away. */
    val stop = Input(Bool())
    val idle = Output(Bool())
    val request = Decoupled(UInt(58.W))
    val answer = Flipped(Valid(new DmaAnswer(0)))
    val out = Decoupled(UInt(512.W))

    /** A read of this range failed. */
    val failed = Output(Bool())
  })

  private val line = Reg(UInt(58.W))
  private val left = RegInit(0.U(7.W))
  private val outstanding = RegInit(0.U(log2Ceil(depth + 1).W))
  private val stopping = RegInit(false.B)
  private val failed = RegInit(false.B)
  private val queue = Module(new Queue(UInt(512.W), depth, hasFlush = true))

  io.request.valid := left =/= 0.U && outstanding +& queue.io.count < depth.U
  io.request.bits := line
  when(io.request.fire) {
    line := line + 1.U
    left := left - 1.U
  }
  outstanding := outstanding + io.request.fire - io.answer.valid
  when(io.answer.valid && io.answer.bits.error) { failed := true.B }

  queue.io.enq.valid := io.answer.valid && !stopping && !io.stop
  queue.io.enq.bits := io.answer.bits.data
  queue.flush := io.stop
  io.out <> queue.io.deq

  when(io.stop) {
    left := 0.U
    stopping := true.B
  }
  io.idle := left === 0.U && outstanding === 0.U && queue.io.count === 0.U
  io.failed := failed
  when(io.range.valid) {
    line := io.range.bits.line
    left := io.range.bits.lines
    stopping := false.B
    failed := false.B
  }
}
