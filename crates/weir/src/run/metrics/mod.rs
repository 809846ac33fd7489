// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `--metrics`: the newest tick over HTTP. The loop leaves a value behind and goes on ([`Exporter`]); a
//! thread makes texts of it, once for each dialect, and clients get those ([`pages`]). So a flood of requests
//! makes no text more often.

mod accept;
pub mod pages;
mod process;

use super::lossy::{Drained, Lossy};
use super::serve::http::{self, Request};
use super::sink::{Shown, Sink, TickContext, Wants};
use super::tick::self_cost::thread_cpu;
use anyhow::{Context, Result};
use pages::{DIALECTS, MetricsPages};
pub use process::own_process;
use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::Receiver;
use std::thread;
use std::time::{Duration, Instant};
use weir_core::owner::PodNames;
use weir_core::seam::plan::Plan;
use weir_core::seam::snapshot::Snapshot;
use weir_store::Tick;
use weir_store::metrics::{Dialect, OwnProcess, Totals, metrics};

/// The texts are not made more often than this, since that costs a copy of most of the snapshot.
const LEAST_SPACING: Duration = Duration::from_millis(500);
/// Nor less often, whatever they cost.
const MOST_SPACING: Duration = Duration::from_secs(5);
/// Time between two of them ÷ the CPU time that the last ones took: 2 % of one CPU.
const SPACING: u32 = 50;

/// The loop's end of it.
pub struct Exporter {
    totals: Totals,
    values: Lossy<(Snapshot, Totals)>,
    left_at: Option<Instant>,
    cost_ns: Arc<AtomicU64>,
    /// Where this process answers clients itself.
    pages: Option<Arc<MetricsPages>>,
}

impl Exporter {
    /// Offers the metrics at `address`, by this process. Where that is, too.
    ///
    /// # Errors
    /// It is taken, or may not be used.
    pub fn start(address: SocketAddr) -> Result<(Exporter, SocketAddr)> {
        let listener = listener(address)?;
        let address = listener.local_addr()?;
        let pages: Arc<MetricsPages> = Arc::default();
        let answered = Arc::clone(&pages);
        let source = Arc::new(move |request: &Request<'_>| answered.answer(request, None).into());
        http::serve("weir-metrics", listener, source)
            .context("cannot start the thread for metrics")?;
        let put = Arc::clone(&pages);
        let exporter = Exporter::new(own_process, move |dialect, text| put.put(dialect, text))?;
        let pages = Some(pages);
        Ok((Exporter { pages, ..exporter }, address))
    }

    /// Waits until what was left first can be read, or for as long as making a text may take.
    pub fn wait_for_first(&self) {
        let until = Instant::now() + MOST_SPACING;
        let is_read = |pages: &Arc<MetricsPages>| pages.are_there();
        while !self.pages.as_ref().is_none_or(is_read) && Instant::now() < until {
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// Gives each new text away, from a thread of its own. `own` says what weir itself uses.
    ///
    /// # Errors
    /// No thread can be had.
    pub fn new(
        own: impl Fn() -> OwnProcess + Send + 'static,
        mut give: impl FnMut(Dialect, Arc<str>) + Send + 'static,
    ) -> Result<Exporter> {
        let cost_ns: Arc<AtomicU64> = Arc::default();
        let cost = Arc::clone(&cost_ns);
        let work = move |values: Receiver<(Snapshot, Totals)>| {
            for value in &values {
                let (snapshot, totals) = values.try_iter().last().unwrap_or(value);
                let start = thread_cpu();
                for dialect in DIALECTS {
                    let text = metrics(&snapshot, &totals, Some(&own()), dialect);
                    give(dialect, text.into());
                }
                let spent = thread_cpu().0.saturating_sub(start.0);
                cost.store(spent, Ordering::Relaxed);
            }
        };
        let (values, _): (_, Drained<()>) = Lossy::start("weir-metrics-text", work)
            .context("cannot start the thread that makes metrics")?;
        Ok(Exporter {
            totals: Totals::default(),
            values,
            left_at: None,
            cost_ns,
            pages: None,
        })
    }

    pub fn count(&mut self, tick: &Tick) {
        self.totals
            .add(&tick.observation, &tick.plan, &tick.outcomes);
    }

    /// Leaves the newest tick for the thread that makes texts, unless the last one is not old.
    pub fn leave(&mut self, snapshot: &Snapshot) {
        let now = Instant::now();
        if !self.is_due(now) {
            return;
        }
        self.left_at = Some(now);
        self.totals.follow_pod_names(&snapshot.pod_names);
        // Where the thread is behind, it shows the next one.
        let _ = self
            .values
            .send((shown_by_metrics(snapshot), self.totals.clone()));
    }

    fn is_due(&self, now: Instant) -> bool {
        let cost = Duration::from_nanos(self.cost_ns.load(Ordering::Relaxed));
        let spacing = (cost * SPACING).clamp(LEAST_SPACING, MOST_SPACING);
        self.left_at.is_none_or(|at| now - at >= spacing)
    }
}

/// Listens for those that read metrics.
///
/// # Errors
/// The address is taken, or may not be used.
pub fn listener(address: SocketAddr) -> Result<TcpListener> {
    TcpListener::bind(address).with_context(|| format!("cannot offer metrics at {address}"))
}

impl Sink for Exporter {
    fn tick(&mut self, tick: &Arc<Tick>, _: &TickContext<'_>) -> Option<Result<(), String>> {
        self.count(tick);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::top::testing;
    use std::sync::mpsc::sync_channel;
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
        let mut exporter = Exporter::new(OwnProcess::default, |_, _| ()).unwrap();
        let mut snapshot = testing::snapshot(1000, 200.0);
        snapshot.push = Some(Delivery::default());
        snapshot.skipped_total = 3;
        snapshot.limit_rewrites_total = Some(2);
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
    fn texts_are_made_of_the_newest_value_and_not_by_requests() {
        let (given, texts) = sync_channel(100);
        let give = move |dialect, text: Arc<str>| given.send((dialect, text)).unwrap();
        let mut exporter = Exporter::new(OwnProcess::default, give).unwrap();
        for at in [1000, 2000, 3000] {
            exporter.leave(&testing::snapshot(at, 200.0));
        }
        let both = [(); 2].map(|()| texts.recv().unwrap());
        assert_eq!(both.each_ref().map(|(dialect, _)| *dialect), DIALECTS);
        let line = "weir_last_tick_timestamp_seconds 1\n";
        assert!(both[0].1.contains(line), "{}", both[0].1);
        exporter.cost_ns.store(u64::MAX, Ordering::Relaxed);
        let left_at = exporter.left_at.unwrap();
        assert!(!exporter.is_due(left_at + MOST_SPACING - Duration::from_nanos(1)));
        assert!(exporter.is_due(left_at + MOST_SPACING));
    }
}
