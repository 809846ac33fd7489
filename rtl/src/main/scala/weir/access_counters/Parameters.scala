// SPDX-License-Identifier: Apache-2.0 OR MIT
package weir

import chisel3.util.log2Ceil

/** Parameters of the access counters.
  *
  * A group is a region of `2^groupBytesLog2` bytes of host-physical addresses with its own read and write
  * counter. Groups follow each other from the base address on. Where they need more bytes than the device
  * has, its memory appears again: virtual copies (thesis 5.1.1). Where a copy has several groups, the
  * memory is split without copies (thesis 5.1.3, 5.2). Both are the same arithmetic.
  *
  * @param groups         number of monitoring groups, 1 to 16 384 @param channels       memory channels of
  * the device, 1, 2 or 4; each completes one read and one write a clock @param groupBytesLog2 size of a
  * group, at least a line of 64 bytes @param deviceBytesLog2 installed memory @param countBits      width of
  * a counter; 64 but in proofs @param snapshot            all counters can be kept as they are at one instant
  * @param fillBits       width of a channel's queue fill level, in entries @param clockKhz       frequency of
  * the counters' clock, reported to the host; 0 is not known
  */
case class Parameters(
  groups: Int,
  channels: Int = 2,
  groupBytesLog2: Int = 34,
  deviceBytesLog2: Int = 34,
  countBits: Int = 64,
  snapshot: Boolean = true,
  fillBits: Int = 6,
  clockKhz: Int = 0
) {
  require(
    groups >= 1 && groups <= RegisterMap.groupCountMax,
    s"groups is $groups: the register map holds 1 to ${RegisterMap.groupCountMax}"
  )
  require(Seq(1, 2, 4).contains(channels), s"channels is $channels: 1, 2 or 4 are allowed")
  require(
    groupBytesLog2 >= Parameters.lineBytesLog2 && groupBytesLog2 + log2Ceil(groups) <= Parameters.addressBits,
    s"groupBytesLog2 is $groupBytesLog2: a group is at least a line (${Parameters.lineBytesLog2}), " +
      s"and $groups groups must fit ${Parameters.addressBits} bits of address"
  )
  require(
    deviceBytesLog2 >= Parameters.lineBytesLog2 && deviceBytesLog2 <= Parameters.addressBits,
    s"deviceBytesLog2 is $deviceBytesLog2: ${Parameters.lineBytesLog2} to ${Parameters.addressBits} are allowed"
  )
  require(countBits >= 2 && countBits <= 64, s"countBits is $countBits: 2 to 64 are allowed")
  require(fillBits >= 1 && fillBits <= 8, s"fillBits is $fillBits: 1 to 8 are allowed")

  /** Bits of a group's number; at least one, since hardware has no wires of no width. */
  val groupBits: Int = Parameters.indexBits(groups)
}

object Parameters {

  /** CXL moves lines of 64 bytes (CXL 3.1, 4.2.1). */
  val lineBytesLog2 = 6

  /** Host-physical addresses of CXL.mem: bits 51 to 6 travel (CXL 3.1, 3.3.5). */
  val addressBits = 52

  val lineAddressBits: Int = addressBits - lineBytesLog2

  def indexBits(n: Int): Int = math.max(1, log2Ceil(n))
}
