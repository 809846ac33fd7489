// SPDX-License-Identifier: Apache-2.0 OR MIT
package weir

import chisel3._
import chisel3.util._

/** From a host-physical address to the group it counts for and the device's own address (thesis 5.1.2).
  *
  * {{{
  *  offset = address - base          a line's address, without its lowest 6 bits
  *  group  = offset >> groupBits     outside all groups: counted apart, and never the device's
  *  device = offset mod memory       the lower bits, so that each virtual copy shows the same memory
  * }}}
  *
  * The base is subtracted and not masked off: firmware need not align it (a machine with 128 GB of DRAM
  * begins its CXL memory at 130 GB). The answer comes one clock after the question.
  */
class AddressMap(p: Parameters) extends Module {
  private val shift = p.groupBytesLog2 - Parameters.lineBytesLog2
  private val deviceLineBits = p.deviceBytesLog2 - Parameters.lineBytesLog2

  val io = IO(new Bundle {

    /** Bits 51 to 6 of the address of group 0. */
    val baseLine = Input(UInt(Parameters.lineAddressBits.W))
    val line = Flipped(Valid(UInt(Parameters.lineAddressBits.W)))

    /** The group, where the address has one. */
    val group = Valid(UInt(p.groupBits.W))

    /** The address has no group. */
    val outside = Output(Bool())

    /** Line in the device's memory; means something only where there is a group. */
    val deviceLine = Output(UInt(math.max(1, deviceLineBits).W))
  })

  // One bit more: it is the borrow, set where the address lies below the base.
  private val offset = RegNext(io.line.bits -& io.baseLine)
  private val valid = RegNext(io.line.valid, false.B)
  private val below = offset(Parameters.lineAddressBits)
  private val number = offset(Parameters.lineAddressBits - 1, 0) >> shift
  private val inside = !below && number < p.groups.U

  io.group.valid := valid && inside
  io.group.bits := number.pad(p.groupBits)(p.groupBits - 1, 0)
  io.outside := valid && !inside
  io.deviceLine := (if (deviceLineBits == 0) 0.U else offset(deviceLineBits - 1, 0))
}
