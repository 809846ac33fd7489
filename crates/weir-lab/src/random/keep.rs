// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Scenarios with a check that does not hold, as small files for `weir sim`.

use super::checks::Finding;
use super::shrink::{Shrunk, shrink};
use super::{NO_LIMIT, Prepared, Setup, Table, word};
use super::{check_one, generator, on_all_cpus, prepare, run_free, set_point_at};
use anyhow::{Context, Result, bail};
use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::Path;
use toml::Value;
use weir_figures::text::harmless;
use weir_files::{Access, Folder};
use weir_sim::Scenario;

/// Smaller scenarios that are tried for each file. Each takes two runs, or three.
const TRIES_MAX: usize = 40;

/// Makes the directory, before anything has run.
///
/// # Errors
/// It cannot be made.
pub fn make(dir: &Path) -> Result<Folder> {
    let name = harmless(&dir.to_string_lossy());
    Folder::open_or_make(dir).with_context(|| format!("cannot make {name}"))
}

/// Writes a file for each seed of a table.
///
/// # Errors
/// A file exists or cannot be written.
pub fn keep(dir: &Path, setup: Setup, table: &Table) -> Result<()> {
    let mut failing: BTreeMap<u64, Vec<&Finding>> = BTreeMap::new();
    for (seed, finding) in table.values().flat_map(|row| &row.wrong) {
        failing.entry(*seed).or_default().push(finding);
    }
    let failing: Vec<(u64, Vec<&Finding>)> = failing.into_iter().collect();
    let path = |seed: u64| {
        let (backend, sensor) = (word(setup.backend), word(setup.sensor));
        dir.join(format!("{seed}-{backend}-{sensor}.toml"))
    };
    for (seed, _) in &failing {
        // This is asked before minutes of shrinking.
        if path(*seed).symlink_metadata().is_ok() {
            let name = harmless(&path(*seed).to_string_lossy());
            bail!("{name} is there already, and is not overwritten: name another directory");
        }
    }
    let kept = on_all_cpus(failing.len() as u64, |index| {
        let Some((seed, wrong)) = usize::try_from(index).ok().and_then(|i| failing.get(i)) else {
            return Ok(());
        };
        let path = path(*seed);
        let name = harmless(&path.to_string_lossy());
        let text = document(setup, *seed, wrong, &name)?;
        let file = weir_files::create_new(&path, Access::Shared);
        let mut file = file.with_context(|| format!("cannot make {name}"))?;
        file.write_all(text.as_bytes())
            .with_context(|| format!("cannot write {name}"))?;
        eprintln!("kept {name}");
        Ok(())
    });
    kept.into_iter().collect()
}

/// A scenario of a draft, or of a part of it.
struct Smaller<'a> {
    draft: &'a generator::Draft,
    setup: Setup,
    check: &'static str,
}

impl Smaller<'_> {
    /// The scenario with a set-point at which the check does not hold, and what was found. The set-point
    /// stays what it is. Where the check does not apply to it any more, it is the same part of what moves.
    fn failing(&self, scenario: &toml::Table) -> Result<Option<(toml::Table, Finding)>> {
        let options = self.setup.options();
        let without = Scenario::parse(&at(scenario, NO_LIMIT).to_string(), "random")?;
        let free = run_free(&without, self.draft.seed, &options)?;
        let kept = set_point(scenario).context("no set-point")?;
        let scaled = set_point_at(self.draft.set_point_ratio, &free);
        let mut prepared = Prepared {
            text: String::new(),
            free,
            set_point: kept,
        };
        let found = first_applying([kept, scaled], self.check, |set_point| {
            prepared.text = at(scenario, set_point).to_string();
            prepared.set_point = set_point;
            check_one(self.draft, &prepared, &options)
        })?;
        Ok(found.map(|(set_point, finding)| (at(scenario, set_point), finding)))
    }
}

/// The first set-point to which the check applies, and what was found, if the check does not hold there.
fn first_applying(
    set_points: [f64; 2],
    check: &str,
    mut findings: impl FnMut(f64) -> Result<Vec<Finding>>,
) -> Result<Option<(f64, Finding)>> {
    for set_point in set_points {
        let mut found = findings(set_point)?;
        found.retain(|finding| finding.check == check);
        if !found.is_empty() {
            let wrong = found.into_iter().find(|finding| !finding.holds);
            return Ok(wrong.map(|finding| (set_point, finding)));
        }
    }
    Ok(None)
}

fn set_point(scenario: &toml::Table) -> Option<f64> {
    let value = scenario.get("control")?.get("set_point_bytes_per_sec")?;
    value
        .as_float()
        .or_else(|| value.as_integer().map(|whole| whole as f64))
}

fn at(scenario: &toml::Table, set_point: f64) -> toml::Table {
    let mut other = scenario.clone();
    if let Some(Value::Table(control)) = other.get_mut("control") {
        let value = Value::Float(set_point.round());
        control.insert("set_point_bytes_per_sec".to_owned(), value);
    }
    other
}

/// The scenario of a draft, as `weir sim` is to run it: with its source of attribution and its policy.
fn whole(prepared: &Prepared, setup: Setup) -> Result<toml::Table> {
    let mut whole: toml::Table = prepared.text.parse()?;
    let parts = [
        ("sensors", "attribution", word(setup.sensor)),
        ("control", "policy", setup.policy.name().to_owned()),
    ];
    for (part, key, value) in parts {
        let part = whole
            .entry(part)
            .or_insert_with(|| Value::Table(toml::Table::new()));
        if let Value::Table(part) = part {
            part.insert(key.to_owned(), Value::String(value));
        }
    }
    Ok(whole)
}

/// The file: the smallest scenario for which the first of these checks does not hold.
fn document(setup: Setup, seed: u64, wrong: &[&Finding], name: &str) -> Result<String> {
    let Some((first, others)) = wrong.split_first() else {
        bail!("seed {seed}: nothing is wrong");
    };
    let draft = generator::draw(seed);
    let smaller = Smaller {
        draft: &draft,
        setup,
        check: first.check,
    };
    let mut finding = (*first).clone();
    let whole = whole(&prepare(&draft, &setup.options())?, setup)?;
    let shrunk = shrink(&whole, TRIES_MAX, |scenario| {
        // What cannot run without a part is kept with it.
        let (left, found) = smaller.failing(scenario).ok().flatten()?;
        finding = found;
        Some(left)
    });
    Ok(head(setup, seed, &finding, others, &shrunk, name) + &shrunk.scenario.to_string())
}

/// The comment above a scenario.
fn head(
    setup: Setup,
    seed: u64,
    finding: &Finding,
    others: &[&Finding],
    shrunk: &Shrunk,
    name: &str,
) -> String {
    let (backend, sensor) = (word(setup.backend), word(setup.sensor));
    let of = finding.of.as_deref().unwrap_or("all");
    let mut also: Vec<&str> = others.iter().map(|other| other.check).collect();
    also.dedup();
    also.retain(|other| *other != finding.check);
    let also = if also.is_empty() {
        "no other check".to_owned()
    } else {
        also.join("; ")
    };
    let end = if shrunk.is_smallest {
        "nothing more can be left out"
    } else {
        "more may be left out"
    };
    format!(
        "# A scenario by chance, without what has no part in this.\n\
         # Does not hold: {} (found {:.3}, workload: {of})\n\
         # Back end {backend}, source of attribution {sensor}, policy {}, seed {seed}\n\
         # Before anything was left out, this did not hold either: {also}\n\
         # Smaller scenarios tried: {}; {end}\n\
         # Made by: weir-lab random --from {seed} --scenarios 1 --backend {backend} --sensor {sensor} \
         --policy {} --keep DIR\n\
         # To run it: weir sim {name} --seed {seed} --backend none,{backend}\n",
        finding.check,
        finding.figure,
        setup.policy.name(),
        shrunk.tried,
        setup.policy.name(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding(check: &'static str, holds: bool) -> Finding {
        Finding {
            check,
            holds,
            figure: 1.0,
            of: None,
        }
    }

    #[test]
    fn another_set_point_is_asked_only_where_the_check_does_not_apply() {
        let at = |first: Vec<Finding>| {
            let mut asked = Vec::new();
            let found = first_applying([4.0, 2.0], "b", |set_point| {
                asked.push(set_point);
                Ok(if set_point > 3.0 {
                    first.clone()
                } else {
                    vec![finding("b", true), finding("b", false)]
                })
            });
            let found = found.expect("findings").map(|(set_point, _)| set_point);
            (found, asked)
        };
        assert_eq!(at(vec![finding("b", false)]), (Some(4.0), vec![4.0]));
        assert_eq!(at(vec![finding("b", true)]), (None, vec![4.0]));
        assert_eq!(at(vec![finding("a", false)]), (Some(2.0), vec![4.0, 2.0]));
    }
}
