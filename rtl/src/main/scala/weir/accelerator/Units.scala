// SPDX-License-Identifier: Apache-2.0 OR MIT
package weir

import chisel3._
import chisel3.util._
import AcceleratorMap.{Flag, Op, Status}

/** A unit's request, its clocks, and the clocks in which memory keeps its engine waiting. */
private class UnitState(p: AcceleratorParameters, op: Int, port: UnitPort) {
  private val idle :: running :: answering :: Nil = Enum(3)
  private val state = RegInit(idle)
  private val request = Reg(new Request(p.numberBits))
  private val clocks = Reg(UInt(32.W))
  private val stalls = Reg(UInt(32.W))
  private val value = Reg(UInt(64.W))
  private val failed = Reg(Bool())

  val isRunning: Bool = state === running
  val bytes: UInt = request.sourceBytes(12, 0)

  port.request.ready := state === idle
  when(port.request.fire) {
    state := running
    request := port.request.bits
    clocks := 1.U
    stalls := 0.U
  }
  when(state =/= idle) { clocks := clocks + 1.U }
  port.outcome.valid := state === answering
  port.outcome.bits.number := request.number
  port.outcome.bits.status := Mux(failed, Status.dmaError.U, Status.done.U)
  port.outcome.bits.op := op.U
  port.outcome.bits.resultBytes := 0.U
  port.outcome.bits.value := Mux(failed, 0.U, value)
  port.outcome.bits.tag := request.tag
  port.outcome.bits.clocks := clocks
  port.outcome.bits.stalls := stalls
  port.outcome.bits.interrupt := request.flags(Flag.interrupt)
  when(port.outcome.fire) { state := idle }

  /** A clock in which memory keeps the engine waiting. */
  def stall(): Unit = stalls := stalls + 1.U

  /** The engine's result. */
  def end(result: UInt, isFailed: Bool): Unit = {
    state := answering
    value := result
    failed := isFailed
  }
}

/** Feeds one slot of the hash. */
class HashUnit(p: AcceleratorParameters, slot: Int) extends Module {
  val io = IO(new Bundle {
    val port = Flipped(new UnitPort(p.numberBits))
    val read = Decoupled(UInt(58.W))
    val answer = Flipped(Valid(new DmaAnswer(0)))

    /** To the hash, when the slot wants it. */
    val wants = Input(Bool())
    val beat = Decoupled(new Xxh64Beat(p.hash))

    /** The slot's hash. */
    val hash = Flipped(Valid(UInt(64.W)))
  })
  private val reader = Module(new LineReader(p.readAhead))
  private val state = new UnitState(p, Op.xxh64, io.port)

  reader.io.range.valid := io.port.request.fire
  reader.io.range.bits.line := io.port.request.bits.source >> 6
  reader.io.range.bits.lines := io.port.request.bits.lines
  reader.io.stop := false.B
  io.read <> reader.io.request
  reader.io.answer := io.answer

  io.beat.valid := reader.io.out.valid && io.wants
  io.beat.bits.slot := slot.U
  io.beat.bits.pageBytes := state.bytes
  io.beat.bits.data := reader.io.out.bits
  reader.io.out.ready := io.wants && io.beat.ready
  when(state.isRunning && io.wants && !reader.io.out.valid && !reader.io.idle) { state.stall() }
  when(io.hash.valid) { state.end(io.hash.bits, reader.io.failed) }
}

/** Compares. */
class CompareUnit(p: AcceleratorParameters) extends Module {
  val io = IO(new Bundle {
    val port = Flipped(new UnitPort(p.numberBits))
    val reads = Vec(2, Decoupled(UInt(58.W)))
    val answers = Vec(2, Flipped(Valid(new DmaAnswer(0))))
  })
  private val readers = Seq.fill(2)(Module(new LineReader(p.readAhead)))
  private val compare = Module(new PageCompare)
  private val state = new UnitState(p, Op.compare, io.port)
  private val pair = compare.io.pair

  // Until the result, which may be there before all lines are.
  private val left = Reg(UInt(13.W))
  private val first = Reg(Bool())
  private val decided = RegInit(false.B)
  private val value = Reg(UInt(64.W))

  private val request = io.port.request
  for ((reader, index) <- readers.zipWithIndex) {
    reader.io.range.valid := request.fire
    reader.io.range.bits.line := Seq(request.bits.source, request.bits.second)(index) >> 6
    reader.io.range.bits.lines := request.bits.lines
    reader.io.stop := compare.io.result.valid
    io.reads(index) <> reader.io.request
    reader.io.answer := io.answers(index)
    reader.io.out.ready := pair.fire
  }
  pair.valid := readers.map(_.io.out.valid).reduce(_ && _) && state.isRunning && !decided && !compare.io.result.valid
  pair.bits.left := readers(0).io.out.bits
  pair.bits.right := readers(1).io.out.bits
  pair.bits.bytes := Mux(left > 64.U, 64.U, left(6, 0))
  pair.bits.isFirst := first
  pair.bits.isLast := left <= 64.U
  when(pair.fire) {
    first := false.B
    left := Mux(left > 64.U, left - 64.U, 0.U)
  }
  when(state.isRunning && !decided && left =/= 0.U && !pair.valid) { state.stall() }

  compare.io.result.ready := true.B
  when(compare.io.result.valid) {
    val result = compare.io.result.bits
    val sign = Mux(result.isLess, "hffffffff".U(32.W), 0.U(31.W) ## result.differs)
    decided := true.B
    value := sign ## result.firstDifference.pad(32)
  }
  when(decided && readers.map(_.io.idle).reduce(_ && _)) {
    decided := false.B
    state.end(value, readers.map(_.io.failed).reduce(_ || _))
  }
  when(request.fire) {
    left := request.bits.sourceBytes(12, 0)
    first := true.B
  }
}
