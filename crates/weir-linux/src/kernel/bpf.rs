// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What all programs in the kernel have in common: whether they could be loaded here, and why one was not.

use super::files::open_root;
use super::privilege::next_move;
use crate::options::Roots;
use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{ErrorKind, MapCore, MapFlags, PrintLevel, ProgramInput, ProgramMut};
use rustix::fs::{FsWord, fstatfs};
use std::collections::BTreeSet;
use std::mem::MaybeUninit;
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

/// Opens the program of a skeleton. The skeleton refers to its object, which therefore stands in memory of
/// its own: dropping the skeleton closes the object, and leaves 8 bytes allocated.
///
/// # Errors
/// libbpf cannot read the object.
pub(crate) fn open<B: SkelBuilder<'static> + Default>() -> libbpf_rs::Result<B::Output> {
    B::default().open(Box::leak(Box::new(MaybeUninit::uninit())))
}

/// Loads the program of a skeleton as it is.
///
/// # Errors
/// The kernel refuses it.
pub(crate) fn load<B>(program: &str) -> Result<<B::Output as OpenSkel<'static>>::Output, Missing>
where
    B: SkelBuilder<'static> + Default,
{
    quiet();
    open::<B>()
        .and_then(OpenSkel::load)
        .map_err(|e| refused(program, &e))
}

/// `BPF_F_TEST_RUN_ON_CPU`: on the CPU that is named.
const ON_CPU: u32 = 1;

/// Runs a program once on a CPU.
///
/// # Errors
/// The CPU is offline, or the program cannot be run so.
pub(crate) fn run_on(program: &ProgramMut, cpu: u32) -> libbpf_rs::Result<()> {
    let input = ProgramInput {
        cpu,
        flags: ON_CPU,
        ..ProgramInput::default()
    };
    program.test_run(input).map(drop)
}

/// A struct that a program shares with weir.
///
/// # Safety
/// It is made of integers and arrays of them, and padding is a member too (as libbpf-cargo writes structs):
/// any bytes are a value, and each of its bytes is set.
pub(crate) unsafe trait BpfValue: Copy + Default {
    /// The value as it stands in a map.
    fn as_bytes(&self) -> &[u8] {
        // SAFETY: they are the bytes of `self`, and all of them are set.
        unsafe { std::slice::from_raw_parts(std::ptr::from_ref(self).cast(), size_of::<Self>()) }
    }

    /// The value with these bytes. Bytes that are missing are 0.
    fn from_bytes(bytes: &[u8]) -> Self {
        let mut value = Self::default();
        value.fill(bytes);
        value
    }

    /// Takes over these bytes, from the first on.
    fn fill(&mut self, bytes: &[u8]) {
        let count = bytes.len().min(size_of::<Self>());
        // SAFETY: both hold as many bytes, and any bytes are a value.
        unsafe {
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), std::ptr::from_mut(self).cast(), count)
        }
    }
}

// SAFETY: an integer.
unsafe impl BpfValue for u64 {}

/// Marks structs of skeletons as [`BpfValue`], and compares them by their bytes.
macro_rules! bpf_values {
    ($($of:ty),+ $(,)?) => {$(
        // SAFETY: its members are integers and arrays of them, padding included.
        unsafe impl crate::kernel::bpf::BpfValue for $of {}

        impl PartialEq for $of {
            fn eq(&self, other: &Self) -> bool {
                crate::kernel::bpf::BpfValue::as_bytes(self) == crate::kernel::bpf::BpfValue::as_bytes(other)
            }
        }

        impl Eq for $of {}
    )+};
}
pub(crate) use bpf_values;

/// The maps and numbers of a skeleton with `delegated.bpf.h` get these cgroups. Each skeleton has types of
/// its own for them.
macro_rules! follow_delegated {
    ($map:expr, $numbers:expr, $delegated:expr) => {{
        let delegated: &crate::workloads::cgroups::walk::Delegated = $delegated;
        crate::kernel::bpf::keep_keys(&$map, &delegated.ids);
        $numbers.delegated_level = delegated.level;
        $numbers.delegated_epoch += 1;
    }};
}
pub(crate) use follow_delegated;

/// A set of numbers in the kernel gets these.
pub(crate) fn keep_keys(map: &impl MapCore, keys: &BTreeSet<u64>) {
    let key = |bytes: Vec<u8>| bytes.as_slice().try_into().map_or(0, u64::from_ne_bytes);
    let before: BTreeSet<u64> = map.keys().map(key).collect();
    for gone in before.difference(keys) {
        // Not there is as good.
        let _ = map.delete(&gone.to_ne_bytes());
    }
    for new in keys.difference(&before) {
        let added = map.update(&new.to_ne_bytes(), &1_u64.to_ne_bytes(), MapFlags::ANY);
        if let Err(why) = added {
            tracing::warn!(%why, "what runs below a delegated cgroup is not counted for it");
            return;
        }
    }
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
        ErrorKind::PermissionDenied => {
            Missing::NotPermitted(format!("{text}; {}", next_move(&Roots::default())))
        }
        _ => Missing::NotSupported(text),
    }
}
