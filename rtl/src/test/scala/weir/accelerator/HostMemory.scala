// SPDX-License-Identifier: Apache-2.0 OR MIT
package weir

import chisel3.simulator.PeekPokeAPI._
import scala.collection.mutable
import scala.util.Random

/** Host memory behind the accelerator's port: holds requests back, and answers reads late, in the order of each tag.
  *
  * @param random when to hold back and how late
  * @param slow   answers come up to so many clocks late
  */
class HostMemory(random: Random, slow: Int) {
  val lines = mutable.Map[BigInt, BigInt]().withDefaultValue(BigInt(0))

  /** Lines whose reads fail. */
  val broken = mutable.Set[BigInt]()

  /** Writes: line, data, strobe. */
  val writes = mutable.ArrayBuffer[(BigInt, BigInt, BigInt)]()
  private val underWay = mutable.Map[Int, mutable.Queue[(Int, BigInt)]]()

  def store(address: Long, bytes: Seq[Byte]): Unit =
    bytes.grouped(64).zipWithIndex.foreach { case (group, index) =>
      lines(BigInt(address / 64 + index)) = number(group)
    }
  private def number(bytes: Seq[Byte]): BigInt = BigInt(1, bytes.reverse.toArray)

  /** One clock: what the device asks and gets. Call it with the clock low, and step then. */
  def clock(dut: Accelerator, now: Int): Unit = {
    val ready = random.nextInt(3) != 0
    dut.io.dma.ready.poke(ready)
    if (ready && dut.io.dma.valid.peek().litToBoolean) {
      val bits = dut.io.dma.bits
      val line = bits.line.peek().litValue
      if (bits.write.peek().litToBoolean)
        writes += ((line, bits.data.peek().litValue, bits.strobe.peek().litValue))
      else {
        val queue = underWay.getOrElseUpdate(bits.tag.peek().litValue.toInt, mutable.Queue())
        queue.enqueue((now + 1 + random.nextInt(slow), line))
      }
    }
    val due = underWay.collect { case (tag, queue) if queue.nonEmpty && queue.head._1 <= now => tag }.toSeq
    dut.io.dmaAnswer.valid.poke(due.nonEmpty)
    if (due.nonEmpty) {
      val tag = due(random.nextInt(due.size))
      val (_, line) = underWay(tag).dequeue()
      dut.io.dmaAnswer.bits.tag.poke(tag)
      dut.io.dmaAnswer.bits.data.poke(lines(line))
      dut.io.dmaAnswer.bits.error.poke(broken(line))
    }
  }
}

object HostMemory {

  /** A field of an entry. */
  def field(entry: BigInt, register: AcceleratorMap.Register): BigInt =
    (entry >> (8 * register.offsetBytes)) & ((BigInt(1) << register.widthBits) - 1)

  /** An entry with these fields. */
  def entry(fields: (AcceleratorMap.Register, BigInt)*): BigInt =
    fields.map { case (register, value) => value << (8 * register.offsetBytes) }.foldLeft(BigInt(0))(_ | _)
}
