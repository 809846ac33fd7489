// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Does `weir sim` give the documented results, the same each time, and clear answers to nonsense?

use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use weir_report::results::Results;

const GIB: f64 = 1_073_741_824.0;

pub fn weir(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command.args(args).output().unwrap()
}

pub fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

pub fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// Runs it, expects success, and returns what it printed.
pub fn done(args: &[&str]) -> String {
    let output = weir(args);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    stdout(&output)
}

/// A small scenario that takes a moment, with `more` at its end.
pub fn small(dir: &Path, more: &str) -> String {
    let text = format!(
        "name = \"small\"\nabout = \"three readers\"\n[machine]\ncores = 4\n[[device]]\nprofile = \
         \"agilex-thesis\"\n[control]\nset_point_bytes_per_sec = 2e9\nsettle_sec = 4.0\n\
         measure_sec = 4.0\n[[workload]]\nname = \"reader\"\ncount = 3\nrole = \"heavy\"\n\
         resident_mib = 64\n[[workload.phase]]\nkind = \"access\"\nblock_kib = 4096\n{more}"
    );
    let path = dir.join("small.toml");
    fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn the_thesis_scenario_in_seconds() {
    let text = done(&["sim", "thesis-limit"]);
    let means = text
        .lines()
        .find(|l| l.trim_start().starts_with("mean "))
        .unwrap();
    let words: Vec<&str> = means.split_whitespace().collect();
    let [_, "GiB/s", free, held, ..] = words[..] else {
        panic!("{means}");
    };
    assert!(free.parse::<f64>().unwrap() > 6.5, "{text}");
    assert!(
        (held.parse::<f64>().unwrap() - 4.0).abs() < 0.1,
        "held at 4 GiB/s: {text}"
    );
    is_narrow(&text);
    let last = last_sentence(&text);
    assert!(
        last.starts_with("weir (cpu-max) held the device at 4.0"),
        "{last}"
    );
    for part in [
        " of 4 GiB/s; mean access latency −5",
        ", work beside +",
        " %.",
    ] {
        assert!(last.contains(part), "{part}: {last}");
    }
}

/// The last paragraph, without line breaks.
fn last_sentence(text: &str) -> String {
    let last = text.trim_end().rsplit("\n\n").next().unwrap();
    last.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn many_runs_have_a_row_each() {
    let dir = tempfile::tempdir().unwrap();
    let text = done(&["sim", &small(dir.path(), ""), "--backend", "all"]);
    for name in ["none", "thesis-cgroups-simple", "cpu-max", "sched-ext-full"] {
        let rows = text
            .lines()
            .filter(|l| l.split_whitespace().next() == Some(name));
        assert_eq!(rows.count(), 2, "{name} in each of two blocks: {text}");
    }
    assert!(last_sentence(&text).starts_with("weir ("), "{text}");
    is_narrow(&text);
}

pub fn is_narrow(text: &str) {
    let widest = text.lines().map(|l| l.chars().count()).max().unwrap();
    assert!(widest <= 80, "{widest}: {text}");
}

#[test]
fn json_is_the_documented_format_with_a_reason_for_every_null() {
    let dir = tempfile::tempdir().unwrap();
    let text = done(&["sim", &small(dir.path(), ""), "--backend", "all", "--json"]);
    let results: Results = serde_json::from_str(&text).unwrap();
    assert_eq!(results.scenario, "small");
    let names: Vec<&str> = results.runs.iter().map(|r| r.backend.as_str()).collect();
    let all = [
        "none",
        "thesis-scx",
        "thesis-scx-vtime",
        "thesis-scx-throttle",
        "thesis-cgroups",
        "thesis-cgroups-simple",
        "cpu-max",
        "sched-ext-served",
        "sched-ext-full",
    ];
    assert_eq!(names, all);
    for run in &results.runs {
        assert_eq!((run.world.as_str(), run.seed), ("sim", 1));
        assert!(run.bandwidth.mean_bytes_per_sec > 0.1 * GIB);
        assert!(run.limited_readers.latency.stddev_ns.is_some());
        // Little's law: a closed loop's mean is its bound, unless a reader starves to the end.
        let (mean, bound) = (
            run.limited_readers.latency.mean_ns,
            run.limited_readers.little_bound_ns,
        );
        let ratio = mean.unwrap() / bound.unwrap();
        let may_starve = run.backend.starts_with("thesis-scx");
        assert!(
            may_starve || (0.95..1.05).contains(&ratio),
            "{}: {ratio}",
            run.backend
        );
        assert!(ratio < 1.1, "{}: {ratio}", run.backend);
        for (name, is_null) in [
            ("light_reader", run.light_reader.mean_ns.is_none()),
            (
                "throughput_ops_per_sec",
                run.throughput_ops_per_sec.is_none(),
            ),
            ("settle_ms", run.settle_ms.is_none()),
        ] {
            assert_eq!(
                run.missing.contains_key(name),
                is_null,
                "{}: {name}",
                run.backend
            );
        }
    }
}

#[test]
fn the_same_seed_gives_the_same_bytes() {
    let dir = tempfile::tempdir().unwrap();
    let scenario = small(dir.path(), "");
    let run = |more: &[&str]| done(&[&["sim", &scenario, "--json"], more].concat());
    let once = run(&["--seed", "7"]);
    assert_eq!(once, run(&["--seed", "7"]));
    let read = |text: &str| serde_json::from_str::<Results>(text).unwrap();
    // However many run side by side.
    let several = read(&run(&["--seed", "6", "--seeds", "3"]));
    let seventh: Vec<_> = several.runs.into_iter().filter(|r| r.seed == 7).collect();
    assert_eq!(seventh, read(&once).runs);
    let other = read(&run(&["--seed", "8"]));
    assert_ne!(
        other.runs[0].bandwidth, seventh[0].bandwidth,
        "seeds differ"
    );
}

#[test]
fn several_seeds_show_their_range() {
    let dir = tempfile::tempdir().unwrap();
    let table = done(&["sim", &small(dir.path(), ""), "--seeds", "3"]);
    assert!(table.contains("mean of 3 seeds from 1 on"), "{table}");
    // Of two controllers, in two blocks.
    assert_eq!(table.matches("\n  lowest ").count(), 2 * 2, "{table}");
    assert_eq!(table.matches("\n  highest ").count(), 2 * 2, "{table}");
    is_narrow(&table);
}

#[test]
fn reports_are_those_of_live_runs() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("report");
    let text = done(&[
        "sim",
        &small(dir.path(), ""),
        "--out",
        out.to_str().unwrap(),
        "--json",
    ]);
    let read = |name: &str| fs::read_to_string(out.join(name)).unwrap();
    let results = |text: &str| serde_json::from_str::<Results>(text).unwrap();
    let (file, printed) = (results(&read("summary.json")), results(&text));
    assert_eq!(file.reproducible(), printed, "but for date and wall time");
    let origin = file.origin.unwrap();
    assert!(origin.date_utc.is_some() && origin.wall_sec > Some(0.0));
    assert_eq!((origin.world.as_str(), origin.seed), ("sim", 1));
    assert_eq!(origin.virtual_sec, Some(16.0));
    assert!(!printed.caveats.is_empty());
    let series = read("series.csv");
    assert!(series.starts_with("run,policy,backend,at_ms,bytes_per_sec\n0,none,none,0,"));
    assert_eq!(series.lines().count(), 1 + 2 * 80, "8 s of 100 ms, twice");
    assert!(
        fs::read(out.join("bandwidth.png"))
            .unwrap()
            .starts_with(b"\x89PNG")
    );
    stands_alone(&read("index.html"));
}

#[test]
fn slow_devices_have_units_that_show_something() {
    let text = done(&["sim", "live-fio-stress", "--seeds", "2"]);
    assert!(text.contains("set-point 36.2 MiB/s, measured"), "{text}");
    let units = text.lines().find(|l| l.contains("MiB/s   MiB/s")).unwrap();
    assert!(units.contains("µs") && units.contains("ms"), "{units}");
    let cells = |name: &str| {
        let row = text.lines().find(|l| l.starts_with(name)).unwrap();
        row.split_whitespace()
            .skip(1)
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    assert!(!cells("cpu-max").contains(&"0.00".to_owned()), "{text}");
}

#[test]
fn how_long_it_takes_to_settle_has_one_definition() {
    // The load begins after five seconds: there is nothing to settle before.
    let dir = tempfile::tempdir().unwrap();
    let text = fs::read_to_string(small(dir.path(), "")).unwrap();
    let file = dir.path().join("late.toml");
    let settle = |text: &str| {
        fs::write(&file, text).unwrap();
        let json = done(&["sim", file.to_str().unwrap(), "--json"]);
        serde_json::from_str::<Results>(&json).unwrap().runs[1]
            .settle_ms
            .unwrap()
    };
    let early = text.replace("settle_sec = 4.0", "settle_sec = 9.0");
    let late = early.replace("role = \"heavy\"", "role = \"heavy\"\nstart_ms = 5000");
    assert_ne!(early, late);
    let (early, late) = (settle(&early), settle(&late));
    assert!(
        late < 1000.0 && (early - late).abs() < 1000.0,
        "{early}, {late}"
    );
}

#[test]
fn a_scenario_can_be_printed_changed_and_run() {
    let dir = tempfile::tempdir().unwrap();
    let text = done(&["sim", "step", "--print"]);
    assert!(
        text.contains("name = \"step\"") && text.contains("[control]"),
        "{text}"
    );
    let file = dir.path().join("mine.toml");
    fs::write(
        &file,
        text.replace("measure_sec = 20.0", "measure_sec = 2.0"),
    )
    .unwrap();
    done(&["sim", file.to_str().unwrap()]);
    assert_eq!(
        done(&["sim", file.to_str().unwrap(), "--print"]),
        fs::read_to_string(&file).unwrap()
    );
    let wrong = weir(&["sim", "step", "--print", "--json"]);
    assert_eq!(wrong.status.code(), Some(2));
}

#[test]
fn nonsense_is_answered_with_what_is_wrong_and_what_there_is() {
    let dir = tempfile::tempdir().unwrap();
    let wrong_key = small(dir.path(), "[expects]\nbias = 1\n");
    let wrong_key = fs::read_to_string(wrong_key).unwrap();
    let key = dir.path().join("key.toml");
    fs::write(&key, wrong_key).unwrap();
    let key = key.to_str().unwrap();
    for (args, parts) in [
        (&["sim"][..], &["SCENARIO"][..]),
        (
            &["sim", "thesis-limits"],
            &["thesis-limits", "thesis-limit,", "TOML file"],
        ),
        (
            &["sim", "none/such.toml"],
            &["none/such.toml", "No such file"],
        ),
        (
            &["sim", key],
            &[
                "key.toml",
                "line 19, column 2: unknown field `expects`",
                "`expect`: [expects]\n",
            ],
        ),
        (
            &["sim", "step", "--backend", "thesis"],
            &["thesis", "thesis-scx-vtime", "all"],
        ),
        (&["sim", "step", "--policy", "fair"], &["fair", "max-min"]),
        (
            &["sim", "step", "--backend", "none", "--policy", "max-min"],
            &["--backend cpu-max"],
        ),
        (&["sim", "step", "--seeds", "0"], &["--seeds", "1..=1000"]),
        (&["sim", "step", "--out", "/dev/null/x"], &["/dev/null/x"]),
    ] {
        let output = weir(args);
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {said}");
        assert!(!said.contains("panicked"), "{said}");
        for part in parts {
            assert!(said.contains(part), "{args:?}: {part:?} is not in {said:?}");
        }
    }
}

#[test]
fn the_list_says_what_each_shows() {
    let list = done(&["sim", "--list"]);
    assert!(list.lines().count() >= 18, "{list}");
    let mut named = list.lines().filter(|l| !l.starts_with(' '));
    assert!(named.all(|l| l.split_whitespace().count() > 2), "{list}");
    is_narrow(&list);
    let json: Value = serde_json::from_str(&done(&["sim", "--list", "--json"])).unwrap();
    let all = json.as_array().unwrap();
    assert!(all.len() >= 18, "{json}");
    for one in all {
        let (name, about) = (
            one["name"].as_str().unwrap(),
            one["about"].as_str().unwrap(),
        );
        assert!(
            list.contains(&format!("{name} ")) && about.len() > 10,
            "{one}"
        );
    }
}

/// Commands of weir-lab, by a program beside which there is none.
#[test]
fn what_is_not_installed_is_named_with_its_package() {
    let dir = tempfile::tempdir().unwrap();
    let alone = dir.path().join("weir");
    fs::copy(env!("CARGO_BIN_EXE_weir"), &alone).unwrap();
    for args in [
        &["sim", "dram", "--trace", "rand"][..],
        &["sim", "interference"],
        &["sim", "type2", "--help"],
        &["profile", "sim", "8-reverse"],
        &["profile", "live", "--sim", "8-reverse", "--once"],
    ] {
        let mut command = Command::new(&alone);
        let output = command.args(args).env("PATH", dir.path()).output().unwrap();
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {said}");
        assert!(said.contains("the package weir-lab"), "{args:?}: {said}");
    }
    // A flag of `weir sim` before it makes it the name of a scenario.
    let said = stderr(&weir(&["sim", "--seed", "3", "type2"]));
    assert!(said.contains("no scenario is called `type2`"), "{said}");
}

/// Nothing is loaded from anywhere, and the page says so to the browser.
pub fn stands_alone(page: &str) {
    assert!(page.contains("default-src 'none'"), "no content policy");
    for loads in [
        "<script", "<link", "<img", "<iframe", "url(", "@import", "http://", "https://",
    ] {
        assert!(!page.contains(loads), "{loads}");
    }
    assert!(page.contains("<svg") && page.ends_with("</body>\n</html>\n"));
}
