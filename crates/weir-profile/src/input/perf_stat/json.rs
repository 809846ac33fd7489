// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A line of `perf stat -j`: one object, its keys depending on the options.

use super::number::{no_count, value};
use super::{PerfRow, PerfStatError, scope};
use serde_json::{Map, Value};
use weir_core::Nanos;
use weir_core::window::CountScope;

/// Reads a line; nothing where it has no count (a metric).
pub fn row(line: &str) -> Result<Option<PerfRow>, PerfStatError> {
    // Metrics alone (`--metric-only`) are several objects in a line.
    let objects = serde_json::Deserializer::from_str(line.trim()).into_iter();
    let objects: Result<Vec<Map<String, Value>>, _> = objects.collect();
    let mut objects = objects.map_err(|why| PerfStatError::Json(why.to_string()))?;
    let is_count = |object: &Map<String, Value>| object.contains_key("counter-value");
    if objects.len() > 1 && objects.iter().any(is_count) {
        return Err(PerfStatError::Columns);
    }
    let object = objects.pop().unwrap_or_default();
    let text = |key: &str| object.get(key).and_then(Value::as_str);
    let Some(count) = object.get("counter-value") else {
        return Ok(None);
    };
    let event = text("event").ok_or(PerfStatError::Columns)?;
    for part in ["core", "die", "cluster", "cache", "node"] {
        if object.contains_key(part) {
            return Err(PerfStatError::Aggregation(part.into()));
        }
    }
    let count = match count {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let running = object.get("event-runtime").and_then(Value::as_u64);
    let percent = object.get("pcnt-running").and_then(Value::as_f64);
    let is_percent = |percent: &f64| (0.0..=100.5).contains(percent);
    Ok(Some(PerfRow {
        at: object.get("interval").map(interval).transpose()?,
        of: place(&object)?,
        workload: text("cgroup").or_else(|| text("thread")).map(str::to_owned),
        event: event.to_owned(),
        value: value(&count, event).ok_or_else(|| no_count(&count))?,
        unit: text("unit").unwrap_or_default().trim().to_owned(),
        running: running.map(Nanos),
        running_ratio: percent.filter(is_percent).map(|p| (p / 100.0).min(1.0)),
        is_summary: false,
    }))
}

/// The end of the interval, in seconds.
fn interval(value: &Value) -> Result<Nanos, PerfStatError> {
    let secs = value.as_f64().filter(|secs| (0.0..1e9).contains(secs));
    let secs =
        secs.ok_or_else(|| PerfStatError::Time(value.to_string().chars().take(40).collect()))?;
    Ok(Nanos::rounded(secs * 1e9))
}

fn place(object: &Map<String, Value>) -> Result<CountScope, PerfStatError> {
    let cpu = object.get("cpu").map(|cpu| match cpu {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    });
    let cpu = cpu.map(|text| match text.strip_prefix("CPU") {
        Some(_) => text,
        None => format!("CPU{text}"),
    });
    let socket = object.get("socket").and_then(Value::as_str);
    match cpu.as_deref().or(socket) {
        None => Ok(CountScope::All),
        Some(text) => scope(text)?.ok_or_else(|| no_count(text)),
    }
}
