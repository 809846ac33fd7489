// SPDX-License-Identifier: Apache-2.0 OR MIT
package weir

import chisel3._
import chisel3.simulator.scalatest.ChiselSim
import org.scalatest.funspec.AnyFunSpec
import scala.collection.mutable
import scala.util.Random

class BankSpec extends AnyFunSpec with ChiselSim {

  /** Drives a pair for some clocks and compares both answers with each other and with plain arithmetic. */
  private def drive(groups: Int, countBits: Int, clocks: Int, seed: Long): Unit = {
    info(s"seed $seed")
    simulate(new BankPair(groups, countBits)) { pair =>
      val random = new Random(seed)
      var counts = Vector.fill(groups)(BigInt(0))
      var kept = counts
      var snapshots = 0
      // counts as they were 1, 2, … clocks ago; answers that are due.
      val history = mutable.Queue.fill(Bank.lagClocks)(counts)
      val due = mutable.Queue.fill(Bank.readClocks)(Option.empty[BigInt])
      var hot = 0
      pair.io.take.poke(false)
      while (!pair.io.up.peek().litToBoolean) pair.clock.step()
      for (clock <- 0 until clocks) {
        if (random.nextInt(64) == 0) hot = random.nextInt(groups)
        val group = if (random.nextInt(4) == 0) random.nextInt(groups) else (hot + random.nextInt(2)) % groups
        val isEvent = random.nextInt(8) != 0
        val take = random.nextInt(16) == 0
        val asked = random.nextInt(groups)
        val askedSnapshot = random.nextBoolean()
        pair.io.event.valid.poke(isEvent)
        pair.io.event.bits.poke(group)
        pair.io.take.poke(take)
        pair.io.read.valid.poke(true)
        pair.io.read.bits.poke(asked)
        pair.io.readSnapshot.poke(askedSnapshot)
        val settled = pair.io.settled.peek().litToBoolean
        due.enqueue(if (askedSnapshot && !settled) None else Some(if (askedSnapshot) kept(asked) else history.head(asked)))
        for (wanted <- due.dequeue()) {
          assert(pair.io.registers.peek().litValue == wanted, s"registers, clock $clock")
          assert(pair.io.ram.peek().litValue == wanted, s"RAM, clock $clock")
        }
        if (isEvent) counts = counts.updated(group, (counts(group) + 1) % (BigInt(1) << countBits))
        // This clock's event is still of the old epoch: the new one begins with the next clock.
        if (take && pair.io.ready.peek().litToBoolean) {
          kept = counts
          snapshots += 1
        }
        history.enqueue(counts)
        history.dequeue()
        pair.clock.step()
      }
      assert(snapshots > clocks / (groups + 64), "too few snapshots to mean anything")
    }
  }

  describe("a bank of counters") {
    it("is what arithmetic says in both designs, clock by clock, with snapshots") { drive(16, 64, 6000, 1) }
    it("wraps as its width says, with a number of groups that is no power of two") { drive(5, 4, 4000, 2) }
    it("works with a single group") { drive(1, 64, 1000, 3) }
  }
}
