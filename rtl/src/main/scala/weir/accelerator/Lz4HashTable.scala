// SPDX-License-Identifier: Apache-2.0 OR MIT
package weir

import chisel3._
import chisel3.util._

/** Where four bytes were seen last, and the four bytes that followed them.
  *
  * The four bytes are hashed one to one: their upper 21 bits are the tag, and folded onto the lower 11
  * they are the index. So an entry with the same tag is the same four bytes, and no byte of the page need
  * be read to know it.
  *
  * The table has four banks for each position that is looked up in a clock. A bank serves one position a
  * clock, the first; the others are neither looked up nor entered. Lookup and entry use one address of a
  * memory that is read within the clock (LUT RAM, MLAB).
  *
  * An entry is valid if its epoch is the page's. A page clears one row of all banks, and there are fewer
  * rows than epochs: no entry lives until its epoch comes again. A sweep after reset clears all rows.
  */
class Lz4HashTable(positions: Int, sizes: Lz4Sizes) extends Module {
  private val indexBits = 11
  private val bankCount = 4 * positions
  private val bankBits = log2Ceil(bankCount)
  private val rowCount = (1 << indexBits) / bankCount
  private val rowBits = log2Ceil(rowCount)
  private val epochBits = indexBits - 1
  val io = IO(new Bundle {
    val restart = Input(Bool())
    val isSweeping = Output(Bool())

    /** Looks up, and enters what is found not, in this clock. */
    val isLooking = Input(Bool())

    /** Eight bytes at each position, the first at `at`. */
    val keys = Input(Vec(positions, Valid(UInt(64.W))))
    val at = Input(UInt(sizes.lengthBits.W))

    /** The first position with four bytes that were seen, where, and how many bytes more are the same. */
    val isFound = Output(Bool())
    val lane = Output(UInt(3.W))
    val position = Output(UInt(sizes.lengthBits.W))
    val more = Output(UInt(3.W))
  })

  private class Entry extends Bundle {
    val epoch = UInt(epochBits.W)
    val tag = UInt((32 - indexBits).W)
    val following = UInt(32.W)
    val position = UInt(log2Ceil(sizes.maxBytes).W)
  }
  private val banks = Seq.fill(bankCount)(Mem(rowCount, UInt((new Entry).getWidth.W)))
  private val epoch = RegInit(0.U(epochBits.W))
  private val sweep = RegInit(0.U((rowBits + 1).W))
  io.isSweeping := !sweep(rowBits)
  when(io.isSweeping) { sweep := sweep + 1.U }
  when(io.restart) { epoch := epoch + 1.U }

  private val lanes = io.keys.zipWithIndex.map { case (key, i) =>
    val word = key.bits(31, 0)
    val tag = word >> indexBits
    val index = (word ^ tag ^ (tag >> indexBits))(indexBits - 1, 0)
    val entry = Wire(new Entry)
    entry.epoch := epoch
    entry.tag := tag
    entry.following := key.bits(63, 32)
    entry.position := io.at + i.U
    (index(bankBits - 1, 0), index >> bankBits, entry)
  }
  private val bankOf = lanes.map(_._1)
  private val rowOf = lanes.map(_._2)
  private val entryOf = lanes.map(_._3)
  private val isServed = Seq.tabulate(positions) { i =>
    val isTaken = (0 until i).map(earlier => bankOf(earlier) === bankOf(i)).foldLeft(false.B)(_ || _)
    io.keys(i).valid && !isTaken
  }
  private val isEntered = Wire(Vec(positions, Bool()))

  // What each bank reads for the lane it serves.
  private val read = VecInit(banks.zipWithIndex.map { case (bank, b) =>
    val serves = (0 until positions).map(i => isServed(i) && bankOf(i) === b.U)
    val isClearing = io.isSweeping || io.restart
    val row = Mux(isClearing, Mux(io.isSweeping, sweep, epoch)(rowBits - 1, 0), Mux1H(serves, rowOf))
    val cleared = WireDefault(0.U.asTypeOf(new Entry))
    cleared.epoch := Mux(io.isSweeping, 0.U, epoch)
    val entry = Mux1H(serves, entryOf)
    val enters = io.isLooking && serves.zip(isEntered).map { case (s, e) => s && e }.reduce(_ || _)
    when(isClearing || enters) { bank(row) := Mux(isClearing, cleared.asUInt, entry.asUInt) }
    bank(row)
  })
  private val seen = bankOf.map(bank => read(bank).asTypeOf(new Entry))
  private val isHit = Seq.tabulate(positions) { i =>
    isServed(i) && seen(i).epoch === epoch && seen(i).tag === entryOf(i).tag
  }
  private val sameMore = Seq.tabulate(positions) { i =>
    val differs = Bytes.of(seen(i).following ^ entryOf(i).following).map(_ =/= 0.U)
    PriorityMux(differs.zipWithIndex.map { case (d, byte) => d -> byte.U(3.W) } :+ (true.B -> 4.U(3.W)))
  }
  io.isFound := isHit.reduce(_ || _)
  io.lane := PriorityMux(isHit, (0 until positions).map(_.U))
  io.position := PriorityMux(isHit, seen.map(_.position))
  io.more := PriorityMux(isHit, sameMore)

  // A position beyond the four bytes may come again after the match, and would find itself.
  for (i <- 0 until positions) isEntered(i) := !io.isFound || i.U < io.lane +& Lz4Format.matchBytesMin.U
}
