// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The files of a machine: parts that a zero byte ends, of which the first byte says which file of a small
//! machine has the rest of the part as its contents, or which cgroup there is.
//!
//! The machine is described, opened, observed for two ticks, decided on, and what a weir process left limited
//! there is restored. All figures are finite and not negative, names can be shown, and nothing outside of the
//! machine is written.
#![no_main]

use libfuzzer_sys::fuzz_target;
use serde_json::Value;
use std::cell::RefCell;
use std::fs;
use std::time::Duration;
use weir_core::{BytesPerSec, Config, Description, Observation, Platform, State, step};
use weir_fuzz::machine::Machine;
use weir_fuzz::{cut, desk};
use weir_linux::{LinuxPlatform, Options, TaskSource, describe, reset, unescape};

/// Changes of one machine: more only take time.
const CHANGES_MAX: usize = 16;
/// What lies beside the machine, where a path with `..` would lead.
const BESIDE: &str = "cpu.max";

fn is_sound(value: f64) -> bool {
    value.is_finite() && value >= 0.0
}

fn check_facts(machine: &Description) {
    for fact in &machine.facts {
        let said = fact
            .value
            .as_ref()
            .map_or_else(|why| why.reason().to_string(), Clone::clone);
        assert!(said.len() < 100_000, "{}: {} bytes", fact.name, said.len());
    }
    serde_json::to_string(machine).expect("a machine has a JSON form");
}

fn check_seen(seen: &Observation) {
    for workload in &seen.workloads {
        let id = workload.id.as_str();
        assert!(!id.contains(char::is_control), "{id:?}");
        assert!(is_sound(workload.weight), "{}", workload.weight);
        let is_path = id.starts_with('/');
        let path = unescape(id).unwrap_or_default();
        assert!(
            !is_path || path.split(|byte| *byte == b'/').all(|name| name != b".."),
            "{id:?}"
        );
    }
}

/// What ends in bytes per second is a rate, wherever it stands.
fn check_rates(value: &Value) {
    match value {
        Value::Object(members) => {
            for (name, value) in members {
                let is_rate = name.ends_with("_bytes_per_sec");
                let is_below = value.as_f64().is_some_and(|rate| !is_sound(rate));
                assert!(!(is_rate && is_below), "{name}: {value}");
                check_rates(value);
            }
        }
        Value::Array(values) => values.iter().for_each(check_rates),
        _ => {}
    }
}

fn check_plan(machine: &Description, seen: &[Observation]) {
    let config = Config {
        limit: true,
        set_point_bytes_per_sec: Some(BytesPerSec::new(1e6)),
        ..Config::default()
    };
    let mut state = State::default();
    for seen in seen {
        let plan = step(&mut state, &config, machine, seen);
        check_rates(&serde_json::to_value(&plan).expect("a plan has a JSON form"));
        for action in &plan.actions {
            assert!(!action.workload.as_str().contains("/../"));
        }
    }
}

fn observe(options: Options) {
    let Ok(mut platform) = LinuxPlatform::open_inline(options) else {
        return;
    };
    let seen: Vec<Observation> = (0..2).map_while(|_| platform.observe().ok()).collect();
    seen.iter().for_each(check_seen);
    let machine = platform.describe().clone();
    check_facts(&machine);
    check_plan(&machine, &seen);
}

thread_local! {
    static MACHINE: RefCell<Machine> = RefCell::new(Machine::new(desk()));
}

fn run(machine: &mut Machine, bytes: &[u8]) {
    let mut rest = bytes;
    for _ in 0..CHANGES_MAX {
        let [number, after @ ..] = rest else {
            break;
        };
        let (text, after) = cut(after);
        machine.change(*number, text);
        rest = after;
    }
    let options = Options {
        roots: machine.roots(),
        interval: Duration::ZERO,
        tasks: TaskSource::Walk,
        read_only: true,
        ..Options::default()
    };
    check_facts(&describe(&options));
    observe(options);
    let beside = desk().join(BESIDE);
    fs::write(&beside, "max 100000\n").expect("a file in memory");
    if let Ok(report) = reset(&machine.roots()) {
        assert!(
            report
                .problems
                .iter()
                .all(|problem| problem.len() < 100_000)
        );
    }
    assert_eq!(fs::read(&beside).expect("it is there"), b"max 100000\n");
    machine.restore();
}

fuzz_target!(|bytes: &[u8]| MACHINE.with_borrow_mut(|machine| run(machine, bytes)));
