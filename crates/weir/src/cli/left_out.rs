// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Values that only a build with the controllers of the thesis has.

/// Why a controller or a back end of the thesis cannot be had.
pub const NOT_IN_THIS_BUILD: &str = "the thesis's controllers are not in this build of weir: `cargo build --release --workspace` has them";

/// What is wrong with a value in the settings file, if it is not in this build.
pub fn left_out_in_file(name: &str, value: &str) -> Option<String> {
    is_left_out(name, value).then(|| format!("value \"{value}\" of {name}: {NOT_IN_THIS_BUILD}"))
}

/// Whether this is a back end of the thesis, and a build without them.
pub fn is_left_out(name: &str, value: &str) -> bool {
    !cfg!(feature = "thesis") && name == "backend" && value.starts_with("thesis-scx")
}
