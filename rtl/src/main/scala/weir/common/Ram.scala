// SPDX-License-Identifier: Apache-2.0 OR MIT
package weir

import chisel3._

/** One block RAM: a write port and a read port with an output register.
  *
  * Timing: a read requested in clock t is on `q` in clock t + 2. It sees the writes of clocks before t.
  *
  * Of a write to the same address in clock t it sees nothing, if `oldOnCollision`. Otherwise `q` is then
  * worthless: simulation gives the complement of the right word and proofs give any word at all, so that
  * nothing can come to rely on it, and synthesis need not build the comparison of addresses.
  *
  * Verilog of its own, because `SyncReadMem` has no output register and its emitted form has new data on a
  * collision whatever was requested (Chisel 7.14 with firtool 1.155).
  */
class Ram(words: Int, bits: Int, oldOnCollision: Boolean) extends ExtModule {
  override val desiredName = s"Ram${words}x$bits${if (oldOnCollision) "Old" else ""}"
  private val addressBits = Parameters.indexBits(words)

  val clock = IO(Input(Clock()))
  val writeEnable = IO(Input(Bool()))
  val writeAddress = IO(Input(UInt(addressBits.W)))
  val writeData = IO(Input(UInt(bits.W)))
  val readEnable = IO(Input(Bool()))
  val readAddress = IO(Input(UInt(addressBits.W)))
  val q = IO(Output(UInt(bits.W)))

  private val collision = "writeEnable && writeAddress == readAddress"
  private val plainRead = "        first <= memory[readAddress];"
  private val poisonedRead =
    s"""`ifdef FORMAL
       |        first <= ($collision) ? any_word : memory[readAddress];
       |`elsif SYNTHESIS
       |        first <= memory[readAddress];
       |`else
       |        first <= ($collision) ? ~memory[readAddress] : memory[readAddress];
       |`endif""".stripMargin
  private val anyWord =
    if (oldOnCollision) ""
    else
      s"""`ifdef FORMAL
         |    (* anyseq *) wire [${bits - 1}:0] any_word;
         |`endif
         |""".stripMargin

  setInline(
    s"$desiredName.sv",
    s"""module $desiredName(
       |    input clock,
       |    input writeEnable,
       |    input [${addressBits - 1}:0] writeAddress,
       |    input [${bits - 1}:0] writeData,
       |    input readEnable,
       |    input [${addressBits - 1}:0] readAddress,
       |    output [${bits - 1}:0] q
       |);
       |    ${if (oldOnCollision) "" else "(* ramstyle = \"no_rw_check\" *) "}reg [${bits - 1}:0] memory [0:${words - 1}];
       |    reg [${bits - 1}:0] first;
       |    reg [${bits - 1}:0] second;
       |    assign q = second;
       |$anyWord    always @(posedge clock) begin
       |        if (writeEnable) memory[writeAddress] <= writeData;
       |        if (readEnable) begin
       |${if (oldOnCollision) plainRead else poisonedRead}
       |        end
       |        second <= first;
       |    end
       |endmodule
       |""".stripMargin
  )
}

object Ram {

  /** A RAM with these ports connected. */
  def apply(
    clock: Clock,
    words: Int,
    bits: Int,
    oldOnCollision: Boolean,
    write: Bool,
    writeAddress: UInt,
    writeData: UInt,
    read: Bool,
    readAddress: UInt
  ): UInt = {
    val ram = Module(new Ram(words, bits, oldOnCollision))
    ram.clock := clock
    ram.writeEnable := write
    ram.writeAddress := writeAddress
    ram.writeData := writeData
    ram.readEnable := read
    ram.readAddress := readAddress
    ram.q
  }
}
