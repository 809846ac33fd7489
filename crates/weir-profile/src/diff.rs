// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What changed between two recordings. A window is one observation: a figure's means differ where an
//! interval of their difference, from the scatter of the windows on both sides, does not hold 0 (Welch's
//! test). Windows that follow each other are alike, so they count for fewer than they are.

use crate::counts::Counts;
use crate::figure::{Answer, Unit, printable};
use crate::stages::{Capacities, queue};
use crate::window_file::WindowFile;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use weir_core::window::Count;
use weir_core::window::role::Quantity;
use weir_core::{Role, Window};

/// Quantile of the normal distribution for an interval of 99 %: of a hundred figures that did not change, one
/// is taken to have changed.
const QUANTILE: f64 = 2.5758;
/// Windows that a side needs, after those that are alike are taken off.
const WINDOWS_MIN: f64 = 3.0;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum DiffFigure {
    PerSec,
    /// Mean time of a request, ns.
    ResidenceNs,
    /// What of it the idle machine does not have, ns.
    WaitingNs,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct DiffSide {
    pub windows: usize,
    pub mean: f64,
    /// Standard deviation of the values.
    pub deviation: f64,
    /// Windows that do not follow from the one before.
    pub independent: f64,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", tag = "verdict")]
pub enum DiffVerdict {
    /// The second side's mean ÷ the first's is in this interval, which does not hold 1.
    Changed {
        /// The second side ÷ the first.
        ratio: f64,
        /// The least, and the most that it can be.
        interval: [f64; 2],
    },
    /// The interval holds 1, or there is none.
    NotDistinguishable { why: String },
    /// Only the second side has it.
    Appeared,
    /// Only the first side has it.
    Vanished,
}

#[derive(Clone, Debug, Serialize)]
pub struct DiffRow {
    /// `machine`, or the workload.
    pub subject: String,
    /// The count, or the occupancy that the residence is made of.
    pub role: Role,
    pub figure: DiffFigure,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<DiffSide>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<DiffSide>,
    #[serde(flatten)]
    pub verdict: DiffVerdict,
}

type Key = (String, Role, DiffFigure);

/// Counts of the idle machine, and of each workload at a time at which all was well.
struct IdleCounts {
    machine: Counts,
    workloads: BTreeMap<String, Counts>,
}

impl IdleCounts {
    fn new(file: &WindowFile) -> IdleCounts {
        let machine = file.windows.iter().flat_map(|window| &window.machine);
        let all = file.windows.iter().flat_map(|window| &window.workloads);
        let mut of: BTreeMap<&str, Vec<&Count>> = BTreeMap::new();
        for one in all {
            of.entry(one.id.as_str()).or_default().extend(&one.counts);
        }
        let workloads = of.into_iter();
        IdleCounts {
            machine: Counts::new(machine, None),
            workloads: workloads
                .map(|(id, counts)| (id.to_owned(), Counts::new(counts, None)))
                .collect(),
        }
    }
}

/// Compares two files, a subject and figure a row. With `idle`, a recording of the idle machine, waiting
/// times too.
pub fn diff(
    before: &WindowFile,
    after: &WindowFile,
    idle: Option<&WindowFile>,
    workload: Option<&str>,
) -> Vec<DiffRow> {
    let idle = idle.map(IdleCounts::new);
    let of = |file: &WindowFile| observations(&file.windows, idle.as_ref(), workload);
    let [first, second] = [before, after].map(of);
    let keys: BTreeSet<&Key> = first.keys().chain(second.keys()).collect();
    let rows = keys.into_iter().map(|key| {
        let side = |all: &BTreeMap<Key, Vec<f64>>| all.get(key).map(|values| side(values));
        let (before, after) = (side(&first), side(&second));
        DiffRow {
            subject: key.0.clone(),
            role: key.1,
            figure: key.2,
            verdict: verdict(key.2, before, after),
            before,
            after,
        }
    });
    rows.collect()
}

/// Values of each figure, one of each window that has it.
fn observations(
    windows: &[Window],
    idle: Option<&IdleCounts>,
    workload: Option<&str>,
) -> BTreeMap<Key, Vec<f64>> {
    let mut all: BTreeMap<Key, Vec<f64>> = BTreeMap::new();
    for window in windows {
        let mut of = |subject: &str, counts: &[Count], idle: Option<&Counts>| {
            let counts = Counts::new(counts, window.length());
            let roles: Vec<Role> = counts.roles().collect();
            for role in roles {
                for (figure, value) in figures(&counts, idle, role) {
                    let key = (printable(subject), role, figure);
                    all.entry(key).or_default().push(value);
                }
            }
        };
        if workload.is_none() {
            of("machine", &window.machine, idle.map(|idle| &idle.machine));
        }
        let wanted = |id: &str| workload.is_none_or(|part| id.contains(part));
        for one in window
            .workloads
            .iter()
            .filter(|one| wanted(one.id.as_str()))
        {
            let id = one.id.as_str();
            of(
                id,
                &one.counts,
                idle.and_then(|idle| idle.workloads.get(id)),
            );
        }
    }
    all
}

fn figures(counts: &Counts, idle: Option<&Counts>, role: Role) -> Vec<(DiffFigure, f64)> {
    let mut all = Vec::new();
    if let (Ok(count), Some(length)) = (counts.get(role), counts.length()) {
        all.push((DiffFigure::PerSec, count.value / length.secs_f64()));
    }
    if role.quantity == Quantity::Occupancy {
        let queue = queue(counts, idle, role, &Capacities::new());
        let mut add = |figure, answer: Answer| {
            let known = answer.ok().filter(|known| known.unit == Unit::Ns);
            all.extend(known.map(|known| (figure, known.value)));
        };
        add(DiffFigure::ResidenceNs, queue.residence_ns);
        add(DiffFigure::WaitingNs, queue.waiting_ns);
    }
    all
}

fn side(values: &[f64]) -> DiffSide {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    let next = values.windows(2).map(|pair| match pair {
        [a, b] => (a - mean) * (b - mean),
        _ => 0.0,
    });
    let alike = if squares > 0.0 {
        next.sum::<f64>() / squares
    } else {
        0.0
    };
    // Where windows swing about their mean, none is worth more than one.
    let alike = alike.clamp(0.0, 0.99);
    DiffSide {
        windows: values.len(),
        mean,
        deviation: (squares / (n - 1.0).max(1.0)).sqrt(),
        independent: n * (1.0 - alike) / (1.0 + alike),
    }
}

fn verdict(figure: DiffFigure, before: Option<DiffSide>, after: Option<DiffSide>) -> DiffVerdict {
    let (a, b) = match (before, after) {
        (Some(a), Some(b)) => (a, b),
        (None, _) => return DiffVerdict::Appeared,
        (_, None) => return DiffVerdict::Vanished,
    };
    let why = |why: String| DiffVerdict::NotDistinguishable { why };
    if a.mean == b.mean {
        return why("it is the same".into());
    }
    let from_or_to_none = match (a.mean <= 0.0, b.mean <= 0.0) {
        (true, _) => Some(DiffVerdict::Appeared),
        (_, true) => Some(DiffVerdict::Vanished),
        _ => None,
    };
    // A time that is a difference may be 0 by chance; a count of 0 is none.
    if let (Some(none), false) = (&from_or_to_none, figure == DiffFigure::WaitingNs) {
        return none.clone();
    }
    let least = a.independent.min(b.independent);
    if a.windows.min(b.windows) < 4 || least < WINDOWS_MIN {
        return why(format!(
            "{} and {} windows, worth {least:.1}: too few to know their scatter",
            a.windows, b.windows
        ));
    }
    let [va, vb] = [a, b].map(|side| side.deviation.powi(2) / side.independent);
    let freedom = (va + vb).powi(2)
        / (va.powi(2) / (a.independent - 1.0) + vb.powi(2) / (b.independent - 1.0));
    let freedom = if freedom.is_finite() {
        freedom.max(1.0)
    } else {
        1e9
    };
    let half = student(freedom) * (va + vb).sqrt();
    let difference = b.mean - a.mean;
    let base = if a.mean > 0.0 { a.mean } else { b.mean };
    let of = |difference: f64| ((a.mean + difference) / base).max(0.0);
    let interval = [of(difference - half), of(difference + half)];
    if difference.abs() <= half {
        let [low, high] = interval.map(|ratio| (ratio - 1.0) * 100.0);
        return why(format!(
            "by {low:+.1} to {high:+.1} %: the windows scatter more than they differ"
        ));
    }
    from_or_to_none.unwrap_or(DiffVerdict::Changed {
        ratio: b.mean / a.mean,
        interval,
    })
}

/// The quantile of Student's distribution that belongs to [`QUANTILE`] (Cornish and Fisher's expansion;
/// within 2 % from 3 degrees of freedom on).
fn student(freedom: f64) -> f64 {
    let z = QUANTILE;
    let first = (z.powi(3) + z) / 4.0;
    let second = (5.0 * z.powi(5) + 16.0 * z.powi(3) + 3.0 * z) / 96.0;
    let third = (3.0 * z.powi(7) + 19.0 * z.powi(5) + 17.0 * z.powi(3) - 15.0 * z) / 384.0;
    z + first / freedom + second / freedom.powi(2) + third / freedom.powi(3)
}

/// The rows for people: what changed, appeared and vanished; the rest is counted, or shown with `all`.
pub fn text(rows: &[DiffRow], all: bool) -> String {
    let mut out = String::new();
    let is_shown =
        |row: &&DiffRow| all || !matches!(row.verdict, DiffVerdict::NotDistinguishable { .. });
    for row in rows.iter().filter(is_shown) {
        out += &format!("{} {}: {}\n", row.subject, row.name(), row.verdict.said());
    }
    summary(rows) + "\n" + &out
}

impl DiffRow {
    pub fn name(&self) -> String {
        match self.figure {
            DiffFigure::PerSec => format!("{} a second", self.role),
            DiffFigure::ResidenceNs => format!("residence of {}, ns", self.role),
            DiffFigure::WaitingNs => format!("waiting time of {}, ns", self.role),
        }
    }
}

impl DiffVerdict {
    pub fn said(&self) -> String {
        match self {
            DiffVerdict::Changed { ratio, interval } => format!(
                "{ratio:.3} times ({:.3} to {:.3})",
                interval[0], interval[1]
            ),
            DiffVerdict::NotDistinguishable { why } => format!("not distinguishable: {why}"),
            DiffVerdict::Appeared => "appeared".into(),
            DiffVerdict::Vanished => "vanished".into(),
        }
    }
}

/// How many figures changed, in a sentence.
pub fn summary(rows: &[DiffRow]) -> String {
    let count =
        |is_it: fn(&DiffVerdict) -> bool| rows.iter().filter(|row| is_it(&row.verdict)).count();
    let changed = count(|verdict| matches!(verdict, DiffVerdict::Changed { .. }));
    let same = count(|verdict| matches!(verdict, DiffVerdict::NotDistinguishable { .. }));
    format!(
        "{changed} figures changed, {} appeared or vanished, {same} are not distinguishable (intervals of 99 %)",
        rows.len() - changed - same
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counts::tests::count;
    use crate::window_file::Header;
    use proptest::prelude::*;
    use weir_core::Nanos;

    fn file(values: &[u64], role: &str) -> WindowFile {
        let window = |(place, value): (usize, &u64)| Window {
            from: Nanos(place as u64 * 1_000_000_000),
            to: Nanos((place as u64 + 1) * 1_000_000_000),
            machine: vec![count(role, *value)],
            ..Window::default()
        };
        WindowFile {
            header: Header::new("test"),
            windows: values.iter().enumerate().map(window).collect(),
        }
    }

    fn one(before: &[u64], after: &[u64]) -> DiffVerdict {
        let role = "tor.drd.cxl.inserts";
        let rows = diff(&file(before, role), &file(after, role), None, None);
        assert_eq!(rows.len(), 1);
        rows[0].verdict.clone()
    }

    const QUIET: [u64; 8] = [100, 103, 98, 101, 99, 102, 97, 100];

    #[test]
    fn a_tenth_more_is_found_and_scatter_is_not() {
        let more: Vec<u64> = QUIET.iter().map(|value| value * 11 / 10).collect();
        let DiffVerdict::Changed { ratio, interval } = one(&QUIET, &more) else {
            panic!("not found")
        };
        assert!(
            (ratio - 1.1).abs() < 0.01 && interval[0] > 1.0,
            "{ratio} {interval:?}"
        );
        let other = [99, 101, 102, 98, 100, 97, 103, 101];
        let said = one(&QUIET, &other);
        assert!(
            matches!(said, DiffVerdict::NotDistinguishable { .. }),
            "{said:?}"
        );
        let few = one(&QUIET[..3], &more[..3]);
        let DiffVerdict::NotDistinguishable { why } = few else {
            panic!("{few:?}")
        };
        assert!(why.contains("too few"), "{why}");
    }

    #[test]
    fn what_comes_and_goes_is_named() {
        assert_eq!(one(&[0; 8], &QUIET), DiffVerdict::Appeared);
        assert_eq!(one(&QUIET, &[0; 8]), DiffVerdict::Vanished);
        let rows = diff(
            &file(&QUIET, "tor.drd.cxl.inserts"),
            &file(&QUIET, "tor.rfo.cxl.inserts"),
            None,
            None,
        );
        let said = text(&rows, false);
        assert!(
            said.contains("tor.drd.cxl.inserts a second: vanished"),
            "{said}"
        );
        assert!(
            said.contains("tor.rfo.cxl.inserts a second: appeared"),
            "{said}"
        );
        assert!(
            said.starts_with("0 figures changed, 2 appeared or vanished, 0 are"),
            "{said}"
        );
    }

    /// Windows of a second in which requests of a queue stay so many cycles of 2 GHz.
    fn stays(cycles: &[u64]) -> WindowFile {
        let window = |(place, cycles): (usize, &u64)| Window {
            from: Nanos(place as u64 * 1_000_000_000),
            to: Nanos((place as u64 + 1) * 1_000_000_000),
            machine: vec![
                count("tor.any.any.clock", 2_000_000_000),
                count("tor.drd.cxl-own.inserts", 1000),
                count("tor.drd.cxl-own.occupancy", cycles * 1000),
            ],
            ..Window::default()
        };
        WindowFile {
            header: Header::new("test"),
            windows: cycles.iter().enumerate().map(window).collect(),
        }
    }

    #[test]
    fn waiting_times_are_compared_where_the_idle_machine_is_known() {
        let (quiet, slow) = (
            [800, 802, 799, 803, 798, 801],
            [1200, 1210, 1190, 1205, 1195, 1200],
        );
        let idle = stays(&[790]);
        let waits = |before: &[u64], after: &[u64], idle: Option<&WindowFile>| {
            let rows = diff(&stays(before), &stays(after), idle, None);
            let mut rows = rows.into_iter();
            rows.find(|row| row.figure == DiffFigure::WaitingNs)
        };
        assert!(waits(&quiet, &slow, None).is_none());
        let found = waits(&quiet, &slow, Some(&idle)).unwrap();
        let means = [found.before, found.after].map(|side| side.unwrap().mean);
        assert!(
            (means[0] - 5.25).abs() < 0.01 && (means[1] - 205.0).abs() < 0.01,
            "{means:?}"
        );
        assert!(matches!(found.verdict, DiffVerdict::Changed { ratio, .. } if ratio > 30.0));
        // Scatter about the idle machine's time is no wait that appeared.
        let none = waits(
            &[785, 786, 784, 786, 785, 784],
            &[788, 793, 784, 787, 786, 785],
            Some(&idle),
        );
        let none = none.unwrap();
        assert!(
            matches!(none.verdict, DiffVerdict::NotDistinguishable { .. }),
            "{none:?}"
        );
    }

    /// Tables of Student's distribution: 0.995 quantiles.
    #[test]
    fn quantiles_are_those_of_the_tables() {
        for (freedom, quantile) in [(4.0, 4.604), (10.0, 3.169), (30.0, 2.750)] {
            let is = student(freedom);
            assert!((is / quantile - 1.0).abs() < 0.02, "{freedom}: {is}");
        }
    }

    proptest! {
        #[test]
        fn any_values_are_survived(
            a in prop::collection::vec(any::<u64>(), 1..12),
            b in prop::collection::vec(any::<u64>(), 1..12),
        ) {
            if let DiffVerdict::Changed { ratio, interval } = one(&a, &b) {
                prop_assert!(ratio.is_finite() && interval[0] <= ratio && ratio <= interval[1]);
                prop_assert!(!(interval[0]..=interval[1]).contains(&1.0));
            }
        }
    }
}
