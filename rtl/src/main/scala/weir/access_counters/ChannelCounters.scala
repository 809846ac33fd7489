// SPDX-License-Identifier: Apache-2.0 OR MIT
package weir

import chisel3._
import chisel3.util._

/** The counters of all channels: which group an access belongs to, and one more for it.
  *
  * Channels have banks of their own, so none waits for another, and a group's count is the sum over the
  * channels. All banks are read in the same clock: the sum is what it was at one instant.
  */
class ChannelCounters(p: Parameters, kind: Bank.Kind) extends Module {
  private val line = UInt(Parameters.lineAddressBits.W)

  val io = IO(new Bundle {

    /** Accesses completed in this clock: their lines' addresses. */
    val reads = Vec(p.channels, Flipped(Valid(line)))
    val writes = Vec(p.channels, Flipped(Valid(line)))
    val baseLine = Input(line)

    /** From and for [[SnapshotControl]]. */
    val up = Input(Bool())
    val epoch = Input(Bool())
    val sweep = Flipped(Valid(UInt(p.groupBits.W)))
    val sweepAll = Input(Bool())

    /** The host's read of a group: the sums, `ChannelCounters.readClocks` clocks later. */
    val read = Flipped(Valid(UInt(p.groupBits.W)))
    val readSnapshot = Input(Bool())
    val readSum = Output(UInt(64.W))
    val writeSum = Output(UInt(64.W))

    /** Accesses outside all groups, since reset. */
    val outsideReads = Output(UInt(64.W))
    val outsideWrites = Output(UInt(64.W))
  })

  private def direction(accesses: Vec[Valid[UInt]]): (UInt, UInt) = {
    val channels = accesses.map { access =>
      val map = Module(new AddressMap(p))
      map.io.baseLine := io.baseLine
      map.io.line := access
      val bank = Bank(kind, p.groups, p.countBits, p.snapshot)
      bank.io.event.valid := map.io.group.valid && io.up
      bank.io.event.bits := map.io.group.bits
      bank.io.epoch := io.epoch
      bank.io.sweep := io.sweep
      bank.io.sweepAll := io.sweepAll
      bank.io.read := io.read
      bank.io.readSnapshot := io.readSnapshot
      (bank.io.data, map.io.outside && io.up)
    }
    val outside = RegInit(0.U(64.W))
    outside := outside + PopCount(channels.map(_._2))
    (sum(channels.map(_._1)), outside)
  }

  /** A register after each addition; channels are a power of two, so all ways are equally long. */
  private def sum(values: Seq[UInt]): UInt = {
    val (left, right) = values.splitAt(values.size / 2)
    if (left.isEmpty) right.head else RegNext(sum(left) + sum(right))
  }

  private val (readSum, outsideReads) = direction(io.reads)
  private val (writeSum, outsideWrites) = direction(io.writes)
  io.readSum := readSum
  io.writeSum := writeSum
  io.outsideReads := outsideReads
  io.outsideWrites := outsideWrites
}

object ChannelCounters {

  /** From a read to its sums. */
  def readClocks(p: Parameters): Int = Bank.readClocks + log2Ceil(p.channels)
}
