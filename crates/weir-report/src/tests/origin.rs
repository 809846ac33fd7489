// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How results came about, and what of them is not to be trusted: in the file, on the page, on the terminal.

use super::*;
use serde_json::Value;
use weir_figures::COLUMNS;
use weir_figures::text::width;

const SKEW: &str = "clocks of two CPUs differ by up to a window";

fn with_origin() -> Results {
    let mut results = results();
    results.origin = Some(Origin {
        weir_version: "1.2.3".into(),
        commit: Some("0123456789ab-dirty".into()),
        world: "vm".into(),
        kernel_release: Some("6.18.1-cloud".into()),
        qemu_version: Some("11.0.2".into()),
        host: Some("A CPU, 2 CPUs, Linux 6.12.0".into()),
        date_utc: Some("2026-03-01T12:00:00Z".into()),
        seed: 7,
        virtual_sec: Some(20.0),
        wall_sec: Some(50.5),
        window_ns: Some(100_000),
    });
    for run in &mut results.runs {
        (run.virtual_sec, run.wall_sec) = (Some(10.0), Some(25.25));
    }
    results.caveats = vec![
        Caveat::new("device_latency.p50_ns", SKEW),
        Caveat::new("device_latency.p99_ns", SKEW),
        Caveat::new("every rate", "a scale model"),
        Caveat::new("limited_readers", "made up"),
    ];
    results
}

#[test]
fn page_and_terminal_show_all_of_it() {
    let dir = tempfile::tempdir().unwrap();
    let files = write(dir.path(), &subject(), &with_origin()).unwrap();
    let page = std::fs::read_to_string(&files[3]).unwrap();
    let shown = terminal(&subject(), &with_origin());
    let flat = shown.split_whitespace().collect::<Vec<_>>().join(" ");
    for text in [page, flat] {
        for part in [
            "How this was made",
            "1.2.3, commit 0123456789ab-dirty",
            "emulated device, Linux 6.18.1-cloud, QEMU 11.0.2",
            "A CPU, 2 CPUs, Linux 6.12.0",
            "2026-03-01T12:00:00Z",
            "20 s virtual, 50.5 s wall",
            "100 µs of virtual time",
            "max-min: 10 s virtual, 25.2 s wall",
            "Not to be trusted",
            "device access p50, p99: ",
            SKEW,
            "every rate: ",
            "weir (cpu-max) held the device at",
            "nothing ran",
            "set-point 39.8 % of it. Measured for 8 s, 2 s after the start. Seed 7.",
        ] {
            assert!(text.contains(part), "{part} is not in\n{text}");
        }
    }
    let widest = shown.lines().map(width).max();
    assert!(widest <= Some(COLUMNS), "{shown}");
    assert!(shown.ends_with('\n'));
}

#[test]
fn a_figure_that_is_not_to_be_trusted_is_marked() {
    let text = table(&with_origin());
    let marked = text.lines().filter(|l| l.contains('*')).count();
    // Two of the device, all five of the limited readers.
    assert_eq!(marked, 7, "{text}");
    assert!(text.contains("p99 ÷ bound*"), "{text}");
    assert!(!table(&results()).contains('*'));
}

#[test]
fn nothing_is_said_where_nothing_is_recorded() {
    assert_eq!(origin_text(&results()), "");
    let mut bare = results();
    bare.origin = Some(Origin::default());
    let text = origin_text(&bare);
    assert!(text.contains("commit not known"), "{text}");
    assert_eq!(text.matches("not recorded").count(), 3, "{text}");
    assert!(!text.contains("None") && !text.contains("window"), "{text}");
}

#[test]
fn the_file_has_it_and_reads_back() {
    let text = files::summary(&with_origin()).unwrap();
    let read: Results = serde_json::from_slice(&text).unwrap();
    assert_eq!(
        (&read.origin, &read.caveats),
        (&with_origin().origin, &with_origin().caveats)
    );
    let value: Value = serde_json::from_slice(&text).unwrap();
    assert_eq!(value["origin"]["kernel_release"], "6.18.1-cloud");
    assert_eq!(value["caveats"][2]["figure"], "every rate");
    assert_eq!(value["runs"][1]["wall_sec"], 25.25);
}

/// Results of after may have more.
#[test]
fn newer_files_are_read() {
    let run = |more: &str| {
        format!(
            r#"{{"scenario":"old","runs":[{{"world":"vm","policy":"none","backend":"none",
            "set_point_bytes_per_sec":1.0,"seed":1,"bandwidth":{{"mean_bytes_per_sec":1.0,
            "stddev_bytes_per_sec":1.0,"rmse_ratio":1.0,"bias_ratio":0.0}},
            "device_latency":{{"mean_ns":null,"p50_ns":null,"p99_ns":null}},
            "light_reader":{{"mean_ns":null,"p50_ns":null,"p99_ns":null}},
            "limited_readers":{{"mean_ns":null,"p50_ns":null,"p99_ns":null,"little_bound_ns":null}},
            "cpu_sec_per_gib":null,"throughput_ops_per_sec":null,"settle_ms":null,
            "overshoot_ratio":null{more}}}]}}"#
        )
    };
    for more in ["", r#","a_figure_of_next_year":{"mean_ns":1.0}"#] {
        let read: Results = serde_json::from_str(&run(more)).unwrap();
        assert_eq!(read.origin, None);
        assert_eq!(read.runs[0].virtual_sec, None);
        assert!(terminal(&subject(), &read).contains("no value and no reason"));
    }
}

#[test]
fn runs_of_one_seed_agree_but_for_date_and_wall_time() {
    let mut later = with_origin();
    let origin = later.origin.as_mut().unwrap();
    origin.date_utc = Some("2026-03-02T12:00:00Z".into());
    origin.wall_sec = Some(60.0);
    later.runs[0].wall_sec = None;
    assert_ne!(later, with_origin());
    assert_eq!(later.reproducible(), with_origin().reproducible());
    later.runs[0].virtual_sec = Some(11.0);
    assert_ne!(later.reproducible(), with_origin().reproducible());
}
