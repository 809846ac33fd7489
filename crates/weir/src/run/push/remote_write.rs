// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `--push-format remote-write`: the metrics of `--metrics`, to a server that scrapes nothing. At each
//! `--push-interval` the newest tick becomes one sample of each series, as if it was scraped then.

use super::queue::Queue;
use super::{Outgoing, PushOptions};
use crate::run::lossy::{Drained, Lossy};
use crate::run::metrics::{own_process, shown_by_metrics};
use crate::run::sink::{Shown, Sink, TickContext, Wants};
use anyhow::{Context, Result};
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use weir_core::seam::snapshot::{Delivery, Snapshot};
use weir_store::Tick;
use weir_store::metrics::{RemoteWrite, Totals, gather};

/// The label `job` of all samples: that of the dashboards and rules.
const JOB: &str = "weir";

/// The loop's end of it.
pub struct RemotePusher {
    totals: Totals,
    every: Duration,
    left_at: Option<Instant>,
    newest: Option<Lossy<(Snapshot, Totals)>>,
    out: Outgoing,
}

impl RemotePusher {
    /// Starts both threads. Nothing is sent to the server yet.
    ///
    /// # Errors
    /// No thread can be had.
    pub(super) fn start(how: PushOptions, host: &str) -> Result<RemotePusher> {
        let every = how.every;
        let write = RemoteWrite::new(&[("instance", host), ("job", JOB)]);
        let out = Outgoing::start(how)?;
        let filled = Arc::clone(&out.queue);
        let (newest, _): (_, Drained<()>) = Lossy::start("weir-samples", move |ticks| {
            pack(write, &ticks, &filled);
        })
        .context("cannot start the thread that packs samples")?;
        Ok(RemotePusher {
            totals: Totals::default(),
            every,
            left_at: None,
            newest: Some(newest),
            out,
        })
    }

    fn is_due(&self, now: Instant) -> bool {
        self.left_at.is_none_or(|at| now - at >= self.every)
    }
}

impl Sink for RemotePusher {
    fn tick(&mut self, tick: &Arc<Tick>, _: &TickContext<'_>) -> Option<Result<(), String>> {
        self.totals
            .add(&tick.observation, &tick.plan, &tick.outcomes);
        None
    }

    fn wants(&mut self, now: Instant) -> Wants {
        if self.is_due(now) {
            Wants::Figures
        } else {
            Wants::Nothing
        }
    }

    /// Hands the tick over, or counts it as missed.
    fn show(&mut self, shown: &mut Shown<'_>) -> Option<Result<(), String>> {
        let now = Instant::now();
        if self.is_due(now)
            && let Some(newest) = &self.newest
        {
            self.left_at = Some(now);
            let snapshot = shown.snapshot();
            self.totals.follow_pod_names(&snapshot.pod_names);
            let value = (shown_by_metrics(snapshot), self.totals.clone());
            if newest.send(value).is_err() {
                self.out.queue.missed(1);
            }
        }
        None
    }

    fn delivery(&self) -> Option<Delivery> {
        Some(self.out.queue.delivery())
    }

    fn finish(&mut self) -> Result<()> {
        self.newest = None;
        self.out.finish();
        Ok(())
    }
}

/// Makes requests until the loop ends, and then marks all series as ended.
fn pack(mut write: RemoteWrite, ticks: &Receiver<(Snapshot, Totals)>, queue: &Queue) {
    for (snapshot, totals) in ticks {
        write.at(snapshot.wall_unix_ms);
        gather(&snapshot, &totals, Some(&own_process()), &mut write);
        queue.add_bodies(write.requests());
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    write.at(u64::try_from(now.unwrap_or_default().as_millis()).unwrap_or(u64::MAX));
    queue.add_bodies(write.requests());
    queue.close();
}
