// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Sums below intervals, several runs in one text, metrics, counts by core: each request counts once.

use super::super::{PerfStat, PerfStatError, read, read_run};
use proptest::prelude::*;

/// The sum of the rows of an event.
fn sum(stat: &PerfStat, event: &str) -> u64 {
    let rows = stat.rows.iter().filter(|row| row.event == event);
    rows.filter_map(|row| row.value.as_ref().ok())
        .map(|value| value.rounded())
        .sum()
}

fn whole(text: &str) -> PerfStat {
    let stat = read(text, None).unwrap();
    assert_eq!((&stat.problems[..], stat.problem_count), (&[][..], 0));
    stat
}

/// Lines of perf 6.1: `-I 100 --summary`, without `--no-csv-summary` and with it; the task slept, or was read
/// in an interval that lasted longer.
#[test]
fn a_summary_is_a_sum_and_no_window() {
    let marked = "     0.100151711,77,,page-faults,1090321,100.00,,\n     \
                  0.200392414,<not counted>,,page-faults,0,100.00,,\n     \
                  0.252367573,0,,page-faults,49774,100.00,,\n         \
                  summary,77,,page-faults,1140095,100.00,,\n";
    let plain = "     0.100166533,77,,page-faults,963943,100.00,,\n     \
                 0.545687728,1,,page-faults,59328,100.00,,\n\
                 78,,page-faults,1023271,100.00,,\n";
    let by_socket = "1.000000000,S0,2,5,,page-faults,9,100.00,,\n         \
                     summary,S0,2,5,,page-faults,9,100.00,,\n";
    for (text, all) in [(marked, 77), (plain, 78), (by_socket, 5)] {
        let stat = whole(text);
        assert_eq!(sum(&stat, "page-faults"), all, "{text}");
        assert!(stat.rows.iter().all(|row| row.at.is_some()), "{text}");
    }
    // Without -I perf 6.1 marks the only lines that there are.
    let only = whole("         summary,76,,page-faults,969472,100.00,,\n");
    assert_eq!(sum(&only, "page-faults"), 76);
}

#[test]
fn a_summary_of_json_has_no_interval() {
    let line = |interval: &str, value: u32| {
        format!(
            "{{{interval}\"counter-value\" : \"{value}.000000\", \"unit\" : \"\", \"event\" : \
             \"came\", \"event-runtime\" : 9, \"pcnt-running\" : 100.00}}\n"
        )
    };
    let intervals =
        line("\"interval\" : 1.0, ", 5) + &line("\"interval\" : 2.0, ", 6) + &line("", 11);
    let stat = whole(&intervals);
    assert_eq!((sum(&stat, "came"), stat.rows.len()), (11, 2));
    // The other run's interval begins after the sum of the first.
    let why = read(&(intervals.clone() + &intervals), None).unwrap_err();
    assert_eq!(why, PerfStatError::Runs { line: 4, count: 2 });
}

#[test]
fn a_summary_that_is_not_the_sum_is_named() {
    let text = "1.000000000,5,,came,9,100.00,,\n2.000000000,6,,came,9,100.00,,\n\
                summary,21,,came,18,100.00,,\nsummary,4,,left,18,100.00,,\n";
    let stat = read(text, None).unwrap();
    let said: Vec<String> = stat.problems.iter().map(|p| p.why.to_string()).collect();
    assert_eq!(sum(&stat, "came"), 11);
    assert_eq!((stat.problems[0].line, stat.problem_count), (3, 2));
    assert!(said[0].contains("it says 21"), "{said:?}");
    assert!(said[0].contains("their sum is 11"), "{said:?}");
    assert!(said[1].contains("their sum is 0"), "{said:?}");
    // A scaled sum need not be the sum of what was scaled.
    whole(&text.replace("100.00", "50.00"));
}

#[test]
fn runs_are_not_added_up() {
    let run = |came: u32| {
        format!(
            "1.000100000,{came},,came,9,100.00,,\n1.000100000,1,,held,9,100.00,,\n\
             2.000200000,{came},,came,9,100.00,,\n2.000200000,1,,held,9,100.00,,\n"
        )
    };
    let headed = format!(
        "# started on Mon\n\n{}# started on Tue\n\n{}",
        run(5),
        run(9)
    );
    let shell = run(5) + &run(9);
    let untimed =
        "5,,came,9,100.00,,\n1,,held,9,100.00,,\n9,,came,9,100.00,,\n2,,held,9,100.00,,\n";
    // A longer first interval: only the line above says that there are two.
    let later =
        "# started on Mon\n1.0,5,,came,9,100.00,,\n# started on Tue\n7.0,9,,came,9,100.00,,\n"
            .replace(".0,", ".000000000,");
    let repeats = "5,,came,9,100.00,,\n4,,came,9,100.00,,\n9,,came,9,100.00,,\n";
    for (text, line, count, last) in [
        (headed.as_str(), 9, 2, 18),
        (&shell, 5, 2, 18),
        (untimed, 3, 2, 9),
        (&later, 4, 2, 9),
        (repeats, 2, 3, 9),
    ] {
        let why = read(text, None).unwrap_err();
        assert_eq!(why, PerfStatError::Runs { line, count }, "{text}");
        assert!(why.to_string().contains("second run"), "{why}");
        let chosen = read_run(text, None, Some(count)).unwrap();
        assert_eq!(sum(&chosen, "came"), last, "{text}");
        for run in [0, count + 1] {
            let why = read_run(text, None, Some(run)).unwrap_err();
            assert_eq!(why, PerfStatError::NoRun { run, count });
        }
    }
    let one = format!("# started on Mon\n\n{}", run(5));
    assert_eq!(sum(&whole(&one), "came"), 10);
}

#[test]
fn an_unreadable_line_belongs_to_its_run() {
    let text = "oops,a,b\n5,,came,9,100.00,,\n# started on Tue\nnan,,came,9,100.00,,\n9,,came,9,100.00,,\n";
    let lines = |run| -> Vec<usize> {
        let stat = read_run(text, Some(','), Some(run)).unwrap();
        stat.problems.iter().map(|problem| problem.line).collect()
    };
    assert_eq!(lines(1)[0], 1);
    assert!(!lines(2).contains(&1));
}

#[test]
fn an_event_that_was_asked_for_twice_counts_once() {
    let groups = "9,,clock,9,50.00,,\n5,,came,9,50.00,,\n8,,clock,9,75.00,,\n1,,held,9,75.00,,\n";
    let stat = whole(groups);
    assert_eq!((sum(&stat, "clock"), stat.rows.len()), (8, 3));
    assert!(stat.notes[0].contains("clock was asked for twice"));
    // Boxes that perf does not tell apart, by CPU, are all of them.
    let boxes = "CPU0,9,,clock,9,100.00,,\nCPU0,1,,came,9,100.00,,\nCPU0,8,,clock,9,100.00,,\n";
    assert_eq!(sum(&whole(boxes), "clock"), 9);
    for name in [
        "unc_cha_clockticks",
        "UNC_M_CLOCKTICKS",
        "uncore_cha/event=1/",
    ] {
        let boxes = boxes.replace("clock", name);
        assert_eq!(sum(&whole(&boxes), name), 17, "{name}");
    }
    let by_cpu = |event: &str, value: u32| {
        format!("CPU0,{value},,{event},9,100.00,,\nCPU1,{value},,{event},9,100.00,,\n")
    };
    // An event has a line for each CPU: two of them again are no second run.
    let asked = by_cpu("clock", 9) + &by_cpu("came", 1) + &by_cpu("clock", 9) + &by_cpu("held", 2);
    assert_eq!(sum(&whole(&asked), "clock"), 18);
    let again = by_cpu("clock", 9) + &by_cpu("came", 1);
    let why = read(&(again.clone() + &again), None).unwrap_err();
    assert_eq!(why, PerfStatError::Runs { line: 5, count: 2 });
    let alone = "CPU0,9,,unc_cha_clockticks,9,100.00,,\nCPU0,8,,unc_cha_clockticks,9,100.00,,\n";
    assert_eq!(sum(&whole(alone), "unc_cha_clockticks"), 17);
    let summed = "1.000000000,7,,clock,9,100.00,,\n1.000000000,7,,clock,9,100.00,,\n\
                  summary,7,,clock,9,100.00,,\nsummary,7,,clock,9,100.00,,\n";
    assert_eq!(sum(&whole(summed), "clock"), 7);
}

#[test]
fn metrics_are_nothing_that_is_left_out() {
    for line in [
        ";;;;;0,00;stalled cycles per insn",
        "     1.000100000;;;;;;0,00;stalled cycles per insn",
        "     1.000100000;S0;2;;;;;;20,1;%  tma_memory_bound",
        "CPU1;;;;;;20,1;%  tma_memory_bound",
        "fio-4711;;;;;;20,1;%  tma_memory_bound",
        "         summary;;;;;;20,1;%  tma_memory_bound",
    ] {
        for separator in [";", "|", "\t"] {
            let line = line.replace(';', separator);
            let last =
                format!("7,5{separator}msec{separator}task-clock{separator}9{separator}100,00");
            let stat = whole(&format!("{line}\n{last}{separator}{separator}\n"));
            assert_eq!(stat.rows.len(), 1, "{line}");
        }
    }
    let metric = r#"{"metric-value" : "0.000000", "metric-unit" : "stalled"}"#;
    let count = r#"{"counter-value" : "7", "event" : "cycles"}"#;
    assert_eq!(whole(&format!("{metric}\n{count}\n")).rows.len(), 1);
    // A count without its event is one that is lost, and a line of nothing is no metric.
    let nameless = r#"{"counter-value" : "7"}"#;
    let stat = read(&format!("{nameless}\n{count}\n"), None).unwrap();
    assert_eq!((stat.rows.len(), stat.problem_count), (1, 1));
    assert_eq!(
        read("7,,cycles,1,100\n,,,,,\n", None)
            .unwrap()
            .problem_count,
        1
    );
}

#[test]
fn metrics_alone_are_refused_as_such() {
    for text in [
        " time,insn per cycle,branch-misses,\n     1.000137841,0.87,1.24,\n",
        "insn per cycle;tma_memory_bound;\nS0;2;0.87;20.1;\n",
        "\n,,\n",
        "{}\n{\"metric-value\" : \"\"}{\"metric-value\" : \"\"}\n",
        "{\"interval\" : 1.000137841, \"insn per cycle\" : \"0.87\"}\n",
    ] {
        let why = read(text, None).unwrap_err();
        assert_eq!(why, PerfStatError::MetricsOnly, "{text}");
    }
    let cut = "{\"metric-value\" : \"1\"}{\"metric-val";
    assert!(matches!(read(cut, None), Err(PerfStatError::Json(_))));
}

#[test]
fn how_it_was_counted_is_the_reason_whatever_the_separator() {
    for (place, by) in [
        ("S0-D0-C1", "core"),
        ("S0-C1", "core"),
        ("S0-D0", "die"),
        ("S0-D0-CLS0", "cluster"),
        ("S0-D0-L3-ID0", "cache"),
        ("N0", "node"),
    ] {
        for separator in [",", ";", "\t", "|"] {
            for time in ["", "     1.000100000;"] {
                let line = format!("{time}{place};1;3000;;page-faults;203126900;100.00;;");
                let text = format!("# started on Mon\n\n{}\n", line.replace(';', separator));
                let why = read(&text, None).unwrap_err().to_string();
                assert!(why.contains(&format!("counts by {by} are")), "{text}{why}");
                assert!(why.contains("--per-socket"), "{why}");
            }
        }
    }
}

proptest! {
    /// The sum of what is read is the sum of what was counted, with a summary or without, marked or not.
    #[test]
    fn the_sum_of_the_rows_is_that_of_the_text(
        values in prop::collection::vec([0u64..1 << 40, 0u64..1 << 40], 2..12),
        summary in prop::option::of(any::<bool>()),
        separator in prop::sample::select(vec![',', ';', '|']),
        place in prop::sample::select(vec!["", "S0,2,", "S1,8,"]),
    ) {
        let line = |time: &str, value: u64, event: &str| {
            format!("{time}{place}{value},,{event},9,100.00,,\n,,,,,1.5,metric\n")
        };
        let mut text = String::new();
        for (second, [came, held]) in (1..).zip(&values) {
            let time = format!("{second}.000000000,");
            text += &(line(&time, *came, "came") + &line(&time, *held, "held"));
        }
        let sums = [0, 1].map(|which| values.iter().map(|pair| pair[which]).sum::<u64>());
        if let Some(is_marked) = summary {
            let mark = if is_marked { "         summary," } else { "" };
            text += &(line(mark, sums[0], "came") + &line(mark, sums[1], "held"));
        }
        let text = text.replace(',', &separator.to_string());
        let stat = read(&text, None).unwrap();
        prop_assert_eq!([sum(&stat, "came"), sum(&stat, "held")], sums);
        prop_assert_eq!(stat.problem_count, 0);
        // The same text behind itself is two runs, each with the same sums.
        let double = format!("{text}{text}");
        let is_two = matches!(read(&double, None), Err(PerfStatError::Runs { count: 2, .. }));
        prop_assert!(is_two);
        let second = read_run(&double, None, Some(2)).unwrap();
        prop_assert_eq!(second.rows, stat.rows);
    }
}
