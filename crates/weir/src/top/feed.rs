// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Sources of a screen's snapshots: the daemon's file while a daemon is alive, else a loop of our own, or a
//! file that was kept.

use crate::cli::WorkloadsName;
use crate::cli::output::wall_clock::wall_unix_ms;
use crate::recordings::replay_screen::{ReplayScreen, ReplayView};
use crate::run::platform;
use crate::run::screens::publish::{self, is_live};
use crate::run::sink::{Shown, Sink, SinkTrouble, Sinks, Wants};
use crate::run::tick::Loop;
use crate::top::cli::TopArgs;
use anyhow::{Context, Result, anyhow};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::thread;
use std::time::{Duration, Instant};
use weir_core::Config;
use weir_core::seam::snapshot::Snapshot;
use weir_figures::text;
use weir_linux::Roots;

/// Interval of our own loop: without a daemon the screen needs no twenty ticks a second.
const OWN_INTERVAL: Duration = Duration::from_millis(250);

pub enum Feed {
    /// A file that does not change: one snapshot, and then no more.
    File(Option<Box<Snapshot>>),
    /// The daemon's file, and the last tick seen there.
    Daemon {
        path: PathBuf,
        last_seq: Option<u64>,
    },
    /// Our own loop in a thread.
    Own(Receiver<Result<Snapshot>>),
    /// A recording; at its end the last tick stays.
    Recorded(ReplayScreen),
}

impl Feed {
    /// Chooses the source.
    ///
    /// # Errors
    /// The named file cannot be used; or there is no daemon and this machine cannot be observed.
    pub fn open(args: &TopArgs, roots: &Roots) -> Result<Feed> {
        if let Some(path) = &args.snapshot {
            return Ok(Feed::File(Some(Box::new(publish::read(path)?))));
        }
        let path = roots.run.join(publish::FILE_NAME);
        let refused = match publish::read(&path) {
            Ok(snapshot) if is_live(&snapshot, wall_unix_ms()) => {
                return Ok(Feed::Daemon {
                    path,
                    last_seq: None,
                });
            }
            Ok(_) => None,
            // One of another version runs: what this one read beside it would be without its limits.
            Err(error) if publish::head(&path).is_some_and(|of| of.is_live(wall_unix_ms())) => {
                return Err(error);
            }
            Err(error) => Some(error),
        };
        let by = args.workloads.unwrap_or(WorkloadsName::Cgroup);
        own(roots.clone(), by, args.devices.nodes(roots)?).map_err(|error| match refused {
            // Without permission for the run-time directory both reasons matter.
            Some(refused) if path.exists() => error.context(format!("{refused:#}")),
            _ => error,
        })
    }

    /// The next snapshot, if there is a new one.
    ///
    /// # Errors
    /// The source has ended: the daemon does not run any more, or nothing can be observed.
    pub fn poll(&mut self) -> Result<Option<ReplayView>> {
        let snapshot = match self {
            Feed::Recorded(replay) => return Ok(replay.poll()),
            Feed::File(snapshot) => return Ok(snapshot.take().map(ReplayView::Tick)),
            Feed::Daemon { path, last_seq } => {
                let snapshot =
                    publish::read(path).context("the weir that was running has ended")?;
                if !is_live(&snapshot, wall_unix_ms()) {
                    return Err(anyhow!(
                        "the weir that was running (process {}) does not publish any more: start \
                         `weir top` again to read without it",
                        snapshot.writer_pid
                    ));
                }
                let is_new = *last_seq != Some(snapshot.plan.seq);
                *last_seq = Some(snapshot.plan.seq);
                is_new.then_some(snapshot)
            }
            Feed::Own(ticks) => match ticks.try_recv() {
                Ok(snapshot) => Some(snapshot?),
                Err(TryRecvError::Empty) => None,
                Err(TryRecvError::Disconnected) => {
                    return Err(anyhow!("the observing thread has ended"));
                }
            },
        };
        Ok(snapshot.map(|snapshot| ReplayView::Tick(Box::new(snapshot))))
    }

    /// Where the figures come from, for the screen's first line.
    pub fn name(&self, newest: Option<&Snapshot>) -> String {
        let name = match self {
            Feed::File(_) => "from a file",
            Feed::Daemon { .. } => "from the running weir",
            Feed::Recorded(replay) => {
                let (begin, end) = replay.span_unix_ms;
                let now = newest.map_or(begin, |snapshot| snapshot.wall_unix_ms);
                let place = text::clock(now.saturating_sub(begin));
                let whole = text::clock(end - begin);
                return format!("{}: {place} of {whole}", replay.origin);
            }
            Feed::Own(_) => "no weir is running: read by weir top",
        };
        name.to_owned()
    }
}

/// The screen that shows the ticks of our own loop. The loop waits for it, since no workload is limited.
struct ToScreen {
    screen: SyncSender<Result<Snapshot>>,
    is_gone: bool,
}

impl Sink for ToScreen {
    fn wants(&mut self, _: Instant) -> Wants {
        Wants::Screen
    }

    fn show(&mut self, shown: &mut Shown<'_>) -> Option<Result<(), String>> {
        self.is_gone = self.screen.send(Ok(shown.snapshot().clone())).is_err();
        None
    }

    fn trouble(&mut self) -> Option<SinkTrouble> {
        self.is_gone.then_some(SinkTrouble::ReaderLeft)
    }
}

fn own(roots: Roots, by: WorkloadsName, nodes: Vec<u32>) -> Result<Feed> {
    let (send, receive) = sync_channel(4);
    let (opened_send, opened) = sync_channel(1);
    // The platform is made inside the thread: it need not be able to travel between threads.
    thread::Builder::new()
        .name("weir-top-own".into())
        .spawn(move || {
            let platform = match platform::open_read_only(&roots, by, nodes, OWN_INTERVAL) {
                Ok(platform) => platform,
                Err(error) => {
                    // The other side waits for exactly this message.
                    let _ = opened_send.send(Err(error));
                    return;
                }
            };
            let _ = opened_send.send(Ok(()));
            let config = Config::default();
            let policy = platform::policy_name(config.policy);
            let mut sinks = Sinks::default();
            sinks.add(ToScreen {
                screen: send.clone(),
                is_gone: false,
            });
            let mut ticks = Loop::new(platform, config, &policy, OWN_INTERVAL, sinks);
            while ticks.sinks().trouble().is_none() {
                if let Err(error) = ticks.tick() {
                    // The screen may be gone as well.
                    let _ = send.send(Err(error.into()));
                    return;
                }
            }
        })?;
    opened.recv().context("the observing thread has ended")??;
    Ok(Feed::Own(receive))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::devices::NodeArgs;

    #[test]
    fn where_a_weir_of_another_version_runs_top_does_not_read_by_itself() {
        let machine = tempfile::tempdir().unwrap();
        let roots = Roots::beneath(machine.path());
        std::fs::create_dir_all(&roots.run).unwrap();
        let args = TopArgs {
            once: true,
            json: false,
            snapshot: None,
            workloads: None,
            devices: NodeArgs::default(),
        };
        let said = |writer_pid: u32| {
            let other = serde_json::json!({
                "schema_version": 1, "writer_pid": writer_pid, "wall_unix_ms": wall_unix_ms(),
            });
            std::fs::write(roots.run.join(publish::FILE_NAME), other.to_string()).unwrap();
            let refused = Feed::open(&args, &roots)
                .err()
                .map(|error| format!("{error:#}"));
            refused.unwrap_or_default()
        };
        let running = said(std::process::id());
        assert!(
            running.contains("schema 1") && !running.contains("CXL"),
            "{running}"
        );
        let gone = said(0);
        assert!(gone.contains("no CXL"), "it reads by itself: {gone}");
    }
}
