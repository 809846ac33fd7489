// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Is a count that cannot be dropped, and never recorded, exported or acted on?

use crate::metrics::{OPEN_METRICS, scrape, value};
use crate::world::World;
use crate::world::server::free_address;
use rustix::process::Signal;
use serde_json::Value;

/// Less than this is moved by devices of today.
const MOST: f64 = 1e12;
const JUMP: u64 = 1 << 60;

fn reads(line: &Value) -> Option<f64> {
    line["plan"]["devices"][0]["read_bytes_per_sec"].as_f64()
}

#[test]
fn a_jump_costs_one_figure_and_its_reason_is_there() {
    let world = World::new();
    let daemon = world.start(&["run", "--json"]);
    world.wait_for_ticks(5);
    world.jump_counters(JUMP);
    world.wait_for_ticks(10);
    // And once more, back to where it was.
    world.jump_counters(0);
    world.wait_for_ticks(10);
    daemon.signal(Signal::TERM);
    let ended = daemon.end();
    let lines: Vec<Value> = ended
        .stdout
        .lines()
        .map(|l| serde_json::from_str(l).unwrap())
        .collect();
    let rates: Vec<Option<f64>> = lines.iter().map(reads).collect();
    assert!(rates.iter().flatten().all(|rate| *rate < MOST), "{rates:?}");
    let known = rates.iter().flatten().count();
    assert!(
        known + 8 >= rates.len() && known < rates.len() - 1,
        "{known} of {}",
        rates.len()
    );
    // It goes on after the second one. In a single tick a busy machine may not have moved the counters.
    let after = rates.iter().rev().take(8).flatten();
    assert!(after.into_iter().any(|rate| *rate > 0.0), "{rates:?}");
    let said = |line: &Value| {
        line["skipped"]
            .to_string()
            .contains("counter of reads of cxl0.0")
    };
    assert!(lines.iter().any(said), "no reason");
    assert!(lines.last().unwrap()["skipped_total"].as_u64().unwrap() > 0);
    assert!(
        ended.stderr.contains("device moves at most 1000 GB/s"),
        "{}",
        ended.stderr
    );
}

#[test]
fn a_jump_is_in_no_metric_and_is_counted_there() {
    let world = World::new();
    let address = free_address();
    let offer = format!("--metrics={address}");
    let daemon = world.start(&["run", &offer]);
    let group = "{device=\"cxl0\",group=\"0\"";
    let total = format!("weir_cxl_read_bytes_total{group},node=\"1\"}}");
    let lost = format!("weir_cxl_lost_readings_total{group},event=\"read_bytes\"}}");
    let page = || {
        scrape(address, OPEN_METRICS)
            .map(|(_, page)| page)
            .unwrap_or_default()
    };
    world.wait("a total", || {
        value(&page(), &total).is_some_and(|bytes| bytes > 0.0)
    });
    world.jump_counters(JUMP);
    world.wait("it is counted", || {
        value(&page(), &lost).is_some_and(|count| count >= 1.0)
    });
    let before = value(&page(), &total);
    world.wait("it goes on", || {
        let now = value(&page(), &total);
        // Of a program that takes rates, what matters: the total goes on without the jump.
        assert!(now.is_none_or(|bytes| bytes < 1e15), "{now:?}");
        now.is_some_and(|now| before.is_none_or(|before| now > before))
    });
    assert!(value(&page(), "weir_skips_total").is_some_and(|count| count >= 1.0));
    daemon.signal(Signal::TERM);
    daemon.end();
}
