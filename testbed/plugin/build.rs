// SPDX-License-Identifier: GPL-2.0-or-later
//! QEMU provides the plugin API when it loads the library: leave those symbols open.
fn main() {
    println!("cargo:rustc-link-arg-cdylib=-Wl,-z,undefs");
}
