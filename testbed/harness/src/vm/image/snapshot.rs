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
use crate::vm::BootOptions;
use anyhow::{Context, Result};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::time::SystemTime;
use weir_scenario::testbed::TestbedMachine;

/// Paths from here, and hashes of what lies there: of the files themselves nothing goes into the program.
macro_rules! sources {
    ($($path:literal),* $(,)?) => { [$(($path, hash_of(include_bytes!($path)))),*] };
}

/// How much of the disk they may take: `make test` has some twenty shapes of machine, of 200 to 500 MB each,
/// and those of a build before are still there. The ones used longest ago go first. A limit on their number
/// was as many as there were shapes, and with one more, each run would have thrown out what it needed next.
const KEPT_BYTES: u64 = 12 << 30;

/// What a booted guest depends on beside the files that [`key`] reads, by hash: how it is booted, the agent
/// that runs in it, and of the device model its clock, and how it counts while it is off. What the agent and
/// the device model are built from besides is not in a snapshot, or does not matter to one: the agent in a
/// snapshot is as good as one built anew from the same sources.
const SOURCES: &[(&str, u64)] = &sources![
    "../../bin/weir-agent/count.rs",
    "../../bin/weir-agent/main.rs",
    "../../bin/weir-agent/pages.rs",
    "../../bin/weir-agent/pattern_holder.rs",
    "../../bin/weir-agent/unpack.rs",
    "../condition.rs",
    "../protocol.rs",
    "../qemu/guest_numa.rs",
    "../qemu/mod.rs",
    "../virtual_machine/boot.rs",
    "files.rs",
    "initrd.rs",
    "../../../../device-model/src/args.rs",
    "../../../../device-model/src/clock/grant.rs",
    "../../../../device-model/src/clock/host_clock.rs",
    "../../../../device-model/src/clock/mod.rs",
    "../../../../device-model/src/clock/vcpu_clock.rs",
    "../../../../device-model/src/ffi.rs",
    "../../../../device-model/src/internals.rs",
    "../../../../device-model/src/lib.rs",
];

/// FNV-1a.
const fn hash_of(bytes: &[u8]) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325;
    let mut at = 0;
    while at < bytes.len() {
        hash = (hash ^ bytes[at] as u64).wrapping_mul(0x100_0000_01b3);
        at += 1;
    }
    hash
}

/// A booted guest in a file.
#[derive(Clone, Debug)]
pub(crate) struct Snapshot {
    dir: PathBuf,
    /// The guest's time when it was saved.
    pub(crate) now_ns: u64,
}

impl Snapshot {
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

/// All that a booted guest depends on. Of the device model no more than [`SOURCES`] has: it is off until
/// then, and what it has put into its BAR is put back after a snapshot is loaded.
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
    for file in [env.kernel(), env.base_cpio()] {
        hash_file(&file)?.hash(&mut hasher);
    }
    SOURCES.hash(&mut hasher);
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
    let mut bytes = 0;
    for (_, dir) in dirs.iter().rev() {
        bytes += on_disk(&dir.join("state"));
        if bytes <= KEPT_BYTES {
            continue;
        }
        // One that is being loaded keeps its lock, and stays.
        if let Some(_lock) = lock::try_hold(&dir.join("lock"))? {
            std::fs::remove_dir_all(dir)?;
        }
    }
    Ok(())
}

/// Without the holes of a file.
fn on_disk(path: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    path.metadata().map_or(0, |m| m.blocks() * 512)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// A source that is added to a folder of which all count would else be forgotten here.
    #[test]
    fn no_source_of_the_agent_or_the_clock_is_left_out() {
        let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/vm/image");
        let named: BTreeSet<_> = SOURCES
            .iter()
            .map(|(path, _)| here.join(path).canonicalize().unwrap())
            .collect();
        assert_eq!(named.len(), SOURCES.len());
        for folder in ["../../bin/weir-agent", "../../../../device-model/src/clock"] {
            for entry in std::fs::read_dir(here.join(folder)).unwrap() {
                let path = entry.unwrap().path().canonicalize().unwrap();
                assert!(
                    named.contains(&path),
                    "{} is not in SOURCES",
                    path.display()
                );
            }
        }
    }

    #[test]
    fn the_hash_is_that_of_the_file() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/vm/protocol.rs");
        let now = hash_of(&std::fs::read(path).unwrap());
        assert!(SOURCES.contains(&("../protocol.rs", now)));
        assert_ne!(hash_of(b"a"), hash_of(b"b"));
    }
}
