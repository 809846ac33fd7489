// SPDX-License-Identifier: Apache-2.0 OR MIT
package weir

import chisel3._
import chisel3.util._

/** Taps of the block in a CXL device, in the clock of its memory channels. All only listen. */
class Taps(p: Parameters) extends Bundle {
  private val line = UInt(Parameters.lineAddressBits.W)

  /** Accesses completed in this clock, by channel: bits 51 to 6 of the host-physical address. */
  val reads = Vec(p.channels, Valid(line))
  val writes = Vec(p.channels, Valid(line))

  /** Requests that the device accepted in this clock. */
  val readsAccepted = Vec(p.channels, Bool())
  val writesAccepted = Vec(p.channels, Bool())

  /** Entries in the channels' request queues. */
  val queueFill = Vec(p.channels, UInt(p.fillBits.W))
}

/** The block in the clock of the counters: counting, snapshots, latency, DevLoad, and their registers. */
class Core(p: Parameters, kind: Bank.Kind) extends Module {
  val io = IO(new Bundle {
    val taps = Input(new Taps(p))
    val request = Flipped(Valid(new WordRequest))
    val answer = Valid(UInt(64.W))

    /** For the device's responses (CXL 3.1, 3.3.4). */
    val devload = Output(UInt(2.W))

    /** Bits 51 to 6 of the address of group 0, for [[AddressMap]]s in the device's request path. */
    val baseLine = Output(UInt(Parameters.lineAddressBits.W))
    val up = Output(Bool())
  })

  private val control = Module(new SnapshotControl(p.groups))
  private val counting = Module(new ChannelCounters(p, kind))
  private val csr = Module(new Csr(p))
  private val readLatency = Module(new Latency(p.channels))
  private val writeLatency = Module(new Latency(p.channels))
  private val devload = Module(new DevLoad(p.channels, p.fillBits))

  counting.io.reads := io.taps.reads
  counting.io.writes := io.taps.writes
  counting.io.baseLine := csr.io.settings.baseLine
  counting.io.up := control.io.up
  counting.io.epoch := control.io.epoch
  counting.io.sweep := control.io.sweep
  counting.io.sweepAll := control.io.sweepAll
  counting.io.read := csr.io.read
  counting.io.readSnapshot := csr.io.readSnapshot

  for ((latency, accepted, completed) <- Seq(
      (readLatency, io.taps.readsAccepted, io.taps.reads),
      (writeLatency, io.taps.writesAccepted, io.taps.writes)
    )) {
    // A clock later, as addresses are mapped for a clock: so a snapshot is one instant for all.
    latency.io.accepted := RegNext(accepted)
    latency.io.completed := RegNext(VecInit(completed.map(_.valid)))
  }

  devload.io.fill := io.taps.queueFill
  devload.io.thresholds := csr.io.settings.thresholds
  devload.io.hysteresis := csr.io.settings.hysteresis
  devload.io.windowLog2 := csr.io.settings.windowLog2

  private val clocks = RegInit(0.U(64.W))
  when(control.io.up) { clocks := clocks + 1.U }
  private val now = Wire(new Sums)
  now.clocks := clocks
  now.readRequests := readLatency.io.requests
  now.readOccupancyClocks := readLatency.io.occupancyClocks
  now.writeRequests := writeLatency.io.requests
  now.writeOccupancyClocks := writeLatency.io.occupancyClocks
  now.outsideReads := counting.io.outsideReads
  now.outsideWrites := counting.io.outsideWrites

  // The instant of a snapshot: everything up to the end of the clock before `epoch` changes.
  private val atSnapshot = RegInit(0.U.asTypeOf(new Sums))
  if (p.snapshot) when(control.io.epoch =/= RegNext(control.io.epoch, false.B)) { atSnapshot := now }

  csr.io.request := io.request
  io.answer := csr.io.answer
  csr.io.values.now := now
  csr.io.values.atSnapshot := atSnapshot
  csr.io.values.snapshotCount := control.io.count
  csr.io.values.devload := devload.io.load
  csr.io.values.devloadFill := devload.io.meanFill
  csr.io.values.devloadClocks := devload.io.clocksAt
  csr.io.up := control.io.up
  csr.io.snapshotReady := control.io.ready
  csr.io.snapshotSettled := control.io.settled
  csr.io.readSum := counting.io.readSum
  csr.io.writeSum := counting.io.writeSum
  control.io.take := csr.io.takeSnapshot

  io.devload := devload.io.load
  io.baseLine := csr.io.settings.baseLine
  io.up := control.io.up
}

/** The whole block: taps in the clock of the memory channels, registers in the clock of the bus. */
class AccessCounters(p: Parameters, kind: Bank.Kind = Bank.OfRam) extends RawModule {
  val io = IO(new Bundle {
    val coreClock = Input(Clock())
    val coreReset = Input(Bool())
    val busClock = Input(Clock())
    val busReset = Input(Bool())

    /** In the clock of the counters. */
    val taps = Input(new Taps(p))
    val devload = Output(UInt(2.W))
    val baseLine = Output(UInt(Parameters.lineAddressBits.W))

    /** In the clock of the bus. */
    val request = Flipped(Decoupled(new BusRequest))
    val answer = Valid(UInt(64.W))
  })

  private val crossing = Module(new ClockCrossing)
  crossing.io.busClock := io.busClock
  crossing.io.busReset := io.busReset
  crossing.io.coreClock := io.coreClock
  crossing.io.coreReset := io.coreReset

  withClockAndReset(io.busClock, io.busReset) {
    val port = Module(new BusPort)
    port.io.request <> io.request
    io.answer := port.io.answer
    crossing.io.request <> port.io.word
    port.io.wordAnswer := crossing.io.answer
  }

  withClockAndReset(io.coreClock, io.coreReset) {
    val core = Module(new Core(p, kind))
    core.io.taps := io.taps
    core.io.request := crossing.io.coreRequest
    crossing.io.coreAnswer := core.io.answer
    io.devload := core.io.devload
    io.baseLine := core.io.baseLine
  }
}
