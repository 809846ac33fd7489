// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What `weir explain` says of devices: how loaded each is, which workloads load it while another waits, and
//! what limits would do.

use crate::cli::device_profile;
use crate::cli::output::labels;
use std::collections::BTreeMap;
use std::path::Path;
use weir_core::owner::owner;
use weir_core::rates::attribution::Provenance;
use weir_core::seam::plan::{Decision, DeviceState, Why};
use weir_core::seam::snapshot::Snapshot;
use weir_core::{BytesPerSec, Description, DeviceId};
use weir_figures::text;

/// A device moves more than its set-point from this ratio on; up to it, it is held.
const OVER: f64 = 1.05;
/// A limit is worth a line if it would take at least this part of what a workload moves.
const LIMIT_LEAST: f64 = 0.1;
/// Others are named until they move this part of a device's bytes together.
const MOST: f64 = 0.85;
/// Workloads that a line names.
const NAMED: usize = 3;

/// What `weir calibrate` found of a device.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Calibrated {
    /// Bandwidth at the knee, reads and writes.
    pub knee: BytesPerSec,
    /// Latency of a load on the idle device, in ns.
    pub idle_ns: f64,
}

/// Devices of this machine that are calibrated.
pub type Knees = BTreeMap<DeviceId, Calibrated>;

/// What is stored of the devices of this machine. A profile that cannot be used is left out: `weir doctor`
/// says why.
pub fn knees(state: &Path, machine: &Description) -> Knees {
    let known = |device: &weir_core::seam::topology::Device| {
        let (knee, idle_ns) = device_profile::knee_and_idle(state, machine, device)?;
        Some((device.id, Calibrated { knee, idle_ns }))
    };
    machine.devices.iter().filter_map(known).collect()
}

/// Reads and writes of a device, where both are known.
pub fn moved(device: &DeviceState) -> Option<BytesPerSec> {
    let known = device.read_bytes_per_sec.zip(device.write_bytes_per_sec);
    known.map(|(read, write)| read + write)
}

pub fn device_line(snapshot: &Snapshot, device: &DeviceState, knees: &Knees) -> String {
    let knee = knees.get(&device.id);
    let mut line = format!("{} ", device.id);
    line += &match moved(device) {
        None => "its traffic is not known".to_owned(),
        Some(rate) => {
            let moves = format!("moves {}", text::rate(rate));
            knee.map_or(moves.clone(), |known| {
                let part = text::whole_percent(rate.ratio(known.knee));
                format!("{moves}, {part} of its knee ({})", text::rate(known.knee))
            })
        }
    };
    line += &match device.set_point_bytes_per_sec {
        Some(set) => format!(", set-point {}", text::rate(set)),
        None => ", no set-point".to_owned(),
    };
    if let Some(seen) = snapshot.latencies.iter().find(|l| l.id == device.id) {
        line += &format!(", {}", labels::latency(seen, snapshot.plan.at));
        if let Some(known) = knee.filter(|_| seen.mean_ns.value.is_ok()) {
            line += &format!(" (idle {:.0} ns)", known.idle_ns);
        }
    }
    let load = snapshot.devload.iter().find(|l| l.id == device.id);
    match load.map(|seen| &seen.load.value) {
        Some(Ok(load)) => line += &format!(", load {}", load.name()),
        Some(Err(why)) => line += &format!(", load {}", text::harmless(&why.to_string())),
        None => {}
    }
    line
}

/// Why a workload without a limit may be slow: what loads the only device that it can use. Nothing where the
/// device is not overloaded, and where there are several: a plan does not say which of them a workload uses.
pub fn waits(snapshot: &Snapshot, of: &Decision, knees: &Knees) -> Option<String> {
    let [device] = &snapshot.plan.devices[..] else {
        return None;
    };
    let rate = moved(device)?;
    if of.limit_cpus.is_some() || of.bandwidth.provenance == Provenance::Unknown {
        return None;
    }
    let knee = knees.get(&device.id).map(|known| known.knee);
    let so = match (knee, device.set_point_bytes_per_sec) {
        (Some(knee), _) if rate > knee => "the device moves more than its knee, so accesses wait",
        (Some(_), _) => return None,
        (None, Some(set)) if rate > set.scale(OVER) => {
            "the device moves more than its set-point, so accesses may wait"
        }
        _ => return None,
    };
    let part = |workload: &Decision| workload.bandwidth.bytes_per_sec.ratio(rate);
    let own = part(of);
    if own >= 0.5 {
        let own = text::whole_percent(own);
        return Some(format!("{so}: this workload moves {own} of the bytes"));
    }
    let is_other = |w: &&Decision| w.id != of.id && w.bandwidth.provenance != Provenance::Unknown;
    let mut others: Vec<&Decision> = snapshot.plan.workloads.iter().filter(is_other).collect();
    others.sort_by(|a, b| part(b).total_cmp(&part(a)).then_with(|| a.id.cmp(&b.id)));
    let mut sum = 0.0;
    let most = others.iter().take_while(|other| {
        let more = sum < MOST && part(other) > 0.0;
        sum += if more { part(other) } else { 0.0 };
        more
    });
    let names: Vec<String> = most.map(|other| name(other)).collect();
    let (verb, sum) = (
        if names.len() == 1 { "moves" } else { "move" },
        text::whole_percent(sum),
    );
    (!names.is_empty()).then(|| format!("{so}: {} {verb} {sum} of the bytes", listed(&names)))
}

/// What limits would do, for a weir process that only observes.
pub fn rehearsal(snapshot: &Snapshot) -> String {
    let plan = &snapshot.plan;
    if plan
        .devices
        .iter()
        .all(|d| d.set_point_bytes_per_sec.is_none())
    {
        return "with --set-point RATE weir also says what --limit would do".to_owned();
    }
    let limited = |workload: &&Decision| {
        let moves = workload.bandwidth.bytes_per_sec;
        let is_free = matches!(workload.why, Why::ObserveOnly);
        let allowed = workload.allowed_bytes_per_sec.filter(|_| is_free);
        allowed.is_some_and(|allowed| allowed < moves.scale(1.0 - LIMIT_LEAST))
    };
    let mut limited: Vec<&Decision> = plan.workloads.iter().filter(limited).collect();
    if limited.is_empty() {
        return "with --limit, no workload would be limited now".to_owned();
    }
    let moves = |workload: &Decision| workload.bandwidth.bytes_per_sec;
    limited.sort_by(|a, b| {
        moves(b)
            .get()
            .total_cmp(&moves(a).get())
            .then_with(|| a.id.cmp(&b.id))
    });
    let line = |workload: &&Decision| {
        let allowed = workload.allowed_bytes_per_sec.unwrap_or(BytesPerSec::ZERO);
        let (from, to) = (text::rate(moves(workload)), text::rate(allowed));
        format!("{} from {from} to {to}", name(workload))
    };
    let lines: Vec<String> = limited.iter().map(line).collect();
    format!(
        "with --limit, {} of {} workloads would be limited now: {}",
        limited.len(),
        plan.workloads.len(),
        listed(&lines)
    )
}

/// A workload in a list: its pod, container or machine, else the last part of its path.
fn name(workload: &Decision) -> String {
    let id = workload.id.as_str();
    let last = id.rsplit('/').find(|part| !part.is_empty()).unwrap_or(id);
    text::harmless(owner(id).short.as_deref().unwrap_or(last))
}

/// `a, b and c`; `a, b and 3 others`.
fn listed(names: &[String]) -> String {
    match names {
        [] => String::new(),
        [one] => one.clone(),
        [before @ .., last] if names.len() <= NAMED => format!("{} and {last}", before.join(", ")),
        _ => {
            let shown = &names[..NAMED - 1];
            let others = names.len() - shown.len();
            format!("{} and {others} others", shown.join(", "))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::top::testing::snapshot;
    use weir_core::CpuShare;

    const MIB: f64 = 1_048_576.0;

    fn calibrated(mib: f64) -> Knees {
        let knee = BytesPerSec::new(mib * MIB);
        let known = Calibrated {
            knee,
            idle_ns: 360.0,
        };
        [(DeviceId(0), known)].into()
    }

    #[test]
    fn a_device_stands_beside_its_knee_and_its_idle_latency() {
        let snapshot = snapshot(0, 200.0);
        let line = device_line(&snapshot, &snapshot.plan.devices[0], &calibrated(160.0));
        let wanted = "cxl0 moves 200 MiB/s, 125 % of its knee (160 MiB/s), set-point 160 MiB/s, latency 412 ns \
                      by probe (idle 360 ns)";
        assert_eq!(line, wanted);
        let line = device_line(&snapshot, &snapshot.plan.devices[0], &Knees::new());
        let wanted = "cxl0 moves 200 MiB/s, set-point 160 MiB/s, latency 412 ns by probe";
        assert_eq!(line, wanted);
    }

    #[test]
    fn a_workload_without_a_limit_learns_what_loads_the_device() {
        let mut snapshot = snapshot(0, 200.0);
        let light = snapshot.plan.workloads[1].clone();
        let said = waits(&snapshot, &light, &Knees::new()).unwrap();
        let wanted = "the device moves more than its set-point, so accesses may wait: \
                      fio-heavy-reader-1.service moves 90 % of the bytes";
        assert_eq!(said, wanted);
        let said = waits(&snapshot, &light, &calibrated(160.0)).unwrap();
        assert!(said.starts_with("the device moves more than its knee, so accesses wait: "));
        // Its own traffic is the reason.
        snapshot.plan.workloads[0].limit_cpus = None;
        let heavy = snapshot.plan.workloads[0].clone();
        let said = waits(&snapshot, &heavy, &Knees::new()).unwrap();
        assert!(
            said.ends_with("this workload moves 90 % of the bytes"),
            "{said}"
        );
    }

    #[test]
    fn what_is_not_known_or_not_so_is_not_said() {
        let mut snapshot = snapshot(0, 200.0);
        let all = snapshot.plan.workloads.clone();
        let [heavy, light, _, weir, _] = &all[..] else {
            panic!("five workloads");
        };
        let none = Knees::new();
        assert_eq!(waits(&snapshot, heavy, &none), None, "it is limited");
        assert_eq!(
            waits(&snapshot, weir, &none),
            None,
            "its traffic is not known"
        );
        let below = calibrated(300.0);
        assert_eq!(waits(&snapshot, light, &below), None, "below the knee");
        let device = &mut snapshot.plan.devices[0];
        device.set_point_bytes_per_sec = Some(BytesPerSec::new(195.0 * MIB));
        assert_eq!(waits(&snapshot, light, &none), None, "it is held");
        let mut second = snapshot.plan.devices[0].clone();
        second.id = DeviceId(1);
        snapshot.plan.devices[0].set_point_bytes_per_sec = Some(BytesPerSec::new(MIB));
        assert!(waits(&snapshot, light, &none).is_some());
        snapshot.plan.devices.push(second);
        assert_eq!(waits(&snapshot, light, &none), None, "it may use the other");
    }

    #[test]
    fn many_are_named_by_the_largest() {
        let mut snapshot = snapshot(0, 200.0);
        let light = snapshot.plan.workloads[1].clone();
        let first = snapshot.plan.workloads[0].clone();
        snapshot.plan.workloads = (1..=5)
            .map(|n| {
                let mut one = first.clone();
                one.id = weir_core::WorkloadId::new(format!("/a/fio-{n}.scope"));
                one.bandwidth.bytes_per_sec = BytesPerSec::new((37.0 + f64::from(n)) * MIB);
                one
            })
            .chain([light.clone()])
            .collect();
        let said = waits(&snapshot, &light, &Knees::new()).unwrap();
        let wanted = "fio-5.scope, fio-4.scope and 3 others move 100 % of the bytes";
        assert!(said.ends_with(wanted), "{said}");
    }

    #[test]
    fn a_rehearsal_says_what_limits_would_do() {
        let mut snapshot = snapshot(0, 200.0);
        snapshot.limiting = false;
        for workload in &mut snapshot.plan.workloads {
            workload.why = Why::ObserveOnly;
            workload.limit_cpus = None::<CpuShare>;
            let moves = workload.bandwidth.bytes_per_sec;
            // The last bits of a demand differ from what was moved.
            workload.allowed_bytes_per_sec = Some(moves.scale(0.999));
        }
        assert_eq!(
            rehearsal(&snapshot),
            "with --limit, no workload would be limited now"
        );
        snapshot.plan.workloads[0].allowed_bytes_per_sec = Some(BytesPerSec::new(120.0 * MIB));
        assert_eq!(
            rehearsal(&snapshot),
            "with --limit, 1 of 5 workloads would be limited now: fio-heavy-reader-1.service from 180 MiB/s to \
             120 MiB/s"
        );
        snapshot.plan.devices[0].set_point_bytes_per_sec = None;
        assert!(rehearsal(&snapshot).contains("--set-point"));
    }
}
