// SPDX-License-Identifier: Apache-2.0 OR MIT
package weir

import chisel3._
import chisel3.simulator.scalatest.ChiselSim
import org.scalatest.funspec.AnyFunSpec
import scala.collection.mutable
import scala.util.Random

class LatencySpec extends AnyFunSpec with ChiselSim {
  describe("the latency sums") {
    it("give the mean of the requests' own latencies, completed in any order") {
      val random = new Random(7)
      info("seed 7")
      simulate(new Latency(2)) { latency =>
        val underWay = mutable.ArrayBuffer[Int]()
        val latencies = mutable.ArrayBuffer[Int]()
        var came = 0
        for (clock <- 0 until 3000) {
          val accepted = Seq.fill(2)(clock < 2800 && random.nextInt(3) == 0)
          val completed = Seq.fill(2)(underWay.nonEmpty && random.nextInt(3) == 0 && {
            latencies += clock - underWay.remove(random.nextInt(underWay.size))
            true
          })
          for (channel <- 0 until 2) {
            latency.io.accepted(channel).poke(accepted(channel))
            latency.io.completed(channel).poke(completed(channel))
            if (accepted(channel)) {
              underWay += clock
              came += 1
            }
          }
          latency.clock.step()
        }
        latency.io.accepted.foreach(_.poke(false))
        // Let the rest complete, one a clock.
        for (clock <- 3000 until 3000 + underWay.size) {
          latency.io.completed(0).poke(true)
          latency.io.completed(1).poke(false)
          latencies += clock - underWay.remove(0)
          latency.clock.step()
        }
        latency.io.completed(0).poke(false)
        latency.io.underWay.expect(0)
        latency.io.requests.expect(came)
        latency.io.occupancyClocks.expect(latencies.sum)
        assert(latencies.size == came && came > 1000)
        // A completion of nothing leaves nothing under way, not 2^17 - 1.
        latency.io.completed(0).poke(true)
        latency.clock.step()
        latency.io.underWay.expect(0)
      }
    }
  }
}
