// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `--metrics`: the newest tick over HTTP. The loop leaves a value behind and goes on ([`Exporter`]).
//! Threads of their own answer the clients ([`http`]).

mod accept;
mod process;

use super::http::{self, Answer, Request};
use super::sink::{Shown, Sink, TickContext, Wants};
use anyhow::{Context, Result};
pub use process::own_process;
use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use weir_core::owner::PodNames;
use weir_core::seam::plan::Plan;
use weir_core::seam::snapshot::Snapshot;
use weir_store::Tick;
use weir_store::metrics::{Dialect, Totals, metrics};

/// The value is not made more often than this, since it costs a copy of most of the snapshot.
const SPACING: Duration = Duration::from_millis(500);

/// What there is. It holds no name of a workload, so nothing in it can be hostile.
const FRONT_PAGE: &str = concat!(
    "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\"><title>weir</title>\n<h1>weir ",
    env!("CARGO_PKG_VERSION"),
    "</h1>\n<p>weir keeps CXL memory fast, and shows which workload uses how much of it.\n\
     <ul>\n<li><a href=\"/metrics\">/metrics</a>: devices, cgroups, limits and weir itself, \
     for Prometheus and its kin. OpenMetrics 1.0 for clients that accept it.\n</ul></html>\n"
);

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
            "weir-metrics",
            listener,
            Arc::new(move |request| answer(&source, request).into()),
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
        self.totals.follow_pod_names(&snapshot.pod_names);
        let value = Arc::new((shown_by_metrics(snapshot), self.totals.clone()));
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

/// A copy without what no metric is made of: lists with an entry for each process or each change.
pub fn shown_by_metrics(snapshot: &Snapshot) -> Snapshot {
    Snapshot {
        policy: snapshot.policy.clone(),
        description: snapshot.description.clone(),
        plan: Plan {
            devices: snapshot.plan.devices.clone(),
            workloads: snapshot.plan.workloads.clone(),
            seq: snapshot.plan.seq,
            at: snapshot.plan.at,
            task_events_running_ratio: snapshot.plan.task_events_running_ratio,
            actions: Vec::new(),
            budgets: Vec::new(),
            weights: Vec::new(),
        },
        outcomes: Vec::new(),
        latencies: snapshot.latencies.clone(),
        devload: snapshot.devload.clone(),
        throttled_cpus: snapshot.throttled_cpus.clone(),
        limited_since_unix_ms: snapshot.limited_since_unix_ms.clone(),
        scheduler: None,
        processes: BTreeMap::new(),
        pod_names: PodNames::default(),
        push: snapshot.push.clone(),
        skipped: Vec::new(),
        ..*snapshot
    }
}

fn answer(newest: &Newest, request: &Request<'_>) -> Answer {
    match request.path() {
        "/metrics" => {}
        "/" => return Answer::page("text/html; charset=utf-8", FRONT_PAGE.to_owned()),
        _ => {
            let what = "the metrics are at /metrics, what else there is at /\n";
            return Answer::error("404 Not Found", what);
        }
    }
    let dialect = accept::dialect(request.all("accept"));
    let value = newest
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .clone();
    let kind = match dialect {
        Dialect::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        Dialect::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
    };
    match value {
        Some(value) => {
            let own = own_process();
            Answer::page(kind, metrics(&value.0, &value.1, Some(&own), dialect))
        }
        None => Answer::error("503 Service Unavailable", "nothing was seen so far\n"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::http::tests::{status, with_request};
    use crate::top::testing;
    use weir_core::seam::observation::{Reading, WorkloadKind, WorkloadReading};
    use weir_core::seam::plan::Decision;
    use weir_core::seam::snapshot::Delivery;
    use weir_core::{Nanos, Observation};

    fn seen(verdict: &Decision) -> WorkloadReading {
        WorkloadReading {
            id: verdict.id.clone(),
            kind: WorkloadKind::Cgroup,
            cpu_ns: Reading::new(Nanos(1), Nanos(7)),
            throttled_ns: Reading::new(Nanos(1), Nanos(8)),
            uses: Arc::default(),
            resident_bytes: None,
            weight: 100.0,
            their_limit_cpus: None,
            limited_weight: None,
            excluded: None,
        }
    }

    #[test]
    fn nothing_that_a_metric_shows_is_left_out() {
        let mut exporter = Exporter::start("127.0.0.1:0".parse().unwrap()).unwrap();
        let mut snapshot = testing::snapshot(1000, 200.0);
        snapshot.push = Some(Delivery::default());
        snapshot.skipped_total = 3;
        let ids = snapshot
            .plan
            .workloads
            .iter()
            .map(|verdict| verdict.id.clone());
        snapshot.limited_since_unix_ms = ids.map(|id| (id, 1000)).collect();
        for verdict in &mut snapshot.plan.workloads {
            verdict.throttled_ns = Some(Nanos(9));
        }
        exporter.count(&Tick {
            observation: Observation {
                workloads: snapshot.plan.workloads.iter().map(seen).collect(),
                ..Observation::default()
            },
            plan: snapshot.plan.clone(),
            ..Tick::default()
        });
        let text =
            |snapshot: &Snapshot| metrics(snapshot, &exporter.totals, None, Dialect::Prometheus);
        let page = text(&shown_by_metrics(&snapshot));
        assert_eq!(page, text(&snapshot));
        for metric in [
            "weir_cgroup_limit_cpus{",
            "weir_throttle_ratio{",
            "weir_cgroup_limited_since_timestamp_seconds{",
            "weir_cxl_request_latency_seconds{",
            "weir_push_waiting_batches ",
        ] {
            assert!(page.contains(metric), "no {metric} in {page}");
        }
    }

    #[test]
    fn the_front_page_links_to_the_metrics() {
        assert!(FRONT_PAGE.contains("<a href=\"/metrics\">"));
        let newest = Newest::default();
        for (path, expected) in [("/", "200"), ("/metrics", "503"), ("/else", "404")] {
            let head = format!("GET {path} HTTP/1.1\r\n\r\n");
            let answered = with_request(head.as_bytes(), |request| Some(answer(&newest, request)));
            assert_eq!(status(answered.as_ref()), Some(expected), "{path}");
        }
    }
}
