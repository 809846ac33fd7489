// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What must not be served: each is refused with what is wrong and what to do, and nothing is left behind.

use crate::common::{Server, command, false_library, text};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use weir_ipc::access_trace::AccessTrace;

fn refused(library: &Path, dir: &Path, more: &[&str]) -> String {
    let out = command(library, dir).args(more).output();
    let out = out.expect("the server starts");
    let said = text(&out.stderr);
    assert_eq!(out.status.code(), Some(1), "{said}");
    assert_eq!(text(&out.stdout), "");
    said
}

/// The same, for a library that is wrong in what is defined; no file may be left.
fn wrong(defines: &[&str]) -> String {
    let dir = tempfile::tempdir().expect("a folder");
    let library = false_library(dir.path(), defines);
    let said = refused(&library, dir.path(), &[]);
    for left in ["socket", "trace"] {
        assert!(!dir.path().join(left).exists(), "{left} is left: {said}");
    }
    said
}

#[track_caller]
fn says(said: &str, wanted: &str) {
    assert!(said.contains(wanted), "'{wanted}' is not in: {said}");
}

#[test]
fn libraries_that_are_none() {
    let dir = tempfile::tempdir().expect("a folder");
    let missing = dir.path().join("no.so");
    let said = refused(&missing, dir.path(), &[]);
    says(
        &said,
        "no.so: rtl/build-model GROUPS CHANNELS GROUP_BYTES_LOG2 builds one",
    );
    let garbage = dir.path().join("garbage.so");
    std::fs::write(&garbage, "not a library").expect("space");
    says(&refused(&garbage, dir.path(), &[]), "cannot load");
    says(
        &wrong(&["NO_IDLE"]),
        "is no library of the block: no weir_rtl_idle",
    );
}

#[test]
fn libraries_of_another_kind() {
    says(
        &wrong(&["ABI=7"]),
        "has interface 7, this program knows 1: build it again with rtl/build-model",
    );
    says(
        &wrong(&["VERSION=9"]),
        "has version 9 of the register map, this program knows 1",
    );
    says(
        &wrong(&["MAGIC=0"]),
        "does not come up: its magic number is 0x0",
    );
    says(
        &wrong(&["GROUP_COUNT=4"]),
        "has 4 groups of 134217728 bytes, the machine 2 of 134217728",
    );
    says(
        &wrong(&["FEATURES=1"]),
        "has no base register (features 0x1)",
    );
    says(
        &wrong(&["STATUS=-1"]),
        "does not answer at BAR offset 0x18000",
    );
}

#[test]
fn an_existing_socket_or_trace_is_refused() {
    let dir = tempfile::tempdir().expect("a folder");
    let library = false_library(dir.path(), &[]);
    let (socket, trace): (PathBuf, _) = (dir.path().join("socket"), dir.path().join("trace"));
    std::fs::write(&socket, "").expect("space");
    let said = refused(&library, dir.path(), &[]);
    says(
        &said,
        "if it is left from a weir-cosim that was killed, remove it",
    );
    assert!(socket.exists(), "it is not ours to remove");
    assert!(!trace.exists(), "ours is");
    std::fs::remove_file(&socket).expect("it is there");
    std::fs::write(&trace, "").expect("space");
    says(
        &refused(&library, dir.path(), &[]),
        "trace exists: another weir-cosim uses it",
    );
    assert!(trace.exists(), "it is not ours to remove");
}

#[test]
fn numbers_that_make_no_sense() {
    let dir = tempfile::tempdir().expect("a folder");
    let library = false_library(dir.path(), &[]);
    let of = |more: &[&str]| refused(&library, dir.path(), more);
    says(
        &of(&["--ring-records", "3"]),
        "--ring-records 3: a power of two",
    );
    says(
        &of(&["--devload-entries", "1,2"]),
        "--devload-entries: 2 numbers, not 4",
    );
}

#[test]
fn a_lost_access_ends_the_device() {
    let dir = tempfile::tempdir().expect("a folder");
    let server = Server::start(&false_library(dir.path(), &[]));
    let mut client = server.connect();
    let mut data = [0; 4];
    client.region_read(0, 0x18000, &mut data).expect("a device");
    assert_eq!(u32::from_le_bytes(data), 0x5249_4557);
    AccessTrace::open(server.trace_words())
        .expect("a trace")
        .count_lost();
    let out = server.end();
    assert_eq!(out.status.code(), Some(1));
    says(
        &text(&out.stderr),
        "1 accesses were lost, so the counters are wrong",
    );
    let after = client.region_read(0, 0x18000, &mut data);
    assert!(after.is_err(), "no device answers: {data:?}");
}

#[test]
fn a_broken_ring_ends_the_device() {
    let dir = tempfile::tempdir().expect("a folder");
    let server = Server::start(&false_library(dir.path(), &[]));
    let _client = server.connect();
    // The pushes that ring 0 claims: more than it holds.
    server.trace_words()[16].store(1 << 40, Ordering::Relaxed);
    let out = server.end();
    assert_eq!(out.status.code(), Some(1));
    says(
        &text(&out.stderr),
        "ring 0 says 1099511627776 pushed and 0 taken: that is no ring",
    );
}
