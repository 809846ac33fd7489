// SPDX-License-Identifier: Apache-2.0 OR MIT

use super::*;
use crate::cli::{BackendName, WorkloadsName};
use crate::commands::{Cli, Command};
use clap::Parser;
use proptest::prelude::*;
use weir_core::policy::Policy;

fn settings(flags: &[&str], file: Option<&str>) -> Result<Settings> {
    let dir = tempfile::tempdir()?;
    let path = dir.path().join("weir.toml");
    let mut words = vec!["weir".to_owned(), "run".to_owned()];
    words.extend(flags.iter().map(|flag| (*flag).to_owned()));
    if let Some(text) = file {
        std::fs::write(&path, text)?;
        words.extend(["--config".to_owned(), path.display().to_string()]);
    }
    match Cli::try_parse_from(words)?.command {
        Command::Run(args) => Settings::new(&args.how),
        other => bail!("{other:?}"),
    }
}

fn complaint(flags: &[&str], file: Option<&str>) -> String {
    format!("{:#}", settings(flags, file).expect_err("it was accepted"))
}

#[test]
fn errors_fit_a_screen_whatever_they_quote() {
    let long = "x".repeat(100_000);
    for file in [
        format!("{long} = 1"),
        format!("[controller]\n{long} = 1"),
        format!("[controller.weights]\n\"{long}\" = -1"),
        format!("policy = \"{long}\""),
        format!("set-point = \"4{long}\""),
        format!("log = \"{}\"", "x=".repeat(50_000)),
    ] {
        let said = complaint(&[], Some(&file));
        assert!(said.chars().count() < 2000, "{said:.200}");
        assert!(
            said.contains("weir.toml") && said.contains("line "),
            "{said}"
        );
    }
}

#[test]
fn flags_win_over_the_file_and_the_file_over_defaults() {
    let file =
        "policy = 'drf'\ninterval = '100ms'\nlimit = true\nset-point = '4GiB/s'\nexclude = ['/a']";
    let got = settings(&["--interval", "20ms", "--exclude", "/b"], Some(file)).unwrap();
    assert_eq!(got.config.policy, Policy::Drf);
    assert!(got.config.limit);
    assert_eq!(got.interval, Duration::from_millis(20));
    assert_eq!(got.period, Duration::from_micros(20_600));
    assert_eq!(got.exclude, ["/a", "/b"]);
    assert!(
        !settings(&["--limit=false"], Some(file))
            .unwrap()
            .config
            .limit
    );
}

#[test]
fn a_switch_is_off_unless_a_flag_or_the_file_says_it() {
    for (name, place) in [("trust-cpu-max", 0), ("limit-domains", 1)] {
        let is_on = |flags: &[&str], file| {
            let got = settings(flags, file).unwrap();
            [got.trust_cpu_max, got.limit_domains][place]
        };
        let (flag, file) = (format!("--{name}"), format!("{name} = true"));
        assert!(!is_on(&[], None), "{name}");
        assert!(is_on(&[&flag], None), "{name}");
        assert!(is_on(&[], Some(&file)), "{name}");
        assert!(!is_on(&[&format!("{flag}=false")], Some(&file)), "{name}");
    }
}

#[test]
fn the_weight_of_limited_workloads_is_a_part_or_off() {
    let ratio = |flags: &[&str], file| settings(flags, file).unwrap().config.limited_weight_ratio;
    assert_eq!(ratio(&[], None), Config::default().limited_weight_ratio);
    assert_eq!(ratio(&["--limited-weight", "40%"], None), 0.4);
    let file = Some("limited-weight = 'off'");
    assert_eq!(ratio(&[], file), 0.0);
    assert_eq!(ratio(&["--limited-weight=100%"], file), 1.0);
    for bad in ["0%", "101%", "0.5", "-5%", "nan%", "", "half"] {
        let said = complaint(&[&format!("--limited-weight={bad}")], None);
        assert!(said.contains("1% to 100%, or off"), "{bad}: {said}");
    }
    let said = complaint(
        &[],
        Some("limit = false\n[controller]\nlimited_weight_ratio = 0.5"),
    );
    assert!(
        said.contains("use the key limited-weight") && said.contains("line 3"),
        "{said}"
    );
}

#[test]
fn a_set_point_without_a_unit_is_a_slip_wherever_it_stands() {
    let said = complaint(&["--set-point", "4"], None);
    assert!(said.starts_with("--set-point: 4 B/s"), "{said}");
    assert!(said.contains("--set-point 4GiB/s"), "{said}");
    assert!(settings(&["--set-point", "4096"], None).is_ok());
}

#[test]
fn names_of_today_are_taken_from_the_file() {
    let file = "attribution = 'task-counts'\nattribution-event = 'sw:cpu-clock'\nworkloads = 'process'\n\
                backend = 'sched-ext-full'";
    let got = settings(&[], Some(file)).unwrap();
    assert_eq!(got.attribution, AttributionName::TaskCounts);
    assert_eq!(got.attribution_event.as_deref(), Some("sw:cpu-clock"));
    assert_eq!(got.workloads, WorkloadsName::Process);
    assert_eq!(got.backend, BackendName::SchedExtFull);
    let flags = ["--backend", "cpu-max", "--attribution", "sampling"];
    let got = settings(&flags, Some(file)).unwrap();
    assert_eq!(got.backend, BackendName::CpuMax);
    assert_eq!(got.attribution, AttributionName::Sampling);
}

#[test]
fn observing_is_the_default() {
    let got = settings(&[], None).unwrap();
    assert!(!got.config.limit && got.set_point.is_none());
}

#[test]
fn nonsense_in_the_file_is_named_with_its_line() {
    for (file, wanted) in [
        (
            "limit = true\nset-pont = '4GiB/s'",
            &["line 2", "set-pont", "`set-point`"][..],
        ),
        (
            "set_point = '4GiB/s'",
            &["line 1", "unknown key set_point; did you mean `set-point`?"],
        ),
        (
            "[controller]\nkp = 1\nfloor-cpus = 1",
            &["line 3", "did you mean `floor_cpus`?"],
        ),
        (
            "metrics = '9779'",
            &["line 1", "port, for example 127.0.0.1:9779"],
        ),
        (
            "device = ['cxl0']",
            &["line 1", "such as node:2", "without --device"],
        ),
        ("set-point = '4G'", &["line 1", "GiB (binary)"]),
        ("\n\ninterval = 50", &["line 3", "unit"]),
        ("policy = 'fair'", &["line 1", "fair", "max-min"]),
        ("[controller]\nkq = 1", &["line 2", "kq", "kp"]),
        (
            "[controller]\nlimit = true",
            &["line 2", "use the key limit"],
        ),
        ("limit = ", &["line 1"]),
        (
            "limit = true\nset-point = 4",
            &["line 2", "set-point", "4GiB/s"],
        ),
        (
            "[controller.weights]\n'/a' = 0\n",
            &["line 2", "weights.\"/a\" = 0 is out of range"],
        ),
        (
            "[controller]\nkp = 0.2\nweights = { '/a' = 100,\n '/b' = -1 }\n",
            &["line 4", "weights.\"/b\""],
        ),
        ("exclude = 'a'", &["line 1", "sequence"]),
        // Flags of other commands are no keys.
        ("budget = '1s'", &["line 1", "unknown field `budget`"]),
        (
            "limit = true\nbackend = 'cgroups'",
            &["line 2", "unknown variant `cgroups`", "`cpu-max`"],
        ),
    ] {
        assert_complaint(file, wanted);
    }
}

fn assert_complaint(file: &str, wanted: &[&str]) {
    let said = complaint(&[], Some(file));
    for part in wanted {
        assert!(
            said.contains(part),
            "{file:?} said {said:?} without {part:?}"
        );
    }
}

#[test]
fn pushing_is_checked_before_anything_runs() {
    let got = settings(
        &["--push-interval", "30s"],
        Some("push = 'http://a/write?db=x'\npush-token-file = '/t'"),
    )
    .unwrap();
    assert_eq!(got.push.unwrap().to_string(), "http://a/write");
    assert_eq!(got.push_interval, Duration::from_secs(30));
    let said = complaint(&[], Some("\npush = 'ftp://a/write'"));
    assert!(
        said.contains("line 2") && said.contains("https://"),
        "{said}"
    );
    let said = complaint(&["--push-token-file", "/t"], None);
    assert!(said.contains("--push URL"), "{said}");
    let said = complaint(&["--push-interval", "10ms"], None);
    assert!(
        said.contains("push-interval") && said.contains("1s to 3600s"),
        "{said}"
    );
}

#[test]
fn values_out_of_range_say_the_range() {
    let said = complaint(&[], Some("\n[controller]\nkp = -1.0"));
    assert!(said.contains("line 3") && said.contains("kp"), "{said}");
    assert!(complaint(&["--interval", "1ms"], None).contains("5ms to 10s"));
    assert!(complaint(&["--period", "2s"], None).contains("1ms to 1s"));
    assert!(complaint(&["--limit"], None).contains("--set-point 4GiB/s"));
}

#[test]
fn a_line_of_the_file_is_named_only_where_no_flag_says_it() {
    for (flags, file, is_line) in [
        (&[][..], "\nperiod = '2s'", true),
        (&["--interval", "1s"], "\nperiod = '2s'", true),
        (&["--period", "3s"], "\nperiod = '2s'", false),
        (&["--period", "3s"], "\nperiod = '20ms'", false),
    ] {
        let said = complaint(flags, Some(file));
        assert!(said.contains("1ms to 1s"), "{said}");
        assert_eq!(said.contains("line 2"), is_line, "{flags:?} {said}");
    }
}

#[test]
fn a_percentage_needs_a_capacity_from_somewhere() {
    let mut asked = settings(&["--set-point", "40%"], None).unwrap();
    let error = asked
        .resolve(&Description::default(), Path::new("/nowhere"))
        .unwrap_err();
    assert!(error.to_string().contains("--capacity 20GiB/s"), "{error}");
    let mut asked = settings(&["--set-point", "40%", "--capacity", "10GB/s"], None).unwrap();
    asked
        .resolve(&Description::default(), Path::new("/nowhere"))
        .unwrap();
    assert_eq!(
        asked.config.set_point_bytes_per_sec,
        Some(BytesPerSec::new(4e9))
    );
}

proptest! {
    #[test]
    fn no_file_panics(text in "(?s).{0,200}|([a-z-]{1,10} = .{0,10}\n){0,5}") {
        let _ = parse(&text).map_err(|wrong| line_at(&text, wrong.at));
    }
}
