// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What is counted, in which turns, and which faults the counters have.

use crate::machine::Machine;
use crate::pmu::EventCount;
use crate::pmu::catalogue::{EventInfo, catalogue};
use crate::pmu::unit::UnitKind;
use serde::{Deserialize, Serialize};
use weir_description::DescriptionError;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CountingPlan {
    /// Sets of a unit take turns of this length, microseconds. Left out: each unit has one set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn_us: Option<f64>,
    /// Boxes of a unit begin at different sets, so that different boxes count different events at the same
    /// time. CPUs begin at the same one where sets take turns: each runs something else.
    #[serde(default)]
    pub is_spread: bool,
    /// Any number of events may count at once, which no real box can.
    #[serde(default)]
    pub is_unlimited: bool,
    pub set: Vec<EventSet>,
    #[serde(default)]
    pub fault: Vec<CounterFault>,
}

/// Events of a unit that count at the same time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EventSet {
    pub unit: UnitKind,
    pub events: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CounterFault {
    pub kind: FaultKind,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit: Option<UnitKind>,
    /// Number of the box. Left out: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub index: Option<u32>,
    /// The event. Left out: all (of [`FaultKind::GarbageClock`]: the clock).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event: Option<String>,
    /// First window with it.
    #[serde(default)]
    pub from_window: u32,
    /// Window after the last one with it. Left out: to the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to_window: Option<u32>,
    /// For [`FaultKind::Scaled`]: what counts are multiplied by.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub factor: Option<f64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FaultKind {
    Stuck,
    /// The clock counts 4263 in its first window and then nothing (intel/perfmon, issue 332).
    GarbageClock,
    /// The counts of the window are lost.
    LostWindow,
    /// It counts too many or too few.
    Scaled,
}

impl CountingPlan {
    /// All events of a machine, all the time: no real machine can.
    pub fn everything(machine: &Machine) -> CountingPlan {
        let all = catalogue(machine);
        let sets = UnitKind::ALL.iter().map(|&unit| EventSet {
            unit,
            events: all
                .iter()
                .filter(|e| e.unit == unit)
                .map(|e| e.name.to_string())
                .collect(),
        });
        CountingPlan {
            turn_us: None,
            is_spread: false,
            is_unlimited: true,
            set: sets.collect(),
            fault: Vec::new(),
        }
    }

    /// Reads a plan from TOML and checks it against a machine. `origin` names the text in errors.
    ///
    /// # Errors
    /// The text is no TOML, a key is unknown or missing, an event is unknown, or a set does not fit.
    pub fn parse(
        text: &str,
        machine: &Machine,
        origin: &str,
    ) -> Result<CountingPlan, DescriptionError> {
        let plan: CountingPlan =
            toml::from_str(text).map_err(|error| DescriptionError::syntax(origin, &error))?;
        plan.check(machine, &catalogue(machine))?;
        Ok(plan)
    }

    pub(super) fn check(
        &self,
        machine: &Machine,
        all: &[EventInfo],
    ) -> Result<(), DescriptionError> {
        let wrong = |key: String, value: String, allowed: String| DescriptionError::Value {
            origin: "plan".to_owned(),
            key,
            value,
            allowed,
        };
        let turn_us = self.turn_us.unwrap_or(1.0);
        if !(0.001..=1e9).contains(&turn_us) {
            let allowed = "0.001 to 1e9 is allowed".to_owned();
            return Err(wrong("turn_us".to_owned(), turn_us.to_string(), allowed));
        }
        for (number, set) in self.set.iter().enumerate() {
            let key = format!("set[{number}].events");
            let mut infos = Vec::new();
            for event in &set.events {
                let found = all
                    .iter()
                    .find(|e| e.unit == set.unit && *e.name == **event);
                infos.push(found.ok_or_else(|| DescriptionError::Unknown {
                    kind: "event",
                    name: format!("{}/{event}", set.unit.name()),
                    names: nearest(event, set.unit, all),
                })?);
            }
            if !self.is_unlimited
                && let Err((event, allowed)) = set.unit.fits(machine, &infos)
            {
                return Err(wrong(key, event, allowed));
            }
            let more = self.set[..number]
                .iter()
                .any(|other| other.unit == set.unit);
            if more && self.turn_us.is_none() && !self.is_spread {
                let allowed = "a second set of a unit needs turn_us or is_spread".to_owned();
                return Err(wrong(
                    format!("set[{number}].unit"),
                    set.unit.name().to_owned(),
                    allowed,
                ));
            }
        }
        Ok(())
    }
}

/// Names of the unit's events that begin alike, or all of them.
fn nearest(event: &str, unit: UnitKind, all: &[EventInfo]) -> String {
    let head = event.split('.').next().unwrap_or(event);
    let own = all.iter().filter(|info| info.unit == unit);
    let own: Vec<&str> = own.map(|info| &*info.name).collect();
    let alike: Vec<&str> = own
        .iter()
        .copied()
        .filter(|name| name.starts_with(head))
        .collect();
    if alike.is_empty() {
        own.join(", ")
    } else {
        alike.join(", ")
    }
}

impl CounterFault {
    pub(super) fn is_active(&self, window: u32) -> bool {
        window >= self.from_window && self.to_window.is_none_or(|end| window < end)
    }

    pub(super) fn is_for(&self, count: &EventCount) -> bool {
        let event = match (&self.event, self.kind) {
            (None, FaultKind::GarbageClock) => Some("clock"),
            (event, _) => event.as_deref(),
        };
        self.unit.is_none_or(|unit| unit == count.unit)
            && self.index.is_none_or(|index| index == count.index)
            && event.is_none_or(|event| event == &*count.event)
    }

    /// Makes a count what the fault makes of it. The clock with garbage shows what was reported of M2PCIe on
    /// Emerald Rapids: 4263 in 5 s, and then 0 (intel/perfmon, issue 332).
    pub(super) fn apply(&self, count: &mut EventCount, window: u32) {
        count.value = match self.kind {
            FaultKind::Stuck => 0,
            FaultKind::GarbageClock => u64::from(window == self.from_window) * 4263,
            FaultKind::LostWindow => count.value,
            FaultKind::Scaled => (count.value as f64 * self.factor.unwrap_or(1.0)) as u64,
        };
    }
}
