// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `--push`: figures to a time-series server without a scraper. The loop hands over a tick and goes on.
//! One thread makes lines of ticks, another sends them ([`send`]), and between the two is a bounded store
//! ([`queue`]).
//!
//! ```text
//!   loop ─► ticks (bounded) ─► means over --push-interval ─► batches (bounded) ─► POST
//!              full: missed                                     full: oldest dropped
//! ```

mod queue;
mod send;
mod target;

pub use target::{Target, token};

use super::lossy::{Drained, Lossy};
use super::sink::{Sink, TickContext};
use crate::cli::WorkloadsName;
use crate::cli::settings::Settings;
use anyhow::{Context, Result};
use queue::Queue;
use send::Sender;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread;
use std::time::Duration;
use tracing::{info, warn};
use weir_core::Nanos;
use weir_core::seam::snapshot::Delivery;
use weir_store::Tick;
use weir_store::export::Live;

/// How long the end waits for the server to take the last lines.
const LAST_LINES: Duration = Duration::from_secs(3);

/// Begins to push, if that is wanted.
///
/// # Errors
/// The token cannot be read, or no thread can be had.
pub fn begin(settings: &Settings) -> Result<Option<Pusher>> {
    let Some(target) = settings.push.clone() else {
        return Ok(None);
    };
    let token = settings.push_token_file.as_deref();
    let token = token.map(target::token).transpose()?;
    let every = settings.push_interval;
    info!("pushes to {target} each {every:?}");
    if token.is_some() && !target.is_loopback() {
        warn!("{target}: the token travels without encryption, and others may read it on the way");
    }
    let how = PushOptions {
        target,
        token,
        every,
        interval: settings.interval,
        with_workloads: settings.workloads == WorkloadsName::Cgroup,
    };
    Pusher::start(how).map(Some)
}

/// What is pushed, and how.
struct PushOptions {
    /// The server.
    target: Target,
    /// What to show there.
    token: Option<String>,
    /// Means are over this time.
    every: Duration,
    /// Time between ticks.
    interval: Duration,
    /// Not where workloads are processes: each would stay a series of the server.
    with_workloads: bool,
}

/// The loop's end of it.
pub struct Pusher {
    /// Ticks that wait to become lines; that takes no network, so they hardly ever do.
    ticks: Option<Lossy<Arc<Tick>>>,
    queue: Arc<Queue>,
    done: Receiver<()>,
}

impl Pusher {
    /// Starts both threads. Nothing is sent to the server yet.
    ///
    /// # Errors
    /// No thread can be had.
    fn start(how: PushOptions) -> Result<Pusher> {
        let queue = Arc::new(Queue::default());
        let (ended, done) = sync_channel(1);
        let host = rustix::system::uname();
        let host = host.nodename().to_string_lossy();
        let live = Live::new(
            &host,
            nanos(how.every),
            nanos(how.interval),
            how.with_workloads,
        );
        let filled = Arc::clone(&queue);
        let (ticks, _): (_, Drained<()>) =
            Lossy::start("weir-lines", move |ticks| gather(live, &ticks, &filled))
                .context("cannot start the thread that makes lines")?;
        let sender = Sender::new(how.target, how.token);
        let emptied = Arc::clone(&queue);
        thread::Builder::new()
            .name("weir-push".into())
            .spawn(move || {
                sender.run(&emptied);
                // The other side may have stopped waiting.
                let _ = ended.send(());
            })
            .context("cannot start the pushing thread")?;
        Ok(Pusher {
            ticks: Some(ticks),
            queue,
            done,
        })
    }
}

impl Sink for Pusher {
    /// Hands a tick over, or counts it as missed.
    fn tick(&mut self, tick: &Arc<Tick>, _: &TickContext<'_>) -> Option<Result<(), String>> {
        let ticks = self.ticks.as_ref()?;
        if ticks.send(Arc::clone(tick)).is_err() {
            self.queue.missed(1);
        }
        None
    }

    fn delivery(&self) -> Option<Delivery> {
        Some(self.queue.delivery())
    }

    /// Sends what there is, if the server takes it soon, and says what became of all.
    fn finish(&mut self) -> Result<()> {
        self.ticks = None;
        // Too late, or the thread is gone: the counts say so.
        let _ = self.done.recv_timeout(LAST_LINES);
        let end = self.queue.delivery();
        let sent = end.sent_batches_total;
        let (left, dropped, missed) = (
            end.waiting_batches,
            end.dropped_batches_total,
            end.missed_ticks_total,
        );
        match (left, dropped, missed) {
            (0, 0, 0) => info!("pushed {sent} batches"),
            _ => warn!(
                "pushed {sent} batches; not taken at the end: {left}, dropped: {dropped}; ticks missed: \
                 {missed}"
            ),
        }
        Ok(())
    }
}

fn gather(mut live: Live, ticks: &Receiver<Arc<Tick>>, queue: &Queue) {
    for tick in ticks {
        let lines = live.add(
            tick.wall_unix_ms,
            &tick.plan,
            &tick.outcomes,
            &tick.observation.latencies,
        );
        if let Some(lines) = lines {
            queue.add(&lines);
        }
    }
    queue.add(&live.end());
    queue.close();
}

fn nanos(span: Duration) -> Nanos {
    Nanos(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX))
}
