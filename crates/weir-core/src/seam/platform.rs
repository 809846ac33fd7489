// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The one seam: everything weir sees and does goes through [`Platform`]. Worlds behind it: real
//! Linux, the simulator, a replayed recording. Wrappers work on any world.

use crate::ids::WorkloadId;
use crate::owner::PodNames;
use crate::seam::observation::Observation;
use crate::seam::plan::{Outcome, OutcomeKind, Plan};
use crate::seam::processes::Processes;
use crate::seam::sched_stats::SchedStats;
use crate::seam::topology::Description;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A world to observe and act on.
pub trait Platform {
    /// Topology and capabilities: facts probed once, each absence with its reason.
    fn describe(&self) -> &Description;

    /// Block until the next tick and return what was seen; its time is inside.
    ///
    /// # Errors
    /// Only when no observation can be had any more. A part that cannot be read is not an error:
    /// it is a missing reading or a counted skip inside the observation.
    fn observe(&mut self) -> Result<Observation, PlatformError>;

    /// Carry out a plan: one outcome per action, in the same order. The call as a whole cannot fail.
    fn apply(&mut self, plan: &Plan) -> Vec<Outcome>;

    /// Called with every plan, also in dry runs, so that a platform can poll more often near overload.
    fn on_plan(&mut self, _: &Plan) {}

    /// How often another program has written a limit that weir holds, since the start, where that can be
    /// seen: the owner of a delegated cgroup may do so, and a manager of services or containers.
    fn limit_rewrites(&self) -> Option<u64> {
        None
    }

    /// What a scheduler of weir's own did so far, where there is one. Costs a few microseconds and one more
    /// for each workload it knows: call it for screens, not at each tick.
    fn scheduler(&self) -> Option<SchedStats> {
        None
    }

    /// Processes of workloads with memory on a device, as of their last scan, where the platform knows any:
    /// call it for screens, not at each tick. The same allocation as before where nothing has changed.
    fn processes(&self) -> Arc<BTreeMap<WorkloadId, Processes>> {
        Arc::default()
    }

    /// What Kubernetes calls pods of workloads, where that can be read. The same allocation as before where
    /// nothing has changed.
    fn pod_names(&self) -> Arc<PodNames> {
        Arc::default()
    }

    /// From now on workloads with a name that one of the patterns fits are never limited, and no others for
    /// their name. `weighted` are names of workloads that were given a weight: what fits none is reported. A
    /// limit that is in force on an excluded workload ends with a release in a later plan.
    fn exclude(&mut self, _patterns: &[String], _weighted: &[String]) {}

    /// Give back everything that was set. Called on the way out; must be safe to call twice.
    fn release_all(&mut self) -> Vec<Outcome>;
}

#[derive(Debug, thiserror::Error)]
pub enum PlatformError {
    /// A recording or a bounded run came to its end: not a fault.
    #[error("the end of the run was reached")]
    End,
    #[error("cannot observe: {0}")]
    Broken(String),
}

/// Passes observations and refuses all actions: this is observe-only mode.
pub struct DryRun<P>(pub P);

impl<P: Platform> Platform for DryRun<P> {
    fn describe(&self) -> &Description {
        self.0.describe()
    }

    fn observe(&mut self) -> Result<Observation, PlatformError> {
        self.0.observe()
    }

    fn on_plan(&mut self, plan: &Plan) {
        self.0.on_plan(plan);
    }

    fn apply(&mut self, plan: &Plan) -> Vec<Outcome> {
        let refuse = |action: &crate::seam::plan::Action| Outcome {
            workload: action.workload.clone(),
            result: OutcomeKind::Refused("observe-only: start with --limit to act".into()),
        };
        plan.actions.iter().map(refuse).collect()
    }

    fn processes(&self) -> Arc<BTreeMap<WorkloadId, Processes>> {
        self.0.processes()
    }

    fn pod_names(&self) -> Arc<PodNames> {
        self.0.pod_names()
    }

    fn exclude(&mut self, patterns: &[String], weighted: &[String]) {
        self.0.exclude(patterns, weighted);
    }

    fn release_all(&mut self) -> Vec<Outcome> {
        Vec::new()
    }
}
