// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Each device's bandwidth over the last minutes, in steps of half a second.

use std::collections::{BTreeMap, VecDeque};
use weir_core::DeviceId;
use weir_core::seam::plan::DeviceState;

const STEP_MS: u64 = 500;
/// Steps that are kept: as many as the widest screen has columns, over four minutes.
const STEPS_KEPT: usize = 512;

/// A mean in the making.
#[derive(Clone, Copy, Debug, Default)]
pub struct WindowMean {
    sum: f64,
    count: u32,
}

impl WindowMean {
    pub fn add(&mut self, value: f64) {
        self.sum += value;
        self.count += 1;
    }

    /// Nothing if there was no value.
    pub fn get(self) -> Option<f64> {
        (self.count > 0).then(|| self.sum / f64::from(self.count))
    }
}

#[derive(Debug, Default)]
struct HistoryCurve {
    steps: VecDeque<Option<f64>>,
    current: WindowMean,
}

#[derive(Debug, Default)]
pub struct History {
    curves: BTreeMap<DeviceId, HistoryCurve>,
    step_began_ms: u64,
}

impl History {
    /// Takes in the devices of a tick.
    pub fn add(&mut self, wall_unix_ms: u64, devices: &[DeviceState]) {
        if wall_unix_ms.saturating_sub(self.step_began_ms) >= STEP_MS {
            for curve in self.curves.values_mut() {
                let mean = std::mem::take(&mut curve.current).get();
                curve.steps.push_back(mean);
                if curve.steps.len() > STEPS_KEPT {
                    curve.steps.pop_front();
                }
            }
            self.step_began_ms = wall_unix_ms;
        }
        for device in devices {
            let curve = self.curves.entry(device.id).or_default();
            if let Some(rate) = total(device) {
                curve.current.add(rate.get());
            }
        }
    }

    /// Bandwidth by steps, oldest first; the last is still in the making.
    pub fn of(&self, device: DeviceId) -> Vec<Option<f64>> {
        let Some(curve) = self.curves.get(&device) else {
            return Vec::new();
        };
        let newest = [curve.current.get()];
        curve.steps.iter().copied().chain(newest).collect()
    }
}

/// Reads and writes together.
pub fn total(device: &DeviceState) -> Option<weir_core::BytesPerSec> {
    Some(device.read_bytes_per_sec? + device.write_bytes_per_sec?)
}
