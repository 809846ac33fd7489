// SPDX-License-Identifier: Apache-2.0 OR MIT
package weir

import chisel3._

/** Deliberate flaws of the decoder: a proof that cannot fail proves nothing. */
sealed trait DecoderFlaw

object DecoderFlaw {
  case object None extends DecoderFlaw

  /** The limit of a match is not looked at. */
  case object MatchUnlimited extends DecoderFlaw

  /** Literals may pass the limit by one. */
  case object LiteralsOneMore extends DecoderFlaw

  /** What is left of a match is not looked at: all of a move's bytes are moved. */
  case object MovesAll extends DecoderFlaw

  /** A match that is longer than a move is not moved at all. */
  case object NeverMoves extends DecoderFlaw

  /** The rest of a malformed block is not taken. */
  case object NeverDrains extends DecoderFlaw

  val all: Map[String, DecoderFlaw] = Map(
    "none" -> None,
    "match-unlimited" -> MatchUnlimited,
    "literals-one-more" -> LiteralsOneMore,
    "moves-all" -> MovesAll,
    "never-moves" -> NeverMoves,
    "never-drains" -> NeverDrains
  )
}

/** The decoder, right or with a flaw, with what it writes to its history at pins. */
class FlawedDecoder(sizes: Lz4Sizes, flaw: DecoderFlaw) extends Lz4Decoder(sizes) {
  val written = IO(Output(new Bundle {
    val valid = Bool()
    val address = UInt(sizes.lengthBits.W)
    val count = UInt(sizes.countBits.W)
  }))
  written.valid := isGood
  written.address := position
  written.count := count

  override protected def matchPasses(end: UInt): Bool =
    if (flaw == DecoderFlaw.MatchUnlimited) false.B else super.matchPasses(end)
  override protected def literalsPass(end: UInt): Bool =
    if (flaw == DecoderFlaw.LiteralsOneMore) end > limitBytes +& 1.U else super.literalsPass(end)
  override protected def matchMove(left: UInt): UInt = flaw match {
    case DecoderFlaw.MovesAll   => Mux(left === 0.U, 0.U, sizes.moveBytes.U)
    case DecoderFlaw.NeverMoves => Mux(left > sizes.moveBytes.U, 0.U, left)
    case _                      => super.matchMove(left)
  }
  override protected def drains(isClosing: Bool): Bool =
    if (flaw == DecoderFlaw.NeverDrains) false.B else super.drains(isClosing)
}

/** `EmitDecoderProof FOLDER MAX_BYTES BEAT_BYTES MOVE_BYTES FLAW…`: a decoder for each flaw, in a folder
  * of its name. */
object EmitDecoderProof {
  def main(arguments: Array[String]): Unit = arguments.toList match {
    case folder :: max :: beat :: move :: flaws if flaws.nonEmpty && flaws.forall(DecoderFlaw.all.contains) =>
      val sizes = Lz4Sizes(max.toInt, beat.toInt, move.toInt)
      flaws.foreach(name => Emit.write(new FlawedDecoder(sizes, DecoderFlaw.all(name)), s"$folder/$name"))
    case _ =>
      Console.err.println(
        "usage: EmitDecoderProof FOLDER MAX_BYTES BEAT_BYTES MOVE_BYTES FLAW...\n" +
          s"  FLAW  ${DecoderFlaw.all.keys.toSeq.sorted.mkString(", ")}"
      )
      sys.exit(2)
  }
}
