// SPDX-License-Identifier: Apache-2.0 OR MIT
package weir

import chisel3._
import chisel3.util._

/** The encoder, right or with a deliberate flaw, with what it writes at pins. */
class FlawedEncoder(positions: Int, sizes: Lz4Sizes, flaw: String) extends Lz4Encoder(positions, sizes) {
  val written = IO(Output(new Bundle {
    val valid = Bool()

    /** Of the block, before these bytes. */
    val position = UInt(sizes.lengthBits.W)
    val count = UInt(sizes.countBits.W)

    /** The byte of the page that its next literal is. */
    val literalsAt = UInt(sizes.lengthBits.W)
  }))
  /** What the search finds, and what the emitter is given: a queue apart. */
  val found = IO(Output(Valid(new Lz4Sequence(sizes))))
  val taken = IO(Output(Valid(new Lz4Sequence(sizes))))
  found.valid := search.io.found.valid
  found.bits := search.io.found.bits
  taken.valid := emitter.io.sequence.valid
  taken.bits := emitter.io.sequence.bits

  written.valid := emitter.io.move.valid
  written.position := position
  written.count := emitter.io.move.bits.count
  written.literalsAt := emitter.io.literalsAt

  // The table's memory is cut out of the proof, so that its sweep after a reset says nothing.
  isHeldOff := false.B

  override protected def makeSearch(): Lz4Search = new Lz4Search(positions, sizes) {
    override def desiredName: String = "Lz4Search"
    override protected def tailAt: UInt = if (flaw == "matches-the-tail") io.inputBytes + 8.U else super.tailAt
  }
  override protected def makeEmitter(): Lz4Emitter = new Lz4Emitter(sizes) {
    override def desiredName: String = "Lz4Emitter"
    override protected def passes(end: UInt): Bool =
      if (flaw == "writes-as-much") end > io.inputBytes else super.passes(end)
  }
  override protected def refuse(reason: UInt): Unit = if (flaw != "never-ends") super.refuse(reason)
}

/** `EmitEncoderProof FOLDER POSITIONS MAX_BYTES BEAT_BYTES MOVE_BYTES FLAW…`: an encoder for each flaw, in a folder
  * of its name.
  */
object EmitEncoderProof {
  private val flaws = Set("none", "matches-the-tail", "writes-as-much", "never-ends")
  def main(arguments: Array[String]): Unit = arguments.toList match {
    case folder :: positions :: max :: beat :: move :: chosen if chosen.nonEmpty && chosen.forall(flaws) =>
      val sizes = Lz4Sizes(max.toInt, beat.toInt, move.toInt)
      chosen.foreach(name => Emit.write(new FlawedEncoder(positions.toInt, sizes, name), s"$folder/$name"))
    case _ =>
      Console.err.println(
        "usage: EmitEncoderProof FOLDER POSITIONS MAX_BYTES BEAT_BYTES MOVE_BYTES FLAW...\n" +
          s"  FLAW  ${flaws.toSeq.sorted.mkString(", ")}"
      )
      sys.exit(2)
  }
}
