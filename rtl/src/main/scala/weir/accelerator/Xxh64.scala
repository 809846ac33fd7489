// SPDX-License-Identifier: Apache-2.0 OR MIT
package weir

import chisel3._
import chisel3.util._

/** Parameters of the hash.
  *
  * @param slots    pages under way, and the clocks of an addition and a product; 5 or more in hardware
  * @param wordBits 64 but in proofs, which scale all with it: a byte is an eighth of a word
  */
case class Xxh64Parameters(slots: Int = 5, wordBits: Int = 64) {
  require(slots >= 3 && slots <= 16, s"slots is $slots: 3 to 16 are allowed")
  require(Seq(8, 16, 32, 64).contains(wordBits), s"wordBits is $wordBits: 8, 16, 32 or 64 are allowed")

  val byteBits: Int = wordBits / 8
  val stripeBits: Int = 4 * wordBits
  val beatBits: Int = 2 * stripeBits
  val slotBits: Int = log2Ceil(slots)

  /** Lengths of pages, in bytes. */
  val lengthBits = 13

  private def prime(text: String): UInt = (BigInt(text, 16) & ((BigInt(1) << wordBits) - 1)).U(wordBits.W)
  val p1: UInt = prime("9e3779b185ebca87")
  val p2: UInt = prime("c2b2ae3d27d4eb4f")
  val p3: UInt = prime("165667b19e3779f9")
  val p4: UInt = prime("85ebca77c2b2ae63")
  val p5: UInt = prime("27d4eb2f165667c5")

  def rotated(word: UInt, by: Int): UInt = word.rotateLeft(by % wordBits)
  def shifted(word: UInt, by: Int): UInt = word >> (by * wordBits / 64)
}

/** 64 bytes for a slot that wants them. The first beat of a page says how long that is, 1 to 4096. */
class Xxh64Beat(p: Xxh64Parameters) extends Bundle {
  val slot = UInt(p.slotBits.W)
  val pageBytes = UInt(p.lengthBits.W)
  val data = UInt(p.beatBits.W)
}

/** A hash of the page that was in the slot; those of one slot come in order. */
class SlotHash(p: Xxh64Parameters) extends Bundle {
  val slot = UInt(p.slotBits.W)
  val value = UInt(p.wordBits.W)
}

/** A page under way. */
class HashSlot(p: Xxh64Parameters) extends Bundle {
  val isActive = Bool()
  val isFirst = Bool()
  val pageBytes = UInt(p.lengthBits.W)
  val stripesLeft = UInt((p.lengthBits - 5).W)
  val beat = UInt(p.beatBits.W)
  val hasBeat = Bool()
  val secondHalf = Bool()

  /** A page without a rest, whose stripes are issued, waits for the finisher. */
  val isWaiting = Bool()
  val waitingBytes = UInt(p.lengthBits.W)

  def restBytes: UInt = pageBytes(4, 0)
  def wants: Bool = !hasBeat && (!isActive || stripesLeft =/= 0.U || restBytes =/= 0.U)
  def half: UInt = Mux(secondHalf, beat(p.beatBits - 1, p.stripeBits), beat(p.stripeBits - 1, 0))
}

/** What a slot issues in its turn. */
class HashIssue(p: Xxh64Parameters) extends Bundle {
  val isStripe = Bool()
  val isFirst = Bool()

  /** The accumulators go to the finisher as they are before the stripe, which is of the slot's next page. */
  val hands = Bool()
  val slot = UInt(p.slotBits.W)
  val pageBytes = UInt(p.lengthBits.W)
  val data = UInt(p.stripeBits.W)
}

/** XXH64 with seed 0 of pages: 32 bytes a clock in total, `slots` pages at a time. Its twin is
  * crates/weir-type2/src/engines/xxh64.rs, equal to it in values and in clocks.
  *
  * In each clock one slot has its turn, and issues a stripe. Its words are multiplied by the second prime
  * while the slot's accumulators come round a ring of as many registers as there are slots: one behind the
  * addition, the others behind the product, where synthesis moves them into the multipliers.
  */
class Xxh64(p: Xxh64Parameters = Xxh64Parameters()) extends Module {
  val io = IO(new Bundle {

    /** Taken if the slot wants it. */
    val beat = Flipped(Valid(new Xxh64Beat(p)))
    val wants = Output(Vec(p.slots, Bool()))
    val hash = Decoupled(new SlotHash(p))
  })

  private val slots = RegInit(VecInit.fill(p.slots)(0.U.asTypeOf(new HashSlot(p))))
  private val turn = RegInit(0.U(p.slotBits.W))
  turn := Mux(turn === (p.slots - 1).U, 0.U, turn + 1.U)
  private val finisher = Module(new Xxh64Finisher(p))

  /** Keeps the finisher for the page that is on its way to it or in it. */
  private val isTaken = RegInit(false.B)

  private val current = slots(turn)
  private val issue = Wire(new HashIssue(p))
  private val handsWaiting = current.isWaiting && mayHand(isTaken)
  private val handsRest =
    !current.isWaiting && current.isActive && current.stripesLeft === 0.U && current.hasBeat && mayHand(isTaken)
  issue.isStripe := (!current.isWaiting || mayHand(isTaken)) && current.isActive && current.hasBeat && current.stripesLeft =/= 0.U
  issue.isFirst := current.isFirst
  issue.hands := handsWaiting || handsRest
  issue.slot := turn
  issue.pageBytes := Mux(current.isWaiting, current.waitingBytes, current.pageBytes)
  issue.data := current.half

  when(io.hash.fire) { isTaken := false.B }
  when(issue.hands) { isTaken := true.B }
  when(handsWaiting) { slots(turn).isWaiting := false.B }
  when(issue.isStripe) {
    val isEnd = current.stripesLeft === 1.U && current.restBytes === 0.U
    slots(turn).isFirst := false.B
    slots(turn).stripesLeft := current.stripesLeft - 1.U
    slots(turn).secondHalf := true.B
    slots(turn).hasBeat := !current.secondHalf && !isEnd
    when(isEnd) {
      slots(turn).isActive := false.B
      slots(turn).isWaiting := true.B
      slots(turn).waitingBytes := current.pageBytes
    }
  }
  when(handsRest) {
    slots(turn).isActive := false.B
    slots(turn).hasBeat := false.B
  }

  io.wants := VecInit(slots.map(_.wants))
  for ((slot, index) <- slots.zipWithIndex) when(io.beat.valid && io.beat.bits.slot === index.U && slot.wants) {
    slot.hasBeat := true.B
    slot.secondHalf := false.B
    slot.beat := io.beat.bits.data
    when(!slot.isActive) {
      slot.isActive := true.B
      slot.isFirst := true.B
      slot.pageBytes := io.beat.bits.pageBytes
      slot.stripesLeft := io.beat.bits.pageBytes >> 5
    }
  }

  // Words times the second prime, while the accumulators come round.
  private val arrives = ShiftRegister(issue, p.slots, 0.U.asTypeOf(issue), true.B)
  private val issued = RegNext(issue.data)
  private def wordsOf(stripe: UInt): Seq[UInt] =
    (0 until 4).map(i => stripe(p.wordBits * (i + 1) - 1, p.wordBits * i))
  private val products = wordsOf(issued).map(word => ShiftRegister((word * p.p2)(p.wordBits - 1, 0), p.slots - 1))

  private val begin = Seq(p.p1 + p.p2, p.p2, 0.U(p.wordBits.W), 0.U - p.p1)
  private val head = begin.zip(products).map { case (begin, product) =>
    val head = Wire(UInt(p.wordBits.W))
    val sum = added(Mux(begins(arrives.isFirst), begin, head), product)
    val operand = RegNext(Mux(arrives.isStripe, p.rotated(sum, 31), head))
    val next = Mux(RegNext(arrives.isStripe), (operand * p.p1)(p.wordBits - 1, 0), operand)
    head := ShiftRegister(next, p.slots - 1)
    head
  }

  /** Whether a page may go to the finisher. */
  protected def mayHand(isTaken: Bool): Bool = !isTaken

  /** Whether a stripe finds the accumulators as a page begins with them. */
  protected def begins(isFirst: Bool): Bool = isFirst

  /** The sum of an accumulator and a stripe's product. */
  protected def added(accumulator: UInt, product: UInt): UInt = accumulator + product

  finisher.io.page.valid := arrives.hands
  finisher.io.page.bits.slot := arrives.slot
  finisher.io.page.bits.pageBytes := arrives.pageBytes
  finisher.io.page.bits.rest := arrives.data
  finisher.io.page.bits.accumulators := VecInit(head)
  io.hash <> finisher.io.hash
}
