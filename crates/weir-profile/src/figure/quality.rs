// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What cannot be, is refused, by name: a figure that a clock, a queue or its own parts contradict is worse
//! than none.

use crate::figure::Figure;
use serde::Serialize;
use weir_core::{Missing, Role};

/// A role that ran for less of its time gives no figure.
pub const RUNNING_RATIO_MIN: f64 = 0.05;
/// A part may be above its whole by this much: the two are read one after the other.
pub const PARTS_SLACK: f64 = 0.05;
/// Counts of one perf group ran for the same part of the time; this much apart is the same.
pub const GROUP_SLACK: f64 = 0.01;
/// Clocks of cores, caches, memory controllers and links are within these, whatever the CPU.
pub const CLOCK_HZ: [f64; 2] = [1.5e8, 8e9];
/// No memory answers sooner than this after a miss of the last-level cache: DRAM takes 60 ns and more, and a
/// hit in that cache some 20.
pub const MEMORY_NS_MIN: f64 = 20.0;
/// No queue holds so many requests, and no more than a hundred of them are counted by one clock.
pub const ENTRIES_MAX: f64 = 100_000.0;
/// One box with this many times the median holds a hot line: it does not stand for the others.
pub const HOT_BOX: f64 = 3.0;
/// Sources that count the same lines may differ by this much.
pub const AGREEMENT_SLACK: f64 = 0.2;

#[derive(Clone, Debug, PartialEq, Serialize, thiserror::Error)]
#[serde(rename_all = "snake_case", tag = "reason")]
pub enum Refusal {
    #[error("{role} was not counted: {why}")]
    Missing { role: Role, why: Missing },
    /// No event of the recording has the role.
    #[error("{role} is not in the recording")]
    NotRecorded { role: Role },
    /// The same role stands for the whole and for parts of it: a sum would count twice.
    #[error("{role} is counted both as a whole and in parts")]
    MixedScopes { role: Role },
    /// It ran for a part of the time that stands for nothing.
    #[error("{role} ran for {:.1} % of the time, less than {:.0} %", ratio * 100.0, RUNNING_RATIO_MIN * 100.0)]
    RanTooLittle {
        role: Role,
        /// Part of the time.
        ratio: f64,
    },
    /// Cycles without the clock that counts them are no time.
    #[error("no clock was counted ({clock}), and cycles without it are no time")]
    NoClock { clock: Role },
    #[error("the clock {clock} stood still")]
    ClockStood { clock: Role },
    /// The clock had an impossible rate.
    #[error("the clock {clock} ran at {hz:.3e} Hz, which no such clock does")]
    ClockImplausible { clock: Role, hz: f64 },
    /// The counts that make a figure were not counted at the same time.
    #[error("{one} and {other} were not counted at the same time ({:.0} and {:.0} % of it)", ratios[0] * 100.0, ratios[1] * 100.0)]
    OtherGroup {
        one: Role,
        other: Role,
        /// Parts of the time that they ran.
        ratios: [f64; 2],
    },
    /// There were none, so they have no mean.
    #[error("there were no {what}")]
    NoRequests { what: String },
    /// Counts that a figure needs are not in the recording.
    #[error("{what} were not counted")]
    NotCounted { what: String },
    /// The maker does not say how much a queue holds.
    #[error("how many entries {queue} has is not published")]
    NotPublished { queue: Role },
    /// A queue held requests that never entered it.
    #[error("{occupancy} has a count, and nothing entered the queue")]
    OccupancyWithoutInserts { occupancy: Role },
    /// More is in the queue than it holds.
    #[error("{occupancy} says {entries:.1} entries on average, and the queue has {capacity}")]
    AboveCapacity {
        occupancy: Role,
        /// Entries, on average.
        entries: f64,
        capacity: u32,
    },
    /// More than any queue holds.
    #[error("{occupancy} says {entries:.3e} entries on average, and no queue has so many")]
    NoSuchQueue {
        occupancy: Role,
        /// Entries, on average.
        entries: f64,
    },
    /// Memory that answers sooner than a cache.
    #[error(
        "{role} would be {ns:.1} ns, and no memory answers within {MEMORY_NS_MIN:.0} ns: another PMU counted, or another event"
    )]
    BelowCache { role: Role, ns: f64 },
    /// A part is larger than what it is a part of.
    #[error("{part} is {ratio:.2} times {whole}, which it is a part of")]
    PartAboveWhole {
        part: String,
        whole: Role,
        ratio: f64,
    },
    /// What the parts leave of the whole has no name, so a share is a range.
    #[error("the parts are {:.0} % of {whole}; the rest has no name, so the share is between {:.0} and {:.0} %", covered * 100.0, low * 100.0, high * 100.0)]
    NamelessRest {
        whole: Role,
        /// The sum of the parts, as a part of the whole.
        covered: f64,
        /// The least that the share can be.
        low: f64,
        high: f64,
    },
    /// One box holds far more than the others: a hot line.
    #[error(
        "one box has {ratio:.1} times the median of {role}: a hot line, which does not stand for the others"
    )]
    HotBox {
        role: Role,
        /// How many times the median.
        ratio: f64,
    },
    /// The length of the window is not known.
    #[error("the length of the window is not known, so there is no rate")]
    NoTime,
    /// The core never stalled, so there is nothing to split.
    #[error("there were no stalled cycles")]
    NoStalls,
    /// Nothing was recorded of the idle machine.
    #[error(
        "the residence on the idle machine is not known: record one there, and give it with --idle"
    )]
    NotCalibrated,
    /// Requests to several targets, whose mix on the idle machine is another.
    #[error(
        "{role} is of several kinds of requests, and the idle machine had another mix of them: see its parts"
    )]
    OtherMix { role: Role },
    /// A difference of two counts that is below 0.
    #[error(
        "{what} is below 0: its parts were not counted at the same time, or do not belong together"
    )]
    Negative { what: String },
}

/// What sources say of the same lines.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Agreement {
    pub one: Role,
    pub other: Role,
    /// The first ÷ the second.
    pub ratio: f64,
    pub is_agreed: bool,
}

/// Compares two counts of the same lines.
pub fn agreement(one: (Role, &Figure), other: (Role, &Figure)) -> Option<Agreement> {
    let ratio = one.1.value / other.1.value;
    let slack = 1.0 + AGREEMENT_SLACK;
    ratio.is_finite().then(|| Agreement {
        one: one.0,
        other: other.0,
        ratio,
        is_agreed: (1.0 / slack..=slack).contains(&ratio),
    })
}

/// Refuses a latency of memory that no memory has.
///
/// # Errors
/// [`Refusal::BelowCache`].
pub fn plausible_latency(role: Role, ns: f64) -> Result<f64, Refusal> {
    if ns.is_finite() && ns >= MEMORY_NS_MIN {
        Ok(ns)
    } else {
        Err(Refusal::BelowCache { role, ns })
    }
}

/// The largest ÷ the median, of three boxes or more.
pub fn hottest(values: &[u64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    let (largest, median) = (sorted.last()?, sorted.get(sorted.len() / 2)?);
    (sorted.len() >= 3 && *median > 0).then(|| *largest as f64 / *median as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Notes 5: l3_xi_sampled_latency.ext_near asked for on the PMU of the core gave 0.54 a request, which is
    /// 5 ns by the factor of the cache's PMU.
    #[test]
    fn a_latency_of_the_wrong_pmu_is_refused() {
        let role: Role = "llc.reads.cxl-own.time-ns".parse().unwrap();
        let why = plausible_latency(role, 5.4).unwrap_err().to_string();
        assert!(why.contains("another PMU counted"), "{why}");
        assert_eq!(plausible_latency(role, 164.6), Ok(164.6));
        for odd in [f64::NAN, f64::INFINITY, -1.0] {
            assert!(plausible_latency(role, odd).is_err());
        }
    }

    #[test]
    fn a_hot_box_is_one_far_above_the_median() {
        assert_eq!(hottest(&[10, 10, 40]), Some(4.0));
        assert_eq!(hottest(&[10, 12, 11, 9]), Some(12.0 / 11.0));
        assert_eq!(
            hottest(&[1, 100]),
            None,
            "two boxes have no median to speak of"
        );
        assert_eq!(hottest(&[0, 0, 5]), None);
    }
}
