// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Are weir's tables of events what the makers publish, and does weir encode them as perf does? The
//! reference is the program perf of the environment's kernel, with the lists of all CPUs compiled in: from
//! `PERF_CPUID` it knows what CPU this is, and from `SYSFS_PATH` what PMUs it has; it lists its events and
//! shows how it encodes ours. No guest is booted, nothing is counted.

use crate::common::{Questions, skip};
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;
use weir_testbed::guest_env::Environment;
use weir_testbed::vm::beside;

fn text<'a>(value: &'a Value, name: &str) -> Result<&'a str> {
    value[name]
        .as_str()
        .with_context(|| format!("{name} in {value}"))
}

fn list<'a>(value: &'a Value, name: &str) -> Result<&'a Vec<Value>> {
    value[name]
        .as_array()
        .with_context(|| format!("{name} in {value}"))
}

/// A sysfs with one PMU of each kind that a family has, as the family's table says its files are.
fn sysfs(family: &Value) -> Result<tempfile::TempDir> {
    let dir = tempfile::tempdir()?;
    let units = family["pmus"].as_object().context("pmus")?;
    for (place, unit) in units.values().enumerate() {
        let name = text(&unit["names"], "0")
            .or_else(|_| unit["names"][0].as_str().context("a PMU without a name"))?;
        let pmu = dir
            .path()
            .join("bus/event_source/devices")
            .join(name.replace('#', "0"));
        fs::create_dir_all(pmu.join("format"))?;
        let kind = if name == "cpu" { 4 } else { 100 + place };
        fs::write(pmu.join("type"), format!("{kind}\n"))?;
        if name != "cpu" {
            fs::write(pmu.join("cpumask"), "0\n")?;
        }
        for (field, format) in unit["format"].as_object().context("format")? {
            let format = format.as_str().context("format")?;
            fs::write(pmu.join("format").join(field), format!("{format}\n"))?;
        }
    }
    Ok(dir)
}

fn perf(env: &Environment, sysfs: &Path, cpu: &str) -> Command {
    let mut perf = env.tool("usr/bin/perf");
    perf.env("SYSFS_PATH", sysfs).env("PERF_CPUID", cpu);
    perf
}

/// Terms as numbers by name. perf adds a sampling period, which is no part of what is counted.
fn terms(event: &str) -> Result<BTreeMap<String, u64>> {
    let inner = event
        .split('/')
        .nth(1)
        .with_context(|| format!("no terms: {event}"))?;
    let mut terms = BTreeMap::new();
    for term in inner.split(',') {
        let (name, value) = term.split_once('=').unwrap_or((term, "1"));
        let digits = value.strip_prefix("0x").unwrap_or(value);
        let radix = if digits.len() < value.len() { 16 } else { 10 };
        let number = u64::from_str_radix(digits, radix).with_context(|| event.to_owned())?;
        if name != "period" && !(name == "umask" && number == 0) {
            terms.insert(name.to_owned(), number);
        }
    }
    Ok(terms)
}

/// Encodings by name, as perf lists them for a CPU.
fn published(env: &Environment, sysfs: &Path, cpu: &str) -> Result<BTreeMap<String, String>> {
    let output = perf(env, sysfs, cpu)
        .args(["list", "--details", "-j"])
        .output()?;
    // Descriptions are not always UTF-8.
    let said = String::from_utf8_lossy(&output.stdout);
    let events: Vec<Value> = serde_json::from_str(&said)
        .with_context(|| format!("perf list: {}", String::from_utf8_lossy(&output.stderr)))?;
    let pair = |e: &Value| {
        Some((
            e["EventName"].as_str()?.to_lowercase(),
            e["Encoding"].as_str()?.to_owned(),
        ))
    };
    Ok(events.iter().filter_map(pair).collect())
}

/// Every event that a table calls published is in perf's list of each of its CPUs, with the same bits.
fn is_published(env: &Environment, family: &Value) -> Result<()> {
    let sysfs = sysfs(family)?;
    let mut compared = 0;
    for run in list(family, "cpus")? {
        let run = run.as_str().context("cpus")?;
        let (stem, models) = run.rsplit_once('-').context("cpus")?;
        let ends: Vec<&str> = models.split("..").collect();
        for model in [ends[0], ends[ends.len() - 1]] {
            let cpu = format!("{stem}-{model}-1");
            let known = published(env, sysfs.path(), &cpu)?;
            for event in list(family, "events")? {
                if matches!(text(event, "provenance")?, "raw" | "difference") {
                    continue;
                }
                let name = text(event, "name")?.to_lowercase();
                let theirs = known
                    .get(&name)
                    .with_context(|| format!("{cpu}: perf has no {name}"))?;
                let ours = text(event, "perf")?;
                ensure!(
                    terms(ours)? == terms(theirs)?,
                    "{cpu} {name}: {ours}, perf {theirs}"
                );
                compared += 1;
            }
        }
    }
    ensure!(compared > 0, "nothing was compared");
    println!(
        "{}: {compared} encodings as published",
        text(family, "name")?
    );
    Ok(())
}

/// What perf would give to the kernel for each event, in order.
fn encoded_by_perf(env: &Environment, family: &Value) -> Result<Vec<[u64; 3]>> {
    let sysfs = sysfs(family)?;
    let mut perf = perf(env, sysfs.path(), "GenuineIntel-6-00-0");
    perf.args(["stat", "-vv", "-a"]);
    for event in list(family, "events")? {
        perf.args(["-e", text(event, "perf")?]);
    }
    let output = perf.arg("true").output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    let mut seen = Vec::new();
    for block in said.split("perf_event_attr:").skip(1) {
        let value = |name: &str| {
            let line = block.lines().map(str::trim).find(|l| l.starts_with(name));
            let word = line.and_then(|l| l[name.len()..].split_whitespace().next());
            word.map_or(Ok(0), |word| match word.strip_prefix("0x") {
                Some(digits) => u64::from_str_radix(digits, 16),
                None => word.parse(),
            })
        };
        seen.push([
            value("config ")?,
            value("{ bp_addr, config1 }")?,
            value("{ bp_len, config2 }")?,
        ]);
    }
    Ok(seen)
}

fn is_encoded_as_by_perf(env: &Environment, family: &Value) -> Result<()> {
    let seen = encoded_by_perf(env, family)?;
    let events = list(family, "events")?;
    // An event that counts several things has a term more.
    ensure!(
        seen.len() == events.len(),
        "perf opened {} of {}",
        seen.len(),
        events.len()
    );
    for (event, theirs) in events.iter().zip(seen) {
        let ours: Vec<u64> = list(event, "config")?
            .iter()
            .filter_map(Value::as_u64)
            .collect();
        ensure!(
            ours[..3] == theirs && ours[3] == 0,
            "{}: {ours:x?}, perf {theirs:x?}",
            text(event, "perf")?
        );
    }
    println!(
        "{}: {} events encoded as perf does",
        text(family, "name")?,
        events.len()
    );
    Ok(())
}

#[test]
fn tables_are_what_perf_knows() -> Result<()> {
    let weir = match (rustix::process::geteuid().is_root(), beside("weir")) {
        (true, Ok(weir)) => weir,
        (true, Err(lacking)) => return skip::<()>("events", &format!("{lacking:#}")).map(drop),
        (false, _) => return skip::<()>("events", "making the environment needs root").map(drop),
    };
    let env = &Environment::ready(&mut |line: &str| println!("{line}"))?;
    let output = Command::new(weir).args(["events", "--json"]).output()?;
    let report: Value = serde_json::from_slice(&output.stdout)?;
    let mut questions = Questions::default();
    for family in list(&report, "families")? {
        let name = text(family, "name")?;
        // Devices are no CPU's, and no list has them but the driver itself.
        if !list(family, "cpus")?.is_empty() {
            questions.ask(&format!("{name} is published"), || {
                is_published(env, family)
            });
        }
        questions.ask(&format!("{name} is encoded"), || {
            is_encoded_as_by_perf(env, family)
        });
    }
    questions.done()
}
