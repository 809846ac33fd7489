// SPDX-License-Identifier: Apache-2.0 OR MIT

use super::{Collect, Family, Metric, Totals};
use weir_core::GroupId;
use weir_core::seam::observation::{DevLoad, GroupReading, Reading};
use weir_core::seam::snapshot::Snapshot;

pub(super) fn devices(out: &mut dyn Collect, snapshot: &Snapshot, totals: &Totals) {
    counts(out, snapshot, totals);
    scaling(out, totals);
    lost_readings(out, totals);
    latencies(out, snapshot);
    load(out, snapshot);
    control(out, snapshot);
}

fn counts(out: &mut dyn Collect, snapshot: &Snapshot, totals: &Totals) {
    let labels = |id: &GroupId| {
        let groups = &snapshot.description.groups;
        let node = groups
            .iter()
            .find(|group| group.id == *id)
            .and_then(|group| group.node);
        let node = node.map(|node| node.0.to_string()).unwrap_or_default();
        [id.device.to_string(), id.index.to_string(), node]
    };
    type Count = fn(&GroupReading) -> &Reading<weir_core::Bytes>;
    let directions: [(&str, &str, Count); 2] = [
        (
            "weir_cxl_read_bytes",
            "Bytes read from the device, as it counts them.",
            |g| &g.read_bytes,
        ),
        (
            "weir_cxl_write_bytes",
            "Bytes written to the device, as it counts them.",
            |g| &g.write_bytes,
        ),
    ];
    for (name, help, count) in directions {
        let mut family = Family::begin(out, Metric::counter(name, "bytes", help));
        for (id, group) in &totals.groups {
            if let Some(bytes) = count(group).ok() {
                let [device, index, node] = labels(id);
                let labels = [("device", &*device), ("group", &index), ("node", &node)];
                family.whole(&labels, bytes.0);
            }
        }
    }
    let sums = [
        (
            "weir_cxl_unattributed_bytes",
            "Part of the device's bytes for which no cgroup and no process is known.",
            &totals.unattributed,
        ),
        (
            "weir_cxl_page_migration_bytes",
            "Of these, bytes that the kernel is known to have moved by migrating pages.",
            &totals.migrated,
        ),
    ];
    for (name, help, sums) in sums {
        let mut family = Family::begin(out, Metric::counter(name, "bytes", help));
        for (id, bytes) in sums {
            family.sample(&[("device", &id.to_string())], bytes.round());
        }
    }
}

fn scaling(out: &mut dyn Collect, totals: &Totals) {
    let help = "Part of the time in which the counter counted; 1 where events are not multiplexed.";
    let metric = Metric::gauge("weir_event_scaling_ratio", "ratio", help);
    let mut family = Family::begin(out, metric);
    for (id, group) in &totals.groups {
        let (device, index) = (id.device.to_string(), id.index.to_string());
        let ratio = totals.running.get(&id.device).copied().unwrap_or(1.0);
        for (event, count) in [
            ("read_bytes", &group.read_bytes),
            ("write_bytes", &group.write_bytes),
        ] {
            if count.ok().is_some() {
                let labels = [("device", &*device), ("group", &index), ("event", event)];
                family.sample(&labels, ratio);
            }
        }
    }
}

fn lost_readings(out: &mut dyn Collect, totals: &Totals) {
    let help = "Readings of a counter that were lost: it could not be read, or went on by more than the device can move.";
    let mut family = Family::begin(out, Metric::counter("weir_cxl_lost_readings", "", help));
    for (id, lost) in &totals.lost {
        let (device, index) = (id.device.to_string(), id.index.to_string());
        for (event, count) in ["read_bytes", "write_bytes"].iter().zip(lost) {
            let labels = [("device", &*device), ("group", &index), ("event", event)];
            family.whole(&labels, *count);
        }
    }
}

fn latencies(out: &mut dyn Collect, snapshot: &Snapshot) {
    let known = || {
        let all = snapshot.latencies.iter();
        all.filter_map(|latency| Some((latency, latency.mean_ns.ok()?)))
    };
    let help = "Mean time of one access, queueing included.";
    let metric = Metric::gauge("weir_cxl_request_latency_seconds", "seconds", help);
    let mut family = Family::begin(out, metric);
    for (latency, mean) in known() {
        let (device, source) = (latency.id.to_string(), latency.source.name());
        family.sample(&[("device", &device), ("source", source)], mean.secs_f64());
    }
    let help = "Time since that latency was measured, at the last observation.";
    let metric = Metric::gauge("weir_cxl_request_latency_age_seconds", "seconds", help);
    let mut family = Family::begin(out, metric);
    for (latency, _) in known() {
        let age = snapshot.plan.at.since(latency.mean_ns.at);
        let age = age.unwrap_or_default().secs_f64();
        family.sample(&[("device", &latency.id.to_string())], age);
    }
}

fn load(out: &mut dyn Collect, snapshot: &Snapshot) {
    const NAME: &str = "weir_cxl_devload";
    let help = "Load that the device reports (CXL 3.1, 3.3.4): 1 for the state that it is in.";
    let mut family = Family::begin(out, Metric::state_set(NAME, help));
    for reading in &snapshot.devload {
        let Some(now) = reading.load.ok() else {
            continue;
        };
        let device = reading.id.to_string();
        for (state, name) in [
            (DevLoad::Light, "light"),
            (DevLoad::Optimal, "optimal"),
            (DevLoad::Moderate, "moderate"),
            (DevLoad::Severe, "severe"),
        ] {
            let is_now = u64::from(*now == state);
            family.whole(&[("device", &device), (NAME, name)], is_now);
        }
    }
}

fn control(out: &mut dyn Collect, snapshot: &Snapshot) {
    let unit = "bytes_per_second";
    let help = "Bandwidth that the device is held at, reads and writes.";
    let metric = Metric::gauge("weir_cxl_set_point_bytes_per_second", unit, help);
    let mut family = Family::begin(out, metric);
    for state in &snapshot.plan.devices {
        if let Some(rate) = state.set_point_bytes_per_sec {
            family.sample(&[("device", &state.id.to_string())], rate.get());
        }
    }
    let help =
        "1 where the set-point cannot be held because of traffic that is not limited; else 0.";
    let metric = Metric::gauge("weir_cxl_unenforceable", "", help);
    let mut family = Family::begin(out, metric);
    for state in &snapshot.plan.devices {
        if state.set_point_bytes_per_sec.is_some() {
            let is_so = u64::from(state.unenforceable.is_some());
            family.whole(&[("device", &state.id.to_string())], is_so);
        }
    }
    let help =
        "1 where limits have no effect left and the device stays beside its set-point; else 0.";
    let metric = Metric::gauge("weir_cxl_saturated", "", help);
    let mut family = Family::begin(out, metric);
    for state in &snapshot.plan.devices {
        if state.set_point_bytes_per_sec.is_some() {
            let is_so = u64::from(state.saturation.is_some());
            family.whole(&[("device", &state.id.to_string())], is_so);
        }
    }
    let help = "Factor by which the controller corrects its feed-forward; 1 is none.";
    let metric = Metric::gauge("weir_cxl_correction_ratio", "ratio", help);
    let mut family = Family::begin(out, metric);
    for state in &snapshot.plan.devices {
        family.sample(&[("device", &state.id.to_string())], state.correction_ratio);
    }
    let help = "The most that the device can move, where that is known.";
    let metric = Metric::gauge("weir_cxl_capacity_bytes_per_second", unit, help);
    let mut family = Family::begin(out, metric);
    for device in &snapshot.description.devices {
        if let Some(capacity) = device.capacity_bytes_per_sec {
            family.sample(&[("device", &device.id.to_string())], capacity.get());
        }
    }
}
