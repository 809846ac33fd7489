// SPDX-License-Identifier: Apache-2.0 OR MIT
package weir

/** `EmitLz4 FOLDER encoder POSITIONS` or `EmitLz4 FOLDER decoder`: writes SystemVerilog. */
object EmitLz4 {
  def main(arguments: Array[String]): Unit = arguments.toList match {
    case List(folder, "encoder", positions) if positions.toIntOption.isDefined =>
      Emit.write(new Lz4Encoder(positions.toInt), folder)
    case List(folder, "decoder") => Emit.write(new Lz4Decoder(), folder)
    case _ =>
      Console.err.println("usage: EmitLz4 FOLDER encoder 1|2|4|8\n       EmitLz4 FOLDER decoder")
      sys.exit(2)
  }
}
