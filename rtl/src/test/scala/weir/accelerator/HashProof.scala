// SPDX-License-Identifier: Apache-2.0 OR MIT
package weir

import chisel3._
import chisel3.util._

/** A hash with a deliberate flaw. */
class FlawedXxh64(p: Xxh64Parameters, flaw: String) extends Xxh64(p) {
  override protected def mayHand(isTaken: Bool): Bool =
    if (flaw == "hands-to-a-busy-finisher") true.B else super.mayHand(isTaken)
  override protected def begins(isFirst: Bool): Bool =
    if (flaw == "begins-with-the-last-page") false.B else super.begins(isFirst)
  override protected def added(accumulator: UInt, product: UInt): UInt =
    if (flaw == "adds-without-carry") accumulator ^ product else super.added(accumulator, product)
}

/** The hash, and beside it the formula, for the pages of one slot; others have any pages too. Words are small. */
class HashProof(wordBits: Int, flaw: String) extends Module {
  private val p = Xxh64Parameters(slots = 3, wordBits = wordBits)
  val io = IO(new Bundle {
    val beat = Input(Valid(new Xxh64Beat(p)))
    val ready = Input(Bool())

    /** The slot that is looked at: the same at all times. */
    val watched = Input(UInt(p.slotBits.W))
    val wrong = Output(Bool())
  })
  private val hash = Module(new FlawedXxh64(p, flaw))
  private val watched = Reg(UInt(p.slotBits.W))
  private val started = RegNext(true.B, false.B)
  when(!started) { watched := io.watched }

  private val bytes = io.beat.bits.pageBytes
  private val wanted = VecInit(hash.io.wants.padTo(4, false.B))(io.beat.bits.slot)
  private val beats = io.beat.valid && started && wanted && bytes =/= 0.U && bytes <= 64.U
  hash.io.beat.valid := beats
  hash.io.beat.bits := io.beat.bits
  hash.io.hash.ready := io.ready

  // A page of a beat; its hash is known when the beat is taken.
  private val known = Module(new Queue(UInt(p.wordBits.W), 4))
  known.io.enq.valid := beats && io.beat.bits.slot === watched
  known.io.enq.bits := HashFormula(p, bytes, io.beat.bits.data)
  private val shown = hash.io.hash.fire && hash.io.hash.bits.slot === watched
  known.io.deq.ready := shown
  private val isWrong = shown && (!known.io.deq.valid || known.io.deq.bits =/= hash.io.hash.bits.value)
  // Three pages of a slot are under way at most: more are never hashed.
  io.wrong := isWrong || (known.io.enq.valid && !known.io.enq.ready)
}

/** XXH64 of a page of 1 to 64 bytes, as its specification writes it, as one function. */
object HashFormula {
  def apply(p: Xxh64Parameters, bytes: UInt, page: UInt): UInt = {
    val w = p.wordBits
    def times(a: UInt, b: UInt): UInt = (a * b)(w - 1, 0)
    def plus(a: UInt, b: UInt): UInt = (a + b)(w - 1, 0)
    def round(accumulator: UInt, word: UInt): UInt =
      times(p.rotated(plus(accumulator, times(word, p.p2)), 31), p.p1)
    def words(stripe: UInt): Seq[UInt] = (0 until 4).map(i => stripe(w * (i + 1) - 1, w * i))
    val stripes = Seq(page(4 * w - 1, 0), page(8 * w - 1, 4 * w))
    val count = bytes >> 5
    val begin = Seq(plus(p.p1, p.p2), p.p2, 0.U(w.W), (0.U(w.W) - p.p1)(w - 1, 0))
    val one = begin.zip(words(stripes(0))).map { case (a, word) => round(a, word) }
    val two = one.zip(words(stripes(1))).map { case (a, word) => round(a, word) }
    val accumulators = one.zip(two).map { case (one, two) => Mux(count === 2.U, two, one) }
    val merged = accumulators.foldLeft(
      accumulators.zip(Seq(1, 7, 12, 18)).map { case (a, by) => p.rotated(a, by) }.reduce(plus)
    )((hash, a) => plus(times(hash ^ round(0.U(w.W), a), p.p1), p.p4))
    var hash = plus(Mux(count === 0.U, p.p5, merged), bytes)
    var rest = Mux(count === 0.U, stripes(0), stripes(1))
    for (left <- 1 to 3) {
      val is = bytes(4, 3) >= left.U
      val word = rest(w - 1, 0)
      hash = Mux(is, plus(times(p.rotated(hash ^ round(0.U(w.W), word), 27), p.p1), p.p4), hash)
      rest = Mux(is, rest >> w, rest)
    }
    val half = rest(w / 2 - 1, 0).pad(w)
    hash = Mux(bytes(2), plus(times(p.rotated(hash ^ times(half, p.p1), 23), p.p2), p.p3), hash)
    rest = Mux(bytes(2), rest >> (w / 2), rest)
    for (left <- 1 to 3) {
      val is = bytes(1, 0) >= left.U
      val byte = rest(p.byteBits - 1, 0).pad(w)
      hash = Mux(is, times(p.rotated(hash ^ times(byte, p.p5), 11), p.p1), hash)
      rest = Mux(is, rest >> p.byteBits, rest)
    }
    hash = times(hash ^ p.shifted(hash, 33), p.p2)
    hash = times(hash ^ p.shifted(hash, 29), p.p3)
    hash ^ p.shifted(hash, 32)
  }
}

/** `EmitAcceleratorProof ring|hash FOLDER FLAW…`: what is proved, for each flaw, in a folder of its name. */
object EmitAcceleratorProof {
  def main(arguments: Array[String]): Unit = arguments.toList match {
    case "ring" :: folder :: flaws => flaws.foreach(flaw => Emit.write(new RingProof(flaw), s"$folder/$flaw"))
    case "hash" :: folder :: flaws => flaws.foreach(flaw => Emit.write(new HashProof(8, flaw), s"$folder/$flaw"))
    case _ =>
      Console.err.println("usage: EmitAcceleratorProof ring|hash FOLDER FLAW...")
      sys.exit(2)
  }
}
