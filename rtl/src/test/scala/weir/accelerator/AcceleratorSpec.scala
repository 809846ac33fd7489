// SPDX-License-Identifier: Apache-2.0 OR MIT
package weir

import chisel3._
import chisel3.simulator.scalatest.ChiselSim
import org.scalatest.funspec.AnyFunSpec
import scala.collection.mutable
import scala.util.Random

class AcceleratorSpec extends AnyFunSpec with ChiselSim {
  import AcceleratorMap.{Completion, Counter, Descriptor, Doorbell, Flag, Header, Op, Register, Status}
  import HostMemory.{entry, field}

  private val p = AcceleratorParameters(readAhead = 8, clockKhz = 400000)

  /** For what needs no page: built sooner. */
  private val small = p.copy(hash = Xxh64Parameters(slots = 3), readAhead = 1)
  private val ring = 0x10000L
  private val completions = 0x20000L
  private val entriesLog2 = 3
  private val all = BigInt("ffffffffffffffff", 16)

  /** A word of the registers, which are read in one clock; the clock does not step. */
  private def load(dut: Accelerator, register: Register): BigInt = {
    dut.io.request.valid.poke(true)
    dut.io.request.bits.write.poke(false)
    dut.io.request.bits.address.poke(register.offsetBytes & ~7)
    val word = dut.io.answer.bits.peek().litValue
    dut.io.request.valid.poke(false)
    (word >> (register.offsetBytes % 8 * 8)) & ((BigInt(1) << register.widthBits) - 1)
  }
  private def store(dut: Accelerator, register: Register, value: BigInt): Unit = {
    val shift = register.offsetBytes % 8 * 8
    dut.io.request.valid.poke(true)
    dut.io.request.bits.write.poke(true)
    dut.io.request.bits.address.poke(register.offsetBytes & ~7)
    dut.io.request.bits.halves(0).poke(register.widthBits == 64 || shift == 0)
    dut.io.request.bits.halves(1).poke(register.widthBits == 64 || shift != 0)
    dut.io.request.bits.data.poke((value << shift) & all)
  }
  private def storeNow(dut: Accelerator, register: Register, value: BigInt): Unit = {
    store(dut, register, value)
    dut.clock.step()
    dut.io.request.valid.poke(false)
  }
  private def start(dut: Accelerator): Unit = {
    dut.io.request.valid.poke(false)
    dut.io.dma.ready.poke(false)
    dut.io.dmaAnswer.valid.poke(false)
    storeNow(dut, Header.ringBaseBytes, ring)
    storeNow(dut, Header.completionBaseBytes, completions)
    storeNow(dut, Header.ringEntriesLog2, entriesLog2)
    storeNow(dut, Header.interruptEnable, 1)
    storeNow(dut, Header.control, 1)
  }

  /** What is asked, and what is to come of it. */
  private case class Case(descriptor: BigInt, status: Int, value: BigInt, interrupt: Boolean)

  /** A request of any kind, on pages of its own. */
  private def draw(random: Random, memory: HostMemory, number: Int): Case = {
    val source = 0x100000L + number * 0x4000L
    val second = source + 0x2000
    val bytes = if (random.nextBoolean()) 4096 else 1 + random.nextInt(300)
    val page = Seq.fill(bytes)(random.nextInt(256).toByte)
    val change = random.nextInt(bytes + 40)
    val other = page.zipWithIndex.map { case (byte, at) => if (at == change) (byte ^ 0x55).toByte else byte }
    memory.store(source, page)
    memory.store(second, other)
    val interrupt = random.nextInt(3) == 0
    def asked(op: Int, length: Int, from: Long): BigInt = entry(
      Descriptor.op -> op,
      Descriptor.sourceBytes -> length,
      Descriptor.source -> from,
      Descriptor.second -> second,
      Descriptor.flags -> (if (interrupt) 1 << Flag.interrupt else 0),
      Descriptor.tag -> (number * 1000 + 7)
    )
    random.nextInt(12) match {
      case 0 => Case(asked(Op.lz4Encode, bytes, source), Status.badOp, 0, interrupt)
      case 1 => Case(asked(Op.xxh64, Seq(0, 4097, 1 << 20)(random.nextInt(3)), source), Status.badLength, 0, interrupt)
      case 2 => Case(asked(Op.compare, bytes, source + 8), Status.badAddress, 0, interrupt)
      case 3 =>
        memory.broken += BigInt(source / 64 + (bytes - 1) / 64)
        Case(asked(Op.xxh64, bytes, source), Status.dmaError, 0, interrupt)
      case n if n < 8 =>
        Case(asked(Op.xxh64, bytes, source), Status.done, BigInt(Xxh64Formula(page)) & all, interrupt)
      case _ =>
        val sign = if (change >= bytes) 0L else if ((page(change) & 0xff) < (other(change) & 0xff)) 0xffffffffL else 1L
        val value = (BigInt(sign) << 32) | BigInt(change.min(bytes))
        Case(asked(Op.compare, bytes, source), Status.done, value, interrupt)
    }
  }

  /** Runs requests as a driver does: a slot is used again once its completion is there. */
  private def run(dut: Accelerator, seed: Int, slow: Int, requests: Int): Unit = {
    dut.reset.poke(true)
    dut.clock.step()
    dut.reset.poke(false)
    val random = new Random(seed)
    val memory = new HostMemory(random, slow)
    start(dut)
    val cases = mutable.ArrayBuffer[Case]()
    val completed = mutable.Map[Int, BigInt]()
    var interrupts = 0
    var now, seen = 0
    while (completed.size < requests) {
      val oldest = cases.indices.find(!completed.contains(_)).getOrElse(cases.size)
      val rings = cases.size < requests && cases.size < oldest + (1 << entriesLog2) && random.nextInt(20) == 0
      if (rings) {
        val room = (oldest + (1 << entriesLog2)).min(requests) - cases.size
        for (_ <- 0 to random.nextInt(room)) {
          cases += draw(random, memory, cases.size)
          memory.lines(BigInt(ring / 64 + (cases.size - 1) % (1 << entriesLog2))) = cases.last.descriptor
        }
        store(dut, Doorbell.doorbell, cases.size)
      }
      memory.clock(dut, now)
      if (dut.io.interrupt.peek().litToBoolean) interrupts += 1
      dut.clock.step()
      dut.io.request.valid.poke(false)
      now += 1
      assert(now < 200000, s"${completed.size} of ${cases.size} completed")
      memory.writes.drop(seen).foreach { case (line, data, strobe) =>
        val upper = strobe == BigInt("ffffffff00000000", 16)
        assert(upper || strobe == BigInt("ffffffff", 16))
        val bytes = if (upper) data >> 256 else data & ((BigInt(1) << 256) - 1)
        val number = field(bytes, Completion.sequence).toInt - 1
        val slot = number % (1 << entriesLog2)
        assert(line * 64 + (if (upper) 32 else 0) == completions + 32 * slot)
        assert(number < cases.size && !completed.contains(number), s"$number completes again")
        val wanted = cases(number)
        assert(field(bytes, Completion.status) == wanted.status, s"status of $number")
        assert(field(bytes, Completion.value) == wanted.value, s"value of $number")
        assert(field(bytes, Completion.tag) == number * 1000 + 7)
        assert(field(bytes, Completion.resultBytes) == 0)
        completed(number) = bytes
      }
      seen = memory.writes.size
    }
    for (_ <- 0 until 3) {
      if (dut.io.interrupt.peek().litToBoolean) interrupts += 1
      dut.clock.step()
    }
    assert(interrupts == cases.count(_.interrupt))
    checkSums(dut, cases.toSeq, completed.toMap)
  }

  private def checkSums(dut: Accelerator, cases: Seq[Case], completed: Map[Int, BigInt]): Unit = {
    assert(load(dut, Header.interrupts) == cases.count(_.interrupt))
    assert(load(dut, Header.completed) == cases.size && load(dut, Header.fetched) == cases.size)
    assert(load(dut, Header.state) == 1 && load(dut, Header.refusedDoorbells) == 0)
    for (op <- Seq(0, Op.xxh64, Op.compare)) {
      val own = cases.indices.filter { number =>
        val asked = field(cases(number).descriptor, Descriptor.op).toInt
        (if (asked == Op.lz4Encode) 0 else asked) == op
      }
      val (done, failed) = own.partition(cases(_).status == Status.done)
      def counter(register: Register): BigInt = load(
        dut,
        register.copy(offsetBytes =
          AcceleratorMap.countersOffsetBytes + op * AcceleratorMap.counterStrideBytes + register.offsetBytes
        )
      )
      assert(counter(Counter.pages) == done.size && counter(Counter.errors) == failed.size, s"operation $op")
      assert(counter(Counter.clocks) == own.map(n => field(completed(n), Completion.clocks)).sum)
      assert(counter(Counter.stalls) <= counter(Counter.clocks))
    }
  }

  describe("the accelerator") {
    it("completes each request once, with its result, whatever memory does") {
      simulate(new Accelerator(p)) { dut =>
        for ((seed, slow) <- Seq((1, 1), (2, 40), (3, 200))) {
          info(s"seed $seed, answers up to $slow clocks late")
          run(dut, seed, slow, 40)
        }
      }
    }

    it("says what it is, keeps what may be written until it is enabled, and refuses doorbells") {
      simulate(new Accelerator(small)) { dut =>
        start(dut)
        for (register <- Header.all; value <- register.value) assert(load(dut, register) == value)
        assert(load(dut, Header.opMask) == (1 << Op.xxh64) + (1 << Op.compare))
        assert(load(dut, Header.engineCount) == small.units && load(dut, Header.clockKhz) == 400000)
        assert(load(dut, Header.ringEntriesLog2Max) == 10)
        val moving = Seq(Header.clocks, Header.control, Header.interruptEnable)
        for (register <- Header.all.diff(moving)) {
          val before = load(dut, register)
          storeNow(dut, register, all & ((BigInt(1) << register.widthBits) - 1))
          assert(load(dut, register) == before, f"${register.offsetBytes}%#x while enabled")
        }
        storeNow(dut, Header.control, 0)
        for ((stored, kept) <- Seq(0 -> 1, 1 -> 1, 10 -> 10, 11 -> 10, 1000 -> 10)) {
          storeNow(dut, Header.ringEntriesLog2, stored)
          assert(load(dut, Header.ringEntriesLog2) == kept)
        }
        storeNow(dut, Header.ringBaseBytes, all)
        assert(load(dut, Header.ringBaseBytes) == (all ^ 63))
        assert(load(dut, Doorbell.doorbell) == 0)
        dut.reset.poke(true)
        dut.clock.step()
        dut.reset.poke(false)
        refuseDoorbells(dut)
      }
    }
  }

  private def refuseDoorbells(dut: Accelerator): Unit = {
    start(dut)
    for (rung <- Seq(BigInt(9), BigInt(1) << 31, all >> 32)) storeNow(dut, Doorbell.doorbell, rung)
    dut.clock.step(5)
    assert(load(dut, Header.refusedDoorbells) == 3 && !dut.io.dma.valid.peek().litToBoolean)
    storeNow(dut, Doorbell.doorbell, 8)
    storeNow(dut, Doorbell.doorbell, 7)
    assert(load(dut, Header.refusedDoorbells) == 4 && dut.io.dma.valid.peek().litToBoolean)
    storeNow(dut, Header.control, 0)
    storeNow(dut, Doorbell.doorbell, 1)
    dut.clock.step(5)
    assert(load(dut, Header.refusedDoorbells) == 5 && !dut.io.dma.valid.peek().litToBoolean)
  }
}
