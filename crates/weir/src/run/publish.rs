// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The snapshot file: written whole or not at all, read with distrust.
//!
//! The writer makes a new file beside it and renames it, so that a reader sees one tick and never
//! half of one. The file is readable for everybody who may enter the directory: names and rates of
//! cgroups are no secret on a Linux host, and the directory's mode is the operator's to choose.
//! The reader takes nothing for granted: size, version, age and writer are checked.

use crate::text;
use anyhow::{Context, Result, bail};
use rustix::fs::OFlags;
use serde::Deserialize;
use std::fs::OpenOptions;
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use weir_core::snapshot::{SCHEMA_VERSION, Snapshot};

/// In the directory of weir's run-time files.
pub const FILE_NAME: &str = "snapshot.json";
const FILE_MAX_BYTES: u64 = 256 << 20;

/// Milliseconds since the Unix epoch.
pub fn wall_unix_ms() -> u64 {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// The writing end.
pub struct Publisher {
    path: PathBuf,
    next: PathBuf,
}

impl Publisher {
    /// Publishes into `dir`.
    pub fn new(dir: &Path) -> Publisher {
        Publisher {
            path: dir.join(FILE_NAME),
            next: dir.join(".snapshot.json.next"),
        }
    }

    /// Replaces the published snapshot by this one.
    ///
    /// # Errors
    /// The directory is not there or not writable, or the disk is full.
    pub fn publish(&self, json: &[u8]) -> io::Result<()> {
        let no_link = i32::try_from(OFlags::NOFOLLOW.bits()).unwrap_or(0);
        let mut open = OpenOptions::new();
        open.write(true)
            .create(true)
            .truncate(true)
            .mode(0o644)
            .custom_flags(no_link);
        open.open(&self.next)?.write_all(json)?;
        std::fs::rename(&self.next, &self.path)
    }

    /// Takes the snapshot away: nobody is writing it any more.
    pub fn withdraw(&self) {
        for path in [&self.path, &self.next] {
            // Not there is as good as gone; anything else leaves an old file, which readers notice.
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Reads a snapshot file.
///
/// # Errors
/// It is not there, not readable, too large, of another version or not a snapshot.
pub fn read(path: &Path) -> Result<Snapshot> {
    let shown = text::harmless(&path.to_string_lossy());
    let open = || -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        std::fs::File::open(path)?
            .take(FILE_MAX_BYTES + 1)
            .read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    let bytes = open().with_context(|| format!("cannot read the snapshot {shown}"))?;
    parse(&bytes).with_context(|| format!("cannot use the snapshot {shown}"))
}

fn parse(bytes: &[u8]) -> Result<Snapshot> {
    #[derive(Deserialize)]
    struct Head {
        schema_version: u32,
    }
    if bytes.len() as u64 > FILE_MAX_BYTES {
        bail!("it is larger than 256 MiB");
    }
    let head: Head = serde_json::from_slice(bytes).context("it is not a snapshot of weir")?;
    if head.schema_version != SCHEMA_VERSION {
        bail!(
            "it was written by another version of weir (schema {}, this one reads {SCHEMA_VERSION}): \
             use the weir that is running, or restart it",
            head.schema_version
        );
    }
    serde_json::from_slice(bytes).context("it is not a snapshot of weir")
}

/// Whether `snapshot` is what a living writer said a moment ago: three intervals and at least two
/// seconds may have passed, and the process must be there.
pub fn is_live(snapshot: &Snapshot, now_unix_ms: u64) -> bool {
    let patience = snapshot.interval_ms.saturating_mul(3).max(2000);
    let age = now_unix_ms.abs_diff(snapshot.wall_unix_ms);
    age <= patience && process_exists(snapshot.writer_pid)
}

/// Whether there is such a process. The real /proc, whatever roots are in use: the process id is
/// that of a real process.
pub fn process_exists(pid: u32) -> bool {
    pid != 0 && Path::new("/proc").join(pid.to_string()).exists()
}

/// How often to publish, given what the last time cost: at least 100 ms apart, and seldom enough to
/// stay below 2 % of one CPU, but not so seldom that readers take the writer for dead ([`is_live`]).
pub fn spacing(last_cost: Duration) -> Duration {
    (last_cost * 50).clamp(Duration::from_millis(100), Duration::from_millis(1500))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_reader_sees_all_or_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let publisher = Publisher::new(dir.path());
        let snapshot = Snapshot {
            writer_pid: std::process::id(),
            ..Snapshot::empty()
        };
        publisher
            .publish(&serde_json::to_vec(&snapshot).unwrap())
            .unwrap();
        let path = dir.path().join(FILE_NAME);
        assert_eq!(read(&path).unwrap(), snapshot);
        std::fs::write(&path, "{\"schema_version\": 99}").unwrap();
        let error = format!("{:#}", read(&path).unwrap_err());
        assert!(error.contains("schema 99"), "{error}");
        std::fs::write(&path, "[]").unwrap();
        assert!(format!("{:#}", read(&path).unwrap_err()).contains("not a snapshot"));
        publisher.withdraw();
        publisher.withdraw();
        assert!(!path.exists());
    }

    #[test]
    fn a_snapshot_lives_two_seconds_and_no_longer_than_its_writer() {
        let pid = std::process::id();
        let snapshot = Snapshot {
            writer_pid: pid,
            wall_unix_ms: 10_000,
            interval_ms: 50,
            ..Snapshot::empty()
        };
        assert!(is_live(&snapshot, 12_000));
        assert!(!is_live(&snapshot, 12_001));
        assert!(!is_live(
            &Snapshot {
                writer_pid: 0,
                ..snapshot
            },
            10_000
        ));
    }

    #[test]
    fn publishing_is_spaced_by_its_cost() {
        for (cost_us, spacing_ms) in [(0, 100), (2000, 100), (2020, 101), (1_000_000, 1500)] {
            let spacing = spacing(Duration::from_micros(cost_us));
            assert_eq!(spacing, Duration::from_millis(spacing_ms), "{cost_us} µs");
        }
    }

    #[test]
    fn a_link_in_the_way_is_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("precious");
        std::fs::write(&target, "keep").unwrap();
        std::os::unix::fs::symlink(&target, dir.path().join(".snapshot.json.next")).unwrap();
        assert!(Publisher::new(dir.path()).publish(b"{}").is_err());
        assert_eq!(std::fs::read_to_string(&target).unwrap(), "keep");
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = parse(&bytes);
        }
    }
}
