// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Behind which workload requests wait at the stages that workloads share: what a report says, beside the
//! server's account of each wait.

use super::comparison::{ComparedFigure, ComparedRun};
use std::collections::{BTreeMap, BTreeSet};
use weir_core::window::role::Stage;
use weir_profile::culprit::StageWaits;
use weir_profile::report::{self, Options, Report};
use weir_server_model::Stage as Place;

/// Stages of the report with the server's places.
const STAGES: [(Stage, Place); 3] = [
    (Stage::Imc, Place::Dram),
    (Stage::Port, Place::Port),
    (Stage::Device, Place::Device),
];
/// Waits below this part of the residence there are not judged, nor those of fewer requests: as waits are.
const WAIT_MIN_RATIO: f64 = 0.1;
const REQUESTS_MIN: u64 = 500;
/// A culprit causes so much of a wait, and so much more than the next.
const CULPRIT_MIN_SHARE: f64 = 0.4;
const LEAD_MIN_SHARE: f64 = 0.1;
/// BlamedShares below this on both sides are no figures.
const SHARE_MIN: f64 = 0.01;

/// BlamedShares of a wait by the workload that is served meanwhile.
type BlamedShares = BTreeMap<String, f64>;

struct JudgedWait {
    of: String,
    /// What the report says; the reason if nothing.
    estimate: Result<BlamedShares, String>,
    truth: BlamedShares,
}

fn report_of(case: &ComparedRun) -> Report {
    let options = Options {
        idle: Some(&case.idle),
        brief: true,
        ..Options::default()
    };
    report::report(&case.file, &options)
}

/// Whether a workload waits there enough to be judged.
fn is_waiting(case: &ComparedRun, workload: &str, place: Place) -> bool {
    let (mut requests, mut residence_ns, mut wait_ns) = (0, 0.0, 0.0);
    let rows = case.truth.windows.iter().flat_map(|window| &window.places);
    for row in rows.filter(|row| row.workload == workload && row.stage == place) {
        requests += row.requests;
        residence_ns += row.residence_ns;
        wait_ns += row.wait_ns;
    }
    requests >= REQUESTS_MIN && wait_ns > WAIT_MIN_RATIO * residence_ns
}

/// The server's shares; where no request had the place the wait is not counted.
fn true_shares(case: &ComparedRun, workload: &str, place: Place) -> BlamedShares {
    let mut shares = BlamedShares::new();
    let rows = case.truth.windows.iter().flat_map(|window| &window.waits);
    for row in rows.filter(|row| row.workload == workload && row.stage == place) {
        if let Some(behind) = &row.behind {
            *shares.entry(behind.clone()).or_default() += row.ns;
        }
    }
    let all: f64 = shares.values().sum();
    shares.values_mut().for_each(|share| *share /= all);
    shares
}

fn reported(stage: &StageWaits) -> BlamedShares {
    let parts = stage.behind.iter();
    parts
        .map(|part| (part.workload.clone(), part.share))
        .collect()
}

fn waits(case: &ComparedRun) -> Vec<JudgedWait> {
    let report = report_of(case);
    let mut all = Vec::new();
    for (stage, place) in STAGES {
        let estimate = match &report.waits {
            Err(why) => Err(why.to_string()),
            Ok(waits) => waits
                .stage(stage)
                .map(reported)
                .ok_or_else(|| format!("no waits at {}", stage.word())),
        };
        let workloads = case.truth.workloads.iter().map(|workload| &workload.name);
        for name in workloads.filter(|name| is_waiting(case, name, place)) {
            let truth = true_shares(case, name, place);
            if !truth.is_empty() {
                all.push(JudgedWait {
                    of: format!("{name} at {}", stage.word()),
                    estimate: estimate.clone(),
                    truth,
                });
            }
        }
    }
    all
}

/// The share of each workload in each wait.
pub fn shares(case: &ComparedRun) -> Vec<ComparedFigure> {
    let figures = waits(case).into_iter().flat_map(|wait| {
        let none = BlamedShares::new();
        let said = wait.estimate.as_ref().unwrap_or(&none);
        let names: BTreeSet<String> = said.keys().chain(wait.truth.keys()).cloned().collect();
        let figures = names.into_iter().filter_map(|name| {
            let [estimate, truth] =
                [said, &wait.truth].map(|shares| shares.get(&name).copied().unwrap_or(0.0));
            (estimate.max(truth) >= SHARE_MIN).then(|| ComparedFigure {
                of: format!("{} behind {name}", wait.of),
                estimate: wait
                    .estimate
                    .as_ref()
                    .map(|_| estimate)
                    .map_err(Clone::clone),
                truth,
                scale: 1.0,
            })
        });
        figures.collect::<Vec<_>>()
    });
    figures.collect()
}

/// The largest share with its workload, and the next.
fn leader(shares: &BlamedShares) -> Option<(&str, f64, f64)> {
    let mut sorted: Vec<(&str, f64)> = shares.iter().map(|(n, s)| (n.as_str(), *s)).collect();
    sorted.sort_by(|a, b| b.1.total_cmp(&a.1));
    let next = sorted.get(1).map_or(0.0, |one| one.1);
    sorted.first().map(|(name, share)| (*name, *share, next))
}

/// Where one workload clearly causes a wait: an error of 1 where the report has another first.
pub fn wrong(case: &ComparedRun) -> Vec<ComparedFigure> {
    let figures = waits(case).into_iter().filter_map(|wait| {
        let (truly, share, next) = leader(&wait.truth)?;
        (share >= CULPRIT_MIN_SHARE && share - next >= LEAD_MIN_SHARE).then(|| {
            let is_wrong =
                |said: &BlamedShares| leader(said).is_none_or(|(name, ..)| name != truly);
            ComparedFigure {
                of: format!("{} behind {truly}", wait.of),
                estimate: wait
                    .estimate
                    .as_ref()
                    .map_err(Clone::clone)
                    .map(|said| f64::from(u8::from(is_wrong(said)))),
                truth: 0.0,
                scale: 1.0,
            }
        })
    });
    figures.collect()
}
