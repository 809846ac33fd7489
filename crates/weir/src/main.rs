// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The `weir` command: see the library of this package.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    weir::main()
}
