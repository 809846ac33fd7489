// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What `weir explain` says of pages that the kernel migrates: how much of a device's traffic that is, and
//! the settings that have it do so.

use super::load::moved;
use weir_core::rates::attribution::UNSURE_RATIO;
use weir_core::seam::plan::{DeviceState, Plan};
use weir_figures::text;
use weir_linux::{MigrationSettings, Roots};

/// What is on of this machine's settings; nothing where the kernel moves too little for a line.
pub fn settings(plan: &Plan, roots: &Roots) -> MigrationSettings {
    if plan.devices.iter().any(|device| part(device).is_some()) {
        MigrationSettings::read(roots)
    } else {
        MigrationSettings::default()
    }
}

/// Part of a device's traffic, if it is worth a line: the traffic is then no exact count of a workload.
fn part(device: &DeviceState) -> Option<f64> {
    let part = device.migrated_bytes_per_sec?.ratio(moved(device)?);
    (part > UNSURE_RATIO).then_some(part)
}

pub fn line(device: &DeviceState, settings: &MigrationSettings) -> Option<String> {
    let part = text::whole_percent(part(device)?);
    let rate = text::rate(device.migrated_bytes_per_sec?);
    let mut line = format!("the kernel moves {rate}, {part} of the bytes, by page migration");
    let on = on(settings);
    if !on.is_empty() {
        line += &format!("; on: {}", on.join(", "));
    }
    Some(line)
}

/// Settings that are on, by their names.
fn on(settings: &MigrationSettings) -> Vec<String> {
    let mut on = Vec::new();
    let mut add = |is_on: bool, what: &str| on.extend(is_on.then(|| what.to_owned()));
    add(settings.demotes, "demotion (demotion_enabled)");
    add(settings.promotes, "promotion (numa_balancing has 2)");
    add(settings.balances, "NUMA balancing (numa_balancing has 1)");
    if let Some(actions) = &settings.damon {
        let actions: Vec<&str> = actions.iter().copied().collect();
        let actions = if actions.is_empty() {
            String::new()
        } else {
            format!(" ({})", actions.join(", "))
        };
        on.push(format!("DAMON{actions}"));
    }
    on
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::top::testing::snapshot;
    use weir_core::BytesPerSec;

    #[test]
    fn the_kernels_part_has_a_line_with_the_settings_that_are_on() {
        let mut device = snapshot(0, 200.0).plan.devices[0].clone();
        let mut said = |mib: f64, settings: &MigrationSettings| {
            device.migrated_bytes_per_sec = Some(BytesPerSec::new(mib * 1_048_576.0));
            line(&device, settings)
        };
        let all = MigrationSettings {
            demotes: true,
            promotes: true,
            balances: true,
            damon: Some(["migrate_cold", "pageout"].into()),
        };
        assert_eq!(said(4.0, &all), None, "no more than 2 %");
        let moves = "the kernel moves 50.0 MiB/s, 25 % of the bytes, by page migration";
        let none = MigrationSettings::default();
        assert_eq!(said(50.0, &none).as_deref(), Some(moves));
        let on = "; on: demotion (demotion_enabled), promotion (numa_balancing has 2), NUMA balancing \
                  (numa_balancing has 1), DAMON (migrate_cold, pageout)";
        assert_eq!(said(50.0, &all), Some(format!("{moves}{on}")));
        // DAMON runs, and what it does could not be read.
        let damon = MigrationSettings {
            damon: Some([].into()),
            ..none
        };
        assert_eq!(said(50.0, &damon), Some(format!("{moves}; on: DAMON")));
        device.read_bytes_per_sec = None;
        assert_eq!(line(&device, &all), None, "a part of what is not known");
    }
}
