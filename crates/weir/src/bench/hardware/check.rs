// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a check is: a promise with its source, what it does to the machine, and how it is measured.

use super::site::HardwareSite;
use serde::Serialize;
use weir_core::Missing;

/// What must hold of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PromiseBound {
    /// It is no larger.
    AtMost(f64),
    /// It is no smaller.
    AtLeast(f64),
    /// It is between these, both included.
    Within(f64, f64),
}

impl PromiseBound {
    /// Whether it holds. What is no number holds nothing.
    pub fn holds(self, figure: f64) -> bool {
        match self {
            PromiseBound::AtMost(most) => figure <= most,
            PromiseBound::AtLeast(least) => figure >= least,
            PromiseBound::Within(least, most) => (least..=most).contains(&figure),
        }
    }

    /// For people.
    pub fn words(self, unit: &str) -> String {
        let unit = match unit {
            "" => String::new(),
            unit => format!(" {unit}"),
        };
        match self {
            PromiseBound::AtMost(most) => format!("at most {most}{unit}"),
            PromiseBound::AtLeast(least) => format!("at least {least}{unit}"),
            PromiseBound::Within(least, most) => format!("{least} to {most}{unit}"),
        }
    }
}

/// A promise of weir's.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct HardwarePromise {
    /// How the row of `docs/maturity.md` begins that it is of.
    pub feature: &'static str,
    /// In one sentence.
    pub words: &'static str,
    /// What is bounded.
    pub unit: &'static str,
    /// The bound.
    pub bound: PromiseBound,
    /// The page that promises it.
    pub page: &'static str,
    /// Its words there.
    pub quote: &'static str,
}

/// What a check does to the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Harm {
    /// It reads.
    Reads,
    /// It changes something of its own, and restores it.
    Changes,
    /// It loads CPUs or the device.
    Loads,
}

/// A figure.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct HardwareFigure {
    /// In the promise's unit.
    pub value: f64,
    /// What it is made of, for people.
    pub detail: String,
    /// What was measured beside, for us.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<serde_json::Value>,
}

impl HardwareFigure {
    /// Without further data.
    pub fn new(value: f64, detail: String) -> HardwareFigure {
        HardwareFigure {
            value,
            detail,
            data: None,
        }
    }
}

/// One row.
pub trait HardwareCheck {
    /// For `--check`.
    fn name(&self) -> &'static str;

    /// What is promised.
    fn promise(&self) -> HardwarePromise;

    /// What it does to the machine.
    fn harm(&self) -> Harm;

    /// Measures.
    ///
    /// # Errors
    /// It cannot be measured here: why.
    fn measure(&self, site: &mut HardwareSite) -> Result<HardwareFigure, Missing>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_includes_its_ends_and_no_number_holds_none() {
        for (bound, inside, outside) in [
            (PromiseBound::AtMost(0.1), 0.1, 0.11),
            (PromiseBound::AtLeast(1.0), 1.0, 0.99),
            (PromiseBound::Within(0.9, 1.1), 1.1, 0.89),
        ] {
            assert!(bound.holds(inside), "{bound:?}");
            assert!(!bound.holds(outside), "{bound:?}");
            assert!(!bound.holds(f64::NAN), "{bound:?}");
        }
    }
}
