// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Dashboards and rules of packaging/monitoring: each query is asked of a real Prometheus and a real
//! VictoriaMetrics that hold recorded simulations, and must be answered.

mod history;
mod pictures;
mod queries;

use crate::world::server::Server;
use history::{CALM, END_SECS, Filled, GONE, START_SECS, TROUBLED};
use queries::{Query, Rule, board, rules};
use serde_json::Value;
use std::collections::BTreeSet;

const STEP_SECS: u64 = 15;

/// Queries that a simulated run cannot answer, and why. A host in trouble answers them.
const NOT_SIMULATED: [(&str, &str); 5] = [
    (
        "weir_cxl_devload",
        "the simulated device reports no DevLoad",
    ),
    ("weir_push_", "a recorded run pushes nothing"),
    ("process_cpu_seconds", "a recording has no process"),
    ("process_resident_memory", "a recording has no process"),
    (
        "weir_loop_cpu_seconds",
        "a simulated loop costs no CPU time",
    ),
];

/// What a server answers: series with their labels and values.
#[derive(Debug)]
pub struct Answered(Vec<Value>);

impl Answered {
    fn at_end(server: &Server, query: &str) -> Answered {
        let time = END_SECS.to_string();
        let ask = [("query", query), ("time", &time), ("nocache", "1")];
        Answered::of(server, "/api/v1/query", &ask)
    }

    fn over_time(server: &Server, query: &str) -> Answered {
        let (start, end) = (START_SECS.to_string(), END_SECS.to_string());
        let step = STEP_SECS.to_string();
        let ask = [
            ("query", query),
            ("start", &start),
            ("end", &end),
            ("step", &step),
            ("nocache", "1"),
        ];
        Answered::of(server, "/api/v1/query_range", &ask)
    }

    fn of(server: &Server, path: &str, ask: &[(&str, &str)]) -> Answered {
        let query = ask[0].1;
        let text = server.get(path, ask);
        let text = text.unwrap_or_else(|| panic!("refused: {query}\n{}", server.log()));
        let answer: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(answer["status"], "success", "{query}: {answer}");
        Answered(answer["data"]["result"].as_array().unwrap().clone())
    }

    /// Points of each series: seconds and value.
    fn points(series: &Value) -> Vec<(f64, f64)> {
        let one = series["value"].as_array().map(|_| series["value"].clone());
        let all = series["values"].as_array().cloned();
        let points = all.unwrap_or_else(|| one.into_iter().collect());
        let number = |v: &Value| v.as_str().unwrap().parse().unwrap();
        let each = points.iter();
        each.map(|point| (point[0].as_f64().unwrap(), number(&point[1])))
            .collect()
    }

    fn has_figures(&self) -> bool {
        let finite = |series: &Value| Answered::points(series).iter().any(|p| p.1.is_finite());
        self.0.iter().any(finite)
    }

    fn labels(&self, label: &str) -> BTreeSet<String> {
        let each = self.0.iter();
        let each = each.filter_map(|series| Some(series["metric"][label].as_str()?.to_owned()));
        each.collect()
    }
}

fn ask(server: &Server, query: &Query, instance: &str) -> Answered {
    let text = query.of_instance(instance);
    if query.is_instant {
        Answered::at_end(server, &text)
    } else {
        Answered::over_time(server, &text)
    }
}

/// Each query of a dashboard has an answer; returns what was plotted.
fn answers(server: &Server, queries: &[Query]) {
    let mut unused: BTreeSet<&str> = NOT_SIMULATED.iter().map(|(part, _)| *part).collect();
    for query in queries {
        let exception = NOT_SIMULATED
            .iter()
            .find(|(part, _)| query.text.contains(part));
        let is_answered = |host: &str| ask(server, query, host).has_figures();
        let by_calm = CALM.iter().any(|host| is_answered(host));
        let Query { title, text, .. } = query;
        match exception {
            None => assert!(by_calm, "{title}: no answer: {text}"),
            Some((part, why)) => {
                unused.remove(part);
                assert!(!by_calm, "{title}: {why}, and it is answered: {text}");
                assert!(is_answered(TROUBLED), "{title}: no answer: {text}");
            }
        }
    }
    assert!(
        unused.is_empty(),
        "no query needs these exceptions: {unused:?}"
    );
}

/// Each alert holds on a host in trouble, and on no other.
fn alerts_hold(server: &Server, rules: &[Rule]) {
    let alerts: Vec<_> = rules.iter().filter(|rule| rule.is_alert).collect();
    assert!(alerts.len() > 10, "{}", alerts.len());
    for alert in alerts {
        let hosts = Answered::at_end(server, &alert.query).labels("instance");
        let in_trouble = hosts.contains(TROUBLED) || hosts.contains(GONE);
        assert!(in_trouble, "{}: silent: {hosts:?}", alert.name);
        let calm = CALM.iter().find(|host| hosts.contains(**host));
        assert_eq!(calm, None, "{}: false alarm", alert.name);
    }
}

fn run(filled: &Filled, server: &Server) {
    let rules = rules(filled);
    let (host, fleet) = (board("host.json"), board("fleet.json"));
    let mut all = host.queries();
    all.extend(fleet.queries());
    assert!(all.len() > 50, "{} queries", all.len());
    answers(server, &all);
    alerts_hold(server, &rules);
    for rule in rules.iter().filter(|rule| !rule.is_alert) {
        let stored = Answered::over_time(server, &rule.name);
        assert!(stored.has_figures(), "{}", rule.name);
    }
    if let Some(dir) = std::env::var_os("WEIR_DASHBOARD_PICTURES") {
        for board in [host, fleet] {
            pictures::draw(server, &board, dir.as_ref());
        }
    }
}

#[test]
fn prometheus_answers_each_query_of_dashboards_and_rules() {
    if let Some(filled) = Filled::prometheus() {
        run(&filled, &filled.server);
    }
}

#[test]
fn victoria_metrics_answers_each_query_of_dashboards_and_rules() {
    if let Some(filled) = Filled::victoria_metrics() {
        run(&filled, &filled.server);
    }
}

/// Each alert has a heading of the page for it, and each heading an alert.
#[test]
fn each_alert_has_its_runbook() {
    let Some(filled) = Filled::rules_only() else {
        return;
    };
    let page = queries::text("docs/how-to/answer-an-alert.md");
    let headings = page.lines().filter_map(|line| line.strip_prefix("## "));
    let headings: BTreeSet<String> = headings.map(str::to_owned).collect();
    let rules = rules(&filled);
    let alerts = rules.iter().filter(|rule| rule.is_alert);
    let alerts: BTreeSet<String> = alerts.map(|rule| rule.name.clone()).collect();
    assert_eq!(headings, alerts);
    for rule in rules.iter().filter(|rule| rule.is_alert) {
        let wanted = format!(
            "docs/how-to/answer-an-alert.md#{}",
            rule.name.to_lowercase()
        );
        assert_eq!(rule.runbook, wanted);
    }
}

/// A dashboard that Grafana would take: panels apart from each other, with names and sources.
#[test]
fn panels_of_dashboards_have_their_places() {
    for name in ["host.json", "fleet.json"] {
        board(name).is_well_made();
    }
}
