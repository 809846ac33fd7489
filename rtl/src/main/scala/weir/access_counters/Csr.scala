// SPDX-License-Identifier: Apache-2.0 OR MIT
package weir

import chisel3._
import chisel3.util._

/** The registers: decodes a word's address, and answers.
  *
  * The header is made from the list in [[RegisterMap]]: each register has a value here, or is fixed there, or
  * belongs to a feature that this device lacks; elaboration fails otherwise. Everything else of the BAR reads
  * 0, and stores there change nothing. The magic number is 0 until the counters are up.
  */
class Csr(p: Parameters) extends Module {
  import RegisterMap.Header

  val io = IO(new Bundle {
    val request = Flipped(Valid(new WordRequest))
    val answer = Valid(UInt(64.W))

    val values = Input(new HeaderRegisters)
    val up = Input(Bool())
    val snapshotReady = Input(Bool())
    val snapshotSettled = Input(Bool())
    val takeSnapshot = Output(Bool())
    val settings = Output(new Settings)

    /** To [[ChannelCounters]]. */
    val read = Valid(UInt(p.groupBits.W))
    val readSnapshot = Output(Bool())
    val readSum = Input(UInt(64.W))
    val writeSum = Input(UInt(64.W))
  })

  private val address = io.request.bits.address
  private val data = io.request.bits.data
  private def window(offset: Int, stride: Int): (Bool, UInt) = {
    val within = address - offset.U
    (address >= offset.U && address < (offset + p.groups * stride).U, within >> log2Ceil(stride))
  }
  private val (inCounters, counterGroup) =
    window(RegisterMap.countersOffsetBytes, RegisterMap.counterStrideBytes)
  private val (inSnapshotWindow, snapshotGroup) = window(RegisterMap.snapshotOffsetBytes, RegisterMap.counterStrideBytes)
  private val (inTable, tableGroup) =
    window(RegisterMap.groupTableOffsetBytes, RegisterMap.groupTableStrideBytes)
  private val inSnapshot = inSnapshotWindow && p.snapshot.B
  private val second = address(3) // of the two words of an entry

  // Settings of the host.
  private val settings = RegInit(Settings.atReset)
  private val storing = io.request.valid && io.request.bits.write && io.answer.valid
  private def store(register: Register)(effect: UInt => Unit): Unit = {
    val halves = if (register.widthBits == 64) Seq(0, 1) else Seq(register.offsetBytes / 4 % 2)
    val word = data(32 * halves.last + 31, 32 * halves.head)
    require(register.writable)
    when(storing && address === (register.offsetBytes & ~7).U && VecInit(halves.map(io.request.bits.halves(_))).asUInt.andR) {
      effect(word)
    }
  }
  store(Header.hostBaseBytes){ word =>
    settings.baseLine := word(Parameters.addressBits - 1, Parameters.lineBytesLog2)
  }
  store(Header.devloadThresholds) { word =>
    settings.thresholds := VecInit(Seq(15, 31, 47).map(top => word(top, top - 15)))
    settings.hysteresis := word(63, 48)
  }
  store(Header.devloadWindowLog2Clocks){ word =>
    settings.windowLog2 := Mux(word > 16.U, 16.U, word(4, 0))
  }
  io.takeSnapshot := false.B
  if (p.snapshot) store(Header.snapshotControl)(word => io.takeSnapshot := word(0))
  io.settings := settings

  // A read of the counters takes some clocks, one of a snapshot waits until it is settled as well.
  private val looks = !io.request.bits.write && (inCounters || inSnapshot)
  private val clocksLeft = RegInit(0.U(4.W))
  private val looking = RegInit(false.B)
  io.read.valid := io.request.valid && looks && !looking && (io.snapshotSettled || !inSnapshot)
  io.read.bits := Mux(inSnapshot, snapshotGroup, counterGroup)(p.groupBits - 1, 0)
  io.readSnapshot := inSnapshot
  when(io.read.valid) {
    looking := true.B
    clocksLeft := (ChannelCounters.readClocks(p) - 1).U
  }.elsewhen(looking) {
    clocksLeft := clocksLeft - 1.U
    when(io.answer.valid) { looking := false.B }
  }

  private val entry = Mux(second, io.writeSum, io.readSum)
  private val base = settings.baseLine << Parameters.lineBytesLog2
  private val table = Mux(
    second,
    (BigInt(1) << p.groupBytesLog2).U,
    base + (tableGroup << p.groupBytesLog2)
  )
  io.answer.valid := io.request.valid && (!looks || (looking && clocksLeft === 0.U))
  io.answer.bits := MuxCase(
    header,
    Seq((inCounters || inSnapshot) -> entry, inTable -> table)
  )

  /** The word of the header at the address, 0 where there is none. */
  private def header: UInt = {
    val values = io.values.byRegister ++ Seq(
      Header.hostBaseBytes -> base,
      Header.devloadThresholds -> (settings.hysteresis ## settings.thresholds.asUInt),
      Header.devloadWindowLog2Clocks -> settings.windowLog2,
      Header.magic -> Mux(io.up, Header.magic.value.get.U, 0.U),
      Header.groupCount -> p.groups.U,
      Header.groupTableOffsetBytes -> RegisterMap.groupTableOffsetBytes.U,
      Header.features -> Csr.features(p).U,
      Header.clockKhz -> p.clockKhz.U,
      Header.snapshotControl -> !io.snapshotReady,
      Header.snapshotOffsetBytes -> RegisterMap.snapshotOffsetBytes.U
    )
    def value(register: Register): UInt =
      if (!p.snapshot && Csr.ofSnapshot.contains(register)) 0.U
      else register.value.filter(_ => register != Header.magic).map(_.U).getOrElse(values(register))
    val words = Header.all.groupBy(_.offsetBytes & ~7).toSeq.sortBy(_._1).map { case (offset, registers) =>
      val word = registers.map(r => value(r) << (r.offsetBytes % 8 * 8)).reduce(_ | _)
      (address === offset.U) -> word
    }
    MuxCase(0.U(64.W), words)
  }
}

object Csr {
  import RegisterMap.Header._

  /** Value of `features`. */
  def features(p: Parameters): Int = {
    import RegisterMap.Feature
    val all = Seq(Feature.map, Feature.latency, Feature.devload) ++ Option.when(p.snapshot)(Feature.snapshot)
    all.map(1 << _).sum
  }

  private def ofSnapshot = RegisterMap.Header.all.filter(_.feature.contains(RegisterMap.Feature.snapshot))
}
