// SPDX-License-Identifier: Apache-2.0 OR MIT
package weir

import chisel3._
import chisel3.simulator.scalatest.ChiselSim
import org.scalatest.funspec.AnyFunSpec

class AcceleratorSpec extends AnyFunSpec with ChiselSim {
  import AcceleratorMap.{Doorbell, Header, Op}

  /** No page is needed: this is built soon. */
  private val small = AcceleratorParameters(
    hash = Xxh64Parameters(slots = 3),
    encoders = 0,
    decoders = 0,
    readAhead = 1,
    clockKhz = 400000
  )
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

  describe("the accelerator") {
    it("says what it is, keeps what may be written until it is enabled, and refuses doorbells") {
      simulate(new Accelerator(small)) { dut =>
        start(dut)
        for (register <- Header.all; value <- register.value) assert(load(dut, register) == value)
        assert(load(dut, Header.opMask) == (1 << Op.xxh64) + (1 << Op.compare))
        assert(load(dut, Header.features) == 0)
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
