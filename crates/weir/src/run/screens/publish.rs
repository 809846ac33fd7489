// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The snapshot file: written whole or not at all, read with distrust.
//!
//! The writer makes a new file beside it and renames it, so that a reader sees one tick and never
//! half of one. Every user that may enter the directory can read the file: names and rates of
//! cgroups are no secret on a Linux host, and the operator chooses the directory's mode.
//! The reader takes nothing for granted: size, version, age and writer are checked.
//!
//! A snapshot of a thousand workloads is half a megabyte, and mostly it has no reader. The kernel reports
//! each close of a file that was read (inotify(7)). While there are readers, and for a while after, each
//! tick is published, as far as the cost allows. Otherwise a snapshot is published just often enough to be
//! live for the next reader.

use crate::cli::output::wall_clock::wall_unix_ms;
use crate::run::sink::{Shown, Sink, Wants};
use crate::run::tick::self_cost::thread_cpu;
use anyhow::{Context, Result, bail};
use rustix::fd::OwnedFd;
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use rustix::io::Errno;
use serde::Deserialize;
use std::io::{self, Read, Write};
use std::mem::MaybeUninit;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use weir_core::seam::next_move::{Act, NextMove, Precondition};
use weir_core::seam::snapshot::{SCHEMA_VERSION, Snapshot};
use weir_figures::text;
use weir_files::{Access, Folder};

/// Name of the file in the directory of weir's run-time files.
pub const FILE_NAME: &str = "snapshot.json";
const NEXT_NAME: &str = ".snapshot.json.next";
const FILE_MAX_BYTES: u64 = 256 << 20;
/// A reader counts as present for this long after its last read.
const READ_FOR: Duration = Duration::from_secs(10);
/// A first reader is expected for this long after the start. It was ten seconds, in which a snapshot that
/// nothing read was written every 100 ms.
const STARTED_FOR: Duration = Duration::from_secs(2);
/// Least time between two snapshots.
const LEAST_SPACING: Duration = Duration::from_millis(100);
/// Time between two snapshots without a reader. With an interval added it is less than [`is_live`] requires.
const UNREAD_SPACING: Duration = Duration::from_millis(1200);

pub struct Publisher {
    dir: PathBuf,
    readers: Readers,
    last: Option<Instant>,
    /// What the last snapshot took to make and to write.
    last_cost: Duration,
}

impl Publisher {
    pub fn new(dir: &Path) -> Publisher {
        Publisher {
            dir: dir.to_owned(),
            readers: Readers::of(dir, FILE_NAME),
            last: None,
            last_cost: Duration::ZERO,
        }
    }

    /// How long to wait after a snapshot that cost `last_cost`.
    fn spacing(&mut self, last_cost: Duration, now: Instant) -> Duration {
        if self.readers.are_there(now) {
            spacing(last_cost)
        } else {
            spacing(last_cost).max(UNREAD_SPACING)
        }
    }

    /// Replaces the published snapshot by this one.
    ///
    /// # Errors
    /// The directory is not there or not writable, or the disk is full.
    pub fn publish(&self, json: &[u8]) -> io::Result<()> {
        replace(&self.dir, FILE_NAME, NEXT_NAME, json)
    }

    /// Removes the snapshot at the end of its writer.
    pub fn withdraw(&self) {
        for name in [FILE_NAME, NEXT_NAME] {
            // Not there is as good as gone; anything else leaves an old file, which readers notice.
            let _ = Folder::open(&self.dir).and_then(|dir| dir.remove(name));
        }
    }
}

impl Sink for Publisher {
    fn wants(&mut self, now: Instant) -> Wants {
        let since = self.last.map(|last| now - last);
        // The inotify queue is read no more often than its result is used.
        if since.is_some_and(|since| since < LEAST_SPACING) {
            return Wants::Nothing;
        }
        let spacing = self.spacing(self.last_cost, now);
        if since.is_none_or(|since| since >= spacing) {
            Wants::Screen
        } else {
            Wants::Nothing
        }
    }

    fn show(&mut self, shown: &mut Shown<'_>) -> Option<Result<(), String>> {
        let published = shown.json().and_then(|json| {
            let failed = |error| format!("the snapshot cannot be published: {error}");
            let start = thread_cpu();
            let published = self.publish(json).map_err(failed);
            published.map(|()| thread_cpu().0.saturating_sub(start.0))
        });
        self.last = Some(Instant::now());
        let write_ns = published.as_ref().copied().unwrap_or_default();
        self.last_cost = Duration::from_nanos(shown.cpu().0 + write_ns);
        Some(published.map(drop))
    }

    fn released(&mut self) {
        self.withdraw();
    }
}

/// Replaces a file of weir's directory by way of another there, `next`, so that a reader sees all or nothing.
///
/// # Errors
/// The directory is not there or not writable, or the disk is full.
pub fn replace(dir: &Path, name: &str, next: &str, content: &[u8]) -> io::Result<()> {
    let mut new = Folder::open(dir)?.begin_as(name, next, Access::OwnerWrites)?;
    new.write_all(content)?;
    new.replace()
}

/// Readers of a published file.
pub struct Readers {
    name: &'static str,
    /// Nothing where the kernel has none to give: then a reader counts as always present.
    closed: Option<OwnedFd>,
    last: Instant,
}

impl Readers {
    /// A reader of the file of this name.
    pub fn of(dir: &Path, name: &'static str) -> Readers {
        let watch = || -> Result<OwnedFd, Errno> {
            let closed = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)?;
            inotify::add_watch(&closed, dir, WatchFlags::CLOSE_NOWRITE)?;
            Ok(closed)
        };
        Readers {
            name,
            closed: watch().ok(),
            last: started(Instant::now()),
        }
    }

    /// Whether there was one in the last ten seconds.
    pub fn are_there(&mut self, now: Instant) -> bool {
        let Some(closed) = &self.closed else {
            return true;
        };
        let mut space = [MaybeUninit::uninit(); 4096];
        let mut events = inotify::Reader::new(closed, &mut space);
        // Until there are no more, which is an error too.
        while let Ok(event) = events.next() {
            let is_it = |name: &std::ffi::CStr| name.to_bytes() == self.name.as_bytes();
            let is_lost = event.events().contains(ReadFlags::QUEUE_OVERFLOW);
            if is_lost || event.file_name().is_some_and(is_it) {
                self.last = now;
            }
        }
        now.saturating_duration_since(self.last) < READ_FOR
    }
}

/// The assumed last read at the start: operators often read a weir process that was just started.
fn started(now: Instant) -> Instant {
    now.checked_sub(READ_FOR - STARTED_FOR).unwrap_or(now)
}

/// What a snapshot says of its writer. These keys are the same in each version.
#[derive(Clone, Copy, Debug, Deserialize)]
pub struct Head {
    schema_version: u32,
    #[serde(default)]
    wall_unix_ms: u64,
    #[serde(default)]
    pub writer_pid: u32,
    /// Whether the writer acts or only observes.
    #[serde(default)]
    pub limiting: bool,
    #[serde(default)]
    interval_ms: u64,
}

impl Head {
    /// Whether it is what a living writer said a moment ago: three intervals and at least two seconds may
    /// have passed, and the process must be there.
    pub fn is_live(&self, now_unix_ms: u64) -> bool {
        let patience = self.interval_ms.saturating_mul(3).max(2000);
        let age = now_unix_ms.abs_diff(self.wall_unix_ms);
        age <= patience && process_exists(self.writer_pid)
    }

    /// What to do with a snapshot that this program does not read.
    fn next_move(&self) -> NextMove {
        let version = self.schema_version;
        let (deed, seen) = if self.is_live(wall_unix_ms()) {
            (
                format!(
                    "use the program of process {}, or restart that weir with this one",
                    self.writer_pid
                ),
                "its writer runs",
            )
        } else {
            (
                format!("use a weir that reads schema {version}"),
                "its writer does not run",
            )
        };
        NextMove {
            act: Act::Deed(deed),
            why: format!(
                "it was written by another version of weir: it has schema {version}, and this weir reads schema \
                 {SCHEMA_VERSION}"
            ),
            needs: Precondition::Seen(seen.into()),
        }
    }
}

/// What a snapshot file of any version says of its writer; nothing where it is not there or none.
pub fn head(path: &Path) -> Option<Head> {
    serde_json::from_slice(&read_bytes(path).ok()?).ok()
}

/// Reads a snapshot file.
///
/// # Errors
/// It is not there, not readable, too large, of another version or not a snapshot.
pub fn read(path: &Path) -> Result<Snapshot> {
    let shown = text::harmless(&path.to_string_lossy());
    let bytes = read_bytes(path).with_context(|| format!("cannot read the snapshot {shown}"))?;
    parse(&bytes).with_context(|| format!("cannot use the snapshot {shown}"))
}

fn read_bytes(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    weir_files::open_regular(path)?
        .take(FILE_MAX_BYTES + 1)
        .read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn parse(bytes: &[u8]) -> Result<Snapshot> {
    if bytes.len() as u64 > FILE_MAX_BYTES {
        bail!("it is larger than 256 MiB");
    }
    let head: Head = serde_json::from_slice(bytes).context("it is not a snapshot of weir")?;
    if head.schema_version != SCHEMA_VERSION {
        bail!("{}", head.next_move().with_why());
    }
    serde_json::from_slice(bytes).context("it is not a snapshot of weir")
}

/// Whether `snapshot` is what a living writer said a moment ago ([`Head::is_live`]).
pub fn is_live(snapshot: &Snapshot, now_unix_ms: u64) -> bool {
    let head = Head {
        schema_version: snapshot.schema_version,
        wall_unix_ms: snapshot.wall_unix_ms,
        writer_pid: snapshot.writer_pid,
        limiting: snapshot.limiting,
        interval_ms: snapshot.interval_ms,
    };
    head.is_live(now_unix_ms)
}

/// Whether there is such a process. The real /proc, whatever roots are in use: the process id is
/// that of a real process.
pub fn process_exists(pid: u32) -> bool {
    pid != 0 && Path::new("/proc").join(pid.to_string()).exists()
}

/// How often to publish, given what the last time cost: at least 100 ms apart, and seldom enough to
/// stay below 2 % of one CPU, but not so seldom that readers take the writer for dead ([`is_live`]).
fn spacing(last_cost: Duration) -> Duration {
    (last_cost * 50).clamp(LEAST_SPACING, Duration::from_millis(1500))
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
        std::fs::write(&path, "[]").unwrap();
        assert!(format!("{:#}", read(&path).unwrap_err()).contains("not a snapshot"));
        publisher.withdraw();
        publisher.withdraw();
        assert!(!path.exists());
    }

    /// Another version may have other keys and other kinds of values: its head is enough to say so.
    #[test]
    fn a_snapshot_of_another_version_is_told_with_both_versions_and_what_to_do() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(FILE_NAME);
        for version in [SCHEMA_VERSION - 1, SCHEMA_VERSION + 1] {
            for (pid, wanted) in [
                (std::process::id(), "use the program of process"),
                (0, "use a weir that reads schema"),
            ] {
                let mut other = serde_json::to_value(Snapshot::empty()).unwrap();
                other["schema_version"] = version.into();
                other["writer_pid"] = pid.into();
                other["wall_unix_ms"] = wall_unix_ms().into();
                other["limiting"] = true.into();
                other["plan"] = serde_json::json!("of another kind");
                std::fs::write(&path, other.to_string()).unwrap();
                let error = format!("{:#}", read(&path).unwrap_err());
                let both = format!("schema {version}, and this weir reads schema {SCHEMA_VERSION}");
                assert!(error.contains(&both) && error.contains(wanted), "{error}");
                let head = head(&path).unwrap();
                assert!(head.limiting);
                assert_eq!(head.is_live(wall_unix_ms()), pid != 0);
            }
        }
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
    fn a_reader_is_noticed_and_a_writer_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let mut publisher = Publisher::new(dir.path());
        let published = || publish_in(dir.path());
        published();
        let cheap = Duration::ZERO;
        let start = publisher.readers.last;
        assert_eq!(
            publisher.spacing(cheap, start),
            Duration::from_millis(100),
            "at the start"
        );
        let later = start + READ_FOR;
        published();
        std::fs::write(dir.path().join("other"), "").unwrap();
        std::fs::read(dir.path().join("other")).unwrap();
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 2);
        assert_eq!(publisher.spacing(cheap, later), UNREAD_SPACING);
        let dear = Duration::from_millis(29);
        let spacing = publisher.spacing(dear, later);
        assert_eq!(spacing, Duration::from_millis(1450));
        let _ = read(&dir.path().join(FILE_NAME));
        let just_before = later + READ_FOR - Duration::from_nanos(1);
        for now in [later, just_before] {
            let spacing = publisher.spacing(cheap, now);
            assert_eq!(spacing, Duration::from_millis(100), "and for a while");
        }
        let much_later = later + READ_FOR;
        assert_eq!(publisher.spacing(cheap, much_later), UNREAD_SPACING);
        publisher.readers.closed = None;
        let spacing = publisher.spacing(cheap, much_later);
        assert_eq!(spacing, Duration::from_millis(100));
    }

    /// A tick is published when this much has passed since the last one, so an interval comes on top at most.
    #[test]
    fn a_snapshot_without_readers_stays_live() {
        for interval_ms in 1..5000 {
            let spacing_ms = u64::try_from(UNREAD_SPACING.as_millis()).unwrap();
            let snapshot = Snapshot {
                writer_pid: std::process::id(),
                interval_ms,
                ..Snapshot::empty()
            };
            let next_ms = spacing_ms.div_ceil(interval_ms) * interval_ms;
            // A tick may come late by a part of an interval.
            let late_ms = interval_ms / 20;
            assert!(is_live(&snapshot, next_ms + late_ms), "{interval_ms} ms");
        }
    }

    #[test]
    fn a_first_reader_finds_it_fresh_for_a_while() {
        let dir = tempfile::tempdir().unwrap();
        let mut publisher = Publisher::new(dir.path());
        let cheap = Duration::ZERO;
        let start = publisher.readers.last + READ_FOR - STARTED_FOR;
        let within = start + STARTED_FOR - Duration::from_nanos(1);
        assert_eq!(publisher.spacing(cheap, within), LEAST_SPACING);
        let after = start + STARTED_FOR;
        assert_eq!(publisher.spacing(cheap, after), UNREAD_SPACING);
    }

    fn publish_in(dir: &Path) {
        Publisher::new(dir).publish(b"{}").unwrap();
    }

    #[test]
    fn a_link_in_the_way_is_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("precious");
        std::fs::write(&target, "keep").unwrap();
        std::os::unix::fs::symlink(&target, dir.path().join(".snapshot.json.next")).unwrap();
        Publisher::new(dir.path()).publish(b"{}").unwrap();
        assert_eq!(std::fs::read_to_string(&target).unwrap(), "keep");
        assert!(!dir.path().join(FILE_NAME).is_symlink());
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = parse(&bytes);
        }
    }
}
