// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Does `weir-lab dram` print what is documented, and answer nonsense clearly?

use crate::{done, stderr, stdout, weir_lab};
use serde_json::Value;
use std::fs;

fn json(args: &[&str]) -> Value {
    let all = [&["dram", "--json", "--requests", "100000"], args].concat();
    serde_json::from_str(&done(&all)).unwrap()
}

fn number(value: &Value) -> f64 {
    value
        .as_f64()
        .unwrap_or_else(|| panic!("no number: {value}"))
}

#[test]
fn json_has_the_keys_of_the_reference_beside_the_bounds() {
    let run = json(&["--trace", "rand", "--writes", "20"]);
    let page = include_str!("../../../../docs/reference/dram.md");
    let mut keys: Vec<&String> = run.as_object().unwrap().keys().collect();
    keys.extend(run["bounds"].as_object().unwrap().keys());
    keys.extend(run["read_latency_parts_ns"].as_object().unwrap().keys());
    for key in keys {
        assert!(page.contains(&format!("`{key}`")), "{key}");
    }
    // Ramulator 2.1: 11.214 GB/s.
    let rate = number(&run["bandwidth_bytes_per_sec"]);
    assert!((rate / 11.214e9 - 1.0).abs() < 0.02, "{rate}");
    assert!(rate < number(&run["bounds"]["random_bytes_per_sec"]));
    let latency = &run["read_latency_ns"];
    let [mean, p50, p99] = ["mean", "p50", "p99"].map(|key| number(&latency[key]));
    assert!((mean / 259.0 - 1.0).abs() < 0.05, "{mean}");
    assert!(p50 < p99 && number(&run["bounds"]["idle_miss_ns"]) < p50);
    let parts = run["read_latency_parts_ns"].as_object().unwrap();
    let sum: f64 = parts.values().map(number).sum();
    assert!((sum / mean - 1.0).abs() < 1e-9, "{sum} {mean}");
    assert!(number(&run["row_hit_ratio"]) < 0.01);
    assert!(number(&run["requests_per_sec"]) > 0.0);
}

#[test]
fn each_profile_mapping_and_order_runs() {
    for profile in ["ddr4-3200", "ddr5-4800", "lpddr2-1066"] {
        for mapping in ["RoBaRaCoCh", "ChRaBaRoCo", "mop4clxor"] {
            let args = [
                "--profile",
                profile,
                "--mapping",
                mapping,
                "--requests",
                "5000",
            ];
            let run: Value =
                serde_json::from_str(&done(&[&["dram", "--json"], &args[..]].concat())).unwrap();
            assert!(
                number(&run["bandwidth_bytes_per_sec"]) > 1e9,
                "{profile} {mapping}"
            );
        }
    }
    for order in [
        "fcfs",
        "fr-fcfs",
        "row-hit-first",
        "fr-fcfs-cap",
        "fr-lvtf",
        "fq",
        "atlas",
        "par-bs",
        "bliss",
        "rates",
    ] {
        let text = done(&[
            "dram",
            "--order",
            order,
            "--trace",
            "seqrand",
            "--requests",
            "5000",
        ]);
        assert!(text.contains(order) && text.contains("GB/s"), "{text}");
    }
    for page in ["open", "closed", "4"] {
        let text = done(&["dram", "--page", page, "--requests", "5000"]);
        assert!(text.contains("row hits"), "{text}");
    }
}

#[test]
fn the_same_seed_gives_the_same_figures_and_writes_alone_have_no_read_latency() {
    let run = |seed| {
        let mut run = json(&["--trace", "rand", "--seed", seed]);
        run.as_object_mut().unwrap().remove("requests_per_sec");
        run
    };
    assert_eq!(run("5"), run("5"));
    assert_ne!(run("5"), run("6"));
    let writes = json(&["--writes", "100"]);
    assert_eq!(writes["read_latency_ns"], Value::Null);
    assert!(number(&writes["write_latency_ns"]["mean"]) > 0.0);
}

#[test]
fn a_file_is_replayed_in_both_forms() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.trace");
    let path = path.to_str().unwrap();
    fs::write(path, "LD 0x40\nST 128\nLD 0x80\n").unwrap();
    let run: Value = serde_json::from_str(&done(&["dram", "--json", "--trace", path])).unwrap();
    assert_eq!(
        (&run["requests"], &run["writes_percent"]),
        (&3.into(), &Value::Null)
    );
    assert_eq!(run["merged_requests"], 1, "the last read finds the write");
    fs::write(path, "0x0 READ 0\n0x40 READ 16000\n").unwrap();
    let run: Value = serde_json::from_str(&done(&["dram", "--json", "--trace", path])).unwrap();
    assert!(
        number(&run["simulated_ns"]) > 10_000.0,
        "16000 clocks of 0.625 ns"
    );
    let idle = number(&run["bounds"]["idle_miss_ns"]);
    assert!((number(&run["read_latency_ns"]["p50"]) / idle - 1.0).abs() < 0.01);
}

/// Standard error of a command that has to fail with trouble.
fn refused(args: &[&str]) -> String {
    let output = weir_lab(&[&["dram"], args].concat());
    assert_eq!(
        output.status.code(),
        Some(2),
        "{args:?}: {}",
        stdout(&output)
    );
    stderr(&output)
}

#[test]
fn nonsense_is_answered_with_the_next_move() {
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = dir.path().join(name);
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let good = include_str!("../../../weir-dram/profiles/ddr4-3200.toml");
    let trace = file("bad.trace", "LD 0x40\nLOAD 1\n");
    let empty = file("empty.trace", "# nothing\n");
    let unknown = file("unknown.toml", &good.replace("faw_clocks", "FAW_clocks"));
    let wrong = file(
        "wrong.toml",
        &good.replace("rc_clocks = 74", "rc_clocks = 60"),
    );
    for (args, said) in [
        (&["--profile", "ddr4-3201"][..], "did you mean `ddr4-3200`?"),
        (
            &["--profile", "nowhere/x.toml"],
            "cannot read the profile nowhere/x.toml",
        ),
        (&["--profile", &unknown], "FAW_clocks"),
        (
            &["--profile", &wrong],
            "timing.rc_clocks is 60: at least ras_clocks + rp_clocks = 74",
        ),
        (
            &["--mapping", "RoBaRaCo"],
            "use one of RoBaRaCoCh, ChRaBaRoCo, MOP4CLXOR",
        ),
        (&["--order", "frfcfs"], "did you mean `fr-fcfs`?"),
        (&["--page", "half-open"], "use open, closed, or a number"),
        (&["--queue", "0"], "2 to 4096 is allowed"),
        (&["--queue", "-5"], "it must be 0 or more"),
        (&["--writes", "101"], "0 to 100 is allowed"),
        (&["--writes", "-1"], "it must be 0 or more"),
        (&["--seed", "0"], "1 to 18446744073709551615 is allowed"),
        (&["--requests", "0"], "1 to 10000000000 is allowed"),
        (&["--trace", "sequ"], "did you mean `seq`?"),
        (
            &["--trace", "nowhere/x.trace"],
            "cannot read the trace nowhere/x.trace",
        ),
        (
            &["--trace", &trace],
            "line 2: `LOAD 1` has no LD or ST; write `LD ADDRESS`",
        ),
        (&["--trace", &empty], "has no request"),
        (
            &["--trace", &trace, "--writes", "5"],
            "--writes is for made patterns",
        ),
        (
            &["--trace", &trace, "--seed", "5"],
            "--seed is for made patterns",
        ),
    ] {
        let text = refused(args);
        assert!(text.contains(said), "{args:?}: {text}");
    }
}
