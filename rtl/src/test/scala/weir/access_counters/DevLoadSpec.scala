// SPDX-License-Identifier: Apache-2.0 OR MIT
package weir

import chisel3._
import chisel3.simulator.scalatest.ChiselSim
import org.scalatest.funspec.AnyFunSpec
import scala.util.Random

class DevLoadSpec extends AnyFunSpec with ChiselSim {
  private val thresholds = Seq(16, 32, 48).map(_ * 256)
  private val hysteresis = 2 * 256

  private def set(devload: DevLoad, windowLog2: Int): Unit = {
    thresholds.zipWithIndex.foreach { case (t, i) => devload.io.thresholds(i).poke(t) }
    devload.io.hysteresis.poke(hysteresis)
    devload.io.windowLog2.poke(windowLog2)
  }

  /** The classes by their definition: the heaviest with a passed threshold. */
  private def next(load: Int, mean: Int): Int = {
    val rising = thresholds.count(mean > _)
    val falling = thresholds.count(mean + hysteresis > _)
    if (rising > load) rising else if (falling < load) falling else load
  }

  describe("DevLoad") {
    it("has four classes, holds them within the hysteresis, and counts the clocks of each") {
      info("seed 8")
      val random = new Random(8)
      simulate(new DevLoad(2, 6)) { devload =>
        set(devload, windowLog2 = 4)
        val clocks = Array.fill(4)(0)
        var load, sum, level = 0
        var changes = 0
        val seen = collection.mutable.Queue[Int](0) // the level is registered once
        val waiting = collection.mutable.Queue[Int]()
        for (clock <- 0 until 6000) {
          if (random.nextInt(100) == 0) level = random.nextInt(64)
          val fills = Seq.fill(2)(math.min(63, math.max(0, level + random.nextInt(7) - 3)))
          fills.zipWithIndex.foreach { case (fill, channel) => devload.io.fill(channel).poke(fill) }
          assert(devload.io.load.peek().litValue == load, s"clock $clock")
          clocks(load) += 1
          // A window's mean becomes known at its end, the class a clock later.
          if (waiting.nonEmpty) {
            val before = load
            load = next(load, waiting.dequeue())
            if (load != before) changes += 1
          }
          sum += seen.dequeue()
          seen.enqueue(fills.max)
          if (clock % 16 == 15) {
            waiting.enqueue(sum * 256 / 16)
            sum = 0
          }
          devload.clock.step()
        }
        assert(changes > 30 && clocks.forall(_ > 100), s"$changes changes, ${clocks.toSeq} clocks")
        clocks.zipWithIndex.foreach { case (n, i) => devload.io.clocksAt(i).expect(n) }
      }
    }

    it("reports the fullest channel, and a window made shorter says nothing wrong") {
      simulate(new DevLoad(4, 6)) { devload =>
        set(devload, windowLog2 = 10)
        Seq(1, 40, 3, 2).zipWithIndex.foreach { case (fill, channel) => devload.io.fill(channel).poke(fill) }
        devload.clock.step(700)
        devload.io.windowLog2.poke(3)
        devload.clock.step(2)
        devload.io.meanFill.expect(0)
        devload.clock.step(8)
        devload.io.meanFill.expect(40 * 256)
        devload.clock.step()
        devload.io.load.expect(2)
      }
    }
  }
}
