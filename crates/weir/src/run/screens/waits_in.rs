// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Where workloads wait, and what is wrong, for `weir top` and the live page while a profile runs. `weir
//! profile record` and `live` write a small file into weir's directory of run-time files, which says
//! until when it holds. A split of stalls takes milliseconds of CPU a workload, so it is made seldom
//! enough to stay below 1 % of one CPU, and more seldom while nothing reads the file.

use crate::cli::output::wall_clock::wall_unix_ms;
use crate::run::make_run_dir;
use crate::run::screens::latest_windows::LatestWindows;
use crate::run::screens::publish::{Readers, process_exists, replace};
use crate::run::tick::self_cost::thread_cpu;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use weir_core::{Window, WorkloadId};
use weir_files::Folder;
use weir_linux::{Roots, process_workload};
use weir_profile::findings::RuleOutcome;
use weir_profile::report::{self, workload_stalls};
use weir_profile::stalls::StallSplit;
use weir_profile::window_file::Header;
use weir_profile::{Refusal, WindowFile};

/// Name of the file in the directory of weir's run-time files.
pub const FILE_NAME: &str = "profile.json";
const SCHEMA_VERSION: u32 = 1;
/// Findings that are published.
const FINDINGS_MAX: usize = 20;
const FILE_BYTES_MAX: u64 = 16 << 20;
/// Time between two of them ÷ the CPU time that the last one took: 1 % of one CPU.
const SPACING_READ: u32 = 100;
/// The same while nothing reads it.
const SPACING_UNREAD: u32 = 1000;
const SPACING_UNREAD_LEAST: Duration = Duration::from_secs(10);
/// What a file says holds for so long at most, whatever it says itself.
const VALID_MS_MAX: u64 = 3_600_000;

/// The stage in which a workload stalls most.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WaitsIn {
    /// The stage, as roles spell it.
    pub stage: String,
    /// Part of the workload's time that it stalls there; nothing where that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_ratio: Option<f64>,
}

/// What the file has.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PublishedWaits {
    schema_version: u32,
    writer_pid: u32,
    wall_unix_ms: u64,
    valid_until_unix_ms: u64,
    pub workloads: BTreeMap<WorkloadId, WaitsIn>,
    /// What rules found, the first of many.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<PublishedFinding>,
}

/// What a rule found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PublishedFinding {
    /// The machine, or a workload.
    pub subject: String,
    /// What is wrong, because of what.
    pub what: String,
    pub next_move: String,
}

/// What rules find in these windows.
fn findings(file: &WindowFile) -> Vec<PublishedFinding> {
    let options = report::Options {
        brief: true,
        ..report::Options::default()
    };
    let made = report::report(file, &options);
    let found = made
        .rules
        .into_iter()
        .filter_map(|rule| match rule.outcome {
            RuleOutcome::Found(finding) => Some(PublishedFinding {
                subject: rule.subject,
                what: finding.what,
                next_move: rule.next_move.to_owned(),
            }),
            _ => None,
        });
    found.take(FINDINGS_MAX).collect()
}

impl WaitsIn {
    /// Waits of a split: stages are summed over paths and targets. Nothing where the core does not stall.
    pub fn of(split: &StallSplit) -> Option<WaitsIn> {
        let mut stages: BTreeMap<&str, f64> = BTreeMap::new();
        for part in &split.parts {
            *stages.entry(part.role.stage.word()).or_default() += part.share;
        }
        let (stage, share) = stages.into_iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
        let stalled = split.stalled_ratio.as_ref().ok();
        Some(WaitsIn {
            stage: stage.to_owned(),
            time_ratio: stalled.map(|stalled| stalled.value * share),
        })
    }
}

impl PublishedWaits {
    /// Whether its writer is there and what it says still holds.
    fn holds(&self, now_unix_ms: u64) -> bool {
        let until = self.wall_unix_ms.saturating_add(VALID_MS_MAX);
        (self.wall_unix_ms..=self.valid_until_unix_ms.min(until)).contains(&now_unix_ms)
            && process_exists(self.writer_pid)
    }
}

/// What a running profile says; nothing where none runs, or its file is old, or is none.
pub fn read(run_dir: &Path) -> Option<PublishedWaits> {
    read_from(weir_files::open_regular(&run_dir.join(FILE_NAME)).ok()?)
}

/// The same for a writer, which is no reader: the kernel reports closes of files that were opened to read
/// only.
fn read_as_writer(run_dir: &Path) -> Option<PublishedWaits> {
    read_from(
        Folder::open(run_dir)
            .and_then(|dir| dir.reopen_own(FILE_NAME))
            .ok()?,
    )
}

fn read_from(file: File) -> Option<PublishedWaits> {
    let mut bytes = Vec::new();
    file.take(FILE_BYTES_MAX).read_to_end(&mut bytes).ok()?;
    let found: PublishedWaits = serde_json::from_slice(&bytes).ok()?;
    let is_known = found.schema_version == SCHEMA_VERSION;
    (is_known && found.holds(wall_unix_ms())).then_some(found)
}

/// The name that `weir top` has for a workload: a process is counted by the name that perf has for it,
/// `COMMAND-PID`, and shown by its number and start. Cgroups have one name.
fn shown_as(roots: &Roots, name: &str) -> WorkloadId {
    let pid = name.rsplit_once('-').filter(|_| !name.starts_with('/'));
    let process = pid.and_then(|(_, pid)| process_workload(roots, pid.parse().ok()?));
    process.unwrap_or_else(|| WorkloadId::new(name))
}

pub struct WaitsPublisher {
    roots: Roots,
    dir: PathBuf,
    interval: Duration,
    readers: Readers,
    last: Option<(Instant, Duration)>,
}

impl WaitsPublisher {
    /// Publishes into weir's directory of run-time files, which is made where it can be.
    pub fn new(roots: &Roots, interval: Duration) -> WaitsPublisher {
        let run_dir = roots.run.as_path();
        // Where it cannot be made, `weir top` has no such column, and the profile goes on.
        let _ = make_run_dir(run_dir);
        WaitsPublisher {
            roots: roots.clone(),
            dir: run_dir.to_path_buf(),
            interval,
            readers: Readers::of(run_dir, FILE_NAME),
            last: None,
        }
    }

    /// Time to the next publication, after one that took so much CPU time.
    fn spacing(&mut self, cost: Duration, now: Instant) -> Duration {
        if self.readers.are_there(now) {
            cost * SPACING_READ
        } else {
            (cost * SPACING_UNREAD).max(SPACING_UNREAD_LEAST)
        }
    }

    /// Whether it is time for the next one.
    pub fn is_due(&mut self, now: Instant) -> bool {
        let Some((at, cost)) = self.last else {
            return true;
        };
        now.saturating_duration_since(at) >= self.spacing(cost, now)
    }

    /// Publishes the stalls of each workload and findings, which took so much CPU time. Another
    /// profile's file that holds stays.
    pub fn publish(
        &mut self,
        stalls: BTreeMap<String, Result<StallSplit, Refusal>>,
        findings: Vec<PublishedFinding>,
        cost: Duration,
    ) {
        self.last = Some((Instant::now(), cost));
        let own = std::process::id();
        if read_as_writer(&self.dir).is_some_and(|found| found.writer_pid != own) {
            return;
        }
        let known = stalls.into_iter().filter_map(|(name, split)| {
            let waits = WaitsIn::of(split.as_ref().ok()?)?;
            Some((shown_as(&self.roots, &name), waits))
        });
        let next = (cost * SPACING_UNREAD).max(SPACING_UNREAD_LEAST) + self.interval * 3;
        let now = wall_unix_ms();
        let published = PublishedWaits {
            schema_version: SCHEMA_VERSION,
            writer_pid: own,
            wall_unix_ms: now,
            valid_until_unix_ms: now.saturating_add(millis(next)),
            workloads: known.collect(),
            findings,
        };
        if let Ok(json) = serde_json::to_vec(&published) {
            // The same as in `new`.
            let _ = replace(&self.dir, FILE_NAME, ".profile.json.next", &json);
        }
    }

    /// Takes in what is counted, and publishes when it is time.
    pub fn follow(&mut self, latest: &LatestWindows) {
        if !self.is_due(Instant::now()) {
            return;
        }
        let before = thread_cpu();
        let file = latest.file();
        let (stalls, findings) = (workload_stalls(&file), findings(&file));
        let cost = thread_cpu().0.saturating_sub(before.0);
        self.publish(stalls, findings, Duration::from_nanos(cost));
    }
}

impl Drop for WaitsPublisher {
    fn drop(&mut self) {
        let own = std::process::id();
        if read_as_writer(&self.dir).is_some_and(|found| found.writer_pid == own) {
            // What stays is soon too old.
            let _ = Folder::open(&self.dir).and_then(|dir| dir.remove(FILE_NAME));
        }
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Publishes in a thread of its own: the counters' turns wait for nothing.
pub struct WaitsThread {
    windows: Option<Sender<Window>>,
    thread: Option<JoinHandle<()>>,
}

impl WaitsThread {
    /// Starts it. Where no thread can be had, nothing is published.
    pub fn start(roots: &Roots, interval: Duration, header: Header) -> WaitsThread {
        let (windows, counted) = channel();
        let publisher = WaitsPublisher::new(roots, interval);
        let run = move || publish_all(publisher, header, &counted);
        let name = "weir-waits-in".to_owned();
        let thread = thread::Builder::new().name(name).spawn(run).ok();
        WaitsThread {
            windows: thread.is_some().then_some(windows),
            thread,
        }
    }

    pub fn add(&self, window: &Window) {
        if let Some(windows) = &self.windows {
            // After a fault of the other side nothing is published.
            let _ = windows.send(window.clone());
        }
    }
}

impl Drop for WaitsThread {
    fn drop(&mut self) {
        self.windows = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn publish_all(mut publisher: WaitsPublisher, header: Header, counted: &Receiver<Window>) {
    let mut latest = LatestWindows::new(header);
    while let Ok(window) = counted.recv() {
        latest.add(window);
        while let Ok(more) = counted.try_recv() {
            latest.add(more);
        }
        publisher.follow(&latest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn published(dir: &Path, change: impl Fn(&mut PublishedWaits)) -> Option<PublishedWaits> {
        let waits = WaitsIn {
            stage: "device".into(),
            time_ratio: Some(0.6),
        };
        let now = wall_unix_ms();
        let mut all = PublishedWaits {
            schema_version: SCHEMA_VERSION,
            writer_pid: std::process::id(),
            wall_unix_ms: now,
            valid_until_unix_ms: now + 60_000,
            workloads: [(WorkloadId::new("/db"), waits)].into(),
            findings: Vec::new(),
        };
        change(&mut all);
        std::fs::write(dir.join(FILE_NAME), serde_json::to_vec(&all).unwrap()).unwrap();
        read(dir)
    }

    #[test]
    fn only_what_holds_and_has_a_writer_is_read() {
        let dir = tempfile::tempdir().unwrap();
        assert!(read(dir.path()).is_none(), "no profile runs");
        let found = published(dir.path(), |_| ()).unwrap();
        assert_eq!(found.workloads[&WorkloadId::new("/db")].stage, "device");
        let cases: [fn(&mut PublishedWaits); 4] = [
            |all| all.valid_until_unix_ms = all.wall_unix_ms.saturating_sub(1),
            |all| all.wall_unix_ms -= 2 * VALID_MS_MAX,
            |all| all.writer_pid = 0,
            |all| all.schema_version += 1,
        ];
        for (number, change) in cases.into_iter().enumerate() {
            assert_eq!(published(dir.path(), change), None, "{number}");
        }
    }

    #[test]
    fn it_is_published_within_a_hundredth_of_the_time_and_removed_at_the_end() {
        let dir = tempfile::tempdir().unwrap();
        let roots = Roots::beneath(dir.path());
        let run = roots.run.clone();
        let mut publisher = WaitsPublisher::new(&roots, Duration::from_secs(1));
        assert!(publisher.last.is_none());
        publisher.publish(BTreeMap::new(), Vec::new(), Duration::from_millis(20));
        let at = publisher.last.unwrap().0;
        let due =
            |publisher: &mut WaitsPublisher, ms| publisher.is_due(at + Duration::from_millis(ms));
        assert!(!due(&mut publisher, 19_000), "nothing has read it for long");
        assert!(read_as_writer(&run).is_some());
        assert!(!due(&mut publisher, 18_000), "a writer is no reader");
        assert!(read(&run).is_some());
        assert!(!due(&mut publisher, 1999));
        assert!(due(&mut publisher, 2000), "it was read");
        drop(publisher);
        assert!(!run.join(FILE_NAME).exists());
    }

    #[test]
    fn another_profile_that_runs_keeps_its_file() {
        let dir = tempfile::tempdir().unwrap();
        let parent = std::os::unix::process::parent_id();
        let theirs = published(dir.path(), |all| all.writer_pid = parent);
        assert!(theirs.is_some());
        let roots = Roots {
            run: dir.path().to_path_buf(),
            ..Roots::beneath(dir.path())
        };
        let mut publisher = WaitsPublisher::new(&roots, Duration::from_secs(1));
        publisher.publish(BTreeMap::new(), Vec::new(), Duration::ZERO);
        drop(publisher);
        assert_eq!(read(dir.path()), theirs);
    }

    #[test]
    fn a_process_is_shown_by_number_and_start() {
        let dir = tempfile::tempdir().unwrap();
        let roots = Roots::beneath(dir.path());
        let process = roots.proc.join("4711");
        std::fs::create_dir_all(&process).unwrap();
        let zeros = "0 ".repeat(17);
        let rest = "0 ".repeat(30);
        let stat = format!("4711 (my job) S 1 {zeros}9000 {rest}\n");
        std::fs::write(process.join("stat"), stat).unwrap();
        let shown = |name: &str| shown_as(&roots, name).as_str().to_owned();
        assert_eq!(shown("my job-4711"), "pid:4711@9000");
        for same in ["my job-4712", "/a.slice/x-4711", "machine", "job-"] {
            assert_eq!(shown(same), same);
        }
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let dir = tempfile::tempdir().unwrap();
            std::fs::write(dir.path().join(FILE_NAME), bytes).unwrap();
            prop_assert!(read(dir.path()).is_none());
        }
    }
}
