// SPDX-License-Identifier: Apache-2.0 OR MIT
package weir

import chisel3._

/** Values of the block that the header shows. */
class HeaderRegisters extends Bundle {
  private def count = UInt(64.W)

  /** Sums that a snapshot keeps too. */
  val now = new Sums
  val atSnapshot = new Sums
  val snapshotCount = UInt(32.W)
  val devload = UInt(2.W)
  val devloadFill = UInt(16.W)
  val devloadClocks = Vec(4, count)

  def byRegister: Map[Register, UInt] = {
    import RegisterMap.{Header => R}
    Map(
      R.clocks -> now.clocks,
      R.readRequests -> now.readRequests,
      R.readOccupancyClocks -> now.readOccupancyClocks,
      R.writeRequests -> now.writeRequests,
      R.writeOccupancyClocks -> now.writeOccupancyClocks,
      R.outsideReads -> now.outsideReads,
      R.outsideWrites -> now.outsideWrites,
      R.snapshotClocks -> atSnapshot.clocks,
      R.snapshotReadRequests -> atSnapshot.readRequests,
      R.snapshotReadOccupancyClocks -> atSnapshot.readOccupancyClocks,
      R.snapshotWriteRequests -> atSnapshot.writeRequests,
      R.snapshotWriteOccupancyClocks -> atSnapshot.writeOccupancyClocks,
      R.snapshotOutsideReads -> atSnapshot.outsideReads,
      R.snapshotOutsideWrites -> atSnapshot.outsideWrites,
      R.snapshotCount -> snapshotCount,
      R.devload -> devload,
      R.devloadFill -> devloadFill,
      R.devloadLightClocks -> devloadClocks(0),
      R.devloadOptimalClocks -> devloadClocks(1),
      R.devloadModerateClocks -> devloadClocks(2),
      R.devloadSevereClocks -> devloadClocks(3)
    )
  }
}

/** Sums over the whole device. */
class Sums extends Bundle {
  private def count = UInt(64.W)
  val clocks = count
  val readRequests = count
  val readOccupancyClocks = count
  val writeRequests = count
  val writeOccupancyClocks = count
  val outsideReads = count
  val outsideWrites = count
}

/** Settings of the host. */
class Settings extends Bundle {
  val baseLine = UInt(Parameters.lineAddressBits.W)

  /** In 1/256 entries: of optimal, moderate overload, severe overload. */
  val thresholds = Vec(3, UInt(16.W))
  val hysteresis = UInt(16.W)
  val windowLog2 = UInt(5.W)
}

object Settings {

  /** Base 0; no class but light can be reached until the host sets thresholds; windows of 256 clocks. */
  def atReset: Settings = {
    val settings = Wire(new Settings)
    settings.baseLine := 0.U
    settings.thresholds.foreach(_ := 0xffff.U)
    settings.hysteresis := 0.U
    settings.windowLog2 := 8.U
    settings
  }
}
