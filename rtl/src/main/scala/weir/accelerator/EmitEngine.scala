// SPDX-License-Identifier: Apache-2.0 OR MIT
package weir

/** `EmitEngine ENGINE FOLDER`: writes SystemVerilog of an engine. */
object EmitEngine {
  def main(arguments: Array[String]): Unit = arguments.toList match {
    case "xxh64" :: folder :: Nil   => Emit.write(new Xxh64, folder)
    case "compare" :: folder :: Nil => Emit.write(new PageCompare, folder)
    case _ =>
      Console.err.println("usage: EmitEngine ENGINE FOLDER\n  ENGINE  xxh64, compare")
      sys.exit(2)
  }
}
