// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs of `scenarios/fairness`. Several tests look at the same run: it is made once, and kept.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock};
use weir_sim::{ControllerKind, RunMetrics, Scenario, SharesVariant, run};

type Kept = Arc<OnceLock<Arc<RunMetrics>>>;

static KEPT: Mutex<BTreeMap<(String, &str), Kept>> = Mutex::new(BTreeMap::new());

pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/fairness")
}

/// Scenarios that take seconds for each simulated one.
const DEAR: [&str; 3] = ["drfqs-5-8", "four-ways", "honest"];

/// A scenario with a shorter run than its own: 3 s after 1 s, and 1 s where it is dear.
pub fn scenario(name: &str) -> Scenario {
    let path = folder().join(format!("{name}.toml"));
    let text = std::fs::read_to_string(path).expect("a scenario");
    let mut scenario = Scenario::parse(&text, name).unwrap_or_else(|e| panic!("{e}"));
    let is_dear = DEAR.iter().any(|dear| name.starts_with(dear));
    let measure_sec = if is_dear { 1.0 } else { 3.0 };
    (scenario.control.settle_sec, scenario.control.measure_sec) = (1.0, measure_sec);
    scenario
}

pub fn shared(scenario: &Scenario, variant: SharesVariant) -> RunMetrics {
    run(scenario, &ControllerKind::Shares(variant), 1).unwrap_or_else(|e| panic!("{e}"))
}

pub fn kept(name: &str, variant: SharesVariant) -> Arc<RunMetrics> {
    let cell = {
        let mut all = KEPT.lock().unwrap_or_else(|broken| broken.into_inner());
        let cell = all.entry((name.to_owned(), variant.name())).or_default();
        Arc::clone(cell)
    };
    let new = || Arc::new(shared(&scenario(name), variant));
    Arc::clone(cell.get_or_init(new))
}

/// The largest share error of a run, without its sign.
pub fn worst_error(metrics: &RunMetrics) -> f64 {
    let errors = metrics.shares.values().filter_map(|s| s.error_ratio);
    errors.map(f64::abs).fold(0.0, f64::max)
}
