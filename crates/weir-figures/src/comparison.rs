// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A figure beside what is asked of it, or beside what others found: bounds of scenarios, promises of weir,
//! printed figures of papers. All are judged and shown alike, so that "met" means the same in each command:
//! the value is known, and on its bound or better. A value that is not known does not meet a bound, because
//! what was not measured was not shown.

use crate::document::{Cell, CellKind, Table};
use crate::text::{NONE, bandwidth_unit, number, percent, time_unit};
use serde::Serialize;
use std::borrow::Cow;

/// What a value may be; the ends are allowed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Bound {
    AtMost(f64),
    AtLeast(f64),
    /// At least the first and at most the second; two ends that are as far from zero are a deviation.
    Within(f64, f64),
}

impl Bound {
    /// The bound of two ends. An end that a paper leaves open is written as infinite; nothing where both are
    /// open.
    pub fn between([low, high]: [f64; 2]) -> Option<Bound> {
        match (low.is_finite(), high.is_finite()) {
            (true, true) => Some(Bound::Within(low, high)),
            (true, false) => Some(Bound::AtLeast(low)),
            (false, true) => Some(Bound::AtMost(high)),
            (false, false) => None,
        }
    }

    /// Whether a value keeps to it. What is no number keeps to nothing.
    pub fn holds(self, value: f64) -> bool {
        match self {
            Bound::AtMost(most) => value <= most,
            Bound::AtLeast(least) => value >= least,
            Bound::Within(low, high) => (low..=high).contains(&value),
        }
    }

    /// Its ends, nothing where one is open.
    pub fn ends(self) -> [Option<f64>; 2] {
        match self {
            Bound::AtMost(most) => [None, Some(most)],
            Bound::AtLeast(least) => [Some(least), None],
            Bound::Within(low, high) => [Some(low), Some(high)],
        }
    }

    /// The bound with room for an error at each end.
    #[must_use]
    pub fn widened(self, by: f64) -> Bound {
        match self {
            Bound::AtMost(most) => Bound::AtMost(most + by),
            Bound::AtLeast(least) => Bound::AtLeast(least - by),
            Bound::Within(low, high) => Bound::Within(low - by, high + by),
        }
    }

    /// How far a value lies outside: negative below, 0 inside. Of what is no number it is no number.
    pub fn distance(self, value: f64) -> f64 {
        // `min` and `max` take the other one for NaN, which would be 0: inside.
        if value.is_nan() {
            return value;
        }
        let [low, high] = self.ends();
        let below = low.map_or(0.0, |low| (value - low).min(0.0));
        below + high.map_or(0.0, |high| (value - high).max(0.0))
    }

    /// The bound for people: `≤ 7.00 %`.
    pub fn text(self, unit: &FigureUnit) -> String {
        match self {
            Bound::AtMost(most) => format!("≤ {}", unit.shown(&[most], false)),
            Bound::AtLeast(least) => format!("≥ {}", unit.shown(&[least], false)),
            Bound::Within(low, high) if low == high => unit.shown(&[low], false),
            Bound::Within(_, high) if self.is_deviation() => {
                format!("± {}", unit.shown(&[high], false))
            }
            Bound::Within(low, high) => unit.shown(&[low, high], false),
        }
    }

    fn is_deviation(self) -> bool {
        matches!(self, Bound::Within(low, high) if low == -high)
    }
}

/// What a value is in, and so how it is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FigureUnit {
    /// A ratio, in percent.
    Percent,
    /// A change, in percent already, with its sign.
    Change,
    /// A time in nanoseconds, in the unit that makes it short.
    Nanos,
    /// Bytes per second, likewise.
    Rate,
    /// Values are in the unit of this name already.
    Named(Cow<'static, str>),
}

impl FigureUnit {
    /// The unit of values that are in it already.
    pub fn named(name: impl Into<Cow<'static, str>>) -> Self {
        FigureUnit::Named(name.into())
    }

    /// Its name as values have it.
    pub fn name(&self) -> &str {
        match self {
            FigureUnit::Percent => "ratio",
            FigureUnit::Change => "%",
            FigureUnit::Nanos => "ns",
            FigureUnit::Rate => "bytes/s",
            FigureUnit::Named(name) => name,
        }
    }

    /// Values with the unit once; the last of them says how it is scaled.
    fn shown(&self, values: &[f64], is_signed: bool) -> String {
        let last = values.last().copied().unwrap_or_default();
        let (divisor, name) = match self {
            FigureUnit::Percent | FigureUnit::Change => (1.0, "%"),
            FigureUnit::Nanos => time_unit(last),
            FigureUnit::Rate => bandwidth_unit(last),
            FigureUnit::Named(name) => (1.0, &**name),
        };
        let digits = values.iter().map(|value| match self {
            FigureUnit::Percent => percent(*value, is_signed),
            FigureUnit::Change => percent(value / 1e2, true),
            _ => number(value / divisor),
        });
        format!("{} {name}", digits.collect::<Vec<_>>().join(" to "))
    }
}

/// A figure beside a bound and a reference. Each command had a type and a look of its own for this, and what
/// was mended in one stayed wrong in the others (ADR 30).
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// Name of the figure that is compared.
    pub name: String,
    pub unit: FigureUnit,
    /// The value, or why there is none.
    pub value: Result<f64, String>,
    /// What must hold of it, if anything must.
    pub bound: Option<Bound>,
    /// What it is compared with: the printed figure with its place, or the promise. It may be empty.
    pub reference: String,
    /// Why it is as it is. It may be empty.
    pub why: String,
}

impl Comparison {
    /// A figure without a bound and a reference.
    pub fn new(name: impl Into<String>, unit: FigureUnit, value: Result<f64, String>) -> Self {
        Comparison {
            name: name.into(),
            unit,
            value,
            bound: None,
            reference: String::new(),
            why: String::new(),
        }
    }

    /// A value without a bound is shown, and is neither met nor missed.
    #[must_use]
    pub fn within(mut self, bound: impl Into<Option<Bound>>) -> Self {
        self.bound = bound.into();
        self
    }

    /// Beside a printed figure or a promise.
    #[must_use]
    pub fn beside(mut self, reference: impl Into<String>) -> Self {
        self.reference = reference.into();
        self
    }

    /// The reason is shown where there is a value; without one, why it is missing stands there.
    #[must_use]
    pub fn because(mut self, why: impl Into<String>) -> Self {
        self.why = why.into();
        self
    }

    /// Whether it keeps to its bound; nothing where there is none.
    pub fn is_met(&self) -> Option<bool> {
        let holds = |bound: Bound| self.value.as_ref().is_ok_and(|value| bound.holds(*value));
        self.bound.map(holds)
    }

    pub fn is_missed(&self) -> bool {
        self.is_met() == Some(false)
    }

    /// The value for people, `–` if there is none.
    pub fn value_text(&self) -> String {
        let is_signed = self.bound.is_some_and(Bound::is_deviation);
        let value = self.value.as_ref();
        value.map_or(NONE.into(), |value| self.unit.shown(&[*value], is_signed))
    }

    /// The bound for people; nothing where there is none.
    pub fn bound_text(&self) -> String {
        self.bound
            .map_or(String::new(), |bound| bound.text(&self.unit))
    }

    /// A row of [`compared`].
    pub fn row(&self) -> [Cell; 6] {
        let verdict = match self.is_met() {
            Some(true) => Cell::new("met", CellKind::Met),
            Some(false) => Cell::new("MISSED", CellKind::Missed),
            None => Cell::new("", CellKind::Met),
        };
        [
            verdict,
            Cell::words(&self.name),
            Cell::number(self.value_text()),
            Cell::number(self.bound_text()),
            Cell::long(&self.reference),
            Cell::long(self.value.as_ref().err().unwrap_or(&self.why)),
        ]
    }
}

/// Figures beside their bounds and references. The heads are those of value, bound, reference and reason.
pub fn compared<'a>(
    [value, bound, reference, why]: [&str; 4],
    rows: impl IntoIterator<Item = &'a Comparison>,
) -> Table {
    let heads = ["", "", value, bound, reference, why];
    Table::new("", &heads, rows.into_iter().map(|row| row.row().to_vec()))
}

/// `7 of 8 bounds met`, for figures that have bounds.
pub fn met_of(rows: &[Comparison]) -> String {
    let judged = rows.iter().filter_map(Comparison::is_met);
    let (met, all) = judged.fold((0, 0), |(met, all), one| (met + usize::from(one), all + 1));
    format!("{met} of {all} bounds")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_includes_its_ends_and_no_number_keeps_to_one() {
        for (bound, inside, outside) in [
            (Bound::AtMost(0.1), 0.1, 0.11),
            (Bound::AtLeast(1.0), 1.0, 0.99),
            (Bound::Within(0.9, 1.1), 1.1, 0.89),
        ] {
            assert!(bound.holds(inside), "{bound:?}");
            assert!(!bound.holds(outside), "{bound:?}");
            assert!(!bound.holds(f64::NAN), "{bound:?}");
        }
        let ends = [1.0, f64::INFINITY];
        assert_eq!(Bound::between(ends), Some(Bound::AtLeast(1.0)));
        assert_eq!(Bound::between([f64::NEG_INFINITY, f64::INFINITY]), None);
    }

    #[test]
    fn what_is_not_known_meets_no_bound_and_needs_none() {
        let unknown = Comparison::new("p99", FigureUnit::Nanos, Err("nothing was read".into()));
        assert_eq!(unknown.is_met(), None);
        let bounded = unknown.clone().within(Bound::AtMost(2e6));
        assert!(bounded.is_missed());
        let cells: Vec<String> = bounded.row().into_iter().map(|cell| cell.text).collect();
        assert_eq!(
            cells,
            ["MISSED", "p99", "–", "≤ 2.00 ms", "", "nothing was read"]
        );
        assert_eq!(met_of(&[unknown, bounded]), "0 of 1 bounds");
    }

    #[test]
    fn a_deviation_has_a_sign_and_a_range_its_unit_once() {
        let of = |unit, value, bound| Comparison::new("x", unit, Ok(value)).within(bound);
        let bias = of(FigureUnit::Percent, 0.021, Bound::Within(-0.03, 0.03));
        assert_eq!(
            (&*bias.value_text(), &*bias.bound_text()),
            ("+2.10 %", "± 3.00 %")
        );
        let range = of(
            FigureUnit::named("GB/s"),
            206.0,
            Bound::Within(196.0, 216.0),
        );
        assert_eq!(
            (&*range.value_text(), &*range.bound_text()),
            ("206 GB/s", "196 to 216 GB/s")
        );
        let times = Bound::Within(8e5, 2e6).text(&FigureUnit::Nanos);
        assert_eq!(times, "0.800 to 2.00 ms");
        assert_eq!(
            Bound::Within(0.1, 0.2).text(&FigureUnit::Percent),
            "10.0 to 20.0 %"
        );
        let change = |low, high| Bound::Within(low, high).text(&FigureUnit::Change);
        assert_eq!(change(76.0, 125.0), "+76.0 to +125 %");
        assert_eq!(change(-60.0, -60.0), "−60.0 %");
    }

    #[test]
    fn a_value_outside_of_a_bound_is_off_by_the_distance() {
        let range = Bound::Within(2.0, 4.0);
        for (value, distance, is_near) in [
            (1.0, -1.0, false),
            (1.6, -0.4, true),
            (3.0, 0.0, true),
            (4.6, 0.6, false),
        ] {
            assert!((range.distance(value) - distance).abs() < 1e-9, "{value}");
            assert_eq!(range.widened(0.5).holds(value), is_near, "{value}");
        }
        assert_eq!(Bound::AtLeast(2.0).distance(4.6), 0.0);
        assert!(range.distance(f64::NAN).is_nan());
        assert!(Bound::AtMost(0.0).widened(0.5).holds(0.4));
    }
}
