// SPDX-License-Identifier: Apache-2.0 OR MIT
package weir

import chisel3._
import chisel3.util._

/** The accelerator of a CXL Type-2 device (contract/accelerator.toml): takes requests from a ring in host memory,
  * and hashes and compares pages there.
  *
  * {{{
  *  registers ─► AcceleratorCsr ─► RequestRing ─┬─► HashUnit (one a slot) ─► Xxh64 ─┐
  *                    ▲                ▲        └─► CompareUnit ─► PageCompare ─────┤
  *                    └── outcomes ────┴── outcomes ◄───────────────────────────────┘
  *  DMA: completions, then descriptors, then the lines of all units by turns
  * }}}
  *
  * One clock. Reads are under way at a time as the units' read-ahead allows, so the port may hold requests back, but
  * must not keep answers in another order than that of their tag.
  */
class Accelerator(p: AcceleratorParameters = AcceleratorParameters()) extends Module {
  val io = IO(new Bundle {

    /** Words of the registers; see [[BusPort]] and [[ClockCrossing]] for a bus. */
    val request = Flipped(Valid(new WordRequest))
    val answer = Valid(UInt(64.W))
    val dma = Decoupled(new DmaRequest(p.tagBits))
    val dmaAnswer = Flipped(Valid(new DmaAnswer(p.tagBits)))

    /** Raise the MSI, after all writes that were taken before. */
    val interrupt = Output(Bool())
  })
  private val csr = Module(new AcceleratorCsr(p))
  private val ring = Module(new RequestRing(p))
  private val hash = Module(new Xxh64(p.hash))
  private val hashUnits = Seq.tabulate(p.hash.slots)(slot => Module(new HashUnit(p, slot)))
  private val compareUnits = Seq.fill(p.compareUnits)(Module(new CompareUnit(p)))

  csr.io.request := io.request
  io.answer := csr.io.answer
  ring.io.settings := csr.io.settings
  ring.io.doorbell := csr.io.doorbell
  csr.io.outcome.valid := ring.io.completion.fire
  csr.io.outcome.bits := ring.io.outcome
  csr.io.interrupt := ring.io.interrupt
  csr.io.refusesDoorbell := ring.io.refusesDoorbell
  csr.io.fetched := ring.io.fetched
  csr.io.completed := ring.io.completed
  csr.io.busy := ring.io.busy
  io.interrupt := ring.io.interrupt

  ring.io.units.zip(hashUnits.map(_.io.port) ++ compareUnits.map(_.io.port)).foreach { case (unit, port) => port <> unit }

  private val beats = Module(new RRArbiter(new Xxh64Beat(p.hash), p.hash.slots))
  hash.io.beat.valid := beats.io.out.valid
  hash.io.beat.bits := beats.io.out.bits
  beats.io.out.ready := true.B
  hash.io.hash.ready := true.B
  for ((unit, slot) <- hashUnits.zipWithIndex) {
    beats.io.in(slot) <> unit.io.beat
    unit.io.wants := hash.io.wants(slot)
    unit.io.hash.valid := hash.io.hash.valid && hash.io.hash.bits.slot === slot.U
    unit.io.hash.bits := hash.io.hash.bits.value
  }

  // The port: reads by tag, from 1 on.
  private val readers = hashUnits.map(unit => (unit.io.read, unit.io.answer)) ++
    compareUnits.flatMap(unit => unit.io.reads.zip(unit.io.answers))
  private val reads = Module(new RRArbiter(new DmaRequest(p.tagBits), p.readers))
  private def read(line: UInt, tag: Int): DmaRequest = {
    val request = Wire(new DmaRequest(p.tagBits))
    request.write := false.B
    request.tag := tag.U
    request.line := line
    request.data := 0.U
    request.strobe := 0.U
    request
  }
  private def answers(tag: Int): Valid[DmaAnswer] = {
    val answer = Wire(Valid(new DmaAnswer(0)))
    answer.valid := io.dmaAnswer.valid && io.dmaAnswer.bits.tag === tag.U
    answer.bits.tag := DontCare
    answer.bits.data := io.dmaAnswer.bits.data
    answer.bits.error := io.dmaAnswer.bits.error
    answer
  }
  for (((line, answer), index) <- readers.zipWithIndex) {
    val in = reads.io.in(index)
    in.valid := line.valid
    in.bits := read(line.bits, index + 1)
    line.ready := in.ready
    answer := answers(index + 1)
  }
  private val port = Module(new Arbiter(new DmaRequest(p.tagBits), 3))
  port.io.in(0) <> ring.io.completion
  port.io.in(1).valid := ring.io.fetch.valid
  port.io.in(1).bits := read(ring.io.fetch.bits, 0)
  ring.io.fetch.ready := port.io.in(1).ready
  ring.io.descriptor := answers(0)
  port.io.in(2) <> reads.io.out
  io.dma <> port.io.out
}
