// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Lines of a run that goes on are the lines of its recording: one definition of names, words and means.

use crate::made::{INTERVAL_MS, desk, recorded};
use weir_core::Nanos;
use weir_store::export::{Format, Live, Range, Table, export};
use weir_store::{Recording, SPAN, Tick};

fn lines_of(ticks: &[Tick], mut live: Live) -> Vec<String> {
    let mut text = String::new();
    for tick in ticks {
        let latencies = &tick.observation.latencies;
        let whole = live.add(tick.wall_unix_ms, &tick.plan, &tick.outcomes, latencies);
        text += &whole.unwrap_or_default();
    }
    text += &live.end();
    text.lines().map(str::to_owned).collect()
}

#[test]
fn a_run_and_its_recording_give_the_same_lines() {
    let dir = desk();
    let path = dir.path().join("a.weir");
    // Not a multiple of a span: the last one is shorter.
    let ticks = recorded(&path, 237);
    let recording = Recording::open(&path).unwrap();
    let mut exported = Vec::new();
    for table in [Table::Devices, Table::Workloads, Table::Actions] {
        export(
            &recording,
            table,
            Format::Influx,
            Range::default(),
            &mut exported,
        )
        .unwrap();
    }
    let exported = String::from_utf8(exported).unwrap();
    let mut wanted: Vec<String> = exported
        .lines()
        .map(|line| line.replacen(",session=1,", ",host=node\\ 7,", 1))
        .collect();
    let interval = Nanos::from_millis(INTERVAL_MS);
    let mut found = lines_of(&ticks, Live::new("node 7", SPAN, interval, true));
    wanted.sort();
    found.sort();
    for (table, least) in [
        ("weir_device,", 24),
        ("weir_workload,", 90),
        ("weir_action,", 5),
    ] {
        let count = wanted.iter().filter(|l| l.starts_with(table)).count();
        assert!(count >= least, "{count} lines of {table}");
    }
    assert_eq!(found, wanted);
}

#[test]
fn without_workloads_there_are_devices_only() {
    let dir = desk();
    let ticks = recorded(&dir.path().join("a.weir"), 50);
    let interval = Nanos::from_millis(INTERVAL_MS);
    let found = lines_of(&ticks, Live::new("", SPAN, interval, false));
    assert_eq!(found.len(), 5);
    let device = |line: &String| line.starts_with("weir_device,device=0 span_ns=");
    assert!(found.iter().all(device), "{found:?}");
}
