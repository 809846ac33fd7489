// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Kernel modules built against the guest's kernel: the counter driver and the testbed's guest PMU. Each
//! content of the sources is built once and kept with the environment.

use crate::guest_env::lock;
use crate::guest_env::{Environment, copy};
use anyhow::{Context, Result};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};

/// Products of one build.
#[derive(Clone, Debug)]
pub struct Driver {
    /// `weir_cxl.ko`
    pub module: PathBuf,
    pub kfunc_test: PathBuf,
}

/// The driver of this checkout, built if its sources changed.
///
/// # Errors
/// The compiler's, with its output.
pub fn build(env: &Environment, say: &mut dyn FnMut(&str)) -> Result<Driver> {
    let program = "clang -O2 -g -target bpf -I/usr/include/x86_64-linux-gnu -c tests/kfunc.bpf.c -o kfunc.bpf.o";
    let wanted = Wanted {
        name: "weir_cxl",
        source: "../../kernel/access_counters",
        more: program,
        products: ["weir_cxl.ko", "kfunc.bpf.o"].as_slice(),
    };
    let kept = wanted.built(env, say)?;
    Ok(Driver {
        module: kept.join("weir_cxl.ko"),
        kfunc_test: kept.join("kfunc.bpf.o"),
    })
}

/// `weir_guest_pmu.ko`: events of the emulated CPU.
///
/// # Errors
/// The compiler's, with its output.
pub fn build_guest_pmu(env: &Environment, say: &mut dyn FnMut(&str)) -> Result<PathBuf> {
    let wanted = Wanted {
        name: "weir_guest_pmu",
        source: "../guest-pmu",
        more: "true",
        products: &["weir_guest_pmu.ko"],
    };
    Ok(wanted.built(env, say)?.join("weir_guest_pmu.ko"))
}

/// A module, and what comes with it.
struct Wanted {
    name: &'static str,
    source: &'static str,
    /// What is to be done beside the kernel's own build.
    more: &'static str,
    products: &'static [&'static str],
}

impl Wanted {
    fn built(&self, env: &Environment, say: &mut dyn FnMut(&str)) -> Result<PathBuf> {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(self.source);
        let files = sources(&source)?;
        let key = key(&files)?;
        let kept = env.build_dir().join(format!("{}-{key}", self.name));
        let _lock = lock::hold(&kept.with_extension("lock"))?;
        if self.products.iter().all(|name| kept.join(name).exists()) {
            return Ok(kept);
        }
        say(&format!(
            "building {} against the guest's kernel",
            self.name
        ));
        // Two builds at once must not see each other's files.
        let inside = format!("/tmp/{}-{key}-{}", self.name, std::process::id());
        let stage = env.root().join(inside.trim_start_matches('/'));
        for file in &files {
            copy(file, &stage.join(file.strip_prefix(&source)?))?;
        }
        let headers = env.headers();
        let headers =
            headers.with_context(|| format!("no headers of Linux {}", env.kernel_release))?;
        // Another suite's headers name another suite's compiler.
        let script = format!(
            "make -s CC=gcc -C {headers} M={inside} modules 2>&1; cd {inside}; {}",
            self.more
        );
        env.chroot(&script)
            .with_context(|| format!("{} does not build", self.name))?;
        for name in self.products {
            copy(&stage.join(name), &kept.join(name))?;
        }
        std::fs::remove_dir_all(&stage)?;
        Ok(kept)
    }
}

fn sources(dir: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for dir in [dir.to_path_buf(), dir.join("tests")] {
        if !dir.exists() {
            continue;
        }
        let entries =
            std::fs::read_dir(&dir).with_context(|| format!("cannot read {}", dir.display()))?;
        for path in entries.flatten().map(|e| e.path()).filter(|p| p.is_file()) {
            let name = path
                .file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned();
            let wanted = [".c", ".h", ".sh"].iter().any(|end| name.ends_with(end));
            if wanted || name == "Makefile" || name == "Kbuild" {
                files.push(path);
            }
        }
    }
    files.sort();
    Ok(files)
}

fn key(files: &[PathBuf]) -> Result<String> {
    let mut hasher = DefaultHasher::new();
    for file in files {
        file.file_name().hash(&mut hasher);
        std::fs::read(file)?.hash(&mut hasher);
    }
    Ok(format!("{:016x}", hasher.finish()))
}
