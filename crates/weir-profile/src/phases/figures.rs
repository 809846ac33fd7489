// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Figures that phases are looked for in: one value a window, by the same counts in all windows. What cannot
//! be made of a window's counts is absent there, and counted as absent.

use crate::counts::Counts;
use crate::stages::{clock_of, residence_ns};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use weir_core::window::Count;
use weir_core::{Role, Window};

/// What is followed from window to window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum PhaseFigure {
    /// Stalled cycles ÷ cycles.
    StalledRatio,
    /// Instructions ÷ cycles.
    InstructionsPerCycle,
    /// Lines from CXL memory a second.
    CxlLinesPerSec,
    /// Lines from DRAM a second.
    DramLinesPerSec,
    /// Lines from CXL memory ÷ lines from all suppliers.
    CxlRatio,
    /// Lines that hardware prefetch asked for ÷ all lines.
    PrefetchRatio,
    /// Residence of reads from CXL memory, ns; where that is not counted, of reads that miss.
    ReadNs,
}

/// How a figure is made of counts: of words with blanks between them, or of the roles that these are.
enum PhaseFormula<T> {
    PerSec(T),
    /// The first sum ÷ the second.
    Ratio(T, T),
    /// Residence by this occupancy, ns.
    ResidenceNs(T),
}

use PhaseFormula::{PerSec, Ratio, ResidenceNs};

const CYCLES: &str = "core.any.any.clock";
const READS: &str = "sq.drd.any.lines sq.rfo.any.lines sq.pf.any.lines";

/// Formulas of each figure, the best first.
const FORMULAS: &[(PhaseFigure, &[PhaseFormula<&str>])] = &[
    (
        PhaseFigure::StalledRatio,
        &[
            Ratio("l1d.drd.miss.stalls sb.any.any.stalls", CYCLES),
            Ratio("l1d.drd.miss.stalls", CYCLES),
            Ratio("core.any.any.stalls", CYCLES),
            Ratio("l2.drd.miss.stalls", CYCLES),
            Ratio("llc.drd.miss.stalls", CYCLES),
        ],
    ),
    (
        PhaseFigure::InstructionsPerCycle,
        &[Ratio("core.any.any.instructions", CYCLES)],
    ),
    (
        PhaseFigure::CxlLinesPerSec,
        &[
            PerSec("sq.reads.cxl.lines"),
            PerSec("sq.drd.cxl.lines sq.rfo.cxl.lines sq.pf.cxl.lines"),
            PerSec("device.reads.cxl.lines"),
            PerSec("port.reads.cxl.lines"),
            PerSec("tor.reads.cxl.inserts"),
            PerSec("sq.drd.cxl.lines"),
            PerSec("l1d.drd.cxl.lines"),
            PerSec("tor.drd.cxl.inserts"),
            PerSec("tor.drd.cxl-own.inserts"),
            PerSec("device.drd.cxl-own.loads"),
        ],
    ),
    (
        PhaseFigure::DramLinesPerSec,
        &[
            PerSec("sq.reads.dram.lines"),
            PerSec("sq.drd.dram.lines sq.rfo.dram.lines sq.pf.dram.lines"),
            PerSec("imc.reads.dram-own.lines"),
            PerSec("tor.reads.dram.inserts"),
            PerSec("sq.drd.dram.lines"),
            PerSec("l1d.drd.dram.lines"),
            PerSec("tor.drd.dram.inserts"),
            PerSec("tor.drd.dram-own.inserts"),
            PerSec("imc.drd.dram-own.loads"),
        ],
    ),
    (
        PhaseFigure::CxlRatio,
        &[
            Ratio("sq.reads.cxl.lines", "sq.reads.any.lines"),
            Ratio("sq.drd.cxl.lines sq.rfo.cxl.lines sq.pf.cxl.lines", READS),
            Ratio("sq.drd.cxl.lines", "sq.drd.any.lines"),
            Ratio("tor.drd.cxl.inserts", "tor.drd.miss.inserts"),
            Ratio("device.drd.cxl-own.loads", "l1d.drd.miss.loads"),
        ],
    ),
    (
        PhaseFigure::PrefetchRatio,
        &[
            Ratio("sq.pf.any.lines", "sq.reads.any.lines"),
            Ratio("sq.pf.any.lines", READS),
            Ratio("l2.pf.miss.lines", "l2.pf.miss.lines l2.drd.miss.lines"),
        ],
    ),
    (
        PhaseFigure::ReadNs,
        &[
            ResidenceNs("tor.drd.cxl.occupancy"),
            ResidenceNs("tor.drd.cxl-own.occupancy"),
            ResidenceNs("tor.reads.cxl.occupancy"),
            ResidenceNs("sq.drd.miss.occupancy"),
            ResidenceNs("sq.drd.any.occupancy"),
        ],
    ),
];

impl PhaseFigure {
    /// The figure as reports say it.
    pub fn words(self) -> &'static str {
        match self {
            PhaseFigure::StalledRatio => "stalled part of the cycles",
            PhaseFigure::InstructionsPerCycle => "instructions per cycle",
            PhaseFigure::CxlLinesPerSec => "lines from CXL memory",
            PhaseFigure::DramLinesPerSec => "lines from DRAM",
            PhaseFigure::CxlRatio => "share of CXL memory in lines",
            PhaseFigure::PrefetchRatio => "share of prefetch in lines",
            PhaseFigure::ReadNs => "residence of reads",
        }
    }

    /// Whether it is a part of a whole, 0 to 1.
    pub fn is_share(self) -> bool {
        matches!(
            self,
            PhaseFigure::StalledRatio | PhaseFigure::CxlRatio | PhaseFigure::PrefetchRatio
        )
    }
}

impl PhaseFormula<&str> {
    fn parsed(&self) -> PhaseFormula<Vec<Role>> {
        let roles = |words: &str| -> Vec<Role> {
            let words = words.split(' ');
            words.filter_map(|word| word.parse().ok()).collect()
        };
        match self {
            PerSec(plus) => PerSec(roles(plus)),
            Ratio(part, whole) => Ratio(roles(part), roles(whole)),
            ResidenceNs(occupancy) => ResidenceNs(roles(occupancy)),
        }
    }
}

impl PhaseFormula<Vec<Role>> {
    fn roles(&self) -> impl Iterator<Item = Role> {
        let (one, other): (&[Role], &[Role]) = match self {
            PerSec(roles) | ResidenceNs(roles) => (roles, &[]),
            Ratio(part, whole) => (part, whole),
        };
        one.iter().chain(other).copied()
    }

    /// Nothing where a count is missing, is refused, or nothing happened.
    fn value(&self, counts: &Counts) -> Option<f64> {
        let sum = |roles: &[Role]| {
            let values = roles.iter().map(|role| Some(counts.get(*role).ok()?.value));
            values.sum::<Option<f64>>()
        };
        let value = match self {
            PerSec(plus) => sum(plus)? / counts.length()?.secs_f64(),
            Ratio(part, whole) => sum(part)? / sum(whole)?,
            ResidenceNs(occupancy) => residence_ns(counts, *occupancy.first()?).ok()?.value,
        };
        value.is_finite().then_some(value)
    }
}

/// All roles that formulas may need, with the clocks of residences.
fn wanted(formulas: &[PhaseFormula<Vec<Role>>]) -> BTreeSet<Role> {
    let roles = formulas.iter().flat_map(PhaseFormula::roles);
    let with_others = roles.flat_map(|role| {
        use weir_core::window::role::Quantity::{Inserts, TimeNs};
        let clock = clock_of(role.stage);
        let time = clock.map(|clock| clock.with(TimeNs));
        [Some(role), Some(role.with(Inserts)), clock, time]
    });
    with_others.flatten().collect()
}

/// A figure's values, one of each window.
#[derive(Clone, Debug, PartialEq)]
pub struct FigureValues {
    pub figure: PhaseFigure,
    /// Values by window; nothing where the figure is absent.
    pub values: Vec<Option<f64>>,
}

/// Values of the machine's figures, or of a workload's. Of each figure the formula is taken that most windows
/// have counts for, so that it means the same in all of them. Figures that no window has are left out.
pub fn values(windows: &[Window], name: Option<&str>) -> Vec<FigureValues> {
    let of = |(figure, formulas): &(PhaseFigure, &[PhaseFormula<&str>])| {
        let parsed = formulas.iter().map(PhaseFormula::parsed);
        parsed.map(|formula| (*figure, formula)).collect::<Vec<_>>()
    };
    let (figures, formulas): (Vec<_>, Vec<_>) = FORMULAS.iter().flat_map(of).unzip();
    let wanted = wanted(&formulas);
    let mut columns: Vec<Vec<Option<f64>>> = vec![Vec::new(); formulas.len()];
    for window in windows {
        let own = counts_of(window, name).iter();
        let own = own.filter(|count| wanted.contains(&count.role));
        let counts = Counts::new(own, window.length());
        for (formula, column) in formulas.iter().zip(&mut columns) {
            column.push(formula.value(&counts));
        }
    }
    let known = |column: &[Option<f64>]| column.iter().flatten().count();
    let mut best: Vec<FigureValues> = Vec::new();
    for (figure, values) in figures.into_iter().zip(columns) {
        let last = best.last_mut().filter(|last| last.figure == figure);
        match last {
            // Of several with as many the first is taken.
            Some(last) if known(&values) > known(&last.values) => last.values = values,
            Some(_) => {}
            None => best.push(FigureValues { figure, values }),
        }
    }
    best.retain(|one| known(&one.values) > 0);
    best
}

fn counts_of<'a>(window: &'a Window, name: Option<&str>) -> &'a [Count] {
    let Some(name) = name else {
        return &window.machine;
    };
    let mut workloads = window.workloads.iter();
    let found = workloads.find(|workload| workload.id.as_str() == name);
    found.map_or(&[], |workload| &workload.counts)
}

/// Mean of each figure over some windows; absent windows have no part in it.
pub fn means(all: &[FigureValues], from: usize, to: usize) -> BTreeMap<PhaseFigure, f64> {
    let mean = |one: &FigureValues| {
        let known: Vec<f64> = one
            .values
            .get(from..to)?
            .iter()
            .flatten()
            .copied()
            .collect();
        let mean = known.iter().sum::<f64>() / known.len() as f64;
        mean.is_finite().then_some((one.figure, mean))
    };
    all.iter().filter_map(mean).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counts::tests::count;
    use weir_core::{Missing, Nanos};

    fn window(counts: Vec<Count>) -> Window {
        Window {
            from: Nanos(0),
            to: Nanos(1_000_000_000),
            machine: counts,
            ..Window::default()
        }
    }

    #[test]
    fn each_formula_is_of_roles() {
        for formula in FORMULAS.iter().flat_map(|(_, formulas)| *formulas) {
            let words = |text: &str| text.split(' ').count();
            let words = match formula {
                PerSec(text) | ResidenceNs(text) => words(text),
                Ratio(part, whole) => words(part) + words(whole),
            };
            assert_eq!(formula.parsed().roles().count(), words);
        }
    }

    #[test]
    fn what_a_window_lacks_is_absent_and_never_zero() {
        let lines = |value| count("sq.reads.cxl.lines", value);
        let mut lost = lines(7);
        lost.value = Err(Missing::Lost("no counter".into()));
        let mut little = lines(7);
        little.running_ns = Nanos(10_000_000);
        let windows = [
            window(vec![lines(100)]),
            window(vec![lost]),
            window(vec![little]),
            window(vec![]),
            window(vec![lines(0)]),
        ];
        let all = values(&windows, None);
        assert_eq!(all.len(), 1, "{all:?}");
        let known = [Some(100.0), None, None, None, Some(0.0)];
        assert_eq!(all[0].values, known);
        assert_eq!(means(&all, 0, 4)[&PhaseFigure::CxlLinesPerSec], 100.0);
        assert!(means(&all, 1, 4).is_empty());
        assert!(values(&windows, Some("db")).is_empty());
    }

    /// A count that comes later does not change what the figure means half-way.
    #[test]
    fn one_formula_stands_for_all_windows() {
        let stalls = |value| count("l1d.drd.miss.stalls", value);
        let clock = || count("core.any.any.clock", 100);
        let plain = || window(vec![stalls(50), clock()]);
        let both = || window(vec![stalls(50), count("sb.any.any.stalls", 20), clock()]);
        let all = values(&[plain(), plain(), both()], None);
        assert_eq!(all[0].values, [Some(0.5); 3]);
        let all = values(&[plain(), both(), both(), both()], None);
        let of_loads = [Some(0.5), Some(0.5), Some(0.5), Some(0.5)];
        assert_eq!(all[0].values, of_loads);
        let all = values(&[both(), both()], None);
        assert_eq!(all[0].values, [Some(0.7); 2]);
    }
}
