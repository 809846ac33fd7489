// SPDX-License-Identifier: Apache-2.0 OR MIT
package weir

import chisel3._
import chisel3.util._
import AcceleratorMap.{Counter, Doorbell, Header, Op, Status}

/** The registers of the accelerator: capabilities, the ring's settings, sums, and counters of each operation.
  *
  * Words are answered in the clock in which they are asked for. Everything else of the BAR reads 0, and
  * stores there change nothing. The counters of operation 0 are of requests without an operation.
  */
class AcceleratorCsr(p: AcceleratorParameters) extends Module {
  val io = IO(new Bundle {
    val request = Flipped(Valid(new WordRequest))
    val answer = Valid(UInt(64.W))
    val settings = Output(new RingSettings)
    val doorbell = Valid(UInt(p.numberBits.W))

    /** An outcome whose completion is written. */
    val outcome = Flipped(Valid(new Outcome(p.numberBits)))
    val interrupt = Input(Bool())
    val refusesDoorbell = Input(Bool())
    val fetched = Input(UInt(p.numberBits.W))
    val completed = Input(UInt(p.numberBits.W))
    val busy = Input(Bool())
  })
  private val address = io.request.bits.address
  private val data = io.request.bits.data

  private val atReset = WireInit(0.U.asTypeOf(new RingSettings))
  atReset.entriesLog2 := 1.U
  private val settings = RegInit(atReset)
  private val storing = io.request.valid && io.request.bits.write
  private def stored(register: Register): (Bool, UInt) = {
    require(register.writable)
    val halves = if (register.widthBits == 64) Seq(0, 1) else Seq(register.offsetBytes / 4 % 2)
    val here = address === (register.offsetBytes & ~7).U && halves.map(io.request.bits.halves(_)).reduce(_ && _)
    (storing && here, data(32 * halves.last + 31, 32 * halves.head))
  }
  private def keep(register: Register)(effect: UInt => Unit): Unit = {
    val (isStored, word) = stored(register)
    when(isStored && !settings.enabled) { effect(word) }
  }
  keep(Header.ringBaseBytes)(word => settings.ringLine := word >> 6)
  keep(Header.completionBaseBytes)(word => settings.completionLine := word >> 6)
  keep(Header.ringEntriesLog2) { word =>
    val most = p.entriesLog2Max.U
    settings.entriesLog2 := Mux(word === 0.U, 1.U, Mux(word > most, most, word(3, 0)))
  }
  private val (storesInterrupt, interruptWord) = stored(Header.interruptEnable)
  when(storesInterrupt) { settings.interruptEnabled := interruptWord(0) }
  private val (storesControl, controlWord) = stored(Header.control)
  when(storesControl) { settings.enabled := controlWord(0) && (settings.enabled || !io.busy) }
  private val (rings, rungWord) = stored(Doorbell.doorbell)
  io.doorbell.valid := rings
  io.doorbell.bits := rungWord
  io.settings := settings

  private def counted(event: Bool, bits: Int): UInt = {
    val count = RegInit(0.U(bits.W))
    when(event) { count := count + 1.U }
    count
  }
  private val clocks = counted(true.B, 64)
  private val interrupts = counted(io.interrupt, 32)
  private val refusedDoorbells = counted(io.refusesDoorbell, 32)

  private val ops = 0 +: Seq(Op.lz4Encode, Op.lz4Decode, Op.xxh64, Op.compare)
  private val counters = ops.flatMap { op =>
    val hit = io.outcome.valid && io.outcome.bits.op === op.U
    val isDone = io.outcome.bits.status === Status.done.U
    def sum(by: UInt): UInt = {
      val sum = RegInit(0.U(64.W))
      when(hit) { sum := sum + by }
      sum
    }
    val at = AcceleratorMap.countersOffsetBytes + op * AcceleratorMap.counterStrideBytes
    Seq(
      Counter.pages -> sum(isDone.asUInt),
      Counter.clocks -> sum(io.outcome.bits.clocks),
      Counter.stalls -> sum(io.outcome.bits.stalls),
      Counter.errors -> sum((!isDone).asUInt)
    ).map { case (register, value) => (at + register.offsetBytes) -> value }
  }

  private val values = Map(
    Header.features -> p.features.U,
    Header.opMask -> p.ops.distinct.map(1 << _).sum.U,
    Header.engineCount -> p.units.U,
    Header.ringEntriesLog2Max -> p.entriesLog2Max.U,
    Header.clockKhz -> p.clockKhz.U,
    Header.control -> settings.enabled,
    Header.state -> (io.busy ## settings.enabled),
    Header.ringBaseBytes -> (settings.ringLine << 6),
    Header.completionBaseBytes -> (settings.completionLine << 6),
    Header.ringEntriesLog2 -> settings.entriesLog2,
    Header.interruptEnable -> settings.interruptEnabled,
    Header.fetched -> io.fetched,
    Header.completed -> io.completed,
    Header.refusedDoorbells -> refusedDoorbells,
    Header.interrupts -> interrupts,
    Header.clocks -> clocks
  )
  private val words = Header.all.groupBy(_.offsetBytes & ~7).toSeq.map { case (offset, registers) =>
    val word = registers.map { register =>
      (0.U(64.W) | register.value.map(_.U).getOrElse(values(register))) << (register.offsetBytes % 8 * 8)
    }
    offset -> word.reduce(_ | _)(63, 0)
  }
  io.answer.valid := io.request.valid
  io.answer.bits := MuxCase(0.U(64.W), (words ++ counters).map { case (offset, word) => (address === offset.U) -> word })
}
