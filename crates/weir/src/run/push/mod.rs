// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `--push`: figures to a time-series server without a scraper. The loop hands over a tick and goes on.
//! One thread makes lines of ticks, another sends them ([`send`]), and between the two is a bounded store
//! ([`queue`]).
//!
//! ```text
//!   loop ─► ticks (bounded) ─► means over --push-interval ─► batches (bounded) ─► POST
//!              full: missed                                     full: oldest dropped
//! ```
//!
//! With `--push-format remote-write` the thread makes samples of metrics instead ([`remote_write`]).

pub mod post;
mod queue;
mod remote_write;
pub mod send;
mod target;
#[cfg(feature = "tls")]
mod tls;
mod token;

pub use target::Target;
pub use token::token;

use super::lossy::{Drained, Lossy};
use super::sink::{Sink, Sinks, TickContext};
use crate::cli::WorkloadsName;
use crate::run::settings::Settings;
use anyhow::{Context, Result};
use clap::ValueEnum;
use post::{Poster, PushSetup};
use queue::Queue;
use remote_write::RemotePusher;
use send::{Post, Sender};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread;
use std::time::Duration;
use tracing::{info, warn};
use weir_core::Nanos;
use weir_core::seam::snapshot::Delivery;
use weir_store::Tick;
use weir_store::export::Live;

/// How long the end waits for the server to take what is left.
const LAST_BATCHES: Duration = Duration::from_secs(3);

/// What is pushed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum PushFormat {
    /// InfluxDB lines, means over --push-interval (default)
    #[default]
    Influx,
    /// The metrics of --metrics each --push-interval, by Prometheus remote write
    RemoteWrite,
}

impl PushFormat {
    /// The value of the header `Authorization`: a token that names its scheme is the whole value.
    fn authorization(self, token: &str) -> String {
        let names_scheme = ["Basic ", "Bearer ", "Token "]
            .iter()
            .any(|scheme| token.starts_with(scheme));
        match self {
            _ if names_scheme => token.to_owned(),
            PushFormat::Influx => format!("Token {token}"),
            PushFormat::RemoteWrite => format!("Bearer {token}"),
        }
    }

    fn headers(self) -> &'static [(&'static str, &'static str)] {
        match self {
            PushFormat::Influx => &[("Content-Type", "text/plain; charset=utf-8")],
            PushFormat::RemoteWrite => &[
                ("Content-Type", "application/x-protobuf"),
                ("Content-Encoding", "snappy"),
                ("X-Prometheus-Remote-Write-Version", "0.1.0"),
            ],
        }
    }
}

/// What is to be pushed to, and with which token. It can be reached so far as files go.
///
/// # Errors
/// The token or the authorities cannot be read.
pub fn setup(settings: &Settings) -> Result<Option<PushSetup>> {
    let Some(target) = &settings.push else {
        return Ok(None);
    };
    let token = settings.push_token_file.as_deref();
    let token = token.map(token::token).transpose()?;
    info!("pushes to {target} each {:?}", settings.push_interval);
    if settings.push_ca_file.is_some() && !target.is_encrypted() {
        warn!("{target}: --push-ca-file is not used, as this address is without TLS");
    }
    if token.is_some() && !target.is_loopback() && !target.is_encrypted() {
        warn!("{target}: the token travels without encryption, and others may read it on the way");
    }
    let authorities = settings.push_ca_file.as_deref();
    let setup = PushSetup::new(target, settings.push_format, token, authorities);
    // What it cannot read is said at the start, and not by the process that posts.
    Poster::new(&setup)?;
    Ok(Some(setup))
}

/// Begins to push, if that is wanted, by this.
///
/// # Errors
/// No thread can be had.
pub fn begin(settings: &Settings, sinks: &mut Sinks, post: Post) -> Result<()> {
    let Some(target) = settings.push.clone() else {
        return Ok(());
    };
    let how = PushOptions {
        post,
        target,
        format: settings.push_format,
        every: settings.push_interval,
        interval: settings.interval,
        with_workloads: settings.workloads == WorkloadsName::Cgroup,
    };
    let host = rustix::system::uname();
    let host = host.nodename().to_string_lossy();
    match how.format {
        PushFormat::Influx => sinks.add(Pusher::start(how, &host)?),
        PushFormat::RemoteWrite => sinks.add(RemotePusher::start(how, &host)?),
    }
    Ok(())
}

struct PushOptions {
    post: Post,
    target: Target,
    /// What it is sent.
    format: PushFormat,
    /// Means are over this time.
    every: Duration,
    /// Time between ticks.
    interval: Duration,
    /// Whether workloads are pushed. They are not where workloads are processes: each would stay a series of
    /// the server.
    with_workloads: bool,
}

/// The queue, and the thread that empties it.
struct Outgoing {
    queue: Arc<Queue>,
    done: Receiver<()>,
}

impl Outgoing {
    fn start(how: PushOptions) -> Result<Outgoing> {
        let queue = Arc::new(Queue::default());
        let (ended, done) = sync_channel(1);
        let sender = Sender::new(how.target, how.post);
        let emptied = Arc::clone(&queue);
        thread::Builder::new()
            .name("weir-push".into())
            .spawn(move || {
                sender.run(&emptied);
                // The other side may have stopped waiting.
                let _ = ended.send(());
            })
            .context("cannot start the pushing thread")?;
        Ok(Outgoing { queue, done })
    }

    /// Sends what there is, if the server takes it soon, and says what became of all.
    fn finish(&self) {
        // Too late, or the thread is gone: the counts say so.
        let _ = self.done.recv_timeout(LAST_BATCHES);
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
    }
}

/// The loop's end of it.
pub struct Pusher {
    /// Ticks that wait to become lines; that takes no network, so they hardly ever do.
    ticks: Option<Lossy<Arc<Tick>>>,
    out: Outgoing,
}

impl Pusher {
    /// Starts both threads. Nothing is sent to the server yet.
    ///
    /// # Errors
    /// No thread can be had.
    fn start(how: PushOptions, host: &str) -> Result<Pusher> {
        let live = Live::new(
            host,
            nanos(how.every),
            nanos(how.interval),
            how.with_workloads,
        );
        let out = Outgoing::start(how)?;
        let filled = Arc::clone(&out.queue);
        let (ticks, _): (_, Drained<()>) =
            Lossy::start("weir-lines", move |ticks| gather(live, &ticks, &filled))
                .context("cannot start the thread that makes lines")?;
        let ticks = Some(ticks);
        Ok(Pusher { ticks, out })
    }
}

impl Sink for Pusher {
    /// Hands a tick over, or counts it as missed.
    fn tick(&mut self, tick: &Arc<Tick>, _: &TickContext<'_>) -> Option<Result<(), String>> {
        let ticks = self.ticks.as_ref()?;
        if ticks.send(Arc::clone(tick)).is_err() {
            self.out.queue.missed(1);
        }
        None
    }

    fn delivery(&self) -> Option<Delivery> {
        Some(self.out.queue.delivery())
    }

    fn finish(&mut self) -> Result<()> {
        self.ticks = None;
        self.out.finish();
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
