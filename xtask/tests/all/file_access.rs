// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Programs make files, and read those that users name, by crates/weir-files alone: what a program of root
//! does by name, another user can redirect by a link.
//!
//! Clippy has a list of such methods (`disallowed-methods`) too. It does not know of flags, as `O_CREAT`, and
//! it lints libraries as their tests only (`xtask/rustc`), where it cannot tell a test from the library.
//!
//! Code that makes files in another way is listed with a reason; one that is no longer needed fails as well.

use crate::clocks::{all_problems, has_word};
use crate::tidy::{assert_none, files, without_exceptions};

const MAKE: &str =
    "make files by weir_files::{create_new, begin, replace}, directories by weir_files::Folder";
const CHANGE: &str = "rename and remove by weir_files::Folder: a path may lead elsewhere by then";
const READ: &str = "open what a user names by weir_files::open_regular: a FIFO waits for ever";

/// What code of a program does not name, and the next move. A word of `std::fs` may also be imported.
const CODE: &[(&str, &str)] = &[
    ("fs::write", MAKE),
    ("fs::create_dir", MAKE),
    ("fs::create_dir_all", MAKE),
    ("fs::copy", MAKE),
    ("fs::hard_link", MAKE),
    ("fs::set_permissions", CHANGE),
    ("fs::rename", CHANGE),
    ("fs::remove_file", CHANGE),
    ("fs::remove_dir_all", CHANGE),
    ("fs::read", READ),
    ("fs::read_to_string", READ),
    ("DirBuilder", MAKE),
    ("File::create", MAKE),
    ("File::create_new", MAKE),
    ("File::options", MAKE),
    ("File::open", READ),
    ("OpenOptions", MAKE),
    ("OFlags::CREATE", MAKE),
    ("O_CREAT", MAKE),
    ("O_TMPFILE", MAKE),
    ("NamedTempFile", MAKE),
    ("tempfile_in", MAKE),
    ("mkdirat", MAKE),
    ("linkat", MAKE),
    ("symlinkat", MAKE),
    ("symlink", MAKE),
    ("mknodat", MAKE),
    ("UnixListener::bind", MAKE),
    ("renameat", CHANGE),
    ("renameat_with", CHANGE),
    ("unlinkat", CHANGE),
];

const KERNEL: &str = "a file of the kernel, at a path of its own";

/// Files and folders that are left out, and why.
const ELSEWHERE: &[(&str, &str)] = &[
    ("/build.rs", "runs while weir is compiled"),
    ("/benches/", "measurements"),
    ("/examples/", "programs for developers"),
    ("/fuzz/", "programs for developers"),
    ("/src/fake/", "for tests"),
    ("crates/weir-files/src/", "the one way"),
    (
        "crates/weir-lab/src/bench/fake_host.rs",
        "in a new directory for this user only",
    ),
    (
        "crates/weir-linux/src/kernel/files.rs",
        "directories of the kernel, by their handle",
    ),
    (
        "testbed/harness/src/guest_env/",
        "in the cache of the user, which no other can write",
    ),
    (
        "testbed/harness/src/vm/",
        "in the cache and in new directories for this user only",
    ),
    ("testbed/harness/src/bin/weir-agent/", "runs in the guest"),
    ("xtask/", "runs in a checkout"),
];

/// Functions that may, as `file: function` (or the file, where it imports), and why.
const ALLOWED: &[(&str, &str)] = &[
    ("crates/weir-bench/src/memory.rs: prefer_oom_kill", KERNEL),
    (
        "crates/weir-bench/src/storage/target.rs",
        "what device and reopen below use",
    ),
    (
        "crates/weir-bench/src/storage/target.rs: device",
        "a block device, which is looked at before and after it is opened",
    ),
    (
        "crates/weir-bench/src/storage/target.rs: reopen",
        "another descriptor of an open file",
    ),
    ("crates/weir-lab/src/bench/iteration.rs: look_cpu", KERNEL),
    (
        "crates/weir-linux/src/backends/sched_ext/loader/mod.rs: possible_nodes",
        KERNEL,
    ),
    (
        "crates/weir-linux/src/counters/windows/subjects/mod.rs: cgroup",
        KERNEL,
    ),
    (
        "crates/weir-linux/src/platform/trial.rs: drop",
        "a new directory in /run/weir, for this user only",
    ),
    (
        "crates/weir-linux/src/task_traffic/sampling/mod.rs: found",
        KERNEL,
    ),
    (
        "crates/weir-linux/src/workloads/processes/numa_maps.rs: fact",
        KERNEL,
    ),
    (
        "crates/weir-linux/src/workloads/processes/sched_policy.rs: start_ticks",
        KERNEL,
    ),
    ("crates/weir-report/src/origin.rs: host", KERNEL),
    (
        "crates/weir/src/bench/interference/program/groups.rs: make",
        KERNEL,
    ),
    (
        "crates/weir/src/bench/interference/program/groups.rs: own_directory",
        KERNEL,
    ),
    (
        "crates/weir/src/bench/interference/program/mod.rs: in_cgroup",
        KERNEL,
    ),
    (
        "crates/weir/src/bench/interference/program/mod.rs: end",
        KERNEL,
    ),
    (
        "crates/weir/src/bench/interference/site/conditions.rs: text",
        KERNEL,
    ),
    (
        "crates/weir/src/bench/interference/site/conditions.rs: prefetchers",
        "a device of the CPU, in /dev, where root alone makes files",
    ),
    (
        "crates/weir/src/run/metrics/process.rs: own_process",
        KERNEL,
    ),
    (
        "crates/weir/src/run/service/capabilities.rs: lacking",
        KERNEL,
    ),
    (
        "crates/weir/src/run/service/liveness.rs: bind",
        "a socket in /run/weir, which only this user can write",
    ),
    (
        "crates/weir/src/run/service/liveness.rs: drop",
        "its own socket",
    ),
    ("crates/weir/src/run/service/signals.rs", KERNEL),
    (
        "crates/weir/src/top/terminal.rs: open",
        "the terminal of this process",
    ),
    (
        "testbed/cosim/src/main.rs: listen",
        "a socket: its making fails where something has its name",
    ),
    ("testbed/cosim/src/main.rs: drop", "its own socket"),
    (
        "testbed/cosim/src/shared.rs: drop",
        "its own file, in shared memory",
    ),
    (
        "testbed/harness/src/live/runs.rs: drop",
        "a new directory for this user only",
    ),
];

fn signs(_: &str, code: &str) -> Vec<(&'static str, &'static str)> {
    // `use std::fs::{self, File}`; a group begins with a bracket here, of whatever kind.
    let imported = code.split_once("fs::(").map_or("", |(_, names)| names);
    let is_named = |sign: &str| {
        let of_fs = sign.strip_prefix("fs::");
        has_word(code, sign) || of_fs.is_some_and(|name| has_word(imported, name))
    };
    let named = CODE.iter().filter(|(sign, _)| is_named(sign));
    named.copied().collect()
}

#[test]
fn files_are_made_and_read_in_one_way() {
    let Some(files) = files() else { return };
    for (part, why) in ELSEWHERE {
        assert!(
            !why.is_empty() && files.iter().any(|(name, _)| name.contains(part)),
            "{part}: stale"
        );
    }
    let is_program = |name: &str| !ELSEWHERE.iter().any(|(part, _)| name.contains(part));
    let programs: Vec<_> = files
        .into_iter()
        .filter(|(name, _)| name.ends_with(".rs") && is_program(name))
        .collect();
    assert!(programs.len() > 100, "only {} files", programs.len());
    let found = all_problems(&programs, false, signs);
    assert_none(&without_exceptions(found, ALLOWED, "file_access.rs"));
}

#[test]
fn each_way_is_found_however_it_is_written_and_only_in_programs() {
    let found = |code: &str| {
        let file = ("a/src/b.rs".to_owned(), code.to_owned());
        all_problems(&[file], false, signs).len()
    };
    for code in [
        "fn f() { std::fs::write(a, b) }",
        "fn f() { a.map(fs :: read) }",
        "use std::fs::{self, write};",
        "use std::fs::write;",
        "fn f() { bail!(\"{}\", fs::read_to_string(a)?) }",
        "fn f() { let flags = OFlags::RDWR | OFlags::CREATE; }",
        "fn f() { o.custom_flags(libc::O_CREAT) }",
    ] {
        assert_eq!(found(code), 1, "{code}");
    }
    for code in [
        "fn f() { fs::read_dir(a) }",
        "use std::fs::{self, Metadata};",
        "#[cfg(test)] mod tests { fn f() { fs::write(a, b) } }",
        "// fs::write(a, b)",
        "fn f() { say(\"fs::write\") }",
    ] {
        assert_eq!(found(code), 0, "{code}");
    }
    assert!(ALLOWED.iter().all(|(_, why)| !why.is_empty()));
}
