// SPDX-License-Identifier: Apache-2.0 OR MIT
package weir

/** A register of a contract: where it lies in its block, its width in bits, what it always reads, and the feature that
  * it belongs to.
  */
case class Register(
  offsetBytes: Int,
  widthBits: Int,
  writable: Boolean,
  value: Option[BigInt],
  feature: Option[Int]
)
