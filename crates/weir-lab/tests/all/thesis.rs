// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The page of `weir-lab thesis`: whole, and with verdicts that follow from their numbers.

use crate::done;
use serde_json::Value;
use std::fs;
use std::path::Path;
use weir_report::results::Results;

fn is_narrow(text: &str) {
    let widest = text.lines().map(|l| l.chars().count()).max().unwrap();
    assert!(widest <= 80, "{widest}: {text}");
}

/// Nothing is loaded from anywhere, and the page says so to the browser.
fn stands_alone(page: &str) {
    assert!(page.contains("default-src 'none'"), "no content policy");
    for loads in [
        "<script", "<link", "<img", "<iframe", "url(", "@import", "http://", "https://",
    ] {
        assert!(!page.contains(loads), "{loads}");
    }
    assert!(page.contains("<svg") && page.ends_with("</body>\n</html>\n"));
}

/// A scenario that is built in, as TOML.
fn text_of(scenario: &str) -> String {
    let found = weir::lab::builtin_scenarios::named(scenario);
    found.unwrap().unwrap().text
}

/// A page, made in this folder, and its figures but for those of wall-clock speed.
fn made(out: &Path) -> Value {
    let closing = done(&["thesis", "--quick", "--out", out.to_str().unwrap()]);
    is_narrow(&closing);
    assert!(closing.ends_with(" aims met.\n"), "{closing}");
    assert!(
        closing.contains("\nMISSED  weir: RMSE of the set-point"),
        "{closing}"
    );
    let json = fs::read_to_string(out.join("evaluation.json")).unwrap();
    let mut figures: Value = serde_json::from_str(&json).unwrap();
    let speed = figures["figures"].as_object_mut().unwrap().remove("speed");
    assert!(speed.is_some_and(|s| s["thesis-limit"]["events_per_sec"].as_f64() > Some(0.0)));
    let summary = figures["summary"].as_array_mut().unwrap();
    let count = summary.len();
    let speed = summary.iter().filter(|s| s["section"] == "Speed");
    for shown in speed {
        assert!(
            shown["is_met"].is_null(),
            "a wall clock decides nothing: {shown}"
        );
    }
    summary.retain(|shown| shown["section"] != "Speed");
    assert_eq!(
        count - summary.len(),
        2,
        "the thesis's machine, and 1000 workloads"
    );
    figures
}

#[test]
fn the_evaluation_is_whole() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path();
    let figures = made(out);
    let page = fs::read_to_string(out.join("index.html")).unwrap();
    stands_alone(&page);
    for section in [
        "6.2", "6.3 ", "6.3.1", "6.3.2", "6.4", "6.5", "6.6", "6.7", "6.8", "step", "knee",
    ] {
        assert!(page.contains(section), "{section}");
    }
    for (_, results) in figures["scenarios"].as_object().unwrap() {
        let read: Results = serde_json::from_value(results.clone()).unwrap();
        let series = fs::read_to_string(out.join(format!("series-{}.csv", read.scenario))).unwrap();
        assert!(series.lines().count() > 50, "{}", read.scenario);
    }
    one_verdict_a_figure(&figures);
    every_printed_figure_is_compared(&figures, &page);
    causes_were_tested(&figures);
    for odd in [
        "Seeds [",
        "head of weir-sim",
        ">told<",
        "works on Linux today",
    ] {
        assert!(!page.contains(odd), "{odd}");
    }
    assert_eq!(figures["figures"]["knee"].as_array().unwrap().len(), 20);
    little_s_law(&figures["figures"]["table_3_against_littles_law"]);
}

/// Tables 2 and 3 whole, and each figure of chapter 6 that has numbers or a picture; weir's scheduler beside
/// the thesis's six.
fn every_printed_figure_is_compared(figures: &Value, page: &str) {
    let all = figures["compared_with_thesis"].as_array().unwrap();
    let count = |place: &str| all.iter().filter(|c| c["printed_in"] == place).count();
    let wanted = [
        ("6.2.1", 5),
        ("figure 7", 2),
        ("figure 8", 4),
        ("table 2", 30),
        ("figure 11", 4),
        ("figure 12", 4),
        ("table 3", 24),
        ("figure 18", 6),
        ("figure 19", 2),
        ("figure 20", 2),
        ("figure 21", 2),
        ("figure 22", 2),
    ];
    for (place, wanted) in wanted {
        assert_eq!(count(place), wanted, "{place}");
    }
    for c in all {
        // What is not compared has its reason, and no deviation.
        assert_eq!(
            c["not_compared"].is_string(),
            c["deviation_ratio"].is_null(),
            "{c}"
        );
        let off = c["deviation_ratio"].as_f64().unwrap_or(0.0);
        assert_eq!(off.abs() > 0.1, c["cause"].is_object(), "{c}");
    }
    let alone = (7..=8).chain(10..=14).chain(16..=19).chain([22]);
    let alone = alone.map(|n| format!("Figure {n}"));
    for figure in alone.chain(["Figures 20 and 21".to_owned()]) {
        assert!(page.contains(&figure), "{figure}");
    }
    let limit = &figures["scenarios"]["thesis-limit"]["runs"];
    let has = |backend: &str| {
        limit
            .as_array()
            .unwrap()
            .iter()
            .any(|r| r["backend"] == backend)
    };
    assert!(has("sched-ext-full") && has("thesis-scx") && !has("sched-ext"));
    assert!(
        page.contains("sched-ext is refused") || page.contains("weir-sched-ext is refused"),
        "why sched-ext has no row"
    );
    let idle = figures["scenarios"]["thesis-idle"]["runs"]
        .as_array()
        .unwrap();
    assert!(idle.iter().any(|r| r["backend"] == "sched-ext"));
}

/// A verdict on a cause follows from the numbers beside it.
fn causes_were_tested(figures: &Value) {
    let tested = figures["figures"]["tested_causes"].as_array().unwrap();
    assert!(tested.len() >= 10);
    let moved = |t: &Value| {
        let all = t["figures"].as_array().unwrap();
        all.iter().any(|f| {
            let (now, then) = (&f["deviation_ratio"], &f["deviation_ratio_of_the_page"]);
            (now.as_f64().unwrap() - then.as_f64().unwrap()).abs() > 0.01
        })
    };
    for t in tested {
        assert!(
            moved(t),
            "an assumption that changes nothing was not varied: {}",
            t["assumption"]
        );
    }
    for c in figures["compared_with_thesis"].as_array().unwrap() {
        let Some(verdict) = c["cause"]["verdict"].as_str() else {
            continue;
        };
        let off = c["deviation_ratio"].as_f64().unwrap().abs();
        let then = c["cause"]["deviation_ratio"].as_f64().map(f64::abs);
        match verdict {
            "explained" | "follows" => assert!(then.unwrap() <= 0.1, "{c}"),
            "in-part" => assert!((0.1..=0.5 * off).contains(&then.unwrap()), "{c}"),
            "unexplained" => assert!(then.is_none_or(|t| t > 0.5 * off), "{c}"),
            "contradicts" => assert_eq!(c["figure"], "mean_us"),
            other => panic!("{other}"),
        }
    }
}

/// A figure with a target has no bound as well, and each scenario that states bounds is checked.
fn one_verdict_a_figure(figures: &Value) {
    let bounds = figures["figures"]["bounds"].as_array().unwrap();
    let of = |scenario: &str, bound: &str| {
        let same = |b: &&Value| b["scenario"] == scenario && b["bound"] == bound;
        bounds.iter().find(same).unwrap()["has_aim"]
            .as_bool()
            .unwrap()
    };
    assert!(of("thesis-limit", "device bandwidth: RMSE to set-point"));
    assert!(of("neighbour", "light reader, p99: lower by"));
    assert!(!of("neighbour", "light reader, p50: lower by"));
    for scenario in figures["scenarios"].as_object().unwrap().keys() {
        let states = text_of(scenario).contains("\n[expect");
        let checked = bounds.iter().any(|b| b["scenario"] == scenario.as_str());
        assert_eq!(states, checked, "{scenario}");
    }
}

/// Which rows of the thesis's table 3 contradict its table 2: arithmetic on printed figures.
fn little_s_law(rows: &Value) {
    let rows = rows.as_array().unwrap();
    let verdict = |row: &Value| row["contradicts"].as_bool().unwrap();
    assert_eq!(
        rows.iter().map(verdict).collect::<Vec<_>>(),
        [true, true, false, true, true, true]
    );
    let implied = rows[0]["bandwidth_of_printed_mean_gib_per_sec"]
        .as_f64()
        .unwrap();
    // 10 × 4 MiB in 9.003 ms.
    assert!(
        (implied - 40.0 / 1024.0 / 0.009_003).abs() < 1e-9,
        "{implied}"
    );
}
