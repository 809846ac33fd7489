// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What is not the same in two machines and plans.

use crate::interference::comparison::FactDifference;
use crate::interference::document::{InterferenceDocument, World};
use std::collections::{BTreeMap, BTreeSet};
use weir_figures::text::plain_number;

/// The facts that differ, by name.
pub fn differences(a: &InterferenceDocument, b: &InterferenceDocument) -> Vec<FactDifference> {
    let (a, b) = (facts(a), facts(b));
    let names: BTreeSet<&String> = a.keys().chain(b.keys()).collect();
    let difference = |name: &String| {
        let (a, b) = (a.get(name).cloned(), b.get(name).cloned());
        (a != b).then(|| FactDifference {
            fact: name.clone(),
            a,
            b,
        })
    };
    names.into_iter().filter_map(difference).collect()
}

/// Everything about a result that may explain a difference, by dotted name.
fn facts(document: &InterferenceDocument) -> BTreeMap<String, String> {
    let (machine, plan) = (&document.machine, &document.plan);
    let world = match document.world {
        World::Machine => "machine",
        World::Vm => "vm",
        World::Sim => "sim",
    };
    let mut facts = BTreeMap::from([
        ("world".to_owned(), world.to_owned()),
        ("weir_version".to_owned(), document.weir_version.clone()),
        ("machine.name".to_owned(), machine.name.clone()),
        ("machine.cpus".to_owned(), machine.cpus.to_string()),
        ("plan.seed".to_owned(), plan.seed.to_string()),
    ]);
    if let Some(seconds) = plan.seconds {
        facts.insert("plan.seconds".into(), plain_number(seconds));
    }
    let targets = machine.targets.iter();
    facts.extend(targets.map(|(name, value)| (format!("machine.targets.{name}"), value.clone())));
    let stated = machine.facts.iter();
    facts.extend(stated.map(|(name, value)| (format!("machine.facts.{name}"), value.clone())));
    let levers = plan.levers.iter();
    facts.extend(levers.map(|(name, value)| (format!("plan.levers.{name}"), plain_number(*value))));
    facts
}
