// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What stands between weir and the files of a [`super::Fake`] in a test: it sees each change before it is
//! made, and may answer in the place of the file system, as a kernel would. One for each thread.

use rustix::fd::AsFd;
use rustix::io::Errno;
use std::cell::RefCell;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

/// A change that is about to be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileChange<'a> {
    /// The whole value of a small file.
    Write(&'a str),
    /// The next bytes of a journal.
    Append(&'a [u8]),
    /// What was appended last is flushed to the disk.
    Flush,
    /// What was appended last is truncated.
    Truncate,
    Create,
    MakeDir,
    RemoveDir,
    Unlink,
    Rename,
    Link,
}

/// Answers instead of the file system, or lets it do as it would.
pub(crate) type Answer = Option<Result<(), Errno>>;

type Kernel = Box<dyn FnMut(&Path, FileChange<'_>) -> Answer>;
type Policies = Box<dyn FnMut(u32, Option<i32>) -> Option<Result<i32, Errno>>>;

thread_local! {
    static KERNEL: RefCell<Option<Kernel>> = const { RefCell::new(None) };
    static POLICIES: RefCell<Option<Policies>> = const { RefCell::new(None) };
}

/// From now on this thread's changes of files pass through `kernel`, and policies of threads through
/// `policies`: both reads and writes of them.
pub(crate) fn install(kernel: Kernel, policies: Policies) {
    KERNEL.with(|slot| *slot.borrow_mut() = Some(kernel));
    POLICIES.with(|slot| *slot.borrow_mut() = Some(policies));
}

/// Calls `act` while `kernel` answers changes of files in this thread.
pub(crate) fn during<T>(
    kernel: impl FnMut(&Path, FileChange<'_>) -> Answer + 'static,
    act: impl FnOnce() -> T,
) -> T {
    install(Box::new(kernel), Box::new(|_, _| None));
    let done = act();
    uninstall();
    done
}

pub(crate) fn uninstall() {
    KERNEL.with(|slot| *slot.borrow_mut() = None);
    POLICIES.with(|slot| *slot.borrow_mut() = None);
}

/// What the kernel of this thread says to a change of `name` in `dir`, or of `dir` itself where that is
/// empty.
pub(crate) fn answer(dir: impl AsFd, name: &str, change: FileChange<'_>) -> Answer {
    KERNEL.with(|slot| {
        let mut slot = slot.borrow_mut();
        let kernel = slot.as_mut()?;
        let fd = dir.as_fd().as_raw_fd();
        let dir = std::fs::read_link(format!("/proc/self/fd/{fd}")).unwrap_or_default();
        let path = match name {
            "" => dir,
            name => dir.join(name),
        };
        kernel(&path, change)
    })
}

/// The policy of a thread, or the answer to a new one.
pub(crate) fn policy(tid: u32, new: Option<i32>) -> Option<Result<i32, Errno>> {
    POLICIES.with(|slot| slot.borrow_mut().as_mut()?(tid, new))
}

pub(crate) fn below(root: &Path, path: &Path) -> PathBuf {
    path.strip_prefix(root).unwrap_or(path).to_path_buf()
}
