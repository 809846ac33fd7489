// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The features of `docs/maturity.md` that never ran on hardware, and why some of them have no check.

use serde::Serialize;

/// The page itself, so that the list cannot grow old.
const MATURITY: &str = include_str!("../../../../../docs/maturity.md");

/// What has no check, by how its row begins, and why. Any other row without a check has none yet.
const WHY_NOT: &[(&str, &str)] = &[
    ("controller holds", LIMITS),
    ("policies", LIMITS),
    ("policy `drf`", LIMITS),
    (
        "scheduler, full mode",
        "it takes all tasks of the machine: weir run --limit --backend sched-ext-full",
    ),
    ("scheduler holds", LIMITS),
    (
        "thesis's schedulers",
        "they are for comparisons in the testbed",
    ),
    (
        "refusal beside other schedulers",
        "another scheduler would have to be loaded",
    ),
    (
        "calibration of events",
        "`weir doctor` calibrates them at each start of weir",
    ),
    (
        "attribution `resctrl`",
        "it makes monitoring groups for workloads: weir run --limit --attribution resctrl",
    ),
    (
        "attribution `sampling`",
        "it needs workloads that use the device: weir run --attribution sampling",
    ),
    (
        "attribution `task-counts`",
        "it needs workloads that use the device: weir run, then weir top",
    ),
    ("devices that come and go", "a device would have to go"),
    (
        "`groups",
        "it needs access counters of weir's kind, and changes groups",
    ),
    (
        "`weir bench interference`",
        "it loads memory and disks for minutes: weir bench interference --quick",
    ),
    (
        "`profile",
        "it records for as long as it is told: weir profile record",
    ),
    ("driver of", "its own tests are in kernel/access_counters"),
    ("`weir verify-hardware`", "this is it"),
    (
        "packages",
        "they are installed, and not measured: make packages-test",
    ),
];
const LIMITS: &str =
    "it limits workloads of this machine: weir run --limit, when that does no harm";

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct UncheckedFeature {
    /// Name of the feature as the page has it.
    pub feature: String,
    pub why: &'static str,
}

/// Features that were never on hardware, as the page has them.
pub fn on_hardware() -> Vec<String> {
    let rows = MATURITY.lines().filter(|line| line.starts_with('|'));
    let cells = rows.map(|row| row.trim_matches('|').split(" | ").collect::<Vec<_>>());
    let open = cells.filter(|cells| cells.get(4).is_some_and(|score| score.trim() == "0"));
    open.filter_map(|cells| Some(cells.first()?.trim().to_owned()))
        .collect()
}

pub fn unchecked(checked: &[&str]) -> Vec<UncheckedFeature> {
    let open = on_hardware().into_iter();
    let is_left = |feature: &String| !checked.iter().any(|start| feature.starts_with(start));
    let unchecked = open.filter(is_left).map(|feature| {
        let found = WHY_NOT.iter().find(|(start, _)| feature.starts_with(start));
        let why = found.map_or("there is no check of it yet", |(_, why)| *why);
        UncheckedFeature { feature, why }
    });
    unchecked.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pages_rows_are_found_and_each_reason_is_of_one() {
        let features = on_hardware();
        assert!(features.len() > 20, "{features:?}");
        assert!(features.iter().any(|f| f.starts_with("leases")));
        assert!(
            !features.iter().any(|f| f.starts_with("device model")),
            "it has no hardware"
        );
        for (start, _) in WHY_NOT {
            assert!(
                features.iter().any(|feature| feature.starts_with(start)),
                "docs/maturity.md has no row {start:?} that was never on hardware"
            );
        }
    }

    #[test]
    fn what_is_checked_is_not_listed() {
        let left = unchecked(&["leases"]);
        assert!(!left.iter().any(|row| row.feature.starts_with("leases")));
        assert_eq!(left.len() + 1, on_hardware().len());
    }
}
