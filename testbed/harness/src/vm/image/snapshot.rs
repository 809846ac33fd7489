// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Booted guests, kept as files: one for each kernel and shape of machine, keyed by all that the boot depends
//! on. A guest from a file answers after half a second. Its time goes on where it was saved.
//!
//! ```text
//! ${XDG_CACHE_HOME:-~/.cache}/weir/env-KEY/snapshots/KEY/
//!     state            QEMU's own format (`migrate`, mapped-ram)
//!     now_ns           the guest's time; written last: without it the snapshot is made anew
//! ```

use crate::guest_env::lock;
use crate::guest_env::{Environment, hash_file};
use crate::vm::{BootOptions, beside};
use anyhow::{Context, Result};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::time::SystemTime;
use weir_scenario::testbed::TestbedMachine;

/// How many are kept: each takes some 300 MB of disk. The ones used longest ago go first.
const KEPT: usize = 16;

/// A booted guest in a file.
#[derive(Clone, Debug)]
pub(crate) struct Snapshot {
    dir: PathBuf,
    /// The guest's time when it was saved.
    pub(crate) now_ns: u64,
}

impl Snapshot {
    /// QEMU's file.
    pub(crate) fn state(&self) -> PathBuf {
        self.dir.join("state")
    }
}

/// The snapshot of a machine, made by `save` if there is none: it is given the file to write, and returns the
/// guest's time.
///
/// # Errors
/// The guest does not boot, or cannot be saved.
pub(crate) fn of(
    env: &Environment,
    machine: &TestbedMachine,
    options: &BootOptions,
    save: impl FnOnce(&Path) -> Result<u64>,
) -> Result<Snapshot> {
    let all = env.build_dir().join("snapshots");
    let dir = all.join(key(env, machine, options)?);
    std::fs::create_dir_all(&dir)?;
    let _lock = lock::hold(&dir.join("lock"))?;
    let time = dir.join("now_ns");
    if let Some(now_ns) = std::fs::read_to_string(&time)
        .ok()
        .and_then(|t| t.trim().parse().ok())
    {
        touch(&dir.join("lock"))?;
        return Ok(Snapshot { dir, now_ns });
    }
    let now_ns = save(&dir.join("state")).context("no snapshot of the booted guest")?;
    std::fs::write(&time, now_ns.to_string())?;
    forget_the_oldest(&all)?;
    Ok(Snapshot { dir, now_ns })
}

/// All that a booted guest depends on. Of the device model nothing: it is off until then.
fn key(env: &Environment, machine: &TestbedMachine, options: &BootOptions) -> Result<String> {
    let mut hasher = DefaultHasher::new();
    let firmware = machine
        .firmware_figures
        .then_some((machine.idle_ns, machine.service_ns));
    (machine.cpu_count, machine.dram_mib, &machine.groups_mib).hash(&mut hasher);
    (machine.window_ns, firmware, machine.bandwidth_slice_us).hash(&mut hasher);
    format!("{:?}", machine.core_events).hash(&mut hasher);
    (&options.kernel_args, &options.qemu_args).hash(&mut hasher);
    for file in options.before_initrd.iter() {
        hash_file(file)?.hash(&mut hasher);
    }
    for file in [
        env.kernel(),
        env.base_cpio(),
        beside("weir-agent")?,
        beside("libweir_device_model.so")?,
    ] {
        hash_file(&file)?.hash(&mut hasher);
    }
    Ok(format!("{:016x}", hasher.finish()))
}

fn touch(path: &Path) -> Result<()> {
    let file = std::fs::File::options().write(true).open(path)?;
    Ok(file.set_modified(SystemTime::now())?)
}

fn forget_the_oldest(all: &Path) -> Result<()> {
    let used = |dir: PathBuf| Some((dir.join("lock").metadata().ok()?.modified().ok()?, dir));
    let mut dirs: Vec<_> = std::fs::read_dir(all)?
        .flatten()
        .filter_map(|e| used(e.path()))
        .collect();
    dirs.sort();
    let too_many = dirs.len().saturating_sub(KEPT);
    for (_, dir) in &dirs[..too_many] {
        // One that is being loaded keeps its lock, and stays.
        if let Some(_lock) = lock::try_hold(&dir.join("lock"))? {
            std::fs::remove_dir_all(dir)?;
        }
    }
    Ok(())
}
