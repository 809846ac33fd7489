// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The driver's rule of which groups it adds (`kernel/access_counters/cover.h`), compiled for this machine.

use std::process::Command;

/// Whatever the divisions: what is added counts each byte once, or the node is refused because nothing would.
#[test]
fn each_byte_of_a_node_is_counted_once() {
    let dir = tempfile::tempdir().expect("a folder");
    let program = dir.path().join("cover_test");
    let source = xtask::repository_root().join("kernel/access_counters/tests/cover_test.c");
    let mut cc = Command::new("cc");
    cc.args(["-O1", "-Wall", "-Wextra", "-Werror", "-o"])
        .args([&program, &source]);
    let built = cc.output().expect("a C compiler");
    assert!(built.status.success(), "{}", text(&built.stderr));
    let ran = Command::new(&program).args(["1", "20000"]).output();
    let ran = ran.expect("the program starts");
    let said = text(&ran.stdout);
    assert!(ran.status.success(), "{said}");
    // "N counted once, M refused": both kinds came up.
    let words: Vec<&str> = said.split_whitespace().collect();
    let number = |at: usize| words.get(at).and_then(|w| w.parse::<u32>().ok());
    let both = number(0).zip(number(3));
    assert!(
        both.is_some_and(|(once, refused)| once > 10_000 && refused > 500),
        "{said}"
    );
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
