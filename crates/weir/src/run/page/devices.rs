// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Devices as the page has them: names when one begins or when they change, figures with each event.

use super::figures::{Smooth, Weight, kib_per_sec, three_digits};
use super::history::DEVICES_MAX;
use super::message::EventMessage;
use crate::cli::output::labels;
use serde::Serialize;
use weir_core::BytesPerSec;
use weir_core::seam::observation::Skipped;
use weir_core::seam::plan::DeviceState;
use weir_core::seam::snapshot::Snapshot;
use weir_figures::text;

/// Cells of a name or reason.
const CELLS_MAX: usize = 200;

/// What does not change from tick to tick.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Named {
    id: String,
    name: String,
    capacity_kib_per_sec: i64,
}

#[derive(Serialize)]
struct DeviceFigures {
    bandwidth_kib_per_sec: i64,
    read_kib_per_sec: i64,
    write_kib_per_sec: i64,
    unattributed_kib_per_sec: i64,
    /// The part of the traffic that the kernel moved by migrating pages.
    migrated_kib_per_sec: i64,
    set_point_kib_per_sec: i64,
    planned_kib_per_sec: i64,
    latency_ns: i64,
    /// In words, with its source, or why there is none.
    latency: Option<String>,
    devload: Option<&'static str>,
}

#[derive(Default)]
pub struct Devices {
    names: Vec<Named>,
    means: Vec<[Smooth; 3]>,
    now: Vec<DeviceFigures>,
}

impl Devices {
    /// Takes in a snapshot. Whether there are others than before.
    pub fn update(&mut self, snapshot: &Snapshot, weight: Weight) -> bool {
        let shown = snapshot.plan.devices.iter().take(DEVICES_MAX);
        let names: Vec<Named> = shown.clone().map(|state| named(snapshot, state)).collect();
        let is_other = names != self.names;
        if is_other {
            self.means = vec![Default::default(); names.len()];
            self.names = names;
        }
        let pairs = shown.zip(&mut self.means);
        self.now = pairs
            .map(|(state, means)| figures(snapshot, state, means, weight))
            .collect();
        is_other
    }

    pub fn write_names(&self, to: &mut EventMessage) {
        to.field("names", &self.names);
    }

    pub fn write_figures(&self, to: &mut EventMessage) {
        to.field("devices", &self.now);
    }
}

fn named(snapshot: &Snapshot, state: &DeviceState) -> Named {
    let mut all = snapshot.description.devices.iter();
    let known = all.find(|device| device.id == state.id);
    let name = known.map_or("", |device| &device.name);
    Named {
        id: state.id.to_string(),
        name: text::fit(&text::harmless(name), CELLS_MAX),
        capacity_kib_per_sec: kib_per_sec(known.and_then(|known| known.capacity_bytes_per_sec)),
    }
}

fn figures(
    snapshot: &Snapshot,
    state: &DeviceState,
    [both, read, write]: &mut [Smooth; 3],
    weight: Weight,
) -> DeviceFigures {
    let mean = |smooth: &mut Smooth, rate: Option<f64>| {
        three_digits(smooth.with(rate, weight).map(|rate| rate / 1024.0))
    };
    let reads = state.read_bytes_per_sec.map(BytesPerSec::get);
    let writes = state.write_bytes_per_sec.map(BytesPerSec::get);
    let latency = snapshot
        .latencies
        .iter()
        .find(|latency| latency.id == state.id);
    let devload = snapshot.devload.iter().find(|load| load.id == state.id);
    DeviceFigures {
        bandwidth_kib_per_sec: mean(both, reads.zip(writes).map(|(read, write)| read + write)),
        read_kib_per_sec: mean(read, reads),
        write_kib_per_sec: mean(write, writes),
        unattributed_kib_per_sec: kib_per_sec(state.unattributed_bytes_per_sec),
        migrated_kib_per_sec: kib_per_sec(state.migrated_bytes_per_sec),
        set_point_kib_per_sec: kib_per_sec(state.set_point_bytes_per_sec),
        planned_kib_per_sec: kib_per_sec(state.planned_bytes_per_sec),
        latency_ns: three_digits(
            latency
                .and_then(|l| l.mean_ns.ok())
                .map(|mean| mean.0 as f64),
        ),
        latency: latency
            .map(|latency| text::fit(&labels::latency(latency, snapshot.plan.at), CELLS_MAX)),
        devload: devload
            .and_then(|load| load.load.ok())
            .map(|load| load.name()),
    }
}

/// What could not be read, and why.
pub fn skip(skipped: &Skipped) -> String {
    let said = format!("{}: {}", skipped.what, skipped.why);
    text::fit(&text::harmless(&said), CELLS_MAX)
}
