// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Counters under their limits: turns, widths, skew, faults.

use super::{one, sum};
use weir_description::DescriptionError;
use weir_server_model::{CountingPlan, Machine, Server, ServerWindow};

fn machine() -> Machine {
    Machine::named("small").expect("built in")
}

const RANDOM: &str = "pattern = \"random\"\nchains = 1\ndependence = 0.5";

/// Windows of 100 µs of random reads, half of them from CXL, counted by a plan.
fn windows(machine: &Machine, plan: &str, count: usize) -> Vec<ServerWindow> {
    let workloads = one(machine, "[0, 1]", "kib = 16384\ncxl_part = 0.5", RANDOM);
    let mut server = Server::new(machine, &workloads, 5).expect("a server");
    let plan = CountingPlan::parse(plan, machine, "plan").expect("a plan");
    server.count(&plan).expect("a plan that fits");
    server.run(20e3);
    (0..count).map(|_| server.window(100e3)).collect()
}

const OCCUPANCIES: &str = r#"
    [[set]]
    unit = "cha"
    events = ["clock", "tor_occupancy.drd.cxl", "tor_inserts.drd.cxl"]
    [[set]]
    unit = "cha"
    events = ["clock", "tor_occupancy.drd.dram", "tor_inserts.drd.dram"]
"#;

/// Residence in the TOR by cycles of the CHA's clock, nanoseconds.
fn tor_ns(window: &ServerWindow, class: &str) -> f64 {
    let occupancy = sum(window, "cha", &format!("tor_occupancy.drd.{class}"));
    let inserts = sum(window, "cha", &format!("tor_inserts.drd.{class}"));
    occupancy as f64 / inserts as f64 / machine().mesh.ghz
}

#[test]
fn sets_take_turns_and_say_how_long_they_ran() {
    let plan = format!("turn_us = 7.0\n{OCCUPANCIES}");
    for window in windows(&machine(), &plan, 3) {
        for count in &window.counts.counts {
            assert!((count.enabled_ns - 100e3).abs() < 1.0, "{count:?}");
            assert!(count.running_ns > 0.3 * count.enabled_ns, "{count:?}");
            assert!(count.running_ns < 0.7 * count.enabled_ns, "{count:?}");
        }
        assert!(
            (310.0..390.0).contains(&tor_ns(&window, "cxl")),
            "{}",
            tor_ns(&window, "cxl")
        );
        assert!(
            (60.0..110.0).contains(&tor_ns(&window, "dram")),
            "{}",
            tor_ns(&window, "dram")
        );
    }
}

#[test]
fn boxes_that_count_different_events_at_once_need_no_turns() {
    let plan = format!("is_spread = true\n{OCCUPANCIES}");
    let window = &windows(&machine(), &plan, 1)[0];
    let ran = |event: &str| {
        let counts = window.counts.counts.iter();
        let boxes = counts.filter(|c| &*c.event == event && c.running_ns > 0.0);
        boxes.map(|c| c.index).collect::<Vec<_>>()
    };
    assert_eq!(ran("tor_occupancy.drd.cxl"), [0, 2]);
    assert_eq!(ran("tor_occupancy.drd.dram"), [1, 3]);
}

#[test]
fn cpus_take_turns_with_each_other_where_home_agents_do_not() {
    let cpu = "[[set]]\nunit = \"cpu\"\nevents = [\"loads.all\"]\n[[set]]\nunit = \"cpu\"\nevents = [\"stores.all\"]";
    // The turn is longer than the window: each box counts its first set alone.
    let plan = format!("is_spread = true\nturn_us = 1e6\n{OCCUPANCIES}\n{cpu}");
    let window = &windows(&machine(), &plan, 1)[0];
    let is_counted = |event: &str| {
        let mut counts = window.counts.counts.iter();
        counts.any(|c| &*c.event == event && c.running_ns > 0.0)
    };
    assert!(is_counted("loads.all") && !is_counted("stores.all"));
    assert!(is_counted("tor_inserts.drd.cxl") && is_counted("tor_inserts.drd.dram"));
}

#[test]
fn sets_that_no_box_can_count_are_refused_by_name() {
    let refused = |plan: &str| {
        CountingPlan::parse(plan, &machine(), "plan")
            .expect_err("refused")
            .to_string()
    };
    let two =
        "[[set]]\nunit = \"cha\"\nevents = [\"tor_occupancy.drd.cxl\", \"tor_occupancy.drd.dram\"]";
    assert!(
        refused(two).contains("tor_occupancy.drd.dram"),
        "{}",
        refused(two)
    );
    let three =
        "[[set]]\nunit = \"cpu\"\nevents = [\"ocr.drd.cxl\", \"ocr.drd.dram\", \"ocr.rfo.cxl\"]";
    assert!(
        refused(three).contains("two response registers"),
        "{}",
        refused(three)
    );
    let five = "[[set]]\nunit = \"cpu\"\nevents = [\"loads.all\", \"loads.l1_hit\", \"loads.fb_hit\", \
                \"loads.l2_hit\", \"loads.dram\"]";
    assert!(refused(five).contains("loads.dram"), "{}", refused(five));
    let unknown = "[[set]]\nunit = \"cpu\"\nevents = [\"loads.nowhere\"]";
    assert!(
        refused(unknown).contains("loads.cxl"),
        "names alike: {}",
        refused(unknown)
    );
    let ingress = "[[set]]\nunit = \"cha\"\nevents = [\"rxc_occupancy.irq\"]";
    assert!(
        refused(ingress).contains("rxc_occupancy.irq"),
        "only Granite Rapids has it"
    );
    let mut newer = machine();
    newer.cha.counts_ingress = true;
    CountingPlan::parse(ingress, &newer, "plan").expect("it has it");
    let turns = OCCUPANCIES;
    assert!(refused(turns).contains("turn_us"), "{}", refused(turns));
}

#[test]
fn registers_wrap_and_narrow_ones_lose_wraps() {
    let plan = "[[set]]\nunit = \"cpu\"\nevents = [\"cycles\", \"loads.all\"]";
    let cycles = |bits: u32| {
        let mut machine = machine();
        machine.pmu.width_bits = bits;
        let window = windows(&machine, plan, 1).remove(0);
        window
            .counts
            .counts
            .iter()
            .map(|c| (c.event.to_string(), c.value))
            .collect::<Vec<_>>()
    };
    // 100 µs are 200 000 cycles: 18 bits wrap at any beginning in time, 16 bits lose three wraps.
    assert_eq!(cycles(48), cycles(18));
    assert_eq!(cycles(48)[0].1, 200_000);
    assert_eq!(cycles(16)[0].1, 200_000 % 65_536);
}

#[test]
fn boxes_are_read_one_after_the_other() {
    let mut machine = machine();
    machine.pmu.read_ns = 500.0;
    let plan = "[[set]]\nunit = \"cha\"\nevents = [\"clock\"]";
    for window in windows(&machine, plan, 2) {
        assert_eq!(window.truth.to_ns - window.truth.from_ns, 100e3);
        for count in window.counts.counts.iter().skip(1) {
            let is_first = window.counts.number == 0;
            let wanted = 100e3
                + if is_first {
                    f64::from(count.index) * 500.0
                } else {
                    0.0
                };
            assert_eq!(count.enabled_ns, wanted, "{count:?}");
        }
    }
}

#[test]
fn faults_come_when_asked_for() {
    let plan = r#"
        [[set]]
        unit = "m2p"
        events = ["clock", "rxc_req_inserts"]
        [[set]]
        unit = "cha"
        events = ["clock", "tor_inserts.drd.cxl"]
        [[fault]]
        kind = "garbage-clock"
        unit = "m2p"
        from_window = 1
        [[fault]]
        kind = "stuck"
        unit = "cha"
        index = 2
        event = "tor_inserts.drd.cxl"
        [[fault]]
        kind = "scaled"
        unit = "cha"
        index = 1
        event = "clock"
        factor = 0.5
        [[fault]]
        kind = "lost-window"
        from_window = 3
        to_window = 4
    "#;
    let windows = windows(&machine(), plan, 5);
    let value = |window: usize, unit: &str, event: &str, index: u32| {
        let counts = windows[window].counts.counts.iter();
        let mut of =
            counts.filter(|c| c.unit.name() == unit && &*c.event == event && c.index == index);
        of.next().expect("counted").value
    };
    let clocks: Vec<u64> = [0, 1, 2, 4].map(|n| value(n, "m2p", "clock", 0)).to_vec();
    assert_eq!(clocks, [100_000, 4263, 0, 0]);
    assert_eq!(value(0, "cha", "tor_inserts.drd.cxl", 2), 0);
    assert!(value(0, "cha", "tor_inserts.drd.cxl", 3) > 0);
    assert_eq!(value(0, "cha", "clock", 1) * 2, value(0, "cha", "clock", 0));
    assert!(windows[3].counts.is_lost && windows[3].counts.counts.is_empty());
    assert!(!windows[3].truth.lines.is_empty(), "the truth is not lost");
    assert!(!windows[4].counts.is_lost);
}

#[test]
fn the_plan_does_not_change_the_run() {
    let with = windows(&machine(), &format!("turn_us = 3.0\n{OCCUPANCIES}"), 2);
    let without = windows(&machine(), "set = []", 2);
    for (with, without) in with.iter().zip(&without) {
        assert_eq!(with.truth, without.truth);
    }
}

#[test]
fn parts_of_a_whole_sum_up() {
    let machine = machine();
    let workloads = one(
        &machine,
        "[0, 1]",
        "kib = 16384\ncxl_part = 0.3\nremote_part = 0.3",
        RANDOM,
    );
    let window = super::window(&machine, &workloads, 10e3, 100e3);
    let sum = |unit: &str, event: &str| super::sum(&window, unit, event);
    let parts = ["l1_hit", "fb_hit", "l2_hit", "l3_hit", "l3_miss"]
        .map(|p| sum("cpu", &format!("loads.{p}")));
    assert_eq!(parts.iter().sum::<u64>(), sum("cpu", "loads.all"));
    let parts =
        ["hit", "dram", "dram_remote", "cxl"].map(|p| sum("cha", &format!("tor_inserts.drd.{p}")));
    assert_eq!(parts.iter().sum::<u64>(), sum("cha", "tor_inserts.drd.all"));
    let measured = sum("cpu", "stalls.l1d_miss") + sum("cpu", "stalls.bound_on_stores");
    let truth_ns: f64 = window.truth.stalls.iter().map(|row| row.ns).sum();
    let error = truth_ns * machine.cores.ghz - measured as f64;
    assert!(error.abs() <= 4.0, "whole cycles of two CPUs: {error}");
    assert!(sum("cpu", "stalls.l3_miss") <= sum("cpu", "stalls.l2_miss"));
    assert!(sum("cpu", "stalls.l2_miss") <= sum("cpu", "stalls.l1d_miss"));
}

#[test]
fn errors_of_plans_are_typed() {
    let error =
        CountingPlan::parse("turn_us = -1.0\nset = []", &machine(), "p").expect_err("refused");
    assert!(matches!(error, DescriptionError::Value { key, .. } if key == "turn_us"));
}
