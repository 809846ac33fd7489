// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a guest unpacks when it boots: the environment's archive and the agent.

use crate::guest_env::{Environment, copy, pack};
use crate::vm::{BootOptions, beside};
use anyhow::Result;
use std::path::{Path, PathBuf};

pub(crate) fn make(env: &Environment, dir: &Path, options: &BootOptions) -> Result<PathBuf> {
    let stage = dir.join("stage");
    copy(
        &beside("weir-agent")?,
        &stage.join("usr/local/bin/weir-agent"),
    )?;
    let overlay = dir.join("overlay.cpio");
    pack(&stage, &overlay)?;
    std::fs::remove_dir_all(&stage)?;
    let initrd = dir.join("initrd");
    let mut out = std::fs::File::create(&initrd)?;
    let first = options.before_initrd.iter().cloned();
    for part in first.chain([env.base_cpio(), overlay]) {
        std::io::copy(&mut std::fs::File::open(&part)?, &mut out)?;
    }
    Ok(initrd)
}
