// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a guest unpacks when it boots: the environment's archive, the agent, and what a caller adds.

use crate::env::{Environment, copy, output, pack};
use crate::vm::{BootOptions, beside};
use anyhow::Result;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A file to put into the guest.
#[derive(Clone, Debug)]
pub struct GuestFile {
    /// On the host.
    pub from: PathBuf,
    /// In the guest, without the leading slash.
    pub to: String,
    /// Symbols for debuggers stay behind: a guest has the file in its memory twice while it boots.
    is_stripped: bool,
}

impl GuestFile {
    /// `from` on the host becomes `to` in the guest.
    pub fn new(from: impl Into<PathBuf>, to: &str) -> Self {
        GuestFile {
            from: from.into(),
            to: to.into(),
            is_stripped: false,
        }
    }

    /// The same for a program of ours.
    pub fn program(from: impl Into<PathBuf>, to: &str) -> Self {
        GuestFile {
            is_stripped: true,
            ..GuestFile::new(from, to)
        }
    }

    fn put(&self, stage: &Path) -> Result<()> {
        let to = stage.join(&self.to);
        copy(&self.from, &to)?;
        if self.is_stripped {
            output(Command::new("strip").arg("--strip-debug").arg(&to))?;
        }
        Ok(())
    }
}

/// Makes it in `dir`.
pub(crate) fn make(
    env: &Environment,
    dir: &Path,
    files: &[GuestFile],
    options: &BootOptions,
) -> Result<PathBuf> {
    let stage = dir.join("stage");
    GuestFile::program(beside("weir-agent")?, "usr/local/bin/weir-agent").put(&stage)?;
    for file in files {
        file.put(&stage)?;
    }
    let overlay = dir.join("overlay.cpio");
    pack(&stage, &overlay)?;
    let initrd = dir.join("initrd");
    let mut out = std::fs::File::create(&initrd)?;
    let first = options.before_initrd.iter().cloned();
    for part in first.chain([env.base_cpio(), overlay]) {
        std::io::copy(&mut std::fs::File::open(&part)?, &mut out)?;
    }
    Ok(initrd)
}
