// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The server as a process, with a library of one kind or another.

use rustix::mm::{MapFlags, ProtFlags, mmap};
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::AtomicU64;
use vfio_user::Client;

pub const GROUPS: u64 = 2;
pub const GROUP_BYTES: u64 = 1 << 27;
/// Not aligned to a group, as HDM bases are not.
pub const BASE_BYTES: u64 = (1 << 32) + (1 << 21);
pub const RINGS: usize = 2;

/// A folder with a socket and a trace in it; the server ends with this.
pub struct Server {
    pub dir: tempfile::TempDir,
    pub child: Child,
}

/// The arguments for a library, with socket and trace in `dir`.
pub fn command(library: &Path, dir: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir-cosim"));
    command.arg("--json").arg("--library").arg(library);
    command.arg("--socket").arg(dir.join("socket"));
    command.arg("--trace").arg(dir.join("trace"));
    for (option, number) in [
        ("--rings", RINGS as u64),
        ("--groups", GROUPS),
        ("--group-bytes", GROUP_BYTES),
        ("--base-bytes", BASE_BYTES),
    ] {
        command.args([option, &number.to_string()]);
    }
    command.stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

impl Server {
    pub fn start(library: &Path) -> Server {
        let dir = tempfile::tempdir().expect("a folder");
        let mut child = command(library, dir.path()).spawn().expect("the server");
        while !dir.path().join("socket").exists() {
            let ended = child.try_wait().expect("a child");
            assert!(ended.is_none(), "it ended at once: {ended:?}");
            std::thread::yield_now();
        }
        Server { dir, child }
    }

    pub fn connect(&self) -> Client {
        Client::new(&self.dir.path().join("socket")).expect("it serves")
    }

    /// The trace, as the device model maps it: for the rest of the process.
    pub fn trace_words(&self) -> &'static [AtomicU64] {
        let path = self.dir.path().join("trace");
        let file = File::options().read(true).write(true).open(path);
        let file = file.expect("a trace");
        let bytes = file.metadata().expect("its length").len() as usize;
        // SAFETY: a fresh mapping that stays; all its users store whole words, as atomics may.
        unsafe {
            let access = ProtFlags::READ | ProtFlags::WRITE;
            let at = mmap(
                std::ptr::null_mut(),
                bytes,
                access,
                MapFlags::SHARED,
                &file,
                0,
            );
            std::slice::from_raw_parts(at.expect("a mapping").cast(), bytes / 8)
        }
    }

    pub fn end(self) -> Output {
        self.child.wait_with_output().expect("its output")
    }
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The RTL, or nothing, said aloud, where it cannot be built.
pub fn rtl() -> Option<PathBuf> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../rtl/build-model");
    let log2 = GROUP_BYTES.trailing_zeros().to_string();
    let mut command = Command::new(script);
    let out = command.args([&GROUPS.to_string(), "2", &log2]).output();
    let out = out.expect("rtl/build-model starts");
    if out.status.code() == Some(3) {
        // Not eprintln: the runner would keep it to itself.
        let why = text(&out.stderr);
        writeln!(std::io::stderr(), "SKIP weir-cosim: {why}").expect("stderr");
        return None;
    }
    assert!(out.status.success(), "{}", text(&out.stderr));
    Some(text(&out.stdout).trim_end().into())
}

/// A library in C that answers as its defines say, in `dir`.
pub fn false_library(dir: &Path, defines: &[&str]) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/false_library.c");
    let library = dir.join("false.so");
    let mut cc = Command::new("cc");
    cc.args(["-shared", "-fPIC", "-o"])
        .arg(&library)
        .arg(source);
    let include = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../rtl/sim");
    cc.arg("-I").arg(include);
    cc.args(defines.iter().map(|d| format!("-D{d}")));
    assert!(cc.status().expect("a C compiler").success());
    library
}
