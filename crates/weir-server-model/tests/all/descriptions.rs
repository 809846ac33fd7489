// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Files that are wrong say what is wrong.

use weir_server_model::{Machine, Scenario, Workloads};

const SMALL: &str = include_str!("../../profiles/server-small.toml");

const WORKLOADS: &str = r#"
[[workload]]
name = "a"
cpus = [0]
[[workload.area]]
name = "heap"
kib = 64
cxl_part = 0.5
[[workload.phase]]
[[workload.phase.mix]]
area = "heap"
pattern = "random"
"#;

fn machine_error(from: &str, to: &str) -> String {
    assert!(SMALL.contains(from), "{from}");
    Machine::parse(&SMALL.replacen(from, to, 1), "m.toml")
        .expect_err("refused")
        .to_string()
}

fn workload_error(from: &str, to: &str) -> String {
    assert!(WORKLOADS.contains(from), "{from}");
    let machine = Machine::named("small").expect("built in");
    let text = WORKLOADS.replacen(from, to, 1);
    Workloads::parse(&text, &machine, "w.toml")
        .expect_err("refused")
        .to_string()
}

#[test]
fn machines_name_the_key() {
    for (from, to, key) in [
        ("ghz = 2.0", "ghz = 200.0", "cores.ghz"),
        ("window = 512", "window = 2", "cores.window"),
        ("clusters = 1", "clusters = 3", "cha.clusters"),
        ("llc_ways = 15", "llc_ways = 40", "cha.llc_ways"),
        ("drain_to = 8", "drain_to = 32", "dram.drain_to"),
        (
            "load_to_use_ns = 103.2",
            "load_to_use_ns = 30.0",
            "dram.load_to_use_ns",
        ),
        (
            "load_to_use_ns = 163.6",
            "load_to_use_ns = 90.0",
            "remote.load_to_use_ns",
        ),
        (
            "profile = \"agilex-i\"",
            "profile = \"agilex-x\"",
            "device[0].profile",
        ),
        (
            "profile = \"agilex-i\"",
            "profile = \"agilex-i\"\nidle_ns = 60.0",
            "device[0].idle_ns",
        ),
        ("flight_ns = 25.0", "flight_ns = nan", "device[0].flight_ns"),
        ("width_bits = 48", "width_bits = 0", "pmu.width_bits"),
        ("tor_entries = 32", "tor_entrys = 32", "tor_entrys"),
        ("tor_entries = 32", "tor_entries = \"many\"", "tor_entries"),
    ] {
        let error = machine_error(from, to);
        assert!(
            error.contains("m.toml") && error.contains(key),
            "{to}: {error}"
        );
    }
}

#[test]
fn workloads_name_the_key() {
    for (from, to, key) in [
        ("cpus = [0]", "cpus = [9]", "CPUs 0 to 3"),
        ("cpus = [0]", "cpus = [0, 0]", "workload[0].cpus"),
        ("cpus = [0]", "cpus = []", "workload[0].cpus"),
        ("kib = 64", "kib = -1.0", "area[0].kib"),
        ("cxl_part = 0.5", "cxl_part = 1.5", "cxl_part"),
        (
            "cxl_part = 0.5",
            "cxl_part = 0.5\nremote_part = 0.6",
            "remote_part",
        ),
        (
            "cxl_part = 0.5",
            "cxl_part = 0.5\ndevice = 3",
            "area[0].device",
        ),
        ("area = \"heap\"", "area = \"stack\"", "stack"),
        (
            "pattern = \"random\"",
            "pattern = \"backwards\"",
            "backwards",
        ),
        (
            "pattern = \"random\"",
            "pattern = \"random\"\nchains = 99",
            "mix[0].chains",
        ),
        ("name = \"a\"", "name = \"a\"\nllc_ways = 0", "llc_ways"),
        ("name = \"a\"", "name = \"a\"\ncolour = 0", "colour"),
    ] {
        let error = workload_error(from, to);
        assert!(
            error.contains("w.toml") && error.contains(key),
            "{to}: {error}"
        );
    }
}

#[test]
fn what_is_built_in_is_sound_and_its_assumptions_are_keys_of_it() {
    for name in Machine::names() {
        let machine = Machine::named(name).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(machine.name, name);
        let value = toml::Value::try_from(&machine).expect("TOML");
        for key in &machine.assumed {
            let found = key
                .split('.')
                .try_fold(&value, |at, word| match at.get(word)? {
                    toml::Value::Array(all) => all.first(),
                    other => Some(other),
                });
            assert!(found.is_some(), "{name}: assumed {key} is no key");
        }
    }
    let error = Machine::named("vax").expect_err("unknown").to_string();
    assert!(error.contains("spr-agilex"), "{error}");
}

#[test]
fn scenarios_name_what_is_wrong() {
    let text = format!(
        "name = \"s\"\nabout = \"s\"\nmachine = \"small\"\n[run]\nwindows = 1\nwindow_us = 1.0\n\
         [change.cha]\ntor_entries = 7\n{WORKLOADS}"
    );
    let scenario = Scenario::parse(&text, "s.toml").expect("a scenario");
    assert_eq!(scenario.machine.cha.tor_entries, 7);
    assert_eq!(scenario.machine.cha.count, 4, "the rest stays");
    for (from, to, word) in [
        ("machine = \"small\"", "machine = \"vax\"", "vax"),
        ("windows = 1", "windows = 0", "windows"),
        // It would run for ever.
        ("windows = 1", "warm_up_us = 1e18\nwindows = 1", "10 s"),
        ("tor_entries = 7", "tor_entries = 0", "cha.tor_entries"),
        ("tor_entries = 7", "tor_rows = 7", "tor_rows"),
        ("about = \"s\"", "about = \"s\"\nhurry = true", "hurry"),
    ] {
        let error = Scenario::parse(&text.replacen(from, to, 1), "s.toml")
            .expect_err(to)
            .to_string();
        assert!(error.contains(word), "{to}: {error}");
    }
    let text = format!("{text}\n[[cause]]\nkind = \"chains\"\nvictim = \"b\"\n");
    let error = Scenario::parse(&text, "s.toml")
        .expect_err("no such workload")
        .to_string();
    assert!(error.contains("`b`"), "{error}");
}
