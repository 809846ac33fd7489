// SPDX-License-Identifier: Apache-2.0 OR MIT
package weir

import chisel3._
import chisel3.util._
import AcceleratorMap.{Flag, Op, Status}

/** Ports of a unit to the ring and to memory.
  *
  * @param readers what it reads at a time
  * @param writes  whether it writes
  */
class UnitIo(p: AcceleratorParameters, readers: Int, writes: Boolean) extends Bundle {
  val port = Flipped(new UnitPort(p.numberBits))
  val reads = Vec(readers, new ReadPort)
  val write = Option.when(writes)(Decoupled(new LineWrite))
}

/** A unit: takes a request, works on it with an engine, and answers it. It counts its clocks, and those in which
  * memory keeps its engine waiting.
  *
  * @param op        what it does
  * @param addresses of the pages that it reads, each as long as the source
  */
abstract class RequestUnit(
  p: AcceleratorParameters,
  op: Int,
  addresses: Seq[Request => UInt],
  writes: Boolean = false
) extends Module {
  val io = IO(new UnitIo(p, addresses.size, writes))
  private val idle :: running :: answering :: Nil = Enum(3)
  private val state = RegInit(idle)
  private val clocks = Reg(UInt(32.W))
  private val stalls = Reg(UInt(32.W))
  private val status = Reg(UInt(4.W))
  private val value = Reg(UInt(64.W))
  private val written = Reg(UInt(13.W))

  /** The request that is worked on. */
  protected val request = Reg(new Request(p.numberBits))
  protected val isStarting: Bool = io.port.request.fire
  protected val isRunning: Bool = state === running
  protected def bytes: UInt = request.sourceBytes(12, 0)

  io.port.request.ready := state === idle
  when(isStarting) {
    state := running
    request := io.port.request.bits
    clocks := 1.U
    stalls := 0.U
  }
  when(state =/= idle) { clocks := clocks + 1.U }
  io.port.outcome.valid := state === answering
  private val outcome = io.port.outcome.bits
  private val isDone = status === Status.done.U
  outcome.number := request.number
  outcome.status := status
  outcome.op := op.U
  outcome.resultBytes := Mux(isDone, written, 0.U)
  outcome.value := Mux(isDone, value, 0.U)
  outcome.tag := request.tag
  outcome.clocks := clocks
  outcome.stalls := stalls
  outcome.interrupt := request.flags(Flag.interrupt)
  when(io.port.outcome.fire) { state := idle }

  /** One for each page; begins with the request. */
  protected val readers: Seq[LineReader] = addresses.zip(io.reads).map { case (address, read) =>
    val reader = Module(new LineReader(p.readAhead))
    reader.io.range.valid := isStarting
    reader.io.range.bits.line := address(io.port.request.bits) >> 6
    reader.io.range.bits.lines := io.port.request.bits.lines
    reader.io.stop := false.B
    read.request <> reader.io.request
    reader.io.answer := read.answer
    reader
  }

  /** A clock in which memory keeps the engine waiting. */
  protected def stall(): Unit = stalls := stalls + 1.U

  /** The request ends: with a reason why not, if there is one, and else as asked. A read that failed is the first
    * reason.
    */
  protected def end(result: UInt = 0.U, bytes: UInt = 0.U, problem: UInt = Status.done.U): Unit = {
    val isFailed = readers.map(_.io.failed).reduce(_ || _)
    state := answering
    status := Mux(isFailed, Status.dmaError.U, problem)
    value := result
    written := bytes
  }
}

/** Feeds one slot of the hash. */
class HashUnit(p: AcceleratorParameters, slot: Int) extends RequestUnit(p, Op.xxh64, Seq(_.source)) {
  val engine = IO(new Bundle {

    /** To the hash, when the slot wants it. */
    val wants = Input(Bool())
    val beat = Decoupled(new Xxh64Beat(p.hash))

    /** The slot's hash. */
    val hash = Flipped(Valid(UInt(64.W)))
  })
  private val reader = readers.head

  engine.beat.valid := reader.io.out.valid && engine.wants
  engine.beat.bits.slot := slot.U
  engine.beat.bits.pageBytes := bytes
  engine.beat.bits.data := reader.io.out.bits
  reader.io.out.ready := engine.wants && engine.beat.ready
  when(isRunning && engine.wants && !reader.io.out.valid && !reader.io.idle) { stall() }
  when(engine.hash.valid) { end(engine.hash.bits) }
}

/** Compares. */
class CompareUnit(p: AcceleratorParameters) extends RequestUnit(p, Op.compare, Seq(_.source, _.second)) {
  private val compare = Module(new PageCompare)
  private val pair = compare.io.pair

  // Until the result, which may be there before all lines are.
  private val left = Reg(UInt(13.W))
  private val first = Reg(Bool())
  private val decided = RegInit(false.B)
  private val value = Reg(UInt(64.W))

  for (reader <- readers) {
    reader.io.stop := compare.io.result.valid
    reader.io.out.ready := pair.fire
  }
  pair.valid := readers.map(_.io.out.valid).reduce(_ && _) && isRunning && !decided && !compare.io.result.valid
  pair.bits.left := readers(0).io.out.bits
  pair.bits.right := readers(1).io.out.bits
  pair.bits.bytes := Mux(left > 64.U, 64.U, left(6, 0))
  pair.bits.isFirst := first
  pair.bits.isLast := left <= 64.U
  when(pair.fire) {
    first := false.B
    left := Mux(left > 64.U, left - 64.U, 0.U)
  }
  when(isRunning && !decided && left =/= 0.U && !pair.valid) { stall() }

  compare.io.result.ready := true.B
  when(compare.io.result.valid) {
    val result = compare.io.result.bits
    val sign = Mux(result.isLess, "hffffffff".U(32.W), 0.U(31.W) ## result.differs)
    decided := true.B
    value := sign ## result.firstDifference.pad(32)
  }
  when(decided && readers.map(_.io.idle).reduce(_ && _)) {
    decided := false.B
    end(value)
  }
  when(isStarting) {
    left := io.port.request.bits.sourceBytes(12, 0)
    first := true.B
  }
}
