// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Counts that contradict each other: a report is made of them all the same, with figures or reasons.

use proptest::prelude::*;
use weir_profile::WindowFile;
use weir_profile::report::{self, Options, text};

/// Counts of a workload; the last ones are those of the machine.
const ROLES: [&str; 31] = [
    "core.any.any.clock",
    "core.any.any.time-ns",
    "core.any.any.instructions",
    "l1d.drd.miss.stalls",
    "sb.any.any.stalls",
    "lfb.drd.any.occupancy",
    "lfb.drd.any.busy",
    "lfb.drd.any.full",
    "l2.drd.own.loads",
    "l2.drd.miss.lines",
    "l2.pf.miss.lines",
    "l2.rfo.own.lines",
    "l2.rfo.miss.lines",
    "sq.drd.own.lines",
    "sq.drd.cxl-own.lines",
    "sq.drd.dram-own.lines",
    "sq.reads.own.lines",
    "sq.reads.cxl-own.lines",
    "sq.reads.dram-own.lines",
    "sq.drd.any.inserts",
    "sq.drd.any.occupancy",
    "tor.any.any.clock",
    "tor.drd.cxl-own.inserts",
    "tor.drd.cxl-own.occupancy",
    "tor.drd.dram-own.inserts",
    "tor.drd.dram-own.occupancy",
    "device.any.any.clock",
    "device.reads.cxl.inserts",
    "device.reads.cxl.occupancy",
    "port.any.any.clock",
    "port.reads.cxl.busy",
];
const OF_WORKLOADS: usize = 21;

fn file(values: &[u64], fill_buffers: u32) -> WindowFile {
    let counts = |roles: &[&str], values: &[u64]| {
        let all = roles.iter().zip(values).map(|(role, value)| {
            format!(
                "{{\"role\":\"{role}\",\"of\":\"all\",\"value\":{{\"Ok\":{value}}},\"enabled_ns\":1000000,\
                 \"running_ns\":1000000,\"provenance\":\"documented\"}}"
            )
        });
        all.collect::<Vec<String>>().join(",")
    };
    let (of_workload, of_machine) = ROLES.split_at(OF_WORKLOADS);
    let (own, shared) = values.split_at(OF_WORKLOADS);
    let header = format!(
        "{{\"weir_windows\":1,\"source\":\"made up\",\"capacities\":{{\"lfb.drd.any.occupancy\":{fill_buffers}}}}}"
    );
    let window = format!(
        "{{\"from\":0,\"to\":1000000,\"machine\":[{}],\"workloads\":[{{\"id\":\"/a\",\"counts\":[{}]}}]}}",
        counts(of_machine, shared),
        counts(of_workload, own)
    );
    WindowFile::parse(&format!("{header}\n{window}\n")).unwrap()
}

/// Zero is the most frequent count of an event that does not happen.
fn values() -> impl Strategy<Value = Vec<u64>> {
    let one = prop_oneof![
        3 => Just(0u64),
        1 => Just(1),
        4 => 1000u64..3_000_000,
        1 => Just(u64::MAX),
    ];
    prop::collection::vec(one, ROLES.len())
}

fn reported(now: &WindowFile, idle: &WindowFile) -> String {
    let options = Options {
        idle: Some(idle),
        pathfinder: true,
        over_time: true,
        ..Options::default()
    };
    let made = report::report(now, &options);
    assert!(serde_json::to_string(&made).is_ok());
    text::text(&made)
}

/// A core that stalls, and not one load or line to wait for.
#[test]
fn stalls_without_anything_to_wait_for_are_reported() {
    let mut values = vec![1_000_000; ROLES.len()];
    for (value, role) in values.iter_mut().zip(ROLES) {
        if role.ends_with(".lines") || role.ends_with(".loads") {
            *value = 0;
        }
    }
    values[0] = 2_000_000;
    values[4] = 0;
    let file = file(&values, 16);
    let said = reported(&file, &file);
    assert!(said.contains("not split"), "{said}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn any_counts_are_reported(now in values(), idle in values(), fill_buffers in 1u32..=20) {
        let said = reported(&file(&now, fill_buffers), &file(&idle, fill_buffers));
        let is_number = |word: &&str| matches!(word.trim_matches(['(', ')', ',', '-']), "NaN" | "inf");
        let odd: Vec<&str> = said.split_whitespace().filter(is_number).collect();
        prop_assert!(odd.is_empty(), "{said}");
    }
}
