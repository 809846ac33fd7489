// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The latency of the device without load, and the knee.

use super::check::{HardwareCheck, HardwareFigure, HardwarePromise, Harm};
use super::site::HardwareSite;
use crate::bench::calibrate::cli::{CalibrateArgs, MixName};
use crate::bench::calibrate::{check_no_limits, curve, placement::Placement};
use crate::cli::CountersName;
use crate::cli::devices::DeviceNode;
use crate::cli::quantities::Span;
use crate::run::probe::placement::take;
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;
use weir_bench::{Timing, cpu};
use weir_core::Missing;
use weir_figures::Bound;
use weir_linux::{CounterSource, Roots, Traffic};

/// Time that each of the two methods takes.
const SPAN: Duration = Duration::from_secs(1);
const BATCHES: usize = 256;
/// What `weir calibrate` is given at most, and at least.
const KNEE_MAX: Duration = Duration::from_secs(60);
const KNEE_MIN: Duration = Duration::from_secs(5);

/// Two ways to measure one latency agree.
pub struct LatencyTwoWays;

impl HardwareCheck for LatencyTwoWays {
    fn name(&self) -> &'static str {
        "latency-two-ways"
    }

    fn promise(&self) -> HardwarePromise {
        HardwarePromise {
            feature: "latency probe",
            words: "the probe (lines given up) and calibrate (a ring larger than the cache) find one latency, \
                    to 10 %",
            unit: "probe ÷ calibrate",
            bound: Bound::Within(0.9, 1.1),
            page: "docs/evidence/testbed.md",
            quote: "12 895 (+7.4 %)",
        }
    }

    fn harm(&self) -> Harm {
        Harm::Loads
    }

    fn measure(&self, site: &mut HardwareSite) -> Result<HardwareFigure, Missing> {
        let place = placed(site)?;
        let roots = site.options.roots.clone();
        let thread = std::thread::spawn(move || both(&roots, &place));
        let panicked = |_| Err(Missing::Lost("the thread that loads has panicked".into()));
        thread.join().unwrap_or_else(panicked)
    }
}

fn both(roots: &Roots, place: &Placement) -> Result<HardwareFigure, Missing> {
    let lost = |why: &dyn ToString| Missing::Lost(why.to_string());
    let (node, cpu) = (place.node, place.probe_cpu);
    let span = u64::try_from(SPAN.as_nanos()).unwrap_or(u64::MAX);
    let ring = crate::bench::calibrate::idle_latency(place.ring_bytes, node, cpu, span);
    let ring = ring.map_err(|why| lost(&format!("{why:#}")))?;
    let (mut flushed, _) = take(roots, &[node], &[cpu])?;
    let timings: Vec<f64> = (0..BATCHES).map(|_| flushed.flushed_batch_ns()).collect();
    let probe = Timing::of(&timings).ok_or_else(|| lost(&"too few timings"))?;
    let dram = place.cpu_node.and_then(|(near, may_use)| {
        let bytes = place.ring_bytes.min(may_use);
        crate::bench::calibrate::idle_latency(bytes, near, cpu, span).ok()
    });
    cpu::pin(cpu).map_err(|why| lost(&why))?;
    Ok(HardwareFigure {
        value: probe.mean_ns / ring.mean_ns,
        detail: format!(
            "probe {:.0} ns, calibrate {:.0} ns, the CPU's own memory {}",
            probe.mean_ns,
            ring.mean_ns,
            dram.map_or_else(
                || "not known".to_owned(),
                |d| format!("{:.0} ns", d.mean_ns)
            )
        ),
        data: Some(json!({
            "probe_ns": probe.mean_ns, "probe_error_ratio": probe.error_ratio,
            "calibrate_ns": ring.mean_ns, "calibrate_error_ratio": ring.error_ratio,
            "dram_ns": dram.map(|d| d.mean_ns), "ring_bytes": place.ring_bytes,
            "last_cache_bytes": place.cache_bytes,
        })),
    })
}

pub struct KneeFound;

impl HardwareCheck for KneeFound {
    fn name(&self) -> &'static str {
        "knee"
    }

    fn promise(&self) -> HardwarePromise {
        HardwarePromise {
            feature: "`weir calibrate`",
            words: "the knee of the device is found, quiet enough to be kept",
            unit: "knees",
            bound: Bound::AtLeast(1.0),
            page: "docs/how-to/find-a-set-point.md",
            quote: "prints the latency at each bandwidth, `idle`, `knee`, and `set-point`",
        }
    }

    fn harm(&self) -> Harm {
        Harm::Loads
    }

    fn measure(&self, site: &mut HardwareSite) -> Result<HardwareFigure, Missing> {
        let left = site.left();
        if left < KNEE_MIN {
            let why = "too little time was left: give it more --max-duration";
            return Err(Missing::Lost(why.into()));
        }
        let lost = |why: anyhow::Error| Missing::Lost(format!("{why:#}"));
        check_no_limits(&site.options.roots.run).map_err(lost)?;
        let args = calibrate_args(site, left.min(KNEE_MAX));
        let traffic = traffic(site)?;
        let place = Placement::choose(&args, &site.options.roots, &traffic).map_err(lost)?;
        let stop = Arc::clone(&site.stop);
        // It pins the thread that measures.
        let thread = std::thread::spawn(move || {
            let outcome = curve(&args, &place, traffic, stop).map_err(lost)?;
            let lacking = outcome.verdict.lacking.clone();
            let knee = outcome.profile.knee.as_ref();
            Ok(HardwareFigure {
                value: f64::from(u8::from(knee.is_some() && lacking.is_none())),
                detail: lacking.unwrap_or_else(|| {
                    knee.map_or_else(String::new, |k| {
                        let mib = k.bandwidth_bytes_per_sec / 1_048_576.0;
                        format!("{mib:.0} MiB/s at {:.0} ns", k.latency_ns)
                    })
                }),
                data: Some(json!(outcome.json())),
            })
        });
        let panicked = |_| Err(Missing::Lost("the thread that loads has panicked".into()));
        thread.join().unwrap_or_else(panicked)
    }
}

fn traffic(site: &HardwareSite) -> Result<Traffic, Missing> {
    let options = &site.options;
    Traffic::open(&options.roots, CounterSource::Auto, &options.nodes)
        .map_err(|why| Missing::NotSupported(why.to_string()))
}

fn placed(site: &HardwareSite) -> Result<Placement, Missing> {
    let args = calibrate_args(site, KNEE_MAX);
    Placement::choose(&args, &site.options.roots, &traffic(site)?)
        .map_err(|why| Missing::NotSupported(format!("{why:#}")))
}

/// The first device, or that of the first node that is named.
fn calibrate_args(site: &HardwareSite, max_duration: Duration) -> CalibrateArgs {
    let named = site.options.nodes.iter().map(|n| format!("node:{n}"));
    let mut device: Vec<String> = named.collect();
    if device.is_empty()
        && let Some(first) = site.description.devices.first()
    {
        device.push(first.id.to_string());
    }
    CalibrateArgs {
        node: device
            .first()
            .and_then(|d| Some(d.parse::<DeviceNode>().ok()?.0)),
        device,
        threads: None,
        mix: MixName::Reads,
        memory: None,
        max_duration: Span(max_duration),
        counters: CountersName::Auto,
        allow_other_traffic: false,
        out: None,
        json: false,
    }
}
