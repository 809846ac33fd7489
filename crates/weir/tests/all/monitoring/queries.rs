// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Queries of the dashboards, out of their JSON, and rules, as a Prometheus that has read them tells them.

use super::history::Filled;
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::Path;

/// A file of the repository.
pub fn text(path: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    std::fs::read_to_string(root.join(path)).unwrap_or_else(|why| panic!("{path}: {why}"))
}

#[derive(Debug)]
pub struct Query {
    /// Title of the panel that it stands in.
    pub title: String,
    pub text: String,
    pub legend: String,
    pub is_instant: bool,
}

impl Query {
    /// The query with Grafana's variables replaced.
    pub fn of_instance(&self, instance: &str) -> String {
        let replaced = self.text.replace("$__rate_interval", "1m");
        let replaced = replaced
            .replace("$instance", instance)
            .replace("$job", "weir");
        assert!(!replaced.contains('$'), "an unknown variable: {replaced}");
        replaced
    }
}

pub struct Board {
    pub name: String,
    pub json: Value,
}

pub fn board(name: &str) -> Board {
    let json = serde_json::from_str(&text(&format!("packaging/monitoring/{name}"))).unwrap();
    let name = name.to_owned();
    Board { name, json }
}

impl Board {
    pub fn queries(&self) -> Vec<Query> {
        let mut found = Vec::new();
        for panel in self.json["panels"].as_array().unwrap() {
            found.extend(queries_of(panel));
        }
        for variable in self.json["templating"]["list"].as_array().unwrap() {
            let Some(query) = variable["query"]["query"].as_str() else {
                continue;
            };
            let inner = query.strip_prefix("label_values(").unwrap();
            let (metric, label) = inner.strip_suffix(')').unwrap().rsplit_once(", ").unwrap();
            found.push(Query {
                title: format!("variable {}", variable["name"]),
                text: format!("count by ({label}) ({metric})"),
                legend: String::new(),
                is_instant: true,
            });
        }
        found
    }

    pub fn is_well_made(&self) {
        let mut taken: BTreeSet<(u64, u64)> = BTreeSet::new();
        let mut ids = BTreeSet::new();
        for panel in self.json["panels"].as_array().unwrap() {
            let title = panel["title"].as_str().unwrap();
            assert!(ids.insert(panel["id"].as_u64().unwrap()), "{title}: its id");
            let place = |side: &str| panel["gridPos"][side].as_u64().unwrap();
            assert!(place("x") + place("w") <= 24, "{title}: too far right");
            for x in place("x")..place("x") + place("w") {
                for y in place("y")..place("y") + place("h") {
                    assert!(taken.insert((x, y)), "{title}: on another panel");
                }
            }
            if panel["type"] == "row" {
                continue;
            }
            assert!(
                !panel["description"].as_str().unwrap().is_empty(),
                "{title}"
            );
            assert_eq!(panel["datasource"]["uid"], "${datasource}", "{title}");
            let targets = panel["targets"].as_array().unwrap();
            let refs: BTreeSet<&str> = targets.iter().filter_map(|t| t["refId"].as_str()).collect();
            assert_eq!(refs.len(), targets.len(), "{title}: letters of queries");
        }
    }
}

pub fn queries_of(panel: &Value) -> Vec<Query> {
    let targets = panel["targets"].as_array().into_iter().flatten();
    let query = |target: &Value| Query {
        title: panel["title"].as_str().unwrap().to_owned(),
        text: target["expr"].as_str().unwrap().to_owned(),
        legend: target["legendFormat"]
            .as_str()
            .unwrap_or_default()
            .to_owned(),
        is_instant: target["instant"] == true,
    };
    targets.map(query).collect()
}

#[derive(Debug)]
pub struct Rule {
    pub name: String,
    pub query: String,
    pub runbook: String,
    pub is_alert: bool,
}

pub fn rules(filled: &Filled) -> Vec<Rule> {
    let groups: Value = serde_json::from_str(&filled.rules).unwrap();
    let mut found = Vec::new();
    for group in groups["data"]["groups"].as_array().unwrap() {
        for rule in group["rules"].as_array().unwrap() {
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            found.push(Rule {
                name: text(&rule["name"]),
                query: text(&rule["query"]),
                runbook: text(&rule["annotations"]["runbook"]),
                is_alert: rule["type"] == "alerting",
            });
        }
    }
    assert!(found.len() > 20, "{}", filled.rules);
    found
}
