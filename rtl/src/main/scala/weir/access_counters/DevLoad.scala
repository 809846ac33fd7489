// SPDX-License-Identifier: Apache-2.0 OR MIT
package weir

import chisel3._
import chisel3.util._

/** How loaded the device says it is (CXL 3.1, 3.3.4), from the fill of its request queues.
  *
  * The level is that of the fullest channel, since its requests wait longest. It is averaged over a window of
  * `2^windowLog2` clocks, and compared at the window's end. To a heavier class: the average lies above that
  * class's threshold. To a lighter one: it lies more than `hysteresis` below. A class that is neither stays.
  *
  * Fill and thresholds are in 1/256 entries. Thresholds that do not rise from class to class are taken as
  * they are: the heaviest class with an exceeded threshold counts.
  */
class DevLoad(channels: Int, fillBits: Int) extends Module {
  private val fractionBits = 8
  private val windowLog2Max = 16

  val io = IO(new Bundle {
    val fill = Input(Vec(channels, UInt(fillBits.W)))

    /** Of optimal, moderate overload, severe overload. */
    val thresholds = Input(Vec(3, UInt(16.W)))
    val hysteresis = Input(UInt(16.W))
    val windowLog2 = Input(UInt(5.W))

    val load = Output(UInt(2.W))
    val meanFill = Output(UInt(16.W))
    val clocksAt = Output(Vec(4, UInt(64.W)))
  })

  private val fullest = RegNext(io.fill.reduceTree((a, b) => Mux(a > b, a, b)), 0.U)
  private val windowLog2 = Mux(io.windowLog2 > windowLog2Max.U, windowLog2Max.U, io.windowLog2)
  private val sum = RegInit(0.U((fillBits + windowLog2Max).W))
  private val elapsed = RegInit(0.U((windowLog2Max + 1).W))
  private val mean = RegInit(0.U(16.W))
  private val fresh = RegInit(false.B)

  // A window made shorter while it runs may be too long already: it ends, and says nothing.
  private val length = elapsed +& 1.U
  private val ends = length >= (1.U << windowLog2)
  private val complete = length === (1.U << windowLog2)
  private val total = sum + fullest
  sum := Mux(ends, 0.U, total)
  elapsed := Mux(ends, 0.U, elapsed + 1.U)
  fresh := complete
  when(complete) { mean := ((total << fractionBits) >> windowLog2)(15, 0) }

  private val load = RegInit(0.U(2.W))
  private def heaviest(exceeded: UInt => Bool): UInt =
    MuxCase(0.U, (2 to 0 by -1).map(i => exceeded(io.thresholds(i)) -> (i + 1).U))
  private val rising = heaviest(mean > _)
  private val falling = heaviest(threshold => mean +& io.hysteresis > threshold)
  when(fresh) {
    when(rising > load) { load := rising }.elsewhen(falling < load) { load := falling }
  }

  private val clocksAt = RegInit(VecInit(Seq.fill(4)(0.U(64.W))))
  clocksAt(load) := clocksAt(load) + 1.U

  io.load := load
  io.meanFill := mean
  io.clocksAt := clocksAt
}
