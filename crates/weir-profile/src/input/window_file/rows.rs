// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Format 2's lines: what a count counts stands once, and each window has only how its values moved.
//!
//! ```text
//! {"series":[{"workload":"/a","role":"lfb.drd.any.occupancy","provenance":"documented"}, …]}
//! {"from":0,"to":1000,"rows":[0,1,2],"deltas":[700,12,9],"sets":[[1000,500],[1000,250]],"set_of":[0,0,1]}
//! {"from":1000,"to":2000,"deltas":[-3,1,0],"sets":[[1000,500],[1000,250]]}
//! ```
//!
//! `rows` and `set_of` are left out where they are those of the window before.

use super::{COUNTS_MAX, NAME_BYTES_MAX};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use weir_core::seam::observation::Missing;
use weir_core::window::{Count, CountProvenance, CountScope, UnassignedEvent, WorkloadCounts};
use weir_core::{Nanos, Role, Window, WorkloadId};

/// How every line of series begins.
const SERIES: &str = "{\"series\"";

/// What the counts of one row count, in all windows.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Series {
    /// The machine's, where there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    workload: Option<WorkloadId>,
    role: Role,
    #[serde(default, skip_serializing_if = "CountScope::is_all")]
    of: CountScope,
    provenance: CountProvenance,
}

/// Series that were not there before. Their numbers follow those of the others.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SeriesLine {
    series: Vec<Series>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct WindowLine {
    from: Nanos,
    to: Nanos,
    /// Numbers of series.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    rows: Option<Vec<u32>>,
    /// By row, the value less the one before of the same series; modulo 2^64.
    deltas: Vec<i64>,
    /// Times that were enabled and running, in nanoseconds.
    sets: Vec<(Nanos, Nanos)>,
    /// By row, which of the sets is its.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    set_of: Option<Vec<u32>>,
    /// By row, why there is no value.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    missing: BTreeMap<u32, Missing>,
    /// Workloads that were there, and of which nothing was counted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    without_counts: Vec<WorkloadId>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    unassigned: Vec<UnassignedEvent>,
}

/// Rows of the window before, and the last value of each series.
#[derive(Default)]
struct Before {
    rows: Vec<u32>,
    set_of: Vec<u32>,
    values: Vec<u64>,
}

#[derive(Default)]
pub(super) struct RowWriter {
    numbers: BTreeMap<Series, u32>,
    before: Before,
}

impl RowWriter {
    /// The lines of a window, each with its end. A count is written as its difference to the one before, and
    /// the rows only where they changed. A count that is missing has a difference of 0, so that the next one
    /// goes on from the last that was known.
    pub(super) fn lines(&mut self, window: &Window) -> serde_json::Result<String> {
        let mut new = Vec::new();
        let (mut rows, mut set_of) = (Vec::new(), Vec::new());
        let mut sets: Vec<(Nanos, Nanos)> = Vec::new();
        let mut set_numbers: BTreeMap<(u64, u64), u32> = BTreeMap::new();
        let (mut deltas, mut missing) = (Vec::new(), BTreeMap::new());
        for (workload, count) in all_counts(window) {
            let row = index(rows.len());
            let number = self.number(workload, count, &mut new);
            rows.push(number);
            let times = (count.enabled_ns, count.running_ns);
            let set = set_numbers
                .entry((times.0.0, times.1.0))
                .or_insert_with(|| {
                    sets.push(times);
                    index(sets.len() - 1)
                });
            set_of.push(*set);
            let last = &mut self.before.values[number as usize];
            let value = count.value.as_ref().map_or(*last, |value| *value);
            deltas.push(value.wrapping_sub(*last).cast_signed());
            *last = value;
            if let Err(why) = &count.value {
                missing.insert(row, why.clone());
            }
        }
        let without = window.workloads.iter().filter(|w| w.counts.is_empty());
        let line = WindowLine {
            from: window.from,
            to: window.to,
            rows: (rows != self.before.rows).then(|| rows.clone()),
            deltas,
            sets,
            set_of: (set_of != self.before.set_of).then(|| set_of.clone()),
            missing,
            without_counts: without.map(|w| w.id.clone()).collect(),
            unassigned: window.unassigned.clone(),
        };
        (self.before.rows, self.before.set_of) = (rows, set_of);
        let mut text = String::new();
        if !new.is_empty() {
            text = serde_json::to_string(&SeriesLine { series: new })? + "\n";
        }
        text += &serde_json::to_string(&line)?;
        text.push('\n');
        Ok(text)
    }

    fn number(
        &mut self,
        workload: Option<&WorkloadId>,
        count: &Count,
        new: &mut Vec<Series>,
    ) -> u32 {
        let series = Series {
            workload: workload.cloned(),
            role: count.role,
            of: count.of,
            provenance: count.provenance,
        };
        if let Some(number) = self.numbers.get(&series) {
            return *number;
        }
        let number = index(self.numbers.len());
        self.numbers.insert(series.clone(), number);
        self.before.values.push(0);
        new.push(series);
        number
    }
}

fn all_counts(window: &Window) -> impl Iterator<Item = (Option<&WorkloadId>, &Count)> {
    let machine = window.machine.iter().map(|count| (None, count));
    let workloads = window.workloads.iter();
    machine.chain(workloads.flat_map(|w| w.counts.iter().map(|count| (Some(&w.id), count))))
}

/// A window has at most [`COUNTS_MAX`] counts.
fn index(place: usize) -> u32 {
    u32::try_from(place).unwrap_or(u32::MAX)
}

#[derive(Default)]
pub(super) struct RowReader {
    series: Vec<Series>,
    before: Before,
}

impl RowReader {
    /// The window of a line, or nothing where the line has series.
    ///
    /// # Errors
    /// The line's fault, in words.
    pub(super) fn line(&mut self, line: &str) -> Result<Option<Window>, String> {
        if line.starts_with(SERIES) {
            let new: SeriesLine = serde_json::from_str(line).map_err(|why| why.to_string())?;
            self.add(new.series)?;
            return Ok(None);
        }
        let line: WindowLine = serde_json::from_str(line).map_err(|why| why.to_string())?;
        self.window(line).map(Some)
    }

    fn add(&mut self, new: Vec<Series>) -> Result<(), String> {
        if self.series.len() + new.len() > COUNTS_MAX {
            return Err(format!("more than {COUNTS_MAX} series"));
        }
        let names = new.iter().filter_map(|series| series.workload.as_ref());
        if names
            .into_iter()
            .any(|name| name.as_str().len() > NAME_BYTES_MAX)
        {
            return Err(format!("a name is longer than {NAME_BYTES_MAX} bytes"));
        }
        self.before.values.resize(self.series.len() + new.len(), 0);
        self.series.extend(new);
        Ok(())
    }

    fn window(&mut self, line: WindowLine) -> Result<Window, String> {
        if let Some(rows) = line.rows {
            self.before.rows = rows;
        }
        if let Some(set_of) = line.set_of {
            self.before.set_of = set_of;
        }
        let (rows, set_of) = (&self.before.rows, &self.before.set_of);
        if rows.len() > COUNTS_MAX {
            return Err(format!("more than {COUNTS_MAX} counts"));
        }
        if rows.len() != line.deltas.len() || rows.len() != set_of.len() {
            return Err(format!(
                "{} rows have {} deltas and {} sets",
                rows.len(),
                line.deltas.len(),
                set_of.len()
            ));
        }
        let mut window = Window {
            from: line.from,
            to: line.to,
            unassigned: line.unassigned,
            ..Window::default()
        };
        for (row, number) in rows.iter().enumerate() {
            let series = self.series.get(*number as usize);
            let series = series.ok_or_else(|| format!("row {row}: there is no series {number}"))?;
            let set = line.sets.get(set_of[row] as usize);
            let (enabled_ns, running_ns) =
                *set.ok_or_else(|| format!("row {row}: there is no set {}", set_of[row]))?;
            let last = &mut self.before.values[*number as usize];
            *last = last.wrapping_add_signed(line.deltas[row]);
            let why = line.missing.get(&index(row));
            let count = Count {
                role: series.role,
                of: series.of,
                value: why.map_or(Ok(*last), |why| Err(why.clone())),
                enabled_ns,
                running_ns,
                provenance: series.provenance,
            };
            put(&mut window, series.workload.as_ref(), count);
        }
        let without = line.without_counts.into_iter().map(|id| WorkloadCounts {
            id,
            counts: Vec::new(),
        });
        window.workloads.extend(without);
        Ok(window)
    }
}

/// Rows of a workload follow each other.
fn put(window: &mut Window, workload: Option<&WorkloadId>, count: Count) {
    let Some(id) = workload else {
        window.machine.push(count);
        return;
    };
    match window.workloads.last_mut() {
        Some(last) if last.id == *id => last.counts.push(count),
        _ => window.workloads.push(WorkloadCounts {
            id: id.clone(),
            counts: vec![count],
        }),
    }
}
