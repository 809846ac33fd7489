// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Values that are not there, put together by reason: one line for all that one run lacks for one reason,
//! and one for what all runs lack alike.

/// In place of a run, where what is said is true of all.
const EVERY_RUN: &str = "every run";

pub type Label = (&'static str, &'static str);

/// Rows without a value, for one reason.
#[derive(Debug, PartialEq)]
pub struct Gap {
    /// The run, as its column is called, or `every run`.
    pub run: String,
    /// The rows: `device access p50, p99`.
    pub rows: String,
    pub reason: String,
}

/// Gaps while they are collected, row by row.
#[derive(Default)]
pub struct Gaps(Vec<Lacking>);

/// What one run lacks for one reason.
struct Lacking {
    run: usize,
    reason: String,
    rows: Vec<Label>,
}

impl Gaps {
    /// A run has no value in a row.
    pub fn note(&mut self, run: usize, reason: String, row: Label) {
        let same = |l: &&mut Lacking| l.run == run && l.reason == reason;
        match self.0.iter_mut().find(same) {
            Some(lacking) => lacking.rows.push(row),
            None => self.0.push(Lacking {
                run,
                reason,
                rows: vec![row],
            }),
        }
    }

    /// What all runs lack for the same reason, then the rest run by run.
    pub fn finish(mut self, names: &[String]) -> Vec<Gap> {
        self.0.sort_by_key(|l| l.run);
        let all = self.0;
        let is_common = |l: &Lacking| {
            let same = |other: &&Lacking| other.reason == l.reason && other.rows == l.rows;
            names.len() > 1 && all.iter().filter(same).count() == names.len()
        };
        let gap = |l: &Lacking, run: &str| Gap {
            run: run.into(),
            rows: listed(&l.rows),
            reason: l.reason.clone(),
        };
        let common = all.iter().filter(|l| l.run == 0 && is_common(l));
        let single = all.iter().filter(|l| !is_common(l));
        common
            .map(|l| gap(l, EVERY_RUN))
            .chain(single.map(|l| gap(l, &names[l.run])))
            .collect()
    }
}

/// `device access p50, p99, light reader mean`: a subject is named once for its rows.
pub fn listed(rows: &[Label]) -> String {
    let mut names = Vec::new();
    let mut last = "";
    for &(subject, name) in rows {
        if subject == last {
            names.push(name.to_string())
        } else {
            names.push(format!("{subject} {name}"))
        }
        last = subject;
    }
    names.join(", ")
}
