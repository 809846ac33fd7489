// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What all programs in the kernel have in common: whether they could be loaded here, and why one was not.

use super::files::open_root;
use crate::options::Roots;
use libbpf_rs::{ErrorKind, Object, ObjectBuilder, OpenObject, PrintLevel};
use rustix::fs::{FsWord, fstatfs};
use std::path::Path;
use weir_core::Missing;

/// Magic numbers of file systems (kernel, include/uapi/linux/magic.h).
pub(crate) const PROC: FsWord = 0x9fa0;
const CGROUP2: FsWord = 0x6367_7270;

/// Whether this is such a file system of the kernel's, and not files that imitate it.
pub(crate) fn is_on(path: &Path, magic: FsWord) -> bool {
    let found = open_root(path).and_then(fstatfs);
    found.is_ok_and(|fs| fs.f_type == magic)
}

/// Whether the tree of cgroups is the kernel's.
///
/// # Errors
/// It is not.
pub(crate) fn is_cgroup2(roots: &Roots) -> Result<(), Missing> {
    if is_on(&roots.cgroup, CGROUP2) {
        return Ok(());
    }
    let why = format!("{} is not cgroup v2", roots.cgroup.display());
    Err(Missing::NotSupported(why))
}

/// Whether the kernel describes its types (BTF), without which no program of weir fits it.
///
/// # Errors
/// It does not.
pub(crate) fn has_types(roots: &Roots) -> Result<(), Missing> {
    let types = roots.sys.join("kernel/btf/vmlinux");
    if types.exists() {
        return Ok(());
    }
    Err(Missing::NotSupported(format!(
        "no type information of the kernel under {}: use a kernel with CONFIG_DEBUG_INFO_BTF",
        types.display()
    )))
}

/// Loads a compiled program as it is.
///
/// # Errors
/// The kernel refuses it.
pub(crate) fn load(compiled: &[u8], program: &str) -> Result<Object, Missing> {
    quiet();
    let opened = ObjectBuilder::default().open_memory(compiled);
    opened
        .and_then(OpenObject::load)
        .map_err(|e| refused(program, &e))
}

/// Messages of libbpf go to the log, at the level debug.
pub(crate) fn quiet() {
    libbpf_rs::set_print(Some((PrintLevel::Warn, |_, words| {
        tracing::debug!(words, "libbpf");
    })));
}

/// Why the kernel did not take a program.
pub(crate) fn refused(program: &str, error: &libbpf_rs::Error) -> Missing {
    let text = format!("the kernel did not take {program}: {error}");
    match error.kind() {
        ErrorKind::PermissionDenied => Missing::NotPermitted(format!(
            "{text}; run weir as root, or with CAP_BPF and CAP_PERFMON"
        )),
        _ => Missing::NotSupported(text),
    }
}
