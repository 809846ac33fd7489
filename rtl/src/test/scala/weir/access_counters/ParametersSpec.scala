// SPDX-License-Identifier: Apache-2.0 OR MIT
package weir

import org.scalatest.funspec.AnyFunSpec

class ParametersSpec extends AnyFunSpec {
  describe("parameters") {
    it("outside what the block can be are refused with what is allowed") {
      for ((wrong, allowed) <- Seq[(() => Parameters, String)](
          (() => Parameters(0), "1 to 16384"),
          (() => Parameters(16385), "1 to 16384"),
          (() => Parameters(8, channels = 3), "1, 2 or 4"),
          (() => Parameters(8, groupBytesLog2 = 5), "at least a line"),
          (() => Parameters(16384, groupBytesLog2 = 39), "must fit 52 bits"),
          (() => Parameters(8, countBits = 65), "2 to 64"),
          (() => Parameters(8, deviceBytesLog2 = 53), "6 to 52"),
          (() => Parameters(8, fillBits = 9), "1 to 8")
        )) {
        val message = intercept[IllegalArgumentException](wrong()).getMessage
        assert(message.contains(allowed), message)
      }
      assert(Parameters(16384, groupBytesLog2 = 38).groupBits == 14)
    }
  }
}
