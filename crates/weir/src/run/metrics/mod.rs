// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `--metrics`: the newest tick over HTTP. The loop leaves a value behind and goes on ([`Exporter`]).
//! Threads of their own answer the clients ([`http`]).

mod http;
mod process;

use super::sink::{Shown, Sink, TickContext, Wants};
use anyhow::{Context, Result};
use http::Answer;
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use weir_core::seam::snapshot::Snapshot;
use weir_store::Tick;
use weir_store::metrics::{Dialect, Totals, metrics};

/// The value is not made more often than this, since it costs a copy of the snapshot.
const SPACING: Duration = Duration::from_millis(500);

/// What the loop left behind, for the next request.
type Newest = Mutex<Option<Arc<(Snapshot, Totals)>>>;

/// The loop's end of it.
pub struct Exporter {
    totals: Totals,
    newest: Arc<Newest>,
    left_at: Option<Instant>,
    address: SocketAddr,
}

impl Exporter {
    /// Listens at `address`.
    ///
    /// # Errors
    /// It is taken, or may not be used.
    pub fn start(address: SocketAddr) -> Result<Exporter> {
        let listener = TcpListener::bind(address)
            .with_context(|| format!("cannot offer metrics at {address}"))?;
        let address = listener.local_addr()?;
        let newest: Arc<Newest> = Arc::default();
        let source = Arc::clone(&newest);
        http::serve(
            listener,
            Arc::new(move |open_metrics| answer(&source, open_metrics)),
        )
        .context("cannot start the thread for metrics")?;
        Ok(Exporter {
            totals: Totals::default(),
            newest,
            left_at: None,
            address,
        })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Counts a tick.
    pub fn count(&mut self, tick: &Tick) {
        self.totals
            .add(&tick.observation, &tick.plan, &tick.outcomes);
    }

    /// Leaves the newest tick for the threads that answer, unless the last one is not old.
    pub fn leave(&mut self, snapshot: &Snapshot) {
        let now = Instant::now();
        if !self.is_due(now) {
            return;
        }
        self.left_at = Some(now);
        let value = Arc::new((snapshot.clone(), self.totals.clone()));
        // Locked only while a pointer is copied.
        *self.newest.lock().unwrap_or_else(PoisonError::into_inner) = Some(value);
    }

    fn is_due(&self, now: Instant) -> bool {
        self.left_at.is_none_or(|at| now - at >= SPACING)
    }
}

impl Sink for Exporter {
    fn tick(&mut self, tick: &Arc<Tick>, _: &TickContext<'_>) -> Option<Result<(), String>> {
        self.count(tick);
        None
    }

    fn wants(&mut self, now: Instant) -> Wants {
        match self.is_due(now) {
            true => Wants::Figures,
            false => Wants::Nothing,
        }
    }

    fn show(&mut self, shown: &mut Shown<'_>) -> Option<Result<(), String>> {
        self.leave(shown.snapshot());
        None
    }
}

fn answer(newest: &Newest, open_metrics: bool) -> Answer {
    let value = newest
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .clone();
    let (dialect, kind) = if open_metrics {
        (
            Dialect::OpenMetrics,
            "application/openmetrics-text; version=1.0.0; charset=utf-8",
        )
    } else {
        (
            Dialect::Prometheus,
            "text/plain; version=0.0.4; charset=utf-8",
        )
    };
    match value {
        Some(value) => {
            let own = process::own_process();
            Answer::page(kind, metrics(&value.0, &value.1, Some(&own), dialect))
        }
        None => Answer::error("503 Service Unavailable", "nothing was seen so far\n"),
    }
}
