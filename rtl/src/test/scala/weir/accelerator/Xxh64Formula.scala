// SPDX-License-Identifier: Apache-2.0 OR MIT
package weir

/** XXH64 with seed 0, as its specification writes it. */
object Xxh64Formula {
  import java.lang.Long.rotateLeft

  private val p1 = 0x9e3779b185ebca87L
  private val p2 = 0xc2b2ae3d27d4eb4fL
  private val p3 = 0x165667b19e3779f9L
  private val p4 = 0x85ebca77c2b2ae63L
  private val p5 = 0x27d4eb2f165667c5L

  private def round(accumulator: Long, word: Long): Long = rotateLeft(accumulator + word * p2, 31) * p1
  private def word(bytes: Seq[Byte]): Long = bytes.foldRight(0L)((byte, word) => (word << 8) | (byte & 0xff))

  def apply(page: Seq[Byte]): Long = {
    val (stripes, rest) = page.splitAt(page.size / 32 * 32)
    var hash = p5
    if (stripes.nonEmpty) {
      val accumulators = stripes.grouped(32).foldLeft(Seq(p1 + p2, p2, 0L, -p1)) { (before, stripe) =>
        before.zip(stripe.grouped(8).toSeq).map { case (accumulator, bytes) => round(accumulator, word(bytes)) }
      }
      hash = accumulators.zip(Seq(1, 7, 12, 18)).map { case (word, by) => rotateLeft(word, by) }.sum
      accumulators.foreach(accumulator => hash = (hash ^ round(0, accumulator)) * p1 + p4)
    }
    hash += page.size
    val (words, afterWords) = rest.splitAt(rest.size / 8 * 8)
    val (half, bytes) = afterWords.splitAt(afterWords.size / 4 * 4)
    words.grouped(8).filter(_.nonEmpty).foreach(w => hash = rotateLeft(hash ^ round(0, word(w)), 27) * p1 + p4)
    if (half.nonEmpty) hash = rotateLeft(hash ^ word(half) * p1, 23) * p2 + p3
    bytes.foreach(byte => hash = rotateLeft(hash ^ (byte & 0xff) * p5, 11) * p1)
    hash = (hash ^ (hash >>> 33)) * p2
    hash = (hash ^ (hash >>> 29)) * p3
    hash ^ (hash >>> 32)
  }
}
