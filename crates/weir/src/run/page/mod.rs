// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `--page`: the live page. It only shows; there is nothing that it can change.
//!
//! ```text
//!   loop ─► history (each tick) ─┐
//!        ─► snapshot ─► changes ─┴─► an event, made once ─► a bounded queue for each client ─► its thread
//!             at most ten times a second, while there is a client
//! ```
//!
//! A client that begins gets all, the others what changed. `access` says which requests may read, `document`
//! is the page, `http` the server, which metrics have too.

mod audience;
mod devices;
mod document;
mod figures;
mod findings;
mod history;
mod message;
mod workloads;

use super::screens::changes::MachineChange;
use super::serve::http::access::Access;
use super::serve::http::{self, Answer, Reply, Request};
use super::sink::{Shown, Sink, TickContext, Wants};
use super::tick::self_cost::thread_cpu;
use anyhow::{Context, Result, bail};
pub use audience::{Audience, PageEvent, Viewers};
use devices::Devices;
use document::{document, guarded};
use figures::Weight;
use findings::Findings;
use history::{PageHistory, Seen};
use message::EventMessage;
use serde::Serialize;
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use weir_core::owner::PodNames;
use weir_core::seam::snapshot::Snapshot;
use weir_store::Tick;
use workloads::Workloads;

/// Least time between two events. With it and [`SPACING`] a client costs 0.19 % of a CPU for a thousand
/// workloads, where 0.3 % are allowed (docs/evidence/page.md).
const LEAST_SPACING: Duration = Duration::from_millis(100);
/// Most time between two events, whatever they cost.
const MOST_SPACING: Duration = Duration::from_millis(2000);
/// Time between two events ÷ the CPU time that the last one took: what the loop spends on the page is 0.3 %
/// of a CPU at most, for events of up to 6 ms (above, [`MOST_SPACING`] counts).
const SPACING: u32 = 333;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The weir that serves it.
    Live,
    Recorded,
}

/// The loop's end of it.
pub struct LivePage {
    viewers: Arc<dyn Viewers>,
    origin: Origin,
    history: PageHistory,
    seen: Seen,
    /// Names that the rows were sent with.
    pod_names: PodNames,
    workloads: Workloads,
    devices: Devices,
    findings: Findings,
    head: Vec<u8>,
    tick: EventMessage,
    full: EventMessage,
    /// Clients must begin anew: what they have is not true any more.
    is_new: bool,
    base_ms: u64,
    last_ms: u64,
    last: Option<(Instant, Duration)>,
}

/// What the page shows above the devices.
#[derive(Serialize)]
struct Head<'a> {
    version: &'static str,
    is_recorded: bool,
    limiting: bool,
    policy: &'a str,
    interval_ms: u64,
    own_cpus: Option<f64>,
    skipped: Vec<String>,
    skipped_count: usize,
    left_out_devices: usize,
    window_ms: u64,
    figures: [&'static str; figures::FIGURES.len()],
}

/// A page that this process itself offers: of a recording.
pub struct OfferedPage {
    /// The loop's end of it.
    pub live: LivePage,
    pub address: SocketAddr,
}

impl OfferedPage {
    /// Listens at `address`.
    ///
    /// # Errors
    /// The address is taken, may not be used, or can be reached from elsewhere and there is no token; the
    /// token cannot be read, or is short.
    pub fn start(address: SocketAddr, token_file: Option<&Path>) -> Result<OfferedPage> {
        let (listener, token) = listener(address, token_file)?;
        let address = listener.local_addr()?;
        let audience: Arc<Audience> = Arc::default();
        serve(listener, token, Arc::clone(&audience), || ())?;
        let live = LivePage::of(audience, None)?;
        Ok(OfferedPage { live, address })
    }
}

impl LivePage {
    /// The page for these viewers. Findings are those that a profile leaves in `run_dir`; without one it is
    /// the page of a recording.
    ///
    /// # Errors
    /// No thread can be had.
    pub fn of(viewers: Arc<dyn Viewers>, run_dir: Option<&Path>) -> Result<LivePage> {
        let origin = match run_dir {
            Some(_) => Origin::Live,
            None => Origin::Recorded,
        };
        Ok(LivePage {
            findings: Findings::of(run_dir, &viewers)?,
            viewers,
            origin,
            history: PageHistory::default(),
            seen: Seen::default(),
            pod_names: PodNames::default(),
            workloads: Workloads::default(),
            devices: Devices::default(),
            head: Vec::new(),
            tick: EventMessage::default(),
            full: EventMessage::default(),
            is_new: true,
            base_ms: 0,
            last_ms: 0,
            last: None,
        })
    }

    pub fn count(&mut self, tick: &Tick, changes: &[MachineChange]) {
        self.is_new |= self.history.add(tick, changes);
        // This does not wait until the first page is opened: limits are older than that.
        if self.base_ms == 0 || tick.wall_unix_ms < self.base_ms {
            (self.base_ms, self.is_new) = (tick.wall_unix_ms, true);
        }
    }

    /// Sends the newest tick to those that look, unless the last one was a moment ago.
    pub fn leave(&mut self, snapshot: &Snapshot) {
        let now = Instant::now();
        if !self.is_due(now) {
            return;
        }
        let start = thread_cpu();
        self.send(snapshot);
        let cost = Duration::from_nanos(thread_cpu().0.saturating_sub(start.0));
        self.last = Some((now, cost));
    }

    fn is_due(&self, now: Instant) -> bool {
        let is_late = self.last.is_none_or(|(at, cost)| now - at >= spacing(cost));
        is_late && self.viewers.is_there().0
    }

    fn send(&mut self, snapshot: &Snapshot) {
        let now_ms = snapshot.wall_unix_ms;
        if self.pod_names != snapshot.pod_names {
            (self.pod_names, self.is_new) = (snapshot.pod_names.clone(), true);
        }
        let weight = Weight::after_ms(now_ms.saturating_sub(self.last_ms));
        self.last_ms = now_ms;
        let mut tick = std::mem::take(&mut self.tick);
        tick.start("tick");
        tick.field("now", now_ms);
        self.is_new |= self.devices.update(snapshot, weight);
        self.write_head(snapshot, &mut tick);
        self.devices.write_figures(&mut tick);
        self.write_history(self.seen, &mut tick);
        self.workloads
            .update(snapshot, weight, self.base_ms, &mut tick);
        self.findings.write_new(&mut tick);
        let event: PageEvent = tick.finish().into();
        self.tick = tick;
        self.seen = self.history.seen();
        let is_new = std::mem::take(&mut self.is_new);
        let full = (is_new || self.viewers.is_there().1).then(|| self.all(snapshot));
        let tick = if is_new { &full } else { &Some(event) };
        self.is_new = !self.viewers.send(tick.as_ref(), full.as_ref());
    }

    /// All that the page shows, for a client that begins.
    fn all(&mut self, snapshot: &Snapshot) -> PageEvent {
        let mut full = std::mem::take(&mut self.full);
        full.start("full");
        full.field("now", snapshot.wall_unix_ms);
        full.field("base", self.base_ms);
        self.head.clear();
        self.write_head(snapshot, &mut full);
        self.devices.write_names(&mut full);
        self.devices.write_figures(&mut full);
        self.write_history(Seen::default(), &mut full);
        self.workloads.write_all(snapshot, &mut full);
        self.findings.write_all(&mut full);
        let event = full.finish().into();
        // It is not kept: it is large, and seldom made.
        self.full = EventMessage::default();
        event
    }

    /// What stands above, if it is not what stood there.
    fn write_head(&mut self, snapshot: &Snapshot, to: &mut EventMessage) {
        let skips = snapshot.skipped.iter().take(3);
        let head = Head {
            version: env!("CARGO_PKG_VERSION"),
            is_recorded: self.origin == Origin::Recorded,
            limiting: snapshot.limiting,
            policy: &snapshot.policy,
            interval_ms: snapshot.interval_ms,
            own_cpus: snapshot
                .self_cost
                .map(|cost| thousandths(cost.process_cpus.get())),
            skipped: skips.map(devices::skip).collect(),
            skipped_count: snapshot.skipped.len(),
            left_out_devices: snapshot
                .plan
                .devices
                .len()
                .saturating_sub(history::DEVICES_MAX),
            window_ms: history::WINDOW_MS,
            figures: figures::FIGURES,
        };
        let json = serde_json::to_vec(&head).unwrap_or_default();
        if json != self.head {
            to.field("head", &head);
            self.head = json;
        }
    }

    fn write_history(&self, seen: Seen, to: &mut EventMessage) {
        to.numbers("points", self.history.points(seen));
        let spans = self.history.spans(seen);
        if !spans.is_empty() {
            to.field("spans", spans);
        }
        let lines = self.history.lines(seen);
        if !lines.is_empty() {
            to.field("changes", lines);
        }
    }
}

impl Sink for LivePage {
    fn tick(&mut self, tick: &Arc<Tick>, context: &TickContext<'_>) -> Option<Result<(), String>> {
        self.count(tick, context.changes);
        None
    }

    fn wants(&mut self, now: Instant) -> Wants {
        if self.is_due(now) {
            Wants::Figures
        } else {
            Wants::Nothing
        }
    }

    fn show(&mut self, shown: &mut Shown<'_>) -> Option<Result<(), String>> {
        self.leave(shown.snapshot());
        None
    }
}

/// Time to the next event, after one that took so much CPU time.
fn spacing(cost: Duration) -> Duration {
    (cost * SPACING).clamp(LEAST_SPACING, MOST_SPACING)
}

fn thousandths(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}

/// Why the page may not be at that address: it can be reached from other machines, and there is no token.
pub fn unguarded(address: SocketAddr, has_token: bool) -> Option<String> {
    let is_guarded = has_token || address.ip().to_canonical().is_loopback();
    (!is_guarded).then(|| {
        format!(
            "{address} can be reached from other machines, so the page there needs a token: `(umask 077; openssl \
             rand -hex 16 > FILE)`, and --page-token-file FILE; or leave the address out, and look at it through \
             `ssh -L 9780:localhost:9780`"
        )
    })
}

/// Listens for browsers, and reads the token that they must show.
///
/// # Errors
/// The address is taken, may not be used, or can be reached from elsewhere and there is no token; the token
/// cannot be read, or is short.
pub fn listener(
    address: SocketAddr,
    token_file: Option<&Path>,
) -> Result<(TcpListener, Option<String>)> {
    let token = token_file.map(|path| http::access::token(path, "the page"));
    let token = token.transpose()?;
    if let Some(why) = unguarded(address, token.is_some()) {
        bail!(why);
    }
    let listener = TcpListener::bind(address)
        .with_context(|| format!("cannot offer the page at {address}"))?;
    Ok((listener, token))
}

/// Answers browsers from now on. `joined` hears of each that gets events.
///
/// # Errors
/// No thread can be had.
pub fn serve(
    listener: TcpListener,
    token: Option<String>,
    audience: Arc<Audience>,
    joined: impl Fn() + Send + Sync + 'static,
) -> Result<()> {
    let access = Access { token };
    let source = Arc::new(move |request: &Request<'_>| {
        let reply = reply(request, &access, &audience);
        if let Reply::Stream(..) = reply {
            joined();
        }
        reply
    });
    http::serve("weir-page", listener, source).context("cannot start the thread for the page")
}

pub fn reply(request: &Request<'_>, access: &Access, audience: &Audience) -> Reply {
    if let Some(refusal) = access.refusal(request) {
        return guarded(refusal).into();
    }
    match request.path() {
        "/" => document().into(),
        "/events" => match audience.join() {
            Some(events) => {
                let head = Answer::page("text/event-stream", String::new());
                Reply::Stream(guarded(head), events)
            }
            None => {
                let why = "the page is open as often as it can be: close one of them\n";
                guarded(Answer::error("503 Service Unavailable", why)).into()
            }
        },
        _ => guarded(Answer::error("404 Not Found", "the page is at /\n")).into(),
    }
}

#[cfg(test)]
mod tests;
