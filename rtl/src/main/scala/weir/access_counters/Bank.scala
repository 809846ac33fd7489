// SPDX-License-Identifier: Apache-2.0 OR MIT
package weir

import chisel3._
import chisel3.util._

/** One counter per group: counts at most one event a clock, exactly, and is read at any clock.
  *
  * Two designs have these ports, [[RegisterBank]] (plain, what the thesis describes in 5.1.3) and [[RamBank]]
  * (small). They agree clock by clock on every read; that is proved in `rtl/formal`.
  *
  * Words: the *live* value of a group is its count; its *snapshot* value is its count at the last change of
  * `epoch`. An event belongs to the epoch of the clock in which it arrives.
  */
class BankIO(groups: Int, countBits: Int) extends Bundle {
  private val groupBits = Parameters.indexBits(groups)

  /** Count one for this group. */
  val event = Flipped(Valid(UInt(groupBits.W)))

  /** Which epoch this clock is in; changes only where [[SnapshotControl]] changes it. */
  val epoch = Input(Bool())

  /** From [[SnapshotControl]]: clear this group, in all that is kept (`sweepAll`) or in the marks of the epoch
    * before this one.
    */
  val sweep = Flipped(Valid(UInt(groupBits.W)))
  val sweepAll = Input(Bool())

  /** Read this group. A live read counts the events up to `Bank.lagClocks` clocks ago. */
  val read = Flipped(Valid(UInt(groupBits.W)))
  val readSnapshot = Input(Bool())

  /** The value read, `Bank.readClocks` clocks after the request. */
  val data = Output(UInt(countBits.W))
}

object Bank {

  /** From a read to its data. */
  val readClocks = 3

  /** A read in clock t counts the events of clocks up to t - 5, and none later. */
  val lagClocks = 5

  /** Which design to build. */
  sealed trait Kind
  case object OfRegisters extends Kind
  case object OfRam extends Kind

  def apply(kind: Kind, groups: Int, countBits: Int, snapshot: Boolean): Bank = kind match {
    case OfRegisters => Module(new RegisterBank(groups, countBits, snapshot))
    case OfRam       => Module(new RamBank(groups, countBits, snapshot))
  }
}

abstract class Bank(groups: Int, countBits: Int) extends Module {
  val io = IO(new BankIO(groups, countBits))
}

/** A register per counter. Plain, and large: each read is a choice among all of them. */
class RegisterBank(groups: Int, countBits: Int, snapshot: Boolean) extends Bank(groups, countBits) {
  private val counters = RegInit(VecInit(Seq.fill(groups)(0.U(countBits.W))))

  // As late as in the other design, so that the two can be compared clock by clock.
  private val event = ShiftRegister(io.event, Bank.lagClocks - 1, 0.U.asTypeOf(io.event), true.B)
  when(event.valid) { counters(event.bits) := counters(event.bits) + 1.U }

  private val live = RegNext(counters(io.read.bits))
  private val chosen = if (!snapshot) live else {
    val kept = RegInit(VecInit(Seq.fill(groups)(0.U(countBits.W))))
    val epoch = ShiftRegister(io.epoch, Bank.lagClocks - 1, false.B, true.B)
    when(epoch =/= RegNext(epoch, false.B)) { kept := counters }
    Mux(RegNext(io.readSnapshot), RegNext(kept(io.read.bits)), live)
  }
  io.data := RegNext(RegNext(chosen))
}
