// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The guest environment: kernel, QEMU and workloads from distribution packages, kept outside the
//! checkout and keyed by what was requested. Nothing is downloaded when it is already there.
//!
//! ```text
//! ${XDG_CACHE_HOME:-~/.cache}/weir/env-KEY/
//!     root/            the package tree (mmdebstrap)
//!     base.cpio        initramfs with the workloads, made from root/
//!     kernel-*/        other kernels (see `other_kernels.rs`)
//!     complete         written last: without it the rest is made anew
//! ```

pub mod kernel_modules;
pub mod lock;
pub mod other_kernels;
pub mod provenance;

use anyhow::{Context, Result, bail};
use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The suite that has a kernel with sched_ext, QEMU 11 and the workloads.
const SUITE: &str = "forky";

/// Packages of the environment. Metapackages where versions move.
const PACKAGES: &[&str] = &[
    "linux-image-cloud-amd64",
    "linux-headers-cloud-amd64",
    "make",
    "gcc",
    "busybox-static",
    "cpio",
    "kmod",
    "fio",
    "stress-ng",
    "numactl",
    "ndctl",
    "iproute2",
    "bpftool",
    "linux-perf",
    "clang",
    "llvm",
    "libbpf-dev",
    "libelf-dev",
    "procps",
    "qemu-system-x86",
];

/// Programs that go into the guest.
const GUEST_PROGRAMS: &[&str] = &[
    "usr/bin/fio",
    "usr/bin/stress-ng",
    "usr/bin/numactl",
    "usr/bin/migratepages",
    "usr/sbin/bpftool",
    "usr/bin/ps",
    "usr/bin/chrt",
];

/// First actions of the guest. Everything mounted here is mounted by a distribution too.
const INIT: &str = r#"#!/bin/sh
export PATH=/usr/local/bin:/usr/bin:/usr/sbin:/bin:/sbin HOME=/root
/bin/busybox --install -s /bin
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs dev /dev
mkdir -p /dev/shm /dev/virtio-ports /run /tmp /root
mount -t tmpfs run /run
mount -t tmpfs tmp /tmp
mount -t cgroup2 cgroup2 /sys/fs/cgroup
mount -t debugfs debugfs /sys/kernel/debug
mount -t bpf bpf /sys/fs/bpf
echo '+cpu +memory +cpuset' > /sys/fs/cgroup/cgroup.subtree_control
for port in /sys/class/virtio-ports/*; do
    [ -e "$port/name" ] && ln -s "/dev/${port##*/}" "/dev/virtio-ports/$(cat "$port/name")"
done
mkdir -p /sys/fs/cgroup/testbed.slice
echo $$ > /sys/fs/cgroup/testbed.slice/cgroup.procs
weir-agent
poweroff -f
"#;

/// A complete environment.
#[derive(Clone, Debug)]
pub struct Environment {
    /// Where it lies.
    pub dir: PathBuf,
    /// The kernel's release, as in `uname -r`.
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
        let dir = cache_dir()?.join(format!("env-{}", key()));
        let _lock = lock::hold(&dir.with_extension("lock"))?;
        if !dir.join("complete").exists() {
            build(&dir, say).with_context(|| format!("cannot build {}", dir.display()))?;
        }
        let kernel_release = kernel_release(&dir.join("root"))?;
        Ok(Environment {
            dir,
            kernel_release,
            other_kernel: None,
        })
    }

    /// The package tree.
    pub fn root(&self) -> PathBuf {
        self.dir.join("root")
    }

    /// The kernel image.
    pub fn kernel(&self) -> PathBuf {
        if let Some(dir) = &self.other_kernel {
            return dir.join("vmlinuz");
        }
        self.root()
            .join("boot")
            .join(format!("vmlinuz-{}", self.kernel_release))
    }

    /// The initramfs with the workloads.
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
        for present in GUEST_PROGRAMS {
            for file in files_of(&root, present)? {
                files.remove(&file);
            }
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

/// Where weir keeps what is expensive to make.
///
/// # Errors
/// Neither `XDG_CACHE_HOME` nor `HOME` is set.
pub fn cache_dir() -> Result<PathBuf> {
    let base = match std::env::var_os("XDG_CACHE_HOME").filter(|v| !v.is_empty()) {
        Some(dir) => PathBuf::from(dir),
        None => PathBuf::from(std::env::var_os("HOME").context("HOME is not set")?).join(".cache"),
    };
    Ok(base.join("weir"))
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

/// What stands for a file's content.
pub(crate) fn hash_file(path: &Path) -> Result<u64> {
    let bytes = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    let mut hasher = DefaultHasher::new();
    bytes.hash(&mut hasher);
    Ok(hasher.finish())
}

fn key() -> String {
    let mut hasher = DefaultHasher::new();
    (SUITE, PACKAGES, GUEST_PROGRAMS, INIT).hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}

fn build(dir: &Path, say: &mut dyn FnMut(&str)) -> Result<()> {
    let started = std::time::Instant::now();
    if !rustix::process::geteuid().is_root() {
        bail!("making the guest environment needs root (mmdebstrap unpacks system packages)");
    }
    let _ = std::fs::remove_dir_all(dir);
    std::fs::create_dir_all(dir)?;
    let root = dir.join("root");
    say("fetching the guest environment from distribution packages (about a minute, 1.4 GB)");
    output(
        Command::new("mmdebstrap")
            .args(["--quiet", "--variant=apt", "--components=main"])
            .arg("--aptopt=APT::Install-Recommends \"false\"")
            .arg("--aptopt=Acquire::Check-Valid-Until \"false\"")
            .arg("--aptopt=Acquire::Retries \"3\"")
            .arg(format!("--include={}", PACKAGES.join(",")))
            .arg(SUITE)
            .arg(&root)
            .arg(mirror()?),
    )?;
    say("packing the guest's initramfs");
    pack_base(&root, &dir.join("base.cpio"))?;
    std::fs::create_dir_all(dir.join("build"))?;
    std::fs::write(dir.join("complete"), "")?;
    say(&format!(
        "guest environment ready after {} s",
        started.elapsed().as_secs()
    ));
    Ok(())
}

/// The machine's own package mirror, so that no host name stands in this repository.
pub(crate) fn mirror() -> Result<String> {
    let mut files = vec![PathBuf::from("/etc/apt/sources.list")];
    if let Ok(dir) = std::fs::read_dir("/etc/apt/sources.list.d") {
        files.extend(dir.flatten().map(|e| e.path()));
    }
    for file in files {
        let Ok(text) = std::fs::read_to_string(&file) else {
            continue;
        };
        for line in text.lines() {
            let mut words = line.split_whitespace();
            let url = match words.next() {
                Some("URIs:") => words.next(),
                Some("deb") => words.find(|w| w.contains("://")),
                _ => None,
            };
            if let Some(url) = url.filter(|u| u.contains("debian") && !u.contains("security")) {
                return Ok(url.to_string());
            }
        }
    }
    bail!("no Debian package source in /etc/apt: the testbed takes its packages from there")
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

/// Programs, the libraries they need, and the init script, as one archive.
fn pack_base(root: &Path, to: &Path) -> Result<()> {
    let stage = to.with_extension("stage");
    let _ = std::fs::remove_dir_all(&stage);
    for dir in [
        "bin",
        "sbin",
        "proc",
        "sys",
        "dev",
        "usr/bin",
        "usr/sbin",
        "usr/local/bin",
        "etc",
    ] {
        std::fs::create_dir_all(stage.join(dir))?;
    }
    // Rust programs need this one, and no guest program happens to.
    let mut files = BTreeSet::from(["lib/x86_64-linux-gnu/libgcc_s.so.1".into()]);
    for program in GUEST_PROGRAMS {
        files.extend(files_of(root, program)?);
    }
    for file in files {
        copy(&root.join(&file), &stage.join(&file))?;
    }
    copy(&root.join("usr/bin/busybox"), &stage.join("bin/busybox"))?;
    std::os::unix::fs::symlink("busybox", stage.join("bin/sh"))?;
    write_program(&stage.join("init"), INIT)?;
    std::fs::write(stage.join("etc/passwd"), "root:x:0:0:root:/root:/bin/sh\n")?;
    pack(&stage, to)?;
    std::fs::remove_dir_all(&stage)?;
    Ok(())
}

/// A program and the libraries it needs, as paths in the tree.
fn files_of(root: &Path, program: &str) -> Result<BTreeSet<String>> {
    let mut ldd = Command::new("chroot");
    let listing = output(ldd.arg(root).args(["ldd", &format!("/{program}")]))?;
    let paths = listing.split_whitespace().filter(|w| w.starts_with('/'));
    let libraries = paths.map(|p| p.trim_start_matches('/').to_string());
    Ok(libraries.chain([program.to_string()]).collect())
}

/// Pack a folder as an initramfs archive; the kernel accepts several of them one after another. The same
/// files make the same archive, to the byte: a guest that reads another date takes another time for it.
///
/// # Errors
/// `cpio` missing or failing.
pub fn pack(stage: &Path, to: &Path) -> Result<()> {
    let script = "cd \"$0\" && find . -exec touch -h -d @0 {} + && \
                  find . | LC_ALL=C sort | cpio -o -H newc --reproducible --quiet > \"$1\"";
    output(Command::new("sh").args(["-ec", script]).arg(stage).arg(to))?;
    Ok(())
}

/// Copy a file, following links, making the folders on the way.
///
/// # Errors
/// With both paths.
pub fn copy(from: &Path, to: &Path) -> Result<()> {
    if let Some(parent) = to.parent() {
        std::fs::create_dir_all(parent)?;
    }
    let done = std::fs::copy(from, to);
    done.with_context(|| format!("copy {} to {}", from.display(), to.display()))?;
    Ok(())
}

fn write_program(path: &Path, text: &str) -> Result<()> {
    use std::os::unix::fs::PermissionsExt;
    std::fs::write(path, text)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755))?;
    Ok(())
}
