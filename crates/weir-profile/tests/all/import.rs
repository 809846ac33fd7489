// SPDX-License-Identifier: Apache-2.0 OR MIT
//! From lines of perf to windows: sums, differences, times, and events that no table knows.

use proptest::prelude::*;
use weir_core::window::{CountProvenance, CountScope};
use weir_core::{Nanos, Window};
use weir_profile::recipes::{Recipe, Recipes, windows};
use weir_profile::report::{Options, report, text};
use weir_profile::{Counts, WindowFile, perf_stat};

fn recipe(role: &str, plus: &[&str], minus: &[&str]) -> Recipe {
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    Recipe {
        role: role.parse().unwrap(),
        plus: names(plus),
        minus: names(minus),
        provenance: CountProvenance::Documented,
        capacity: role.ends_with("occupancy").then_some(16),
        ns: None,
    }
}

fn recipes() -> Recipes {
    Recipes {
        family: Some("made-up".into()),
        all: vec![
            recipe("sq.drd.dram.lines", &["NEAR", "FAR"], &[]),
            recipe("sq.drd.cxl.lines", &["ALL"], &["NEAR"]),
            recipe("tor.drd.cxl.occupancy", &["HELD"], &[]),
            recipe("tor.drd.cxl.inserts", &["CAME"], &[]),
            recipe("tor.any.any.clock", &["TICKS"], &[]),
        ],
    }
}

fn naming(_: Option<&str>, name: &str) -> Option<String> {
    let known = ["NEAR", "FAR", "ALL", "HELD", "CAME", "TICKS"];
    let upper = name.to_ascii_uppercase();
    known.contains(&upper.as_str()).then_some(upper)
}

fn file(text: &str) -> WindowFile {
    windows(
        &perf_stat::read(text, None).unwrap(),
        &recipes(),
        &naming,
        None,
    )
}

fn value(window: &Window, role: &str) -> Result<u64, String> {
    let role: weir_core::Role = role.parse().unwrap();
    let count = window.machine.iter().find(|count| count.role == role);
    let count = count.ok_or("not there")?;
    count.value.clone().map_err(|why| why.to_string())
}

#[test]
fn roles_are_sums_and_differences_of_events() {
    let made = file(
        "10,,near,9,100.00,,\n5,,far,9,100.00,,\n4,,all,9,100.00,,\n3,,page-faults,9,100.00,,\n",
    );
    let window = &made.windows[0];
    assert_eq!(value(window, "sq.drd.dram.lines"), Ok(15));
    assert!(
        value(window, "sq.drd.cxl.lines")
            .unwrap_err()
            .contains("below 0")
    );
    assert_eq!(window.unassigned[0].event, "page-faults");
    assert_eq!(
        window.length(),
        None,
        "perf does not say how long it counted"
    );
    let part = file("10,,near,9,100.00,,\n");
    assert!(value(&part.windows[0], "sq.drd.dram.lines").is_err());
    assert_eq!(
        part.windows[0].unassigned[0].event, "NEAR",
        "kept, though a partner is missing"
    );
    let lost = file("<not counted>,,near,0,0.00,,\n5,,far,9,100.00,,\n");
    let why = value(&lost.windows[0], "sq.drd.dram.lines").unwrap_err();
    assert!(why.contains("never had a counter"), "{why}");
    let most = u64::MAX;
    let large = file(&format!("{most},,near,9,100.00,,\n1,,far,9,100.00,,\n"));
    assert!(
        value(&large.windows[0], "sq.drd.dram.lines")
            .unwrap_err()
            .contains("64 bits")
    );
}

/// Counters that are asked for by several names count what happened once; others are added up.
#[test]
fn names_of_one_counter_are_not_added_up() {
    let clock = "core.any.any.clock";
    let lines = |counts: &[(u32, &str)]| -> String {
        let line = |(value, name): &(u32, &str)| format!("{value},,{name},9,100.00,,\n");
        counts.iter().map(line).collect()
    };
    for (counts, role, sum, left) in [
        (
            &[(9, "cycles:p"), (9, "cycles"), (9, "cpu/cycles/")][..],
            clock,
            9,
            2,
        ),
        (
            &[(9, "cycles"), (4, "cycles:u"), (5, "cycles:k")],
            clock,
            9,
            2,
        ),
        (
            &[(4, "cycles:u"), (5, "cycles:k"), (9, "cycles:uk")],
            clock,
            9,
            1,
        ),
        (
            &[(4, "cycles:G"), (5, "cycles:H"), (3, "cycles:u")],
            clock,
            9,
            1,
        ),
        (
            &[(4, "cpu_core/cycles/"), (5, "cpu_atom/cycles/")],
            clock,
            9,
            0,
        ),
        (&[(9, "cycles"), (5, "arm_dsu_0/cycles/")], clock, 9, 1),
        (
            &[(4, "came [uncore_cha_0]"), (9, "came")],
            "tor.drd.cxl.inserts",
            9,
            1,
        ),
        (
            &[(4, "uncore_cha_0/came/"), (5, "uncore_cha_1/came/")],
            "tor.drd.cxl.inserts",
            9,
            0,
        ),
    ] {
        let window = file(&lines(counts)).windows.remove(0);
        let of_role = window
            .machine
            .iter()
            .filter(|count| count.role.to_string() == role);
        let found: u64 = of_role.map(|count| count.value.clone().unwrap()).sum();
        assert_eq!((found, window.unassigned.len()), (sum, left), "{counts:?}");
    }
}

/// The sum of joules or MiB over all windows is rounded; and places that have no time take none away.
#[test]
fn what_is_less_than_one_in_a_window_is_kept_in_the_sum() {
    let joules: String = (1..=10)
        .map(|second| {
            format!("{second}.000000000,0.34,Joules,power/energy-pkg/,9,100.00,,\n{second}.000000000,7,,faults,9,100.00,,\n")
        })
        .collect();
    let made = file(&joules);
    let energy = made.windows.iter().flat_map(|window| &window.unassigned);
    let energy = energy.filter(|event| event.event != "faults");
    assert_eq!(
        energy
            .map(|event| event.value.clone().unwrap())
            .sum::<u64>(),
        3
    );
    let timed = file(
        "S0,1,7000,ns,duration_time,7000,100.00,,\nS1,0,<not counted>,ns,duration_time,0,100.00,,\n",
    );
    assert_eq!(timed.windows[0].length(), Some(Nanos(7000)));
}

#[test]
fn intervals_are_windows_and_workloads_are_told_apart() {
    let made = file(
        "1.000000000,8,,near,a.slice,4,50.00,,\n1.000000000,2,,far,a.slice,4,50.00,,\n\
         3.000000000,6,,near,b.slice,4,100.00,,\n3.000000000,1,,far,b.slice,4,100.00,,\n\
         3.000000000,5,,cycles:u,b.slice,4,100.00,,\n3.000000000,1.5,msec,task-clock,b.slice,4,100.00,,\n",
    );
    let spans: Vec<(u64, u64)> = made.windows.iter().map(|w| (w.from.0, w.to.0)).collect();
    assert_eq!(spans, [(0, 1_000_000_000), (1_000_000_000, 3_000_000_000)]);
    let a = &made.windows[0].workloads[0];
    assert_eq!(
        (a.id.as_str(), a.counts[0].value.clone()),
        ("a.slice", Ok(10))
    );
    assert_eq!(a.counts[0].running_ratio(), Some(0.5));
    let roles: Vec<String> = made.windows[1].workloads[0]
        .counts
        .iter()
        .map(|c| c.role.to_string())
        .collect();
    assert_eq!(
        roles,
        [
            "core.any.any.clock",
            "core.any.any.time-ns",
            "sq.drd.dram.lines"
        ]
    );
    assert!(
        made.header.notes[0].contains("some modes only"),
        "{:?}",
        made.header.notes
    );
    let again = WindowFile::parse(&made.to_text().unwrap()).unwrap();
    assert_eq!(again, made);
}

/// What perf counted in user mode is in what it counted in all modes: the sum of both is no count.
#[test]
fn a_part_by_mode_is_not_added_to_its_whole() {
    for text in [
        "5,,came:u,9,100.00,,\n8,,came,9,100.00,,\n",
        "8,,came,9,100.00,,\n5,,came:u,9,100.00,,\n",
    ] {
        let window = &file(text).windows[0];
        assert_eq!(value(window, "tor.drd.cxl.inserts"), Ok(8));
        let rest: Vec<&str> = window.unassigned.iter().map(|e| e.event.as_str()).collect();
        assert_eq!(rest, ["came:u"]);
    }
    let modes = file("5,,came:u,9,100.00,,\n3,,came:k,9,100.00,,\n");
    assert_eq!(value(&modes.windows[0], "tor.drd.cxl.inserts"), Ok(8));
}

/// Two boxes of 2 GHz for a second: perf adds up their clocks and their times.
#[test]
fn residence_is_time_by_the_clock_of_the_same_boxes() {
    let made = file(
        "4000000000,,ticks,2000000000,100.00,,\n8000000,,held,2000000000,100.00,,\n20000,,came,2000000000,100.00,,\n",
    );
    let counts = Counts::new(&made.windows[0].machine, None);
    let all = weir_profile::stages::stages(&counts, None, &made.header.capacities);
    let queue = &all.queues[0];
    assert_eq!(queue.residence_cycles.as_ref().unwrap().value, 400.0);
    assert!((queue.residence_ns.as_ref().unwrap().value - 200.0).abs() < 1e-9);
    assert_eq!(queue.entries.as_ref().unwrap().value, 0.002);
    assert_eq!(queue.pressure.as_ref().unwrap().value, 0.002 / 16.0);
    let idle = file(
        "4000000000,,ticks,2000000000,100.00,,\n1000000,,held,2000000000,100.00,,\n4000,,came,2000000000,100.00,,\n",
    );
    let options = Options {
        idle: Some(&idle),
        ..Options::default()
    };
    let said = text::text(&report(&made, &options));
    assert!(
        said.contains("waiting time                          75.0 ns"),
        "{said}"
    );
}

#[test]
fn impossible_counts_are_refused_by_name() {
    let said = |lines: &str| text::text(&report(&file(lines), &Options::default()));
    let run = "1000000000,100.00,,\n";
    let clock = format!("2000000000,,ticks,{run}");
    let out = said(&format!("{clock}8,,held,{run}0,,came,{run}"));
    assert!(out.contains("nothing entered the queue"), "{out}");
    let out = said(&format!("{clock}100000,,held,{run}20000,,came,{run}"));
    assert!(out.contains("no memory answers within 20 ns"), "{out}");
    let out = said(&format!("{clock}80000000000,,held,{run}20000,,came,{run}"));
    assert!(
        out.contains("40.0 entries on average, and the queue has 16"),
        "{out}"
    );
    let out = said(&format!(
        "8000000,,held,{run}20000,,came,1000000000,25.00,,\n"
    ));
    assert!(
        out.contains("were not counted at the same time (100 and 25 % of it)"),
        "{out}"
    );
    let boxes: String = [9_000_000, 1_000_000, 1_000_000, 1_000_000]
        .iter()
        .enumerate()
        .map(|(place, held)| format!("{held},,held [uncore_cha_{place}],{run}"))
        .collect();
    let out = said(&format!("{boxes}20000,,came,{run}"));
    assert!(
        out.contains("a hot line, which does not stand for the others"),
        "{out}"
    );
}

#[test]
fn hostile_names_are_harmless_on_the_screen_and_in_json() {
    let name = "\u{1b}[2J\u{202e}x".repeat(700);
    let made = file(&format!(
        "1,,near,9,100.00,,\n1,,{name},9,100.00,,\n2,,{name},a\u{1b}.slice,9,100.00,,\n"
    ));
    let made = WindowFile::parse(&made.to_text().unwrap()).unwrap();
    let found = report(&made, &Options::default());
    let said = text::text(&found);
    assert!(
        !said.chars().any(|c| c.is_control() && c != '\n'),
        "{said:?}"
    );
    assert!(!said.contains('\u{202e}'));
    assert!(said.len() < 40_000, "{}", said.len());
    assert!(!serde_json::to_string(&found).unwrap().contains('\u{1b}'));
}

#[test]
fn cpus_that_come_and_go_are_counted_where_they_are() {
    let made = file(
        "1.000000000,CPU0,8,,near,4,100.00,,\n1.000000000,CPU0,2,,far,4,100.00,,\n\
         2.000000000,CPU0,8,,near,4,100.00,,\n2.000000000,CPU0,2,,far,4,100.00,,\n\
         2.000000000,CPU7,1,,near,4,100.00,,\n2.000000000,CPU7,1,,far,4,100.00,,\n",
    );
    let scopes: Vec<CountScope> = made.windows[1]
        .machine
        .iter()
        .map(|count| count.of)
        .collect();
    assert_eq!(scopes, [CountScope::Cpu(0), CountScope::Cpu(7)]);
    let all = made.windows.iter().flat_map(|w| &w.machine);
    let counts = Counts::new(all, Some(Nanos(2_000_000_000)));
    assert_eq!(
        counts
            .get("sq.drd.dram.lines".parse().unwrap())
            .unwrap()
            .value,
        22.0
    );
}

proptest! {
    /// Whatever perf prints, a report is made of it.
    #[test]
    fn any_lines_make_a_report(lines in prop::collection::vec(
        ("(|1\\.000000000,|S0,2,|CPU1,|x-1,)", "([0-9]{1,21}|<not counted>|nan|0,5)", "(|msec|ns|MiB)", "(near|far|held|came|ticks|cycles:u|task-clock|é/[a-z]{1,3})", "(|a.slice,)", 0u64..=u64::MAX, "[0-9]{1,3}\\.[0-9]{2}"), 1..12))
    {
        let text: String = lines
            .iter()
            .map(|(place, value, unit, event, cgroup, run, percent)| {
                format!("{place}{value},{unit},{event},{cgroup}{run},{percent},,\n")
            })
            .collect();
        if let Ok(stat) = perf_stat::read(&text, None) {
            let made = windows(&stat, &recipes(), &naming, None);
            let again = WindowFile::parse(&made.to_text().unwrap());
            prop_assert_eq!(again.as_ref(), Ok(&made));
            let found = report(&made, &Options { idle: Some(&made), each: true, pathfinder: true, over_time: true, ..Options::default() });
            prop_assert!(!text::text(&found).contains("NaN"));
            prop_assert!(serde_json::to_string(&found).is_ok());
        }
    }
}
