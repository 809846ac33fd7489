// SPDX-License-Identifier: Apache-2.0 OR MIT
package weir

import chisel3._
import chisel3.util._

/** Counters in block RAM: the logic does not grow with the number of groups.
  *
  * {{{
  *  clock   t        t+1       t+2           t+3            t+4
  *        ┌───────┐ ┌───────┐ ┌───────────┐ ┌────────────┐ ┌─────────────────────────────┐
  *  event │ read  │ │ which │ │ choose    │ │ choose     │ │ write count, keep the old   │
  *        │ issued│ │ hits? │ │ old count │ │ again, + 1 │ │ one if first of its epoch   │
  *        └───────┘ └───────┘ └───────────┘ └────────────┘ └─────────────────────────────┘
  * }}}
  *
  * The events of the four clocks before t have not been written when t reads. So their groups are compared
  * with t's, and the newest that is equal gives the count instead of the RAM. For the event just before t
  * that count exists only one clock later, hence the second choice.
  *
  * A snapshot costs no clock: the first event of a group in an epoch saves the old count in `kept` and sets
  * the group's mark. The snapshot value is `kept` where there is a mark, and the count itself where nothing
  * has happened since. The marks of two epochs lie in two RAMs: while one is in use the other is cleared.
  *
  * All RAMs have a read port for events, a second copy has one for the host: both can read in each clock.
  */
class RamBank(groups: Int, countBits: Int, snapshot: Boolean) extends Bank(groups, countBits) {
  private val inFlight = 4

  private class Event extends Bundle {
    val valid = Bool()
    val group = UInt(Parameters.indexBits(groups).W)
    val epoch = Bool()
  }

  // These are methods so that proofs can build banks that get them wrong, and see them refuted.

  /** Whether an event takes its count from the one that came `age` clocks before it. */
  protected def hit(age: Int, older: Bool, sameGroup: Bool): Bool = older && sameGroup

  /** Whether an event that came `age` clocks before has set the mark, and so kept the count. */
  protected def marks(age: Int, older: Bool, sameGroup: Bool, sameEpoch: Bool): Bool =
    older && sameGroup && sameEpoch

  private val arriving = Wire(new Event)
  arriving.valid := io.event.valid
  arriving.group := io.event.bits
  arriving.epoch := io.epoch

  // at(k): the event that arrived k clocks ago.
  private val at: Seq[Event] =
    (1 to inFlight + 1).scanLeft(arriving)((event, _) => RegNext(event, 0.U.asTypeOf(new Event)))

  // t+1, kept for t+2: hits(age - 1), newest first.
  private val hits = (1 to inFlight).map { age =>
    RegNext(hit(age, at(1 + age).valid, at(1).group === at(1 + age).group), false.B)
  }
  private val marked = (1 to inFlight).map { age =>
    val (newer, older) = (at(1), at(1 + age))
    RegNext(marks(age, older.valid, newer.group === older.group, newer.epoch === older.epoch), false.B)
  }.reduce(_ || _)

  private val written = at(inFlight)
  private val newCount = Wire(UInt(countBits.W)) // of `written`
  private val clear = io.sweep.valid && io.sweepAll
  private def ram(oldOnCollision: Boolean, write: Bool, data: UInt, read: Valid[UInt]) =
    Ram(
      clock,
      groups,
      countBits,
      oldOnCollision,
      write = write,
      writeAddress = Mux(io.sweep.valid && !written.valid, io.sweep.bits, written.group),
      writeData = data,
      read = read.valid,
      readAddress = read.bits
    )

  // t+2, t+3: the old count, and one more.
  private val counts = ram(false, written.valid || clear, Mux(clear, 0.U, newCount), io.event)
  private val newer = Seq(newCount, RegNext(newCount), RegNext(RegNext(newCount)))
  private val found = RegNext(
    MuxCase(counts, hits.tail.zip(newer).map { case (hit, count) => hit -> count })
  )
  private val oldCount = Mux(RegNext(hits.head), newCount, found)
  newCount := RegNext(oldCount + 1.U)

  // The host's side.
  private val live = ram(true, written.valid || clear, Mux(clear, 0.U, newCount), io.read)
  private val chosen = if (!snapshot) live else {
    val first = RegNext(RegNext(!(marked || mark(io.event, at(2).epoch, oldOnCollision = false))))
    val kept = ram(true, written.valid && first, RegNext(oldCount), io.read)
    val isKept = mark(io.read, ShiftRegister(io.epoch, 2), oldOnCollision = true)
    Mux(ShiftRegister(io.readSnapshot, 2) && isKept, kept, live)
  }
  io.data := RegNext(chosen)

  /** Whether a group has a mark of an epoch, two clocks after the request. */
  private def mark(read: Valid[UInt], epoch: Bool, oldOnCollision: Boolean): Bool = {
    val marks = Seq(false.B, true.B).map { mine =>
      val set = written.valid && written.epoch === mine
      val clearing = io.sweep.valid && (io.sweepAll || io.epoch =/= mine)
      Ram(
        clock,
        groups,
        1,
        oldOnCollision,
        write = set || clearing,
        writeAddress = Mux(clearing, io.sweep.bits, written.group),
        writeData = set,
        read = read.valid,
        readAddress = read.bits
      )
    }
    Mux(epoch, marks(1), marks(0)).asBool
  }
}
