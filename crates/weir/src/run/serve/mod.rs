// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The process that the network speaks to: metrics, the live page and push. The one that measures and limits
//! (the writer) starts it, gives it texts, events and batches that are ready to send, and parses no byte of a
//! client or of a server.
//!
//! ```text
//!   writer: root                                          server: user 65534, confined
//!   loop ─► sinks ─► frames (bounded) ─► supervisor ─► socket ─► http, post ◄─► the network
//!                                                                            │
//!                     viewers, results ◄── reports of a fixed size ◄─────────┘
//! ```
//!
//! The loop waits for no server. One that ends, or takes nothing more, is ended and started again by the
//! supervisor, a thread of the writer; limits stand meanwhile. [`wire`] is what crosses, [`child`] the
//! server.

pub mod child;
pub mod http;
mod supervisor;
mod wire;

use super::metrics::{Exporter, own_process};
use super::page::{LivePage, PageEvent, Viewers};
use super::push::post::{PATIENCE, PushSetup};
use super::push::send::{Failure, Post};
use super::sink::{Sink, Sinks};
use super::{metrics, page, push};
use crate::cli::log_format::LogFormat;
use crate::run::settings::Settings;
use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;
use tracing::{info, warn};
use weir_figures::text;
use weir_linux::Roots;
use weir_store::metrics::OwnProcess;
use wire::{Frame, PostResult, Report};

/// Frames that wait for the server at most.
const FRAMES_MAX: usize = 64;
/// How long the end of weir waits for the end of the server.
const END: Duration = Duration::from_secs(5);

/// What the server is told first. Its listeners come beside it, in this order.
#[derive(Clone, Serialize, Deserialize)]
struct ServerSetup {
    /// Metrics are offered, to those that show the token, if there is one.
    metrics: Option<Offer>,
    /// The page is offered.
    page: Option<Offer>,
    push: Option<PushSetup>,
    log: String,
    log_format: LogFormat,
    /// What this machine cannot do is said once.
    is_first: bool,
}

/// Those to which something is offered.
#[derive(Clone, Serialize, Deserialize)]
struct Offer {
    token: Option<String>,
}

/// What the writer's threads share about the server.
#[derive(Default)]
struct ServerState {
    /// There are viewers; one of them has seen nothing so far.
    has_viewers: AtomicBool,
    has_fresh: AtomicBool,
    /// How often it was started again.
    restarts: AtomicU64,
    ends: AtomicBool,
    /// The batch that is on its way, and where its result goes.
    batch: Mutex<Option<(u64, SyncSender<PostResult>)>>,
}

/// The writer's end of the server.
#[derive(Clone)]
struct ServerHandle {
    frames: SyncSender<Frame>,
    shared: Arc<ServerState>,
}

/// Starts the server with what the settings want of it, and adds the sinks that it is fed by. Nothing where
/// they want nothing.
///
/// # Errors
/// An address is taken or may not be used, or a file cannot be read.
pub fn begin(settings: &Settings, roots: &Roots, sinks: &mut Sinks) -> Result<()> {
    let metrics = settings
        .metrics
        .map(|address| metrics_at(address, settings));
    let metrics = metrics.transpose()?;
    let token_file = settings.page_token_file.as_deref();
    let page = settings
        .page
        .map(|address| page::listener(address, token_file));
    let page = page.transpose()?;
    let push = push::setup(settings)?;
    if metrics.is_none() && page.is_none() && push.is_none() {
        return Ok(());
    }
    say_where(
        metrics.as_ref().map(|(of, _)| of),
        page.as_ref().map(|(of, _)| of),
    )?;
    let (offers_metrics, offers_page) = (metrics.is_some(), page.is_some());
    let (mut listeners, mut tokens) = (Vec::new(), Vec::new());
    for offered in [metrics, page] {
        let (listener, token) = offered.unzip();
        listeners.extend(listener);
        tokens.push(token.map(|token| Offer { token }));
    }
    let setup = ServerSetup {
        page: tokens.pop().flatten(),
        metrics: tokens.pop().flatten(),
        push,
        log: settings.log.clone(),
        log_format: settings.log_format.resolved(),
        is_first: true,
    };
    let (handle, ended) = ServerHandle::start(setup, listeners)?;
    if offers_metrics {
        sinks.add(handle.exporter()?);
    }
    if offers_page {
        sinks.add(LivePage::of(Arc::new(handle.clone()), Some(&roots.run))?);
    }
    push::begin(settings, sinks, handle.post())?;
    // The last one: others hand over what is left to a server that is still there.
    sinks.add(ServerEnd { handle, ended });
    Ok(())
}

fn metrics_at(address: SocketAddr, settings: &Settings) -> Result<(TcpListener, Option<String>)> {
    let file = settings.metrics_token_file.as_deref();
    let token = file
        .map(|path| http::access::token(path, "metrics"))
        .transpose()?;
    Ok((metrics::listener(address)?, token))
}

fn say_where(metrics: Option<&TcpListener>, page: Option<&TcpListener>) -> Result<()> {
    if let Some(listener) = metrics {
        let address = listener.local_addr()?;
        info!("metrics are at http://{address}/metrics");
        if !address.ip().is_loopback() {
            warn!(
                "{address} can be reached from other machines: they can read the names of cgroups here"
            );
        }
    }
    if let Some(listener) = page {
        let address = listener.local_addr()?;
        info!("the live page is at http://{address}/");
        if !address.ip().is_loopback() {
            warn!(
                "{address}: the token travels without encryption, and others may read it on the way"
            );
        }
    }
    Ok(())
}

impl ServerHandle {
    fn start(setup: ServerSetup, listeners: Vec<TcpListener>) -> Result<(Self, Receiver<()>)> {
        let (frames, queue) = sync_channel(FRAMES_MAX);
        let shared: Arc<ServerState> = Arc::default();
        let (ends, ended) = sync_channel(1);
        let its = Arc::clone(&shared);
        thread::Builder::new()
            .name("weir-serve".into())
            .spawn(move || {
                supervisor::supervise(setup, &listeners, &queue, &its);
                // The other side may have stopped waiting.
                let _ = ends.send(());
            })
            .context("cannot start the thread that minds the server")?;
        Ok((ServerHandle { frames, shared }, ended))
    }

    fn exporter(&self) -> Result<Exporter> {
        let (frames, shared) = (self.frames.clone(), Arc::clone(&self.shared));
        let own = move || OwnProcess {
            server_restarts: Some(shared.restarts.load(Ordering::Relaxed)),
            ..own_process()
        };
        Exporter::new(own, move |dialect, text| {
            // A server that is behind gets the next one.
            let _ = frames.try_send(Frame::Metrics(dialect, text));
        })
    }

    /// Has batches posted by the server.
    fn post(&self) -> Post {
        let handle = self.clone();
        let mut number = 0;
        Box::new(move |body| {
            number += 1;
            let (sent, result) = sync_channel(1);
            *handle.shared.batch() = Some((number, sent));
            // This thread may wait; the loop does not wait for it.
            let frame = Frame::Batch(number, Arc::clone(body));
            let gone = || Failure::Later("weir's process that sends has ended".into());
            handle.frames.send(frame).map_err(|_| gone())?;
            let result = result.recv_timeout(2 * PATIENCE).map_err(|_| gone());
            *handle.shared.batch() = None;
            match result? {
                PostResult::Sent => Ok(()),
                PostResult::Later(why) => Err(Failure::Later(why)),
                PostResult::Never(why) => Err(Failure::Never(why)),
            }
        })
    }
}

impl Viewers for ServerHandle {
    fn is_there(&self) -> (bool, bool) {
        let shared = &self.shared;
        let (any, fresh) = (&shared.has_viewers, &shared.has_fresh);
        (any.load(Ordering::Relaxed), fresh.load(Ordering::Relaxed))
    }

    fn send(&self, tick: Option<&PageEvent>, full: Option<&PageEvent>) -> bool {
        let had_fresh = match full {
            // This is noted before it is sent: the server's next report may say that there is another one.
            Some(_) => self.shared.has_fresh.swap(false, Ordering::Relaxed),
            None => false,
        };
        let frame = Frame::Page(tick.cloned(), full.cloned());
        let sent = self.frames.try_send(frame);
        if let (true, Err(TrySendError::Full(_))) = (had_fresh, &sent) {
            self.shared.has_fresh.store(true, Ordering::Relaxed);
        }
        sent.is_ok()
    }
}

impl ServerState {
    fn batch(&self) -> std::sync::MutexGuard<'_, Option<(u64, SyncSender<PostResult>)>> {
        self.batch.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes in what the server says. It may say anything: two flags count, and a result on the batch that is
    /// on its way, with harmless words.
    fn hear(&self, report: Report) {
        self.has_viewers
            .store(report.has_viewers, Ordering::Relaxed);
        self.has_fresh.store(report.has_fresh, Ordering::Relaxed);
        let Some((number, result)) = report.result else {
            return;
        };
        let mut batch = self.batch();
        if let Some((_, sender)) = batch.take_if(|(awaited, _)| *awaited == number) {
            // The other side may have stopped waiting.
            let _ = sender.try_send(result);
        }
    }

    /// The server has ended: it has no viewers, and will judge no batch.
    fn is_gone(&self) {
        self.has_viewers.store(false, Ordering::Relaxed);
        self.has_fresh.store(false, Ordering::Relaxed);
        *self.batch() = None;
    }
}

/// Ends the server, after all else.
struct ServerEnd {
    handle: ServerHandle,
    ended: Receiver<()>,
}

impl Sink for ServerEnd {
    fn finish(&mut self) -> Result<()> {
        self.handle.shared.ends.store(true, Ordering::Relaxed);
        if self.ended.recv_timeout(END).is_err() {
            warn!("weir's process that serves does not end; it ends with its connections");
        }
        Ok(())
    }
}

/// Words of the server, as the log may have them.
fn harmless_words(bytes: &[u8]) -> String {
    text::fit(
        &text::harmless(&String::from_utf8_lossy(bytes)),
        wire::WORDS_CELLS,
    )
    .trim_end()
    .to_owned()
}
