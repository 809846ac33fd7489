// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the C inside (SQLite, zstd, libbpf) is compiled with: an overrun of a buffer ends the program, which
//! does not go on with what was overwritten.

/// The names of functions that the program takes from the C library.
#[test]
fn the_c_inside_has_a_stack_protector_and_checked_copies() {
    let program = std::fs::read(env!("CARGO_BIN_EXE_weir")).expect("the program");
    for name in ["__stack_chk_fail", "__memcpy_chk", "__vsnprintf_chk"] {
        let name = [b"\0", name.as_bytes(), b"\0"].concat();
        let has = program.windows(name.len()).any(|bytes| bytes == name);
        assert!(
            has,
            "no {}: .cargo/config.toml has CFLAGS",
            String::from_utf8_lossy(&name[1..name.len() - 1])
        );
    }
}
