// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Does `weir-lab type2` show each figure with the paper's, follow an access, explore, and refuse nonsense?

use crate::{done, stderr, stdout, weir_lab};
use serde_json::Value;
use std::fs;

fn json(args: &[&str]) -> Value {
    serde_json::from_str(&done(args)).unwrap()
}

/// What trouble says; the exit code is 2.
fn refused(args: &[&str]) -> String {
    let output = weir_lab(args);
    assert_eq!(output.status.code(), Some(2), "{}", stdout(&output));
    stderr(&output)
}

#[test]
fn all_tables_are_printed_and_say_what_is_fitted_and_what_predicted() {
    let text = done(&["type2"]);
    for words in [
        "Table III: states before → after",
        "96 of 96 transitions are the paper's",
        "latency, CS-rd over ld, LLC hit",
        "cxl-zswap, total",
        "software 366 (page, result, table), accelerator with NC-rd 0",
        "573 clocks a page (mean of the RTL's LZ4 encoder",
        "Missed:",
    ] {
        assert!(text.contains(words), "no {words:?} in\n{text}");
    }
    let all = json(&["type2", "--json"]);
    let figures = all["figures"].as_array().unwrap();
    assert!(figures.len() > 60, "{}", figures.len());
    for figure in figures {
        let what = figure["what"].as_str().unwrap();
        let mut rows = text.lines().filter(|line| line.get(8..).is_some());
        let row = rows.find(|line| line[8..].starts_with(what));
        let row = row.unwrap_or_else(|| panic!("{what} is not printed"));
        let kind = figure["kind"].as_str().unwrap();
        assert!(["fitted", "predicted", "assumed"].contains(&kind));
        assert!(row.contains(kind), "{row}");
        assert_eq!(row.contains("MISSED"), figure["is_met"] == false, "{row}");
        assert_eq!(figure["note"].is_null(), figure["is_met"] == true, "{row}");
    }
    assert_eq!(text, done(&["type2"]), "the same each time");
}

#[test]
fn a_page_has_the_same_figures() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("page");
    done(&["type2", "--out", out.to_str().unwrap()]);
    let page = fs::read_to_string(out.join("index.html")).unwrap();
    assert!(page.contains("latency, NC-rd over nt-ld, LLC hit") && page.contains("<svg"));
    assert_eq!(
        page.matches(">MISSED<").count(),
        10,
        "each missed figure says so"
    );
    let written = fs::read_to_string(out.join("figures.json")).unwrap();
    let written: Value = serde_json::from_str(&written).unwrap();
    assert_eq!(written, json(&["type2", "--json"]));
}

#[test]
fn one_access_is_followed_stage_by_stage() {
    let text = done(&["type2", "--op", "nc-wr", "--llc", "S"]);
    for words in [
        "NC-wr to host memory, host bias; HMC I → I, LLC S → I",
        "D2H Req: WrInv",
        "H2D Rsp: GO-I",
        "host_accept",
    ] {
        assert!(text.contains(words), "no {words:?} in\n{text}");
    }
    let device = json(&[
        "type2",
        "--op",
        "CO-wr",
        "--memory",
        "device",
        "--device-cache",
        "S",
        "--bias",
        "device",
        "--count",
        "512",
        "--json",
    ]);
    assert_eq!(device["bias"], "device");
    assert_eq!(device["device_cache_after"], "M");
    assert_eq!(device["burst_count"], 512);
    let events = device["events"].as_array().unwrap();
    assert!(
        events.iter().all(|event| event["kind"] != "sent"),
        "{events:?}"
    );
    assert_eq!(events.last().unwrap()["at_ns"], device["latency_ns"]);
    let core = json(&["type2", "--op", "st", "--memory", "host", "--json"]);
    assert_eq!(core["llc_after"], "M");
    assert!(
        core["burst_ns"].is_null(),
        "cores' bursts go to device memory"
    );
}

#[test]
fn exploring_counts_states_and_a_broken_rule_has_a_chart() {
    let all = json(&["type2", "--explore", "--json"]);
    assert_eq!(all.as_array().unwrap().len(), 2);
    for one in all.as_array().unwrap() {
        assert_eq!(one["is_complete"], true);
        assert!(one["violation"].is_null() && one["longest_drain"].as_u64().unwrap() > 3);
    }
    let args = ["type2", "--explore", "--lines", "host"];
    let broken = weir_lab(&[&args[..], &["--fault", "snoop-passes-go"]].concat());
    assert_eq!(broken.status.code(), Some(1), "a finding");
    let chart = stdout(&broken);
    assert!(
        chart.contains("which overtook GO-") && chart.contains("Broken: "),
        "{chart}"
    );
    let listed = json(&["type2", "--explore", "--fault", "list", "--json"]);
    assert!(listed.as_array().unwrap().len() >= 10);
}

#[test]
fn nonsense_is_refused_with_the_next_move() {
    for (args, words) in [
        (&["--op", "mov"][..], "use one of NC-P, NC-rd"),
        (&["--op", "ld", "--llc", "X"], "use one of I, S, E, M"),
        (
            &["--op", "ld", "--llc", "S", "--device-cache", "M"],
            "exclude each other",
        ),
        (
            &[
                "--op", "CO-rd", "--memory", "device", "--bias", "device", "--llc", "S",
            ],
            "such a region",
        ),
        (&["--op", "ld", "--count", "0"], "1..=1000000"),
        (&["--fault", "list"], "--explore"),
        (&["--explore", "--lines", "host,host,host"], "more than two"),
        (
            &["--explore", "--fault", "none"],
            "use one of snoop-passes-go",
        ),
        (&["--profile", "nowhere.toml"], "cannot read nowhere.toml"),
        (&["--profile", "/dev/zero"], "/dev/zero: it is a device"),
    ] {
        let said = refused(&[&["type2"][..], args].concat());
        assert!(said.contains(words), "{args:?}: {said}");
    }
}

/// Runs an engine on files with these bytes: its bytes and its figures.
fn engine(name: &str, inputs: &[&[u8]]) -> (Vec<u8>, Value) {
    let dir = tempfile::tempdir().unwrap();
    let path = |file: &str| dir.path().join(file).to_str().unwrap().to_owned();
    let out = path("out");
    let mut args: Vec<String> = ["type2", "--json", "--engine", name, "--out", &out]
        .map(str::to_owned)
        .into();
    for (index, bytes) in inputs.iter().enumerate() {
        let file = path(&format!("in{index}"));
        fs::write(&file, bytes).unwrap();
        args.push(file);
    }
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let figures = json(&args);
    (fs::read(&out).unwrap(), figures)
}

#[test]
fn engines_give_bytes_and_clocks() {
    let page = [b'x'; 4096];
    let two: Vec<u8> = (0..5000_u32).map(|n| ((n * n) >> 7) as u8).collect();

    let (hashes, figures) = engine("xxh64", &[&two]);
    assert_eq!(hashes.len(), 16);
    assert_eq!(figures["pages"], 2);
    assert_eq!(figures["page_clocks"][0], 722);
    let (abc, _) = engine("xxh64", &[b"abc"]);
    // These are from the specification's test program.
    assert_eq!(abc, 0x44bc_2cf5_ad77_0999_u64.to_le_bytes());

    let mut other = two.clone();
    other[4099] = other[4099].wrapping_add(1);
    let (compared, figures) = engine("compare", &[&two, &other]);
    let sign = if two[4099] < other[4099] { -1_i32 } else { 1 };
    let wanted = [
        4096_u32.to_le_bytes(),
        [0; 4],
        [3, 0, 0, 0],
        sign.to_le_bytes(),
    ];
    assert_eq!(compared, wanted.concat());
    assert_eq!(figures["page_clocks"][0], 67);

    for input in [&page[..], &two] {
        let (encoded, figures) = engine("lz4-encode", &[input]);
        assert_eq!(figures["bytes_out"], encoded.len());
        assert!(figures["clocks"].as_u64().unwrap() > 200, "{figures}");
        let (decoded, figures) = engine("lz4-decode", &[&encoded]);
        assert_eq!(decoded, input);
        assert_eq!(figures["bytes_in"], encoded.len());
    }
}

#[test]
fn engines_refuse_what_they_cannot_take() {
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str, bytes: &[u8]| {
        let path = dir.path().join(name);
        fs::write(&path, bytes).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let (empty, short) = (file("empty", b""), file("short", b"ab"));
    let (long, hostile) = (file("long", b"abc"), file("hostile", &[0x1f, b'a', 9, 9]));
    let vast = file("vast", b"");
    fs::File::options()
        .write(true)
        .open(&vast)
        .unwrap()
        .set_len((1 << 28) + 1)
        .unwrap();
    let fifo = dir.path().join("fifo");
    let (kind, mode) = (rustix::fs::FileType::Fifo, rustix::fs::Mode::RWXU);
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, kind, mode, 0).unwrap();
    let fifo = fifo.to_str().unwrap();
    let engine = |name: &str, files: &[&str]| {
        let args = [&["type2", "--engine", name], files].concat();
        refused(&args)
    };
    for (said, words) in [
        (engine("xxh64", &[&empty]), "is empty"),
        (engine("xxh64", &[fifo]), "it is a FIFO"),
        (engine("xxh64", &["/no/such"]), "cannot read"),
        (
            engine("xxh64", &[&short, &short]),
            "takes 1 FILE, and 2 are given",
        ),
        (engine("xxh64", &[&vast]), "larger than"),
        (
            engine("compare", &[&short]),
            "takes 2 FILE, and 1 are given",
        ),
        (engine("compare", &[&short, &long]), "2 and 3 bytes"),
        (engine("lz4-encode", &[&short]), "incompressible"),
        (
            engine("lz4-encode", &[&short, "--json"]),
            "\"pages_refused\": 1",
        ),
        (engine("lz4-decode", &[&hostile]), "block 0"),
        (engine("xxh64", &[&short, "--out", fifo]), "cannot write"),
        (
            engine("lz4-encode", &[&short, "--positions", "3"]),
            "1, 2, 4 or 8",
        ),
        (engine("gzip", &[&short]), "invalid value"),
        (refused(&["type2", &short]), "--engine"),
    ] {
        assert!(said.contains(words), "no {words:?} in {said}");
    }
}
