// SPDX-License-Identifier: Apache-2.0 OR MIT
package weir

import chisel3._
import chisel3.util._
import AcceleratorMap.{Flag, Op, Status}

/** What the host sets, kept while the ring is enabled. */
class RingSettings extends Bundle {
  val enabled = Bool()
  val ringLine = UInt(58.W)
  val completionLine = UInt(58.W)
  val entriesLog2 = UInt(4.W)
  val interruptEnabled = Bool()
}

/** Reads descriptors, gives each to a free unit of its operation, and writes the completion of each once.
  *
  * Descriptors are read ahead and handed out in order; one whose operation has no free unit holds those
  * behind it. One that asks for what cannot be done has its outcome here. Outcomes take turns.
  */
class RequestRing(p: AcceleratorParameters) extends Module {
  private val n = p.numberBits
  val io = IO(new Bundle {
    val settings = Input(new RingSettings)

    /** The number after the last request that is to be done. */
    val doorbell = Flipped(Valid(UInt(n.W)))
    val fetch = Decoupled(UInt(58.W))
    val descriptor = Flipped(Valid(new DmaAnswer(0)))
    val units = Vec(p.units, new UnitPort(n))

    /** A completion, for its half of a line. */
    val completion = Decoupled(new DmaRequest(0))

    /** Of the completion that is taken in this clock. */
    val outcome = Output(new Outcome(n))
    val interrupt = Output(Bool())
    val refusesDoorbell = Output(Bool())
    val fetched = Output(UInt(n.W))
    val completed = Output(UInt(n.W))
    val busy = Output(Bool())
  })
  private val settings = io.settings

  // Numbers: those rung for, asked of memory, handed away, and completed.
  private val rung = RegInit(0.U(n.W))
  private val asked = RegInit(0.U(n.W))
  private val handed = RegInit(0.U(n.W))
  private val completed = RegInit(0.U(n.W))
  private val begins = settings.enabled && !RegNext(settings.enabled, false.B)

  // In the clock in which the ring begins, its numbers are still to become 0: a doorbell may come with it.
  private def now(number: UInt): UInt = Mux(begins, 0.U, number)
  private val wanted = io.doorbell.bits - now(completed)
  private val underWay = now(rung - completed)
  private val accepts = accepted(wanted, underWay, 1.U << settings.entriesLog2) && settings.enabled
  when(io.doorbell.valid && accepts) { rung := io.doorbell.bits }
  io.refusesDoorbell := io.doorbell.valid && !accepts

  /** Whether a doorbell keeps what was rung for, and leaves no more under way than there are entries. */
  protected def accepted(wanted: UInt, underWay: UInt, entries: UInt): Bool = wanted >= underWay && wanted <= entries

  private def entry(number: UInt): UInt = number & ((1.U(n.W) << settings.entriesLog2)(n - 1, 0) - 1.U)

  // Reading ahead: each descriptor on its way has its place.
  private val descriptors = Module(new Queue(new DmaAnswer(0), p.fetchAhead))
  io.fetch.valid := settings.enabled && asked =/= rung && asked - handed < p.fetchAhead.U
  io.fetch.bits := settings.ringLine + entry(asked)
  when(io.fetch.fire) { asked := asked + 1.U }
  descriptors.io.enq.valid := io.descriptor.valid
  descriptors.io.enq.bits := io.descriptor.bits

  // Handing out.
  private val head = descriptors.io.deq
  private val request = Request(n, handed, head.bits.data)
  private val problem = Mux(head.bits.error, Status.dmaError.U, RequestCheck(p, request))
  private val isSound = problem === Status.done.U
  private val fits = VecInit(io.units.zip(p.ops).map { case (unit, op) => unit.request.ready && request.op === op.U })
  private val chosen = PriorityEncoderOH(fits.asUInt)
  for ((unit, index) <- io.units.zipWithIndex) {
    unit.request.valid := head.valid && isSound && chosen(index)
    unit.request.bits := request
  }
  private val refusal = Module(new Queue(new Outcome(n), 1))
  refusal.io.enq.valid := head.valid && !isSound
  refusal.io.enq.bits := RequestCheck.refusal(request, problem)
  head.ready := Mux(isSound, fits.asUInt.orR, isRefused(refusal.io.enq.ready))
  when(head.fire) { handed := handed + 1.U }

  /** Whether a request that cannot be done is off the ring. */
  protected def isRefused(taken: Bool): Bool = taken

  // Completions.
  private val outcomes = Module(new RRArbiter(new Outcome(n), p.units + 1))
  outcomes.io.in.zip(io.units.map(_.outcome) :+ refusal.io.deq).foreach { case (in, outcome) => in <> outcome }
  private val outcome = Module(new Queue(new Outcome(n), 1, pipe = true))
  outcome.io.enq <> outcomes.io.out
  private val index = entry(outcome.io.deq.bits.number)
  io.completion.valid := outcome.io.deq.valid
  io.completion.bits.write := true.B
  io.completion.bits.tag := DontCare
  io.completion.bits.line := settings.completionLine + (index >> 1)
  io.completion.bits.data := Fill(2, outcome.io.deq.bits.completion)
  io.completion.bits.strobe := Mux(index(0), Fill(32, 1.U(1.W)) ## 0.U(32.W), Fill(32, 1.U(1.W)))
  outcome.io.deq.ready := isWritten(io.completion.ready)
  when(io.completion.fire) { completed := completed + 1.U }

  /** Whether a completion is done with. */
  protected def isWritten(taken: Bool): Bool = taken

  io.outcome := outcome.io.deq.bits
  io.interrupt := RegNext(io.completion.fire && outcome.io.deq.bits.interrupt && settings.interruptEnabled, false.B)
  io.fetched := asked
  io.completed := completed
  io.busy := completed =/= asked

  // Begins again at number 0. What was rung for and not fetched is forgotten.
  when(!settings.enabled) { rung := asked }
  when(begins) {
    Seq(asked, handed, completed).foreach(_ := 0.U)
    rung := Mux(io.doorbell.valid && accepts, io.doorbell.bits, 0.U)
  }
}

/** What can be said of a request before a unit has it. */
object RequestCheck {

  /** `done` if nothing is wrong with it. */
  def apply(p: AcceleratorParameters, request: Request): UInt = {
    val known = p.ops.distinct.map(request.op === _.U).reduce(_ || _)
    val writes = Seq(Op.lz4Encode, Op.lz4Decode).map(request.op === _.U).reduce(_ || _)
    val compares = request.op === Op.compare.U
    val source = new Lines(request.source, request.lines)
    val second = new Lines(request.second, request.lines)
    val destination = new Lines(request.destination, (request.destinationBytes +& 63.U) >> 6)
    val badAddress = source.isImpossible || (compares && second.isImpossible) ||
      (writes && (destination.isImpossible || destination.overlaps(source)))
    val badLength = request.sourceBytes === 0.U || request.sourceBytes > 4096.U ||
      (writes && request.destinationBytes === 0.U)
    MuxCase(
      Status.done.U(4.W),
      Seq(
        !known -> Status.badOp.U,
        badLength -> Status.badLength.U,
        badAddress -> Status.badAddress.U
      )
    )
  }

  /** Lines of memory that a request names. */
  private class Lines(address: UInt, count: UInt) {
    private val first = address(63, 6)
    private val end = first +& count

    /** They do not begin with a line, or pass the end of addresses. */
    def isImpossible: Bool = address(5, 0) =/= 0.U || end > (BigInt(1) << 58).U
    def overlaps(other: Lines): Bool = first < other.end && other.first < end
  }

  /** The outcome of a request that no unit has. */
  def refusal(request: Request, problem: UInt): Outcome = {
    val outcome = Wire(new Outcome(request.number.getWidth))
    outcome.number := request.number
    outcome.status := problem
    outcome.op := Mux(problem === Status.badOp.U || problem === Status.dmaError.U, 0.U, request.op(2, 0))
    outcome.resultBytes := 0.U
    outcome.value := 0.U
    outcome.tag := Mux(problem === Status.dmaError.U, 0.U, request.tag)
    outcome.clocks := 0.U
    outcome.stalls := 0.U
    outcome.interrupt := request.flags(Flag.interrupt) || problem === Status.dmaError.U
    outcome
  }
}
