// SPDX-License-Identifier: Apache-2.0 OR MIT
package weir

import chisel3._
import chisel3.simulator.scalatest.ChiselSim
import org.scalatest.funspec.AnyFunSpec

class CoreSpec extends AnyFunSpec with ChiselSim {
  import RegisterMap.Header

  private val p = Parameters(10, channels = 2, groupBytesLog2 = 20, deviceBytesLog2 = 22, clockKhz = 400000)
  private val all = BigInt("ffffffffffffffff", 16)

  private def request(core: Core, address: Int, store: Option[BigInt], halves: Seq[Boolean] = Seq(true, true)): BigInt = {
    core.io.request.valid.poke(true)
    core.io.request.bits.address.poke(address)
    core.io.request.bits.write.poke(store.isDefined)
    halves.zipWithIndex.foreach { case (half, i) => core.io.request.bits.halves(i).poke(half) }
    core.io.request.bits.data.poke(store.getOrElse(BigInt(0)))
    var clocks = 0
    while (!core.io.answer.valid.peek().litToBoolean) {
      core.clock.step()
      clocks += 1
      assert(clocks < 100, f"no answer at $address%#x")
    }
    val answer = core.io.answer.bits.peek().litValue
    core.clock.step()
    core.io.request.valid.poke(false)
    core.clock.step()
    answer
  }
  private def load(core: Core, address: Int): BigInt = request(core, address, None)
  private def load(core: Core, register: Register): BigInt = {
    val word = load(core, register.offsetBytes & ~7)
    (word >> (register.offsetBytes % 8 * 8)) & ((BigInt(1) << register.widthBits) - 1)
  }
  private def store(core: Core, register: Register, value: BigInt): Unit = {
    val shift = register.offsetBytes % 8 * 8
    val halves = if (register.widthBits == 64) Seq(true, true) else Seq(shift == 0, shift != 0)
    request(core, register.offsetBytes & ~7, Some(value << shift), halves)
  }
  private def comeUp(core: Core): Unit = {
    core.io.request.valid.poke(false)
    while (!core.io.up.peek().litToBoolean) core.clock.step()
  }

  describe("the registers") {
    it("say what the register map fixes, and the magic number only once counting has begun") {
      simulate(new Core(p, Bank.OfRam)) { core =>
        core.io.request.valid.poke(false)
        core.clock.step()
        assert(!core.io.up.peek().litToBoolean && load(core, Header.magic) == 0)
        comeUp(core)
        for (register <- Header.all; value <- register.value) assert(load(core, register) == value)
        assert(load(core, Header.groupCount) == p.groups)
        assert(load(core, Header.clockKhz) == 400000)
        assert(load(core, Header.features) == 15)
        store(core, Header.hostBaseBytes, BigInt("2080000000", 16))
        val table = load(core, Header.groupTableOffsetBytes).toInt
        for (group <- 0 until p.groups) {
          assert(load(core, table + 16 * group) == BigInt("2080000000", 16) + group * (1 << 20))
          assert(load(core, table + 16 * group + 8) == 1 << 20)
        }
        assert(load(core, table + 16 * p.groups) == 0, "behind the table")
      }
    }

    it("keep what is stored in them, and only in those that can be written") {
      simulate(new Core(p, Bank.OfRam)) { core =>
        comeUp(core)
        val patterns = Map(
          Header.hostBaseBytes -> BigInt("fedcba9876540", 16),
          Header.devloadThresholds -> BigInt("0102030405060708", 16),
          Header.devloadWindowLog2Clocks -> BigInt(9)
        )
        // They go on by themselves, or act when written.
        val moving = Seq(Header.clocks, Header.snapshotControl, Header.devloadLightClocks)
        for (register <- Header.all.diff(moving)) {
          val before = load(core, register)
          val value = patterns.getOrElse(register, all & ((BigInt(1) << register.widthBits) - 1))
          store(core, register, value)
          val after = load(core, register)
          assert(after == patterns.getOrElse(register, before), f"${register.offsetBytes}%#x")
        }
        store(core, Header.devloadWindowLog2Clocks, 17)
        assert(load(core, Header.devloadWindowLog2Clocks) == 16)
        assert(patterns.keySet + Header.snapshotControl == Header.all.filter(_.writable).toSet)
      }
    }

    it("read 0 and take no store everywhere else in the BAR") {
      simulate(new Core(p, Bank.OfRam)) { core =>
        comeUp(core)
        val ends = Seq(RegisterMap.countersOffsetBytes, RegisterMap.snapshotOffsetBytes, RegisterMap.groupTableOffsetBytes)
          .map(_ + 16 * p.groups)
        val holes = Seq(0, 8, 0x100, 0x17ff8, 0x180f8, RegisterMap.barBytes - 8) ++ ends ++ ends.map(_ + 8)
        for (address <- holes) {
          request(core, address, Some(all))
          assert(load(core, address) == 0, f"$address%#x")
        }
        for (group <- 0 until p.groups; word <- Seq(0, 8)) {
          val address = RegisterMap.countersOffsetBytes + 16 * group + word
          request(core, address, Some(all))
          assert(load(core, address) == 0, f"$address%#x")
        }
        assert(load(core, Header.snapshotCount) == 0)
      }
    }

    it("take a snapshot when 1 is written and none while one is under way") {
      simulate(new Core(p, Bank.OfRam)) { core =>
        comeUp(core)
        store(core, Header.snapshotControl, 2)
        assert(load(core, Header.snapshotCount) == 0)
        store(core, Header.snapshotControl, 1)
        assert(load(core, Header.snapshotControl) == 1)
        store(core, Header.snapshotControl, 1)
        assert(load(core, Header.snapshotCount) == 1)
        core.clock.step(p.groups + 8)
        assert(load(core, Header.snapshotControl) == 0)
        store(core, Header.snapshotControl, 1)
        assert(load(core, Header.snapshotCount) == 2)
      }
    }
  }

  describe("a device without snapshots") {
    it("says so, and its snapshot registers read 0") {
      simulate(new Core(p.copy(snapshot = false), Bank.OfRegisters)) { core =>
        comeUp(core)
        assert(load(core, Header.features) == 14)
        store(core, Header.snapshotControl, 1)
        core.clock.step(100)
        for (register <- Header.all.filter(_.feature.contains(RegisterMap.Feature.snapshot)))
          assert(load(core, register) == 0, f"${register.offsetBytes}%#x")
        assert(load(core, RegisterMap.snapshotOffsetBytes) == 0)
      }
    }
  }
}
