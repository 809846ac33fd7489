// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Lines that perf 6.1 printed (task-clock and the like), lines of a public recording (Emerald Rapids:
//! github.com/jaewan/DutyFree, Apache-2.0), and lines that are made after them.

use super::*;
use proptest::prelude::*;

fn one(line: &str) -> PerfRow {
    let stat = read(line, None).unwrap();
    assert_eq!(
        (stat.rows.len(), stat.problem_count),
        (1, 0),
        "{line}: {stat:?}"
    );
    stat.rows.into_iter().next().unwrap()
}

fn count(row: &PerfRow) -> u64 {
    row.value.clone().unwrap().rounded()
}

#[test]
fn a_public_line_is_read() {
    let row =
        one("534414836,,unc_cha_tor_occupancy.ia_miss_drd_cxl_acc_local,332232889783,100.00,,");
    assert_eq!(count(&row), 534_414_836);
    assert_eq!(row.event, "unc_cha_tor_occupancy.ia_miss_drd_cxl_acc_local");
    assert_eq!(
        row.times(),
        (Nanos(332_232_889_783), Nanos(332_232_889_783))
    );
    assert_eq!(
        (row.at, row.of, row.unit.as_str()),
        (None, CountScope::All, "")
    );
}

#[test]
fn each_option_changes_the_columns() {
    let text = "     0.103439467,0.77,msec,task-clock,773009,100.00,0.008,CPUs utilized\n     \
                0.203672773,<not counted>,msec,task-clock,0,100.00,,\n";
    let rows = read(text, None).unwrap().rows;
    assert_eq!(rows[0].at, Some(Nanos(103_439_467)));
    assert_eq!(rows[0].value.clone().unwrap().millions(), Some(770_000));
    let why = rows[1].value.clone().unwrap_err().to_string();
    assert!(why.contains("task-clock never had a counter"), "{why}");

    let socket = one("S0,2,278,,context-switches,205418096,100.00,1.353,K/sec");
    assert_eq!((socket.of, count(&socket)), (CountScope::Socket(0), 278));
    let cpu = one("CPU1;101.82;msec;cpu-clock;101816865;100.00;1.000;CPUs utilized");
    assert_eq!((cpu.of, cpu.unit.as_str()), (CountScope::Cpu(1), "msec"));
    let spread = one("0.56,msec,task-clock,0.02%,559769,100.00,0.217,CPUs utilized");
    assert_eq!(
        (spread.running, spread.workload),
        (Some(Nanos(559_769)), None)
    );
    let cgroup = one("12345,,cycles,system.slice/a,b.service,2000,25.00,,");
    assert_eq!(cgroup.workload.as_deref(), Some("system.slice/a,b.service"));
    assert_eq!(cgroup.times(), (Nanos(8000), Nanos(2000)));
    // A number is a name as well: the percentage has two digits behind its point.
    let number = one("<not counted>,,cycles,1000,0,100.00,,");
    assert_eq!(
        (number.workload.as_deref(), number.running),
        (Some("1000"), Some(Nanos(0)))
    );
    let repeated = one("10,64,msec,task-clock,6,44%,10637291,100,00,0,CPUs utilized");
    assert_eq!(
        (repeated.workload, repeated.running),
        (None, Some(Nanos(10_637_291)))
    );
    let repeated = one("174,,page-faults,b/50%,0,77%,10637291,100,00,15,K/sec");
    assert_eq!(repeated.workload.as_deref(), Some("b/50%"));
    let comma = one("a b,c-4711,99,,cycles,2000,100.00,,");
    assert_eq!(comma.workload.as_deref(), Some("a b,c-4711"));
    let thread = one("fio-4711,99,,cycles,2000,100.00,,");
    assert_eq!(thread.workload.as_deref(), Some("fio-4711"));
    let terms = one("7,,cpu/event=0x3c,umask=0x0/u,1000,50.00,,");
    assert_eq!(
        (terms.event.as_str(), terms.running_ratio),
        ("cpu/event=0x3c,umask=0x0/u", Some(0.5))
    );
}

#[test]
fn none_is_a_reason_and_never_a_zero() {
    let row = one("<not supported>,,unc_cha_clockticks,0,100.00,,");
    assert!(matches!(row.value, Err(Missing::NotSupported(_))));
    for (line, said) in [
        ("nan,,cycles,1,100.00,,", "is no count"),
        ("-5,,cycles,1,100.00,,", "is no count"),
        ("1e9,,cycles,1,100.00,,", "is no count"),
        ("18446744073709551616,,cycles,1,100.00,,", "is no count"),
        ("1.234.567,,cycles,1,100.00,,", "is no count"),
        ("S0-D0-C1,2,278,,cycles,1,100.00,,", "counts by core are"),
        ("N0,2,278,,cycles,1,100.00,,", "by node"),
        ("7,", "a count, a unit and an event"),
        ("7,,", "a count, a unit and an event"),
        (
            "99999999999999999999.123456789,7,,cycles,1,100.00",
            "no time of an interval",
        ),
        ("", "no line"),
        ("# started on Thu Nov 26\n\n", "no line"),
        (
            " Performance counter stats for 'true':\n\n 1,234 cycles",
            "table for people",
        ),
        (
            "{\"counter-value\" : \"7\", \"event\" : \"cycles\", \"pcnt-running\" : 100,00}",
            "LC_ALL=C",
        ),
    ] {
        let why = read(line, Some(',')).unwrap_err().to_string();
        assert!(why.contains(said), "{line}: {why}");
    }
    let most = one("18446744073709551615,,cycles,18446744073709551615,100.00,,");
    assert_eq!(count(&most), u64::MAX);
}

#[test]
fn decimal_commas_are_read_with_either_separator() {
    let same = one("0,57,msec,task-clock,571417,99,56,0,109,CPUs utilized");
    assert_eq!(same.value.clone().unwrap().millions(), Some(570_000));
    assert!(
        (same.running_ratio.unwrap() - 0.9956).abs() < 1e-9,
        "{same:?}"
    );
    let other = one("0,57;msec;task-clock;571417;99,56;0,109;CPUs utilized");
    assert_eq!(
        (other.value, other.running_ratio),
        (same.value, same.running_ratio)
    );
    let whole = one("1234,,cycles,571417,100,00,,");
    assert_eq!((count(&whole), whole.running_ratio), (1234, Some(1.0)));
}

#[test]
fn json_says_the_same() {
    let row = one(
        r#"{"socket" : "S0", "aggregate-number" : 2, "counter-value" : "205.279909", "unit" : "msec", "event" : "cpu-clock", "event-runtime" : 205283174, "pcnt-running" : 100.00, "metric-value" : 2.017506, "metric-unit" : "CPUs utilized"}"#,
    );
    assert_eq!((row.of, row.unit.as_str()), (CountScope::Socket(0), "msec"));
    assert_eq!(row.value.unwrap().millions(), Some(205_279_909));
    let row = one(
        r#"{"interval" : 1.000185431, "cpu" : "3", "counter-value" : "<not counted>", "unit" : "", "event" : "cycles", "cgroup" : "a.slice", "event-runtime" : 0, "pcnt-running" : 0.00}"#,
    );
    assert_eq!(
        (row.at, row.of),
        (Some(Nanos(1_000_185_431)), CountScope::Cpu(3))
    );
    assert_eq!(row.workload.as_deref(), Some("a.slice"));
    assert!(row.value.is_err());
    let core = r#"{"core" : "S0-D0-C0", "counter-value" : "7", "event" : "cycles"}"#;
    assert!(
        read(core, None)
            .unwrap_err()
            .to_string()
            .contains("by core")
    );
}

#[test]
fn names_are_taken_apart() {
    let parts = |text| {
        let name = event_name(text);
        (name.pmu, name.inside.to_owned(), name.modifiers.to_owned())
    };
    let is = |pmu, inside: &str, modifiers: &str| (pmu, inside.to_owned(), modifiers.to_owned());
    assert_eq!(parts("cycles:u"), is(None, "cycles", "u"));
    assert_eq!(
        parts("uncore_cha_5/UNC_CHA_CLOCKTICKS/"),
        is(Some("uncore_cha_5"), "UNC_CHA_CLOCKTICKS", "")
    );
    assert_eq!(
        parts("unc_cha_clockticks [uncore_cha_5]"),
        is(Some("uncore_cha_5"), "unc_cha_clockticks", "")
    );
    assert_eq!(
        parts("cpu/event=0x3c,umask=0x0/k"),
        is(Some("cpu"), "event=0x3c,umask=0x0", "k")
    );
    assert_eq!(
        parts("sched:sched_switch"),
        is(None, "sched:sched_switch", "")
    );
    assert_eq!(event_name("uncore_cha_5/x/").pmu_number(), Some(5));
    assert_eq!(event_name("cpu/x/").pmu_number(), None);
    assert_eq!(
        parts("uncore_cha_*/UNC_CHA_CLOCKTICKS/"),
        is(Some("uncore_cha"), "UNC_CHA_CLOCKTICKS", "")
    );
}

#[test]
fn a_box_behind_a_name_is_its_number_and_two_boxes_count_different_things() {
    let box_5 = event_name("UNC_CHA_TOR_INSERTS.IA_MISS_DRD_DDR.5");
    assert_eq!(box_5.inside, "UNC_CHA_TOR_INSERTS.IA_MISS_DRD_DDR");
    assert_eq!(box_5.pmu_number(), Some(5));
    assert!(!box_5.is_of_boxes());
    for (other, is_in_it) in [
        ("UNC_CHA_TOR_INSERTS.IA_MISS_DRD_DDR.6", false),
        ("uncore_cha_6/UNC_CHA_TOR_INSERTS.IA_MISS_DRD_DDR/", false),
        ("uncore_cha_5/UNC_CHA_TOR_INSERTS.IA_MISS_DRD_DDR/", true),
        ("uncore_cha/UNC_CHA_TOR_INSERTS.IA_MISS_DRD_DDR/", true),
        ("UNC_CHA_TOR_INSERTS.IA_MISS_DRD_DDR", true),
    ] {
        let other = event_name(other);
        assert_eq!(box_5.overlaps(&other), is_in_it, "{other:?}");
        assert_eq!(other.overlaps(&box_5), is_in_it, "{other:?}");
    }
    // Not of an uncore PMU, and not a number.
    for name in ["frontend_retired.latency_ge.8", "unc_m_x.1a", "unc_m_x."] {
        assert_eq!(event_name(name).inside, name);
    }
}

#[test]
fn a_wrong_line_does_not_hide_the_others() {
    let long = format!("1,,{},1,100.00\n", "x\u{1b}[2J".repeat(20_000));
    let name = format!("2,,{},1,100.00,,\n", "\u{1b}[2Jy".repeat(800));
    let stat = read(&format!("7,,cycles,1,100.00,,\n{long}oops\n{name}"), None).unwrap();
    assert_eq!((stat.rows.len(), stat.problem_count), (2, 2));
    assert_eq!(
        stat.problems[0],
        LineProblem {
            line: 2,
            why: PerfStatError::TooLong
        }
    );
    assert_eq!(stat.problems[1].line, 3);
    assert_eq!(
        stat.rows[1].event.len(),
        4000,
        "a long name is kept, and shown harmless"
    );
}

mod runs;

proptest! {
    #[test]
    fn any_text_is_survived(text in prop_oneof!["(?s).{0,200}", "([0-9.,;<>a-zA-Z/= {}\":-]{0,60}\n){0,4}"], separator in prop::option::of(prop::char::any())) {
        if let Ok(stat) = read(&text, separator) {
            for row in stat.rows {
                prop_assert!(row.running_ratio.is_none_or(|ratio| (0.0..=1.0).contains(&ratio)));
                let (enabled, running) = row.times();
                prop_assert!(running <= enabled);
                let _ = event_name(&row.event).pmu_number();
            }
        }
    }

    #[test]
    fn a_count_reads_back(value: u64, run in 0u64..1 << 60, percent in 1u32..=100) {
        let row = one(&format!("{value},,cycles,{run},{percent}.00,,"));
        prop_assert_eq!(count(&row), value);
        prop_assert_eq!(row.running, Some(Nanos(run)));
    }
}
