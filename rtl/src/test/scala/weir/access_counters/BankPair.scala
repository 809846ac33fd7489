// SPDX-License-Identifier: Apache-2.0 OR MIT
package weir

import chisel3._
import chisel3.util._

/** Deliberate flaws: a proof that cannot fail proves nothing. */
sealed trait Flaw

object Flaw {
  case object None extends Flaw

  /** An event does not see the one that came so many clocks before. */
  case class Forgets(age: Int) extends Flaw

  /** A clock without an event passes for one. */
  case object CountsFromBubbles extends Flaw

  /** The mark of the last epoch passes for one of this. */
  case object MixesEpochs extends Flaw

  /** An event does not see the mark that one so many clocks before has set. */
  case class ForgetsMark(age: Int) extends Flaw

  /** Marks are cleared while events of their epoch still set some. */
  case object DrainsTooShort extends Flaw

  val all: Map[String, Flaw] =
    (1 to 4).flatMap(age => Seq(s"forgets-$age" -> Forgets(age), s"forgets-mark-$age" -> ForgetsMark(age))).toMap ++
      Map(
        "none" -> None,
        "counts-from-bubbles" -> CountsFromBubbles,
        "mixes-epochs" -> MixesEpochs,
        "drains-too-short" -> DrainsTooShort
      )
}

/** The small bank, right or with a flaw. */
class FlawedBank(groups: Int, countBits: Int, flaw: Flaw) extends RamBank(groups, countBits, snapshot = true) {
  override protected def hit(age: Int, older: Bool, sameGroup: Bool): Bool = flaw match {
    case Flaw.Forgets(`age`)    => false.B
    case Flaw.CountsFromBubbles => sameGroup
    case _                      => super.hit(age, older, sameGroup)
  }
  override protected def marks(age: Int, older: Bool, sameGroup: Bool, sameEpoch: Bool): Bool = flaw match {
    case Flaw.ForgetsMark(`age`) => false.B
    case Flaw.MixesEpochs        => older && sameGroup
    case _                       => super.marks(age, older, sameGroup, sameEpoch)
  }
}

/** Both designs of a bank behind one control, so that one drive gives both answers. */
class BankPair(groups: Int, countBits: Int, flaw: Flaw = Flaw.None) extends Module {
  private val groupBits = Parameters.indexBits(groups)
  val io = IO(new Bundle {
    val event = Flipped(Valid(UInt(groupBits.W)))
    val read = Flipped(Valid(UInt(groupBits.W)))
    val readSnapshot = Input(Bool())
    val take = Input(Bool())
    val up = Output(Bool())
    val ready = Output(Bool())
    val settled = Output(Bool())
    val registers = Output(UInt(countBits.W))
    val ram = Output(UInt(countBits.W))
  })
  private val control = Module(flaw match {
    case Flaw.DrainsTooShort => new SnapshotControl(groups, drainClocks = Bank.lagClocks - 2)
    case _                   => new SnapshotControl(groups)
  })
  control.io.take := io.take
  io.up := control.io.up
  io.ready := control.io.ready
  io.settled := control.io.settled
  private def answers(bank: Bank): UInt = {
    bank.io.event.valid := io.event.valid && control.io.up
    bank.io.event.bits := io.event.bits
    bank.io.epoch := control.io.epoch
    bank.io.sweep := control.io.sweep
    bank.io.sweepAll := control.io.sweepAll
    bank.io.read := io.read
    bank.io.readSnapshot := io.readSnapshot
    bank.io.data
  }
  io.registers := answers(Module(new RegisterBank(groups, countBits, snapshot = true)))
  io.ram := answers(Module(new FlawedBank(groups, countBits, flaw)))
}

/** `EmitProof FOLDER GROUPS COUNT_BITS FLAW…`: a pair for each flaw, in a folder of its name. */
object EmitProof {
  def main(arguments: Array[String]): Unit = arguments.toList match {
    case folder :: groups :: countBits :: flaws if flaws.nonEmpty && flaws.forall(Flaw.all.contains) =>
      flaws.foreach(name => Emit.write(new BankPair(groups.toInt, countBits.toInt, Flaw.all(name)), s"$folder/$name"))
    case _ =>
      Console.err.println(
        s"usage: EmitProof FOLDER GROUPS COUNT_BITS FLAW...\n  FLAW  ${Flaw.all.keys.toSeq.sorted.mkString(", ")}"
      )
      sys.exit(2)
  }
}
