// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The guest environment: kernel, QEMU and workloads from distribution packages, kept outside the
//! checkout. What it has and how it is made stands in the script `guest-packages` beside this crate, which
//! needs no Rust: `make run` starts it before anything is compiled. Nothing is downloaded when it is already
//! there.

pub mod kernel_modules;
pub mod lock;
pub mod other_kernels;
pub mod provenance;
mod script;

pub use script::pack;

use anyhow::{Context, Result, bail};
use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;

#[derive(Clone, Debug)]
pub struct Environment {
    pub dir: PathBuf,
    pub kernel_release: String,
    /// Where a kernel lies that is not the tree's own.
    pub(crate) other_kernel: Option<PathBuf>,
}

impl Environment {
    /// The environment, made if need be (a minute, and 1.4 GB of disk). `say` gets progress lines.
    ///
    /// # Errors
    /// Not root, `mmdebstrap` missing, no package source, disk full.
    pub fn ready(say: &mut dyn FnMut(&str)) -> Result<Self> {
        let dir = script::made(&mut script::command(), say)?;
        let kernel_release = kernel_release(&dir.join("root"))?;
        Ok(Environment {
            dir,
            kernel_release,
            other_kernel: None,
        })
    }

    pub fn root(&self) -> PathBuf {
        self.dir.join("root")
    }

    pub fn kernel(&self) -> PathBuf {
        if let Some(dir) = &self.other_kernel {
            return dir.join("vmlinuz");
        }
        self.root()
            .join("boot")
            .join(format!("vmlinuz-{}", self.kernel_release))
    }

    pub fn base_cpio(&self) -> PathBuf {
        self.dir.join("base.cpio")
    }

    /// Where builds against this kernel are kept.
    pub fn build_dir(&self) -> PathBuf {
        self.other_kernel
            .as_ref()
            .unwrap_or(&self.dir)
            .join("build")
    }

    /// The headers of this kernel, as a path inside the tree, if there are any.
    pub fn headers(&self) -> Option<String> {
        let release = &self.kernel_release;
        match &self.other_kernel {
            None => Some(format!("/lib/modules/{release}/build")),
            Some(dir) => dir
                .join("headers")
                .exists()
                .then(|| format!("/usr/src/linux-headers-{release}")),
        }
    }

    /// A program for guests that is not in the initramfs of all: its file and the libraries it needs
    /// in addition to those that are there, as paths in the tree and in the guest.
    ///
    /// # Errors
    /// The tree has no such program.
    pub fn extra_program(&self, program: &str) -> Result<BTreeSet<String>> {
        let root = self.root();
        let mut files = files_of(&root, program)?;
        for present in std::fs::read_to_string(self.dir.join("base.files"))?.lines() {
            files.remove(present);
        }
        Ok(files)
    }

    /// A command that runs a program of the package tree with the tree's own libraries, without
    /// entering it: host paths stay valid.
    pub fn tool(&self, program: &str) -> Command {
        let root = self.root();
        let libraries = root.join("usr/lib/x86_64-linux-gnu");
        let mut command = Command::new(root.join("lib64/ld-linux-x86-64.so.2"));
        command
            .arg("--library-path")
            .arg(libraries)
            .arg(root.join(program));
        command
    }

    /// Run a shell command inside the package tree, with `/proc` there.
    ///
    /// # Errors
    /// The command's, with its output.
    pub fn chroot(&self, shell: &str) -> Result<String> {
        let script = "mountpoint -q \"$0/proc\" || mount -t proc proc \"$0/proc\" && exec chroot \"$0\" /bin/sh -ec \"$1\"";
        // A mount namespace of its own: the mount goes away with the command.
        let mut command = Command::new("unshare");
        command
            .args(["--mount", "sh", "-ec", script])
            .arg(self.root())
            .arg(shell);
        output(&mut command)
    }
}

/// Run a command and return what it printed.
///
/// # Errors
/// It could not be started, or failed: the message has its output.
pub fn output(command: &mut Command) -> Result<String> {
    let out = command
        .output()
        .with_context(|| format!("cannot start {command:?}"))?;
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    if !out.status.success() {
        let err = String::from_utf8_lossy(&out.stderr);
        bail!("{command:?} failed ({}):\n{text}{err}", out.status);
    }
    Ok(text)
}

/// What tells a file's content from another one.
///
/// # Errors
/// It cannot be read.
pub fn hash_file(path: &Path) -> Result<u64> {
    let bytes = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    let mut hasher = DefaultHasher::new();
    bytes.hash(&mut hasher);
    Ok(hasher.finish())
}

fn kernel_release(root: &Path) -> Result<String> {
    let modules = root.join("usr/lib/modules");
    let entry = std::fs::read_dir(&modules)
        .with_context(|| format!("no kernel in {}", modules.display()))?
        .flatten()
        .map(|e| e.file_name().to_string_lossy().into_owned())
        .max();
    entry.with_context(|| format!("no kernel in {}", modules.display()))
}

/// A program and the libraries it needs, as paths in the tree.
fn files_of(root: &Path, program: &str) -> Result<BTreeSet<String>> {
    let mut ldd = Command::new("chroot");
    let listing = output(ldd.arg(root).args(["ldd", &format!("/{program}")]))?;
    let paths = listing.split_whitespace().filter(|w| w.starts_with('/'));
    let libraries = paths.map(|p| p.trim_start_matches('/').to_string());
    Ok(libraries.chain([program.to_string()]).collect())
}

/// Copy a file, following links, making the folders on the way.
///
/// # Errors
/// The environment with both paths.
pub fn copy(from: &Path, to: &Path) -> Result<()> {
    if let Some(parent) = to.parent() {
        std::fs::create_dir_all(parent)?;
    }
    let done = std::fs::copy(from, to);
    done.with_context(|| format!("copy {} to {}", from.display(), to.display()))?;
    Ok(())
}
