// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Why a device's set-point is not held.

use weir_core::seam::plan::{DeviceState, Saturation};
use weir_figures::text;

/// Why a device's set-point cannot be held or is not reached, where that is so: a sentence without its full
/// stop.
pub fn not_held(device: &DeviceState) -> Option<String> {
    unenforceable(device).or_else(|| saturated(device))
}

/// Limits have no effect left.
fn saturated(device: &DeviceState) -> Option<String> {
    let found = device.saturation.as_ref()?;
    let set_point = device.set_point_bytes_per_sec.map(text::rate);
    let why = if found.bias_ratio < 0.0 {
        format!(
            "{} of {} limited workloads reach their limits, the others wait for CPUs or want no more",
            found.reaching, found.limited
        )
    } else {
        format!(
            "{} workloads are limited as far as weir limits",
            found.limited
        )
    };
    Some(format!(
        "limits do not bring the device to its set-point of {} ({}): {why}",
        set_point.unwrap_or_default(),
        bias(found)
    ))
}

/// How far the device is from its set-point.
pub fn bias(found: &Saturation) -> String {
    format!("{:+.0} %", found.bias_ratio * 100.0)
}

/// What is not limited keeps the set-point from being held.
fn unenforceable(device: &DeviceState) -> Option<String> {
    let found = device.unenforceable.as_ref()?;
    let largest = &found.largest;
    let of = match &largest.workload {
        None => "have no owner".to_owned(),
        Some(id) => {
            let why = largest.excluded.as_ref();
            let why = why.map_or_else(String::new, |why| format!(", which is not limited: {why}"));
            format!("are {}{why}", id.as_str())
        }
    };
    let set_point = device.set_point_bytes_per_sec.map(text::rate);
    Some(text::harmless(&format!(
        "the set-point of {} cannot be held: {} are not limited, and {} of these {of}",
        set_point.unwrap_or_default(),
        text::rate(found.unlimited_bytes_per_sec),
        text::rate(largest.bytes_per_sec),
    )))
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_core::{BytesPerSec, DeviceId};

    fn device(saturation: Option<Saturation>) -> DeviceState {
        DeviceState {
            id: DeviceId(0),
            read_bytes_per_sec: None,
            write_bytes_per_sec: None,
            unattributed_bytes_per_sec: None,
            migrated_bytes_per_sec: None,
            set_point_bytes_per_sec: Some(BytesPerSec::new(400.0 * 1_048_576.0)),
            correction_ratio: 1.0,
            planned_bytes_per_sec: None,
            unenforceable: None,
            saturation,
        }
    }

    #[test]
    fn limits_without_effect_are_said_with_what_they_lack() {
        assert_eq!(not_held(&device(None)), None);
        let saturation = |bias_ratio| Saturation {
            bias_ratio,
            limited: 9,
            reaching: 3,
        };
        assert_eq!(
            not_held(&device(Some(saturation(-0.12)))).unwrap(),
            "limits do not bring the device to its set-point of 400 MiB/s (-12 %): 3 of 9 limited workloads \
             reach their limits, the others wait for CPUs or want no more"
        );
        assert_eq!(
            not_held(&device(Some(saturation(0.2)))).unwrap(),
            "limits do not bring the device to its set-point of 400 MiB/s (+20 %): 9 workloads are limited as \
             far as weir limits"
        );
    }
}
