// SPDX-License-Identifier: Apache-2.0 OR MIT
package weir

import chisel3._
import chisel3.util._

/** A ring with a deliberate flaw. */
class FlawedRing(p: AcceleratorParameters, flaw: String) extends RequestRing(p) {
  override protected def accepted(wanted: UInt, underWay: UInt, entries: UInt): Bool = flaw match {
    case "takes-any-doorbell"    => true.B
    case "takes-doorbells-again" => wanted <= entries
    case _                       => super.accepted(wanted, underWay, entries)
  }
  override protected def isRefused(taken: Bool): Bool =
    if (flaw == "loses-refusals") true.B else super.isRefused(taken)
  override protected def isWritten(taken: Bool): Bool =
    if (flaw == "writes-twice") taken && !RegNext(taken, false.B) else super.isWritten(taken)
}

/** A ring, the host that rings for it, its memory and its units, and a watch over its completions.
  *
  * The host rings for slots whose completion it has; or it rings for more than the ring has entries, which is
  * to be refused. Memory and units answer when they like, until `cooperates` says that they do at once from
  * then on, and the host is silent.
  */
class RingProof(flaw: String) extends Module {
  private val p = AcceleratorParameters(
    hash = Xxh64Parameters(slots = 3),
    compareUnits = 0,
    encoders = 0,
    decoders = 0,
    fetchAhead = 2,
    numberBits = 4,
    entriesLog2Max = 1
  )
  private val n = p.numberBits
  private val entries = 2
  val io = IO(new Bundle {
    val rings = Input(Bool())
    val doorbell = Input(UInt(n.W))
    val fetchReady = Input(Bool())
    val answers = Input(Bool())
    val isSound = Input(Bool())
    val finishes = Input(Vec(p.units, Bool()))
    val completionReady = Input(Bool())
    val cooperates = Input(Bool())

    /** A completion of what was not asked for, or of what was completed. */
    val wrong = Output(Bool())

    /** A request is still open so long after memory, units and host cooperate. */
    val late = Output(Bool())
  })
  private val cooperated = RegInit(false.B)
  cooperated := cooperated || io.cooperates
  private val ring = Module(new FlawedRing(p, flaw))
  private val running = RegNext(true.B, false.B)
  ring.io.settings := 0.U.asTypeOf(new RingSettings)
  ring.io.settings.enabled := running
  ring.io.settings.entriesLog2 := 1.U

  // The host.
  private val rung = RegInit(0.U(n.W))
  private val open = RegInit(VecInit.fill(entries)(false.B))
  private val numbers = Reg(Vec(entries, UInt(n.W)))
  private val more = io.doorbell - rung
  private val next = rung(0)
  private val obeys = MuxLookup(more, false.B)(Seq(0.U -> true.B, 1.U -> !open(next), 2.U -> !open.reduce(_ || _)))
  ring.io.doorbell.valid := io.rings && !cooperated && (obeys || more > entries.U)
  ring.io.doorbell.bits := io.doorbell
  private val isRung = ring.io.doorbell.valid && !ring.io.refusesDoorbell
  when(isRung) {
    rung := io.doorbell
    when(more >= 1.U) {
      open(next) := true.B
      numbers(next) := rung
    }
    when(more >= 2.U) {
      open(!next) := true.B
      numbers(!next) := rung + 1.U
    }
  }

  // Memory.
  private val outstanding = RegInit(0.U(3.W))
  ring.io.fetch.ready := io.fetchReady || cooperated
  ring.io.descriptor.valid := outstanding =/= 0.U && (io.answers || cooperated)
  outstanding := outstanding + ring.io.fetch.fire - ring.io.descriptor.valid
  private val sound = HostEntry.hash
  ring.io.descriptor.bits.tag := DontCare
  ring.io.descriptor.bits.error := false.B
  ring.io.descriptor.bits.data := Mux(io.isSound, sound, 0.U)

  // Units.
  for ((unit, finishes) <- ring.io.units.zip(io.finishes)) {
    val busy = RegInit(false.B)
    val number = Reg(UInt(n.W))
    unit.request.ready := !busy
    unit.outcome.valid := busy && (finishes || cooperated)
    unit.outcome.bits := 0.U.asTypeOf(new Outcome(n))
    unit.outcome.bits.number := number
    when(unit.request.fire) {
      busy := true.B
      number := unit.request.bits.number
    }
    when(unit.outcome.fire) { busy := false.B }
  }

  // The watch.
  ring.io.completion.ready := io.completionReady || cooperated
  private val completed = ring.io.completion.bits.data(n - 1, 0) - 1.U
  private val slot = completed(0)
  private val isOpen = open(slot) && numbers(slot) === completed
  io.wrong := ring.io.completion.fire && !isOpen
  when(ring.io.completion.fire) { open(slot) := false.B }
  private val patience = RegInit(0.U(5.W))
  when(cooperated && open.reduce(_ || _)) { patience := patience + 1.U }
  io.late := patience === 24.U
}

private object HostEntry {

  /** A descriptor that asks for a hash. */
  def hash: UInt = Seq(
    AcceleratorMap.Descriptor.op -> AcceleratorMap.Op.xxh64,
    AcceleratorMap.Descriptor.sourceBytes -> 64
  ).map { case (register, value) => BigInt(value) << (8 * register.offsetBytes) }.reduce(_ | _).U(512.W)
}
