// SPDX-License-Identifier: Apache-2.0 OR MIT
package weir

import chisel3._
import chisel3.simulator.scalatest.ChiselSim
import org.scalatest.funspec.AnyFunSpec
import scala.util.Random

class AddressMapSpec extends AnyFunSpec with ChiselSim {
  private val line = 1L << Parameters.lineBytesLog2

  /** Random addresses and those at the edges, compared with division and remainder. */
  private def compare(p: Parameters, base: Long, seed: Long): Unit = {
    info(s"seed $seed")
    val random = new Random(seed)
    val groupBytes = 1L << p.groupBytesLog2
    val end = base + p.groups * groupBytes
    val edges = Seq(0L, base - line, base, base + line, base + groupBytes - line, base + groupBytes, end - line, end) :+
      ((1L << Parameters.addressBits) - line)
    val inside = Seq.fill(400)(base + (random.nextLong(p.groups * groupBytes) / line * line))
    val anywhere = Seq.fill(100)(random.nextLong(1L << Parameters.addressBits) / line * line)
    simulate(new AddressMap(p)) { map =>
      map.io.baseLine.poke(base / line)
      for (address <- (edges ++ inside ++ anywhere).filter(a => a >= 0 && a < (1L << Parameters.addressBits))) {
        map.io.line.valid.poke(true)
        map.io.line.bits.poke(address / line)
        map.clock.step()
        val isInside = address >= base && address < end
        assert(map.io.group.valid.peek().litToBoolean == isInside, f"group of $address%#x")
        assert(map.io.outside.peek().litToBoolean == !isInside, f"outside, $address%#x")
        if (isInside) {
          map.io.group.bits.expect((address - base) / groupBytes)
          map.io.deviceLine.expect((address - base) % (1L << p.deviceBytesLog2) / line)
        }
      }
      map.io.line.valid.poke(false)
      map.clock.step()
      map.io.group.valid.expect(false)
      map.io.outside.expect(false)
    }
  }

  describe("the address map") {
    it("gives virtual copies one memory, from a base that is not aligned") {
      compare(Parameters(512, groupBytesLog2 = 34, deviceBytesLog2 = 34), 130L << 30, 4)
    }
    it("splits one memory into groups, their number no power of two") {
      compare(Parameters(12, groupBytesLog2 = 30, deviceBytesLog2 = 34), 0x1240, 5)
    }
    it("has several groups in each of several copies") {
      compare(Parameters(16384, groupBytesLog2 = 12, deviceBytesLog2 = 20), 0, 6)
    }
  }
}
