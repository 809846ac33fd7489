// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a check is: a promise with its source, what it does to the machine, and how it is measured.

use super::site::HardwareSite;
use serde::Serialize;
use weir_core::Missing;
use weir_figures::Bound;

#[derive(Clone, Copy, Debug, Serialize)]
pub struct HardwarePromise {
    /// Beginning of the row of `docs/maturity.md` that the promise belongs to.
    pub feature: &'static str,
    /// What is promised, in one sentence.
    pub words: &'static str,
    pub unit: &'static str,
    pub bound: Bound,
    pub page: &'static str,
    /// Words of the page that promise it.
    pub quote: &'static str,
}

/// What a check does to the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Harm {
    Reads,
    /// It changes something of its own, and restores it.
    Changes,
    /// It loads CPUs or the device.
    Loads,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct HardwareFigure {
    /// The value in the unit of the promise.
    pub value: f64,
    /// What it is made of, for people.
    pub detail: String,
    /// What was measured beside, for us.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<serde_json::Value>,
}

impl HardwareFigure {
    /// A figure that has no further data beside it.
    pub fn new(value: f64, detail: String) -> HardwareFigure {
        HardwareFigure {
            value,
            detail,
            data: None,
        }
    }
}

pub trait HardwareCheck {
    fn name(&self) -> &'static str;

    fn promise(&self) -> HardwarePromise;

    fn harm(&self) -> Harm;

    /// Measures.
    ///
    /// # Errors
    /// It cannot be measured here: why.
    fn measure(&self, site: &mut HardwareSite) -> Result<HardwareFigure, Missing>;
}
