// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The counter driver, built against the guest's kernel: once per content of `kernel/`, kept with the
//! environment.

use crate::env::{Environment, copy};
use anyhow::{Context, Result};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};

/// What one build leaves.
#[derive(Clone, Debug)]
pub struct Driver {
    /// `weir_cxl.ko`
    pub module: PathBuf,
    /// The test's BPF programs.
    pub kfunc_test: PathBuf,
}

/// The driver of this checkout, built if its sources changed.
///
/// # Errors
/// The compiler's, with its output.
pub fn build(env: &Environment, say: &mut dyn FnMut(&str)) -> Result<Driver> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../kernel");
    let files = sources(&source)?;
    let key = key(&files)?;
    let kept = env.build_dir().join(format!("weir_cxl-{key}"));
    let driver = Driver {
        module: kept.join("weir_cxl.ko"),
        kfunc_test: kept.join("kfunc.bpf.o"),
    };
    if driver.module.exists() && driver.kfunc_test.exists() {
        return Ok(driver);
    }
    say("building the counter driver against the guest's kernel");
    // Two builds at once must not see each other's files.
    let inside = format!("/tmp/weir_cxl-{key}-{}", std::process::id());
    let stage = env.root().join(inside.trim_start_matches('/'));
    for file in &files {
        copy(file, &stage.join(file.strip_prefix(&source)?))?;
    }
    let headers = env.headers();
    let headers = headers.with_context(|| format!("no headers of Linux {}", env.kernel_release))?;
    // Another suite's headers name another suite's compiler.
    let script = format!(
        "make -s CC=gcc -C {headers} M={inside} modules 2>&1; cd {inside}; \
         clang -O2 -g -target bpf -I/usr/include/x86_64-linux-gnu -c tests/kfunc.bpf.c -o kfunc.bpf.o"
    );
    env.chroot(&script)
        .context("the counter driver does not build")?;
    copy(&stage.join("weir_cxl.ko"), &driver.module)?;
    copy(&stage.join("kfunc.bpf.o"), &driver.kfunc_test)?;
    std::fs::remove_dir_all(&stage)?;
    Ok(driver)
}

fn sources(dir: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for dir in [dir.to_path_buf(), dir.join("tests")] {
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
