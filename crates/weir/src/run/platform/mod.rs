// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Where the command meets weir-linux: roots, options, and how the platform is opened to run or
//! only to observe.

pub mod reset;

use crate::cli::devices::checked;
use crate::cli::failure::Unavailable;
use crate::cli::{AttributionName, BackendName, CountersName, WorkloadsName};
use crate::run::settings::Settings;
use anyhow::{Context, Result};
use std::path::Path;
use std::time::Duration;
use weir_core::Platform;
use weir_core::policy::Policy;
use weir_core::seam::platform::DryRun;
#[cfg(feature = "thesis")]
use weir_linux::ThesisVariant;
use weir_linux::{
    AttributionSource, Backend, By, CounterSource, LinuxError, LinuxPlatform, Options, Roots,
};

/// The real machine, or a tree below `root` with the same files.
pub fn roots(root: Option<&Path>) -> Roots {
    root.map_or_else(Roots::default, Roots::beneath)
}

/// The platform's word for what a workload is.
pub fn by(name: WorkloadsName) -> By {
    match name {
        WorkloadsName::Cgroup => By::Cgroup,
        WorkloadsName::Process => By::Process,
    }
}

/// Partial mode gives no CPU time of a limited workload to others, which policy drf is about: so `auto` does
/// not take it for that policy.
fn backend(name: BackendName, policy: Policy) -> Backend {
    match name {
        BackendName::Auto if policy == Policy::Drf => Backend::CpuMax,
        BackendName::CpuMax => Backend::CpuMax,
        BackendName::SchedExt => Backend::SchedExt,
        BackendName::SchedExtFull => Backend::SchedExtFull,
        #[cfg(feature = "thesis")]
        BackendName::ThesisScx => Backend::Thesis(ThesisVariant::RoundRobin),
        #[cfg(feature = "thesis")]
        BackendName::ThesisScxVtime => Backend::Thesis(ThesisVariant::Vtime),
        #[cfg(feature = "thesis")]
        BackendName::ThesisScxThrottle => Backend::Thesis(ThesisVariant::ThrottleQueue),
        BackendName::Auto => Backend::Auto,
    }
}

/// The platform's word for where traffic is read.
pub fn counters(name: CountersName) -> CounterSource {
    match name {
        CountersName::Auto => CounterSource::Auto,
        CountersName::Driver => CounterSource::Driver,
        CountersName::Perf => CounterSource::Perf,
    }
}

fn attribution(name: AttributionName) -> AttributionSource {
    match name {
        AttributionName::Auto => AttributionSource::Auto,
        AttributionName::TaskCounts => AttributionSource::TaskCounts,
        AttributionName::Resctrl => AttributionSource::Resctrl,
        AttributionName::Sampling => AttributionSource::Sampling,
        AttributionName::CpuTime => AttributionSource::CpuTime,
    }
}

/// The policy's name: the same as in flags, file and JSON.
pub fn policy_name(policy: Policy) -> String {
    policy.name().to_owned()
}

/// The platform's options for these settings.
///
/// # Errors
/// A node that is named does not exist.
pub fn options(roots: &Roots, settings: &Settings) -> Result<Options> {
    Ok(Options {
        roots: roots.clone(),
        by: by(settings.workloads),
        interval: settings.interval,
        duration: settings.duration,
        exclude: settings.exclude.clone(),
        nodes: checked(&settings.device, roots)?,
        weighted: settings.config.weights.keys().cloned().collect(),
        trust_cpu_max: settings.trust_cpu_max,
        limit_domains: settings.limit_domains,
        split_delegated: settings.split_delegated.clone(),
        capacity_bytes_per_sec: settings.capacity,
        period: settings.period,
        backend: backend(settings.backend, settings.config.policy),
        counters: counters(settings.counters),
        attribution: attribution(settings.attribution),
        attribution_event: settings.attribution_event.clone(),
        reads: Some(crate::run::probe::reads),
        tasks: weir_linux::TaskSource::Auto,
        read_only: !settings.config.limit,
    })
}

/// Opens the platform for `weir run`. Without `--limit` it only observes, and refuses all actions.
///
/// # Errors
/// There is no CXL device, a node that is named does not exist, another weir process is running, or the
/// run-time directory cannot be used.
pub fn open_to_run(roots: &Roots, settings: &Settings) -> Result<Box<dyn Platform>> {
    open(options(roots, settings)?)
}

/// For screens without a daemon: it observes, and cannot act. `nodes` are those that the operator declares to
/// be CXL memory; if empty, the machine's own evidence decides.
///
/// # Errors
/// There is no CXL device to observe.
pub fn open_read_only(
    roots: &Roots,
    name: WorkloadsName,
    nodes: Vec<u32>,
    interval: Duration,
) -> Result<Box<dyn Platform>> {
    open(Options {
        roots: roots.clone(),
        by: by(name),
        nodes,
        interval,
        read_only: true,
        ..Options::default()
    })
}

/// The error of a machine without CXL memory says as well that the same can be seen on a simulated one.
pub fn or_simulated(error: LinuxError) -> anyhow::Error {
    match error {
        error @ LinuxError::NoCxl { .. } => Unavailable::Memory(error).into(),
        other => other.into(),
    }
}

fn open(options: Options) -> Result<Box<dyn Platform>> {
    let read_only = options.read_only;
    let platform = LinuxPlatform::open(options)
        .map_err(or_simulated)
        .context("cannot start on this machine")?;
    if read_only {
        Ok(Box::new(DryRun(platform)))
    } else {
        Ok(Box::new(platform))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn auto_takes_no_scheduler_that_cannot_give_cpu_time_to_others() {
        let of = |policy| backend(BackendName::Auto, policy);
        assert!(matches!(of(Policy::Drf), Backend::CpuMax));
        assert!(matches!(of(Policy::MaxMin), Backend::Auto));
        let asked_for = backend(BackendName::SchedExt, Policy::Drf);
        assert!(matches!(asked_for, Backend::SchedExt));
    }
}
