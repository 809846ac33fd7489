// SPDX-License-Identifier: Apache-2.0 OR MIT
package weir

/** `EmitEngine ENGINE FOLDER`: writes SystemVerilog of an engine, or of all. */
object EmitEngine {
  def main(arguments: Array[String]): Unit = arguments.toList match {
    case "xxh64" :: folder :: Nil       => Emit.write(new Xxh64, folder)
    case "compare" :: folder :: Nil     => Emit.write(new PageCompare, folder)
    case "lz4-decoder" :: folder :: Nil => Emit.write(new Lz4Decoder, folder)
    case s"lz4-encoder-$positions" :: folder :: Nil if positions.toIntOption.isDefined =>
      Emit.write(new Lz4Encoder(positions.toInt), folder)
    case "accelerator" :: folder :: Nil => Emit.write(new Accelerator, folder)
    case _ =>
      Console.err.println(
        "usage: EmitEngine ENGINE FOLDER\n  ENGINE  xxh64, compare, lz4-decoder, lz4-encoder-1, -2, -4, -8, or accelerator: the whole"
      )
      sys.exit(2)
  }
}
