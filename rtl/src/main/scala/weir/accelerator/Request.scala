// SPDX-License-Identifier: Apache-2.0 OR MIT
package weir

import chisel3._
import chisel3.util._
import AcceleratorMap.{Completion => C, Descriptor => D}

/** Parameters of the accelerator.
  *
  * @param hash           of the hash; a unit for each of its slots
  * @param compareUnits   comparisons at a time
  * @param encoders       LZ4 encoders, each with what verifies its blocks
  * @param decoders       LZ4 decoders
  * @param positions      of the page that an encoder looks up in a clock: 1, 2, 4 or 8
  * @param readAhead      lines that a unit reads ahead, at most a page
  * @param fetchAhead     descriptors that are read ahead
  * @param numberBits     of a request's number; 32 but in proofs
  * @param entriesLog2Max log2 of the longest ring
  * @param clockKhz       frequency of the clock, reported to the host; 0 is not known
  */
case class AcceleratorParameters(
  hash: Xxh64Parameters = Xxh64Parameters(),
  compareUnits: Int = 1,
  encoders: Int = 1,
  decoders: Int = 1,
  positions: Int = 4,
  readAhead: Int = 64,
  fetchAhead: Int = 4,
  numberBits: Int = 32,
  entriesLog2Max: Int = AcceleratorMap.entriesLog2Max,
  clockKhz: Int = 0
) {

  /** What each unit does. */
  val ops: Seq[Int] = Seq(
    AcceleratorMap.Op.xxh64 -> hash.slots,
    AcceleratorMap.Op.compare -> compareUnits,
    AcceleratorMap.Op.lz4Encode -> encoders,
    AcceleratorMap.Op.lz4Decode -> decoders
  ).flatMap { case (op, count) => Seq.fill(count)(op) }
  val units: Int = ops.size
  require(
    units >= 1 && units <= AcceleratorMap.engineCountMax,
    s"$units units: the contract holds 1 to ${AcceleratorMap.engineCountMax}"
  )
  require(readAhead >= 1 && readAhead <= 64, s"readAhead is $readAhead: 1 to 64 lines are allowed")
  require(fetchAhead >= 1 && fetchAhead <= 16, s"fetchAhead is $fetchAhead: 1 to 16 are allowed")
  require(
    entriesLog2Max >= 1 && entriesLog2Max <= AcceleratorMap.entriesLog2Max && entriesLog2Max < numberBits,
    s"entriesLog2Max is $entriesLog2Max: 1 to ${AcceleratorMap.entriesLog2Max} are allowed, less than numberBits"
  )

  /** Tags of reads: descriptors have 0, then one for each unit, and two for each that compares. */
  val readers: Int = units + compareUnits
  val tagBits: Int = log2Ceil(readers + 1)

  val features: Int = if (encoders > 0) 1 << AcceleratorMap.Feature.verify else 0
}

/** What the host asks for. */
class Request(numberBits: Int) extends Bundle {
  val number = UInt(numberBits.W)
  val op = UInt(32.W)
  val sourceBytes = UInt(32.W)
  val source = UInt(64.W)
  val second = UInt(64.W)
  val destination = UInt(64.W)
  val destinationBytes = UInt(32.W)
  val flags = UInt(32.W)
  val tag = UInt(64.W)

  /** Lines of the source, if its length is allowed. */
  def lines: UInt = ((sourceBytes(12, 0) +& 63.U) >> 6)(6, 0)
}

object Request {

  /** Of a descriptor. */
  def apply(numberBits: Int, number: UInt, descriptor: UInt): Request = {
    def field(register: Register): UInt =
      descriptor(8 * register.offsetBytes + register.widthBits - 1, 8 * register.offsetBytes)
    val request = Wire(new Request(numberBits))
    request.number := number
    request.op := field(D.op)
    request.sourceBytes := field(D.sourceBytes)
    request.source := field(D.source)
    request.second := field(D.second)
    request.destination := field(D.destination)
    request.destinationBytes := field(D.destinationBytes)
    request.flags := field(D.flags)
    request.tag := field(D.tag)
    request
  }
}

/** How a request ended. */
class Outcome(numberBits: Int) extends Bundle {
  val number = UInt(numberBits.W)
  val status = UInt(4.W)
  val op = UInt(3.W)
  val resultBytes = UInt(13.W)
  val value = UInt(64.W)
  val tag = UInt(64.W)
  val clocks = UInt(32.W)
  val stalls = UInt(32.W)
  val interrupt = Bool()

  /** The completion: 32 bytes. */
  def completion: UInt = {
    def at(register: Register, value: UInt): UInt =
      (value.pad(register.widthBits)(register.widthBits - 1, 0) << (8 * register.offsetBytes)).pad(256)
    at(C.sequence, number + 1.U) | at(C.status, status) | at(C.resultBytes, resultBytes) |
      at(C.clocks, clocks) | at(C.value, value) | at(C.tag, tag)
  }
}

/** What the ring gives to a unit, and gets back. A unit has one request at a time, and answers each once. */
class UnitPort(numberBits: Int) extends Bundle {
  val request = Decoupled(new Request(numberBits))
  val outcome = Flipped(Decoupled(new Outcome(numberBits)))
}
