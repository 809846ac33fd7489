// SPDX-License-Identifier: Apache-2.0 OR MIT
package weir

import chisel3.RawModule

/** `Emit DESIGN FOLDER GROUPS CHANNELS [key=value]…`: writes SystemVerilog. */
object Emit {
  private val usage =
    """usage: Emit DESIGN FOLDER GROUPS CHANNELS [key=value]...
      |  DESIGN  block-ram, block-registers   the whole block
      |          bank-ram, bank-registers     one bank of counters
      |  keys    group-bytes-log2, device-bytes-log2, count-bits, fill-bits, clock-khz: numbers
      |          snapshot: true or false""".stripMargin

  /** Names and structure that other tools, and people, can read. */
  private val firtool = Array(
    "-strip-debug-info",
    "-disable-all-randomization",
    "-lowering-options=disallowLocalVariables,disallowPackedArrays"
  )

  def main(arguments: Array[String]): Unit = arguments.toList match {
    case design :: folder :: groups :: channels :: keys =>
      val wanted = parameters(number("GROUPS", groups), number("CHANNELS", channels), keys)
      write(module(design, wanted), folder)
    case _ => fail(s"${arguments.length} arguments: at least 4 are needed")
  }

  /** Writes a module and what it consists of into one file, and its RAMs into files of their own. */
  def write(module: => RawModule, folder: String): Unit =
    _root_.circt.stage.ChiselStage.emitSystemVerilogFile(module, Array("--target-dir", folder), firtool)

  private def module(design: String, p: Parameters): RawModule = design match {
    case "block-ram"       => new AccessCounters(p, Bank.OfRam)
    case "block-registers" => new AccessCounters(p, Bank.OfRegisters)
    case "bank-ram"        => new RamBank(p.groups, p.countBits, p.snapshot)
    case "bank-registers"  => new RegisterBank(p.groups, p.countBits, p.snapshot)
    case other             => fail(s"$other is no design")
  }

  private def parameters(groups: Int, channels: Int, keys: List[String]): Parameters =
    keys.map(_.split("=", 2)).foldLeft(Parameters(groups, channels)) {
      case (p, Array("group-bytes-log2", value))  => p.copy(groupBytesLog2 = number("group-bytes-log2", value))
      case (p, Array("device-bytes-log2", value)) => p.copy(deviceBytesLog2 = number("device-bytes-log2", value))
      case (p, Array("count-bits", value))        => p.copy(countBits = number("count-bits", value))
      case (p, Array("fill-bits", value))         => p.copy(fillBits = number("fill-bits", value))
      case (p, Array("clock-khz", value))         => p.copy(clockKhz = number("clock-khz", value))
      case (p, Array("snapshot", "true"))         => p.copy(snapshot = true)
      case (p, Array("snapshot", "false"))        => p.copy(snapshot = false)
      case (_, other)                             => fail(s"${other.mkString("=")} is no key with a value it can have")
    }

  private def number(what: String, text: String): Int =
    text.toIntOption.getOrElse(fail(s"$what is $text: not a number"))

  private def fail(problem: String): Nothing = {
    Console.err.println(s"Emit: $problem\n$usage")
    sys.exit(2)
  }
}
