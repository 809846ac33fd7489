// SPDX-License-Identifier: Apache-2.0 OR MIT
package weir

import chisel3._
import scala.collection.mutable

/** Deliberate flaws of the accelerator, chosen at a pin: a test that cannot fail tests nothing. */
object AcceleratorFlaw {
  val none = 0

  /** What does not fit the destination is written behind it. */
  val passesTheRoom = 1

  /** Whole lines are written. */
  val writesWholeLines = 2

  /** Beats go on though memory does not take them. */
  val losesWrites = 3

  /** The encoder flips a bit now and then. */
  val flipsBits = 4

  /** The same, and what verifies does not see it. */
  val flipsBitsUnseen = 5
}

/** An encoder that flips a bit of what it gives, where `flips`. */
class FlippingEncoder(positions: Int) extends Lz4Encoder(positions) {
  lazy val flips: Bool = IO(Input(Bool())).suggestName("flips")
  override protected def give(isGiven: Bool, bytes: Vec[UInt], count: UInt): Unit = {
    val first = bytes.head ^ (flips && position(8, 0) >= 500.U)
    super.give(isGiven, VecInit(first +: bytes.tail), count)
  }
}

/** A unit with a pin for its flaw. */
trait FlawedUnit extends Lz4Unit {
  lazy val flaw: UInt = IO(Input(UInt(3.W))).suggestName("flaw")
  override protected def writtenEnd(length: UInt, room: UInt): UInt = {
    val whole = ((length +& 63.U) >> 6) << 6
    val right = super.writtenEnd(length, room)
    Mux(flaw === AcceleratorFlaw.passesTheRoom.U, length, Mux(flaw === AcceleratorFlaw.writesWholeLines.U, whole, right))
  }
  override protected def isTaken(ready: Bool): Bool =
    super.isTaken(ready) || flaw === AcceleratorFlaw.losesWrites.U
}

class FlawedDecodeUnit(p: AcceleratorParameters) extends Lz4DecodeUnit(p) with FlawedUnit

class FlawedEncodeUnit(p: AcceleratorParameters) extends Lz4EncodeUnit(p) with FlawedUnit {
  override protected def makeEngine(): Lz4Engine = new FlippingEncoder(p.positions)
  override protected def verified(isSame: Bool): Bool =
    super.verified(isSame) || flaw === AcceleratorFlaw.flipsBitsUnseen.U
  engine.asInstanceOf[FlippingEncoder].flips :=
    flaw === AcceleratorFlaw.flipsBits.U || flaw === AcceleratorFlaw.flipsBitsUnseen.U
}

/** The accelerator, right while `flaw` is 0. */
class FlawedAccelerator(p: AcceleratorParameters) extends Accelerator(p) {
  private lazy val flawed = mutable.ListBuffer[FlawedUnit]()
  private def kept[T <: FlawedUnit](unit: T): T = {
    flawed += unit
    unit
  }
  override protected def makeEncodeUnit(): Lz4EncodeUnit = kept(new FlawedEncodeUnit(p))
  override protected def makeDecodeUnit(): Lz4DecodeUnit = kept(new FlawedDecodeUnit(p))
  val flaw = IO(Input(UInt(3.W)))
  flawed.foreach(_.flaw := flaw)
}

/** `EmitFlawedAccelerator FOLDER`: SystemVerilog of the accelerator with a pin for its flaw. */
object EmitFlawedAccelerator {
  def main(arguments: Array[String]): Unit = arguments.toList match {
    case folder :: Nil =>
      Emit.write(new FlawedAccelerator(AcceleratorParameters(readAhead = 32, clockKhz = 400000)), folder)
    case _ =>
      Console.err.println("usage: EmitFlawedAccelerator FOLDER")
      sys.exit(2)
  }
}
