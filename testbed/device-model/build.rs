// SPDX-License-Identifier: GPL-2.0-or-later
//! QEMU provides the plugin API when it loads the library: leave those symbols open. The program of unit
//! tests, which call none of them, links without them.
fn main() {
    println!("cargo:rustc-link-arg-cdylib=-Wl,-z,undefs");
    println!("cargo:rustc-link-arg=-Wl,--unresolved-symbols=ignore-all");
}
