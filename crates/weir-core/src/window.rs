// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Counts between two reads of counters, with the times of their own: what a profile is made of. A window
//! says what was counted, never what that means; weir-profile makes figures of it, each time anew.

pub mod role;

use crate::ids::WorkloadId;
use crate::seam::observation::Missing;
use crate::units::Nanos;
use role::Role;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Window {
    /// The first read, on the clock of the counting program.
    pub from: Nanos,
    /// The second read. The same as `from` where the length is not known: there are no rates then.
    pub to: Nanos,
    /// Counts of the whole machine, of its sockets, CPUs, boxes, ports and devices.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub machine: Vec<Count>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub workloads: Vec<WorkloadCounts>,
    /// Counts of events that no table gives a role: kept, and no figure is made of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unassigned: Vec<UnassignedEvent>,
}

impl Window {
    /// Its length, or nothing where that is not known.
    pub fn length(&self) -> Option<Nanos> {
        self.to.since(self.from)
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkloadCounts {
    pub id: WorkloadId,
    pub counts: Vec<Count>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Count {
    pub role: Role,
    #[serde(default, skip_serializing_if = "CountScope::is_all")]
    pub of: CountScope,
    /// The count, scaled to all of `enabled_ns` where it ran for a part of it; or why there is none.
    pub value: Result<u64, Missing>,
    /// Time for which it was to be counted, added up over all counters that the value is a sum of.
    pub enabled_ns: Nanos,
    /// Time for which it was counted, likewise.
    pub running_ns: Nanos,
    pub provenance: CountProvenance,
}

impl Count {
    /// Part of the time for which it was counted, 0 to 1. Nothing where no time is known.
    pub fn running_ratio(&self) -> Option<f64> {
        let enabled = self.enabled_ns.0;
        (enabled > 0).then(|| (self.running_ns.0 as f64 / enabled as f64).min(1.0))
    }
}

/// A count of an event that has no role.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UnassignedEvent {
    /// The event's name, as the counting program wrote it.
    pub event: String,
    /// The workload, if it was counted for one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workload: Option<WorkloadId>,
    #[serde(default, skip_serializing_if = "CountScope::is_all")]
    pub of: CountScope,
    /// The count, or why there is none.
    pub value: Result<u64, Missing>,
}

/// Where something was counted. Spelled `all`, `socket:0`, `cpu:12`.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(try_from = "String", into = "String")]
pub enum CountScope {
    #[default]
    All,
    Socket(u32),
    /// On one CPU; for a PMU of a socket: on the socket of that CPU.
    Cpu(u32),
    /// One of several PMUs of a kind, such as one of the home agents of the last-level cache.
    Box(u32),
    Port(u32),
    Device(u32),
}

impl CountScope {
    /// Whether it is the sum of all places.
    pub fn is_all(&self) -> bool {
        *self == CountScope::All
    }
}

impl fmt::Display for CountScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (word, number) = match self {
            CountScope::All => return f.write_str("all"),
            CountScope::Socket(number) => ("socket", number),
            CountScope::Cpu(number) => ("cpu", number),
            CountScope::Box(number) => ("box", number),
            CountScope::Port(number) => ("port", number),
            CountScope::Device(number) => ("device", number),
        };
        write!(f, "{word}:{number}")
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("all, socket:N, cpu:N, box:N, port:N or device:N is wanted")]
pub struct CountScopeError;

impl FromStr for CountScope {
    type Err = CountScopeError;

    fn from_str(text: &str) -> Result<Self, CountScopeError> {
        if text == "all" {
            return Ok(CountScope::All);
        }
        let (word, number) = text.split_once(':').ok_or(CountScopeError)?;
        let is_plain = number == "0" || !number.starts_with(['0', '+']);
        let number: u32 = number.parse().map_err(|_| CountScopeError)?;
        match word {
            _ if !is_plain => Err(CountScopeError),
            "socket" => Ok(CountScope::Socket(number)),
            "cpu" => Ok(CountScope::Cpu(number)),
            "box" => Ok(CountScope::Box(number)),
            "port" => Ok(CountScope::Port(number)),
            "device" => Ok(CountScope::Device(number)),
            _ => Err(CountScopeError),
        }
    }
}

impl TryFrom<String> for CountScope {
    type Error = CountScopeError;
    fn try_from(text: String) -> Result<Self, CountScopeError> {
        text.parse()
    }
}

impl From<CountScope> for String {
    fn from(of: CountScope) -> String {
        of.to_string()
    }
}

/// How a count is known, best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CountProvenance {
    /// Its maker documents that the event counts this.
    Documented,
    /// Its maker publishes these bits under another name.
    OtherName,
    /// The difference of two events.
    Difference,
    /// No list of its maker has these bits.
    Raw,
    /// Part of a count of several, shared out by another count.
    Apportioned,
    Modelled,
}

impl CountProvenance {
    pub fn word(self) -> &'static str {
        match self {
            CountProvenance::Documented => "documented",
            CountProvenance::OtherName => "other-name",
            CountProvenance::Difference => "difference",
            CountProvenance::Raw => "raw",
            CountProvenance::Apportioned => "apportioned",
            CountProvenance::Modelled => "modelled",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn count() -> Count {
        Count {
            role: "tor.drd.cxl.inserts".parse().unwrap(),
            of: CountScope::Socket(1),
            value: Ok(u64::MAX),
            enabled_ns: Nanos(4),
            running_ns: Nanos(1),
            provenance: CountProvenance::OtherName,
        }
    }

    #[test]
    fn a_window_is_plain_json_and_reads_back() {
        let window = Window {
            from: Nanos(1),
            to: Nanos(5),
            machine: vec![count()],
            workloads: vec![WorkloadCounts {
                id: WorkloadId::new("/system.slice/db.service"),
                counts: vec![Count {
                    of: CountScope::All,
                    value: Err(Missing::NotYetRead),
                    ..count()
                }],
            }],
            unassigned: vec![UnassignedEvent {
                event: "page-faults".into(),
                workload: None,
                of: CountScope::Cpu(3),
                value: Ok(7),
            }],
        };
        let text = serde_json::to_string(&window).unwrap();
        assert!(
            text.contains(r#""role":"tor.drd.cxl.inserts","of":"socket:1""#),
            "{text}"
        );
        assert_eq!(serde_json::from_str::<Window>(&text).unwrap(), window);
        let unknown = text.replacen("\"from\"", "\"since\":3,\"from\"", 1);
        assert!(serde_json::from_str::<Window>(&unknown).is_err());
    }

    #[test]
    fn a_length_of_nothing_is_not_known() {
        let of = |from, to| Window {
            from: Nanos(from),
            to: Nanos(to),
            ..Window::default()
        };
        assert_eq!(of(2, 7).length(), Some(Nanos(5)));
        assert_eq!(of(2, 2).length(), None);
        assert_eq!(of(7, 2).length(), None);
        assert_eq!(count().running_ratio(), Some(0.25));
        let never = Count {
            enabled_ns: Nanos(0),
            ..count()
        };
        assert_eq!(never.running_ratio(), None);
    }

    #[test]
    fn places_are_words_and_numbers() {
        for text in [
            "all",
            "socket:0",
            "cpu:4294967295",
            "box:12",
            "port:1",
            "device:3",
        ] {
            assert_eq!(text.parse::<CountScope>().unwrap().to_string(), text);
        }
        for bad in [
            "",
            "cpu",
            "cpu:",
            "cpu:-1",
            "cpu:+1",
            "cpu:01",
            "cpu:4294967296",
            "core:1",
        ] {
            assert!(bad.parse::<CountScope>().is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn any_place_is_survived(text in prop_oneof![".{0,20}", "(all|cpu|box|port):[0-9+-]{0,12}"]) {
            if let Ok(of) = text.parse::<CountScope>() {
                prop_assert_eq!(of.to_string(), text);
            }
        }
    }
}
