// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The program `weir-lab`.
#![forbid(unsafe_code)]

fn main() -> std::process::ExitCode {
    weir_lab::main()
}
