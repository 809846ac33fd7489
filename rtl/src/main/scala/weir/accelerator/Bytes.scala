// SPDX-License-Identifier: Apache-2.0 OR MIT
package weir

import chisel3._
import chisel3.util._

/** Functions of vectors whose length is a power of two. */
object Bytes {

  /** Element i is what was element i + amount. */
  def rotateRight[T <: Data](elements: Seq[T], amount: UInt): Vec[T] = {
    val n = elements.length
    VecInit((0 until log2Ceil(n)).foldLeft(elements) { (from, bit) =>
      Seq.tabulate(n)(i => Mux(amount(bit), from((i + (1 << bit)) % n), from(i)))
    })
  }

  /** Element i is what was element i - amount. */
  def rotateLeft[T <: Data](elements: Seq[T], amount: UInt): Vec[T] = {
    val bits = log2Ceil(elements.length)
    rotateRight(elements, (0.U(bits.W) - amount)(bits - 1, 0))
  }

  def of(word: UInt): Vec[UInt] = word.asTypeOf(Vec(word.getWidth / 8, UInt(8.W)))
}

/** Memory of a page: writes up to `moveBytes` bytes and reads as many, anywhere.
  *
  * A lane for each byte of a move, in memories that are read within the clock (LUT RAM, MLAB). A read sees
  * the writes of clocks before.
  */
class ByteMemory(sizes: Lz4Sizes, readPorts: Int) extends Module {
  private val addressBits = log2Ceil(sizes.maxBytes)
  val io = IO(new Bundle {
    val write = Flipped(Valid(new CountedBytes(sizes)))
    val writeAddress = Input(UInt(addressBits.W))
    val readAddress = Input(Vec(readPorts, UInt(addressBits.W)))
    val read = Output(Vec(readPorts, Vec(sizes.moveBytes, UInt(8.W))))
  })
  private val lanes = Seq.fill(sizes.moveBytes)(Mem(sizes.maxBytes / sizes.moveBytes, UInt(8.W)))

  private val shift = laneOf(io.writeAddress)
  private val placed = Bytes.rotateLeft(io.write.bits.bytes, shift)
  for ((lane, i) <- lanes.zipWithIndex)
    when(io.write.valid && (i.U - shift)(sizes.moveBits - 1, 0) < io.write.bits.count) {
      lane(rowOf(io.writeAddress, i)) := placed(i)
    }
  for ((address, read) <- io.readAddress.zip(io.read))
    read := Bytes.rotateRight(lanes.zipWithIndex.map { case (lane, i) => lane(rowOf(address, i)) }, laneOf(address))

  private def laneOf(address: UInt): UInt = address(sizes.moveBits - 1, 0)

  /** Row of a lane: lanes before the address's are of the next. */
  private def rowOf(address: UInt, lane: Int): UInt =
    (address >> sizes.moveBits) + (lane.U < laneOf(address)).asUInt
}
