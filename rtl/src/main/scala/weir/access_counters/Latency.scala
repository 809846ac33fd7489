// SPDX-License-Identifier: Apache-2.0 OR MIT
package weir

import chisel3._
import chisel3.util._

/** Mean latency of one kind of request, by Little's law: how many are under way, summed over all clocks,
  * over how many came.
  *
  * A request is under way from the clock after it was accepted to the clock of its completion, so its part of
  * the sum is exactly the clocks between the two. Each side may have one per channel and clock.
  */
class Latency(channels: Int) extends Module {

  /** More under way than any device has tags for (CXL 3.1 has 16 bits of tag). */
  private val underWayBits = 17

  val io = IO(new Bundle {
    val accepted = Input(Vec(channels, Bool()))
    val completed = Input(Vec(channels, Bool()))
    val requests = Output(UInt(64.W))
    val occupancyClocks = Output(UInt(64.W))
    val underWay = Output(UInt(underWayBits.W))
  })

  private val underWay = RegInit(0.U(underWayBits.W))
  private val requests = RegInit(0.U(64.W))
  private val occupancy = RegInit(0.U(64.W))
  private val in = PopCount(io.accepted)
  private val out = PopCount(io.completed)

  // A completion without a request is a fault of the device around; it must not make the number wrap.
  private val more = underWay +& in
  underWay := Mux(more >= out, more - out, 0.U)(underWayBits - 1, 0)
  requests := requests + in
  occupancy := occupancy + underWay

  io.requests := requests
  io.occupancyClocks := occupancy
  io.underWay := underWay
}
