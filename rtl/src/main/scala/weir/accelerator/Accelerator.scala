// SPDX-License-Identifier: Apache-2.0 OR MIT
package weir

import chisel3._
import chisel3.util._

/** The accelerator of a CXL Type-2 device (contract/accelerator.toml): takes requests from a ring in host memory,
  * and hashes, compares, compresses and decompresses pages there.
  *
  * {{{
  *  registers ─► AcceleratorCsr ─► RequestRing ─┬─► HashUnit (one a slot) ─► Xxh64 ─┐
  *                    ▲                ▲        ├─► CompareUnit ─► PageCompare ─────┤
  *                    │                │        ├─► Lz4EncodeUnit ─► Lz4Encoder ────┤ Lz4Verifier
  *                    │                │        └─► Lz4DecodeUnit ─► Lz4Decoder ────┤
  *                    └── outcomes ────┴── outcomes ◄───────────────────────────────┘
  *  DMA: completions, then writes, then descriptors, then reads; those of all units by turns
  * }}}
  *
  * One clock. Reads are under way at a time as the units' read-ahead allows, so the port may hold requests
  * back, but must not keep answers in another order than that of their tag.
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

  /** The units, in the order of the parameters' operations. */
  private val units: Seq[RequestUnit] = hashUnits ++ Seq.fill(p.compareUnits)(Module(new CompareUnit(p))) ++
    Seq.fill(p.encoders)(Module(makeEncodeUnit())) ++ Seq.fill(p.decoders)(Module(makeDecodeUnit()))

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

  ring.io.units.zip(units).foreach { case (port, unit) => port <> unit.io.port }

  private val beats = Module(new RRArbiter(new Xxh64Beat(p.hash), p.hash.slots))
  hash.io.beat.valid := beats.io.out.valid
  hash.io.beat.bits := beats.io.out.bits
  beats.io.out.ready := true.B
  hash.io.hash.ready := true.B
  for ((unit, slot) <- hashUnits.zipWithIndex) {
    beats.io.in(slot) <> unit.engine.beat
    unit.engine.wants := hash.io.wants(slot)
    unit.engine.hash.valid := hash.io.hash.valid && hash.io.hash.bits.slot === slot.U
    unit.engine.hash.bits := hash.io.hash.bits.value
  }

  // The port: reads by tag, from 1 on, and writes.
  private val readers = units.flatMap(_.io.reads)
  private val writers = units.flatMap(_.io.write).map(toRequest)
  private val reads = Module(new RRArbiter(new DmaRequest(p.tagBits), readers.size))
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
  for ((reader, index) <- readers.zipWithIndex) {
    val in = reads.io.in(index)
    in.valid := reader.request.valid
    in.bits := read(reader.request.bits, index + 1)
    reader.request.ready := in.ready
    reader.answer := answers(index + 1)
  }
  private val fetch = Wire(Decoupled(new DmaRequest(p.tagBits)))
  fetch.valid := ring.io.fetch.valid
  fetch.bits := read(ring.io.fetch.bits, 0)
  ring.io.fetch.ready := fetch.ready
  ring.io.descriptor := answers(0)

  // An engine that waits for a write holds all that it has read: writes are before reads.
  private val requests = Seq(ring.io.completion) ++ byTurns(writers) ++ Seq(fetch, reads.io.out)
  private val port = Module(new Arbiter(new DmaRequest(p.tagBits), requests.size))
  port.io.in.zip(requests).foreach { case (in, request) => in <> request }
  io.dma <> port.io.out

  private def toRequest(write: DecoupledIO[LineWrite]): DecoupledIO[DmaRequest] = {
    val request = Wire(Decoupled(new DmaRequest(p.tagBits)))
    request.valid := write.valid
    request.bits.write := true.B
    request.bits.tag := 0.U
    request.bits.line := write.bits.line
    request.bits.data := write.bits.data
    request.bits.strobe := write.bits.strobe
    write.ready := request.ready
    request
  }

  /** One of them at a time; none of none. */
  private def byTurns(requests: Seq[DecoupledIO[DmaRequest]]): Option[DecoupledIO[DmaRequest]] =
    Option.when(requests.nonEmpty) {
      val arbiter = Module(new RRArbiter(new DmaRequest(p.tagBits), requests.size))
      arbiter.io.in.zip(requests).foreach { case (in, request) => in <> request }
      arbiter.io.out
    }

  // Methods, so that tests can build an accelerator that gets it wrong.

  protected def makeEncodeUnit(): Lz4EncodeUnit = new Lz4EncodeUnit(p)
  protected def makeDecodeUnit(): Lz4DecodeUnit = new Lz4DecodeUnit(p)
}
