// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The kernel as a row beside the workloads: what it moves when it migrates pages. It is no workload, and has
//! neither CPU time nor a limit. Its bytes are a part of those that no workload is charged for.

use super::{Model, TopRow};
use crate::top::history::WindowMean;
use weir_core::rates::attribution::{Estimate, Provenance};
use weir_core::seam::observation::Excluded;
use weir_core::seam::plan::{Decision, Why};
use weir_core::seam::snapshot::Snapshot;
use weir_core::{BytesPerSec, DeviceId, WorkloadId};

/// No workload has such a name: cgroups begin with a slash.
const NAME: &str = "(page migration)";
/// Less than this is shown as nothing, in bytes per second.
const LEAST: f64 = 1.0;

impl Model {
    /// What the kernel moves on all devices; nothing where it moves nothing. `all` is the devices' traffic.
    pub(super) fn migration_row(&self, newest: &Snapshot, all: BytesPerSec) -> Option<TopRow> {
        let devices = newest.plan.devices.iter();
        let means = devices.filter_map(|device| self.migrated(device.id));
        let bandwidth = means.sum::<BytesPerSec>();
        if bandwidth.get() < LEAST {
            return None;
        }
        let verdict = Decision {
            id: WorkloadId::new(NAME),
            // The kernel counts pages, and not which device they moved to or from.
            bandwidth: Estimate {
                bytes_per_sec: bandwidth,
                provenance: Provenance::Apportioned,
            },
            traffic: None,
            cpu_cpus: None,
            intensity_bytes_per_cpu_sec: None,
            allowed_bytes_per_sec: None,
            limit_cpus: None,
            limited_weight: None,
            throttled_ns: None,
            fair: None,
            why: Why::Excluded {
                by: Excluded::Kernel,
            },
        };
        Some(TopRow {
            bandwidth: Some(bandwidth),
            share: (all > BytesPerSec::ZERO).then(|| bandwidth.ratio(all)),
            is_page_migration: true,
            ..TopRow::leaf(verdict)
        })
    }

    /// Mean of a device. Where its traffic is known and no page was migrated, that is none, and not unknown.
    fn migrated(&self, id: DeviceId) -> Option<BytesPerSec> {
        let mut mean = WindowMean::default();
        for snapshot in &self.recent {
            let mut devices = snapshot.plan.devices.iter();
            let device = devices.find(|device| device.id == id);
            let Some((device, most)) =
                device.and_then(|d| Some((d, d.unattributed_bytes_per_sec?)))
            else {
                continue;
            };
            let migrated = device.migrated_bytes_per_sec.map_or(0.0, BytesPerSec::get);
            mean.add(migrated.min(most.get()));
        }
        mean.get().map(BytesPerSec::new)
    }

    /// Whether there are no workloads to show.
    pub fn is_empty(&self) -> bool {
        match self.filter.is_empty() {
            true => self.rows.iter().all(|row| row.is_page_migration),
            // The filter may be for that row.
            false => self.rows.is_empty(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::top::table::{TopColumn, why_long};
    use crate::top::testing::snapshot;

    const MIB: f64 = 1_048_576.0;

    fn model(migrated_mib: &[Option<f64>]) -> Model {
        let mut model = Model::default();
        for (tick, migrated) in (0..).zip(migrated_mib) {
            let mut snapshot = snapshot(tick * 50, 200.0);
            let device = &mut snapshot.plan.devices[0];
            device.unattributed_bytes_per_sec = Some(BytesPerSec::new(60.0 * MIB));
            device.migrated_bytes_per_sec = migrated.map(|mib| BytesPerSec::new(mib * MIB));
            model.add(snapshot);
        }
        model
    }

    #[test]
    fn the_kernel_has_a_row_with_what_it_migrates_and_no_more() {
        let cells = |migrated: &[Option<f64>]| {
            let mut model = model(migrated);
            assert!(model.rows().len() >= 5, "the workloads keep their rows");
            model.set_filter("page mig".into());
            assert_eq!(model.is_empty(), model.rows().is_empty());
            let row = model.rows().first()?.clone();
            assert_eq!(
                why_long(&row),
                "never limited: the kernel migrates pages",
                "{row:?}"
            );
            // It has no processes to be shown.
            model.unfold();
            assert_eq!(model.rows().len(), 1);
            let columns = [
                TopColumn::Bandwidth,
                TopColumn::Share,
                TopColumn::Cpu,
                TopColumn::Limit,
                TopColumn::Source,
                TopColumn::Why,
            ];
            Some(columns.map(|column| column.cell(&row)).join(" "))
        };
        // The mean of ticks with and without.
        let seen = cells(&[Some(80.0), None]);
        // It is a part of what is unattributed, and never more than that.
        assert_eq!(seen.as_deref(), Some("~30.0 MiB/s 15 % – – vmstat kernel"));
        assert_eq!(cells(&[None, None]), None);
    }

    #[test]
    fn a_row_of_the_kernel_alone_is_a_table_without_workloads() {
        let mut model = Model::default();
        let mut snapshot = snapshot(0, 200.0);
        snapshot.plan.workloads.clear();
        let device = &mut snapshot.plan.devices[0];
        device.unattributed_bytes_per_sec = Some(BytesPerSec::new(60.0 * MIB));
        device.migrated_bytes_per_sec = Some(BytesPerSec::new(60.0 * MIB));
        model.add(snapshot);
        assert_eq!(model.rows().len(), 1);
        assert!(model.is_empty());
    }
}
