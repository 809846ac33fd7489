// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The loop: tick after tick, and between two of them what was received meanwhile.

use crate::run::service::manager::ServiceManager;
use crate::run::service::reload::Reload;
use crate::run::service::signals::Signals;
use crate::run::settings::Settings;
use crate::run::sink::SinkTrouble;
use crate::run::tick::Loop;
use crate::run::tick::watches::{HoldWatch, KneeWatch, NameWatch, Watch, log_events};
use anyhow::{Context, Result};
use std::time::Instant;
use tracing::{info, warn};
use weir_core::PlatformError;
use weir_core::seam::snapshot::Snapshot;
use weir_figures::text;
use weir_linux::Roots;

/// How the loop came to its end.
pub(in crate::run) enum End {
    /// A signal, or the end of `--duration`.
    Requested,
    /// The reader of the JSON lines has left.
    ReaderLeft,
}

/// The loop and what it minds between two ticks.
pub(in crate::run) struct Turning<'a> {
    pub(in crate::run) settings: Settings,
    pub(in crate::run) roots: &'a Roots,
    pub(in crate::run) signals: &'a Signals,
    pub(in crate::run) manager: &'a mut ServiceManager,
    pub(in crate::run) reload: Reload<'a>,
    pub(in crate::run) until: Option<Instant>,
    pub(in crate::run) knees: KneeWatch,
    pub(in crate::run) held: HoldWatch,
    pub(in crate::run) names: NameWatch,
    pub(in crate::run) devices: Watch,
}

impl Turning<'_> {
    /// Turns until something ends it.
    ///
    /// # Errors
    /// Nothing can be observed any more, or an output without which weir must not run has failed.
    pub(in crate::run) fn until_the_end(mut self, ticks: &mut Loop) -> Result<End> {
        loop {
            if let Some(end) = self.end(ticks)? {
                return Ok(end);
            }
            if self.signals.take_hang_up() {
                self.manager.reloading();
                let said = self.reload.reload(&mut self.settings, ticks);
                self.names.begin();
                self.manager.reloaded(&said);
            }
            let ticked = match ticks.tick() {
                Ok(ticked) => ticked,
                Err(PlatformError::End) => return Ok(End::Requested),
                Err(error) => return Err(error).context("weir stopped and gave its limits back"),
            };
            self.manager.ready("observes");
            self.manager.turned(|| status(ticks.snapshot()));
            log_events(&ticked.events);
            let machine = ticks.machine();
            self.devices.check(ticked.lost, machine);
            self.held.check(&ticks.snapshot().plan.devices);
            self.names.check(machine);
            self.knees.check(machine, &self.settings, &self.roots.state);
        }
    }

    /// What ends it, if something does.
    fn end(&self, ticks: &mut Loop) -> Result<Option<End>> {
        if let Some(signal) = self.signals.stop() {
            if self.reload.may_limit {
                info!("{signal}: limits are restored")
            } else {
                info!("{signal}: weir ends, and had set no limits")
            }
            return Ok(Some(End::Requested));
        }
        if self.until.is_some_and(|end| Instant::now() >= end) {
            info!("the end of --duration");
            return Ok(Some(End::Requested));
        }
        match ticks.sinks().trouble() {
            None => {}
            Some(SinkTrouble::ReaderLeft) => return Ok(Some(End::ReaderLeft)),
            Some(SinkTrouble::Fatal(error)) => return Err(error),
            Some(SinkTrouble::Lossy(error)) => {
                warn!("{}; the loop goes on", text::harmless(&error));
            }
        }
        Ok(None)
    }
}

/// What weir does, in a short sentence for the service manager.
fn status(seen: &Snapshot) -> String {
    let all = seen.plan.workloads.len();
    if seen.limiting {
        let limited = seen.limited_since_unix_ms.len();
        format!(
            "limits {limited} of {all} workloads, policy {}",
            seen.policy
        )
    } else {
        format!("observes {all} workloads")
    }
}
