// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Counts of one subject, one of each role: summed over sockets, CPUs, boxes and windows, with the quality of
//! the weakest.

use crate::figure::{Figure, Unit};
use crate::quality::{self, Refusal};
use std::collections::BTreeMap;
use std::mem::discriminant;
use weir_core::window::role::Quantity;
use weir_core::window::{Count, CountProvenance, CountScope};
use weir_core::{Missing, Nanos, Role};

/// The sum of a role's counts.
#[derive(Clone, Debug)]
struct Total {
    value: Result<u128, Missing>,
    enabled_ns: u128,
    running_ns: u128,
    /// Part of `enabled_ns` of counts that had no counter at all, and whether there are others.
    without_counter_ns: u128,
    is_counted: bool,
    provenance: CountProvenance,
    is_mixed: bool,
    kind: CountScope,
    boxes: BTreeMap<CountScope, u64>,
}

/// Counts by role.
#[derive(Clone, Debug, Default)]
pub struct Counts {
    totals: BTreeMap<Role, Total>,
    length: Option<Nanos>,
}

impl Counts {
    /// Sums counts of windows that are `length` long together, where that is known.
    pub fn new<'a>(counts: impl IntoIterator<Item = &'a Count>, length: Option<Nanos>) -> Self {
        let mut totals: BTreeMap<Role, Total> = BTreeMap::new();
        for count in counts {
            let total = totals.entry(count.role).or_insert_with(|| Total {
                value: Ok(0),
                enabled_ns: 0,
                running_ns: 0,
                without_counter_ns: 0,
                is_counted: false,
                provenance: count.provenance,
                is_mixed: false,
                kind: count.of,
                boxes: BTreeMap::new(),
            });
            total.add(count);
        }
        Counts { totals, length }
    }

    /// The roles that were recorded.
    pub fn roles(&self) -> impl Iterator<Item = Role> {
        self.totals.keys().copied()
    }

    /// How long the windows are together.
    pub fn length(&self) -> Option<Nanos> {
        self.length
    }

    /// A count as a figure.
    ///
    /// # Errors
    /// It is not there, ran too little, or would be counted twice.
    pub fn get(&self, role: Role) -> Result<Figure, Refusal> {
        let Some(total) = self.totals.get(&role) else {
            return Err(Refusal::NotRecorded { role });
        };
        if total.is_mixed {
            return Err(Refusal::MixedScopes { role });
        }
        let value = total
            .extrapolated()
            .map_err(|why| Refusal::Missing { role, why })?;
        let running = total.running_ratio();
        if let Some(ratio) = running.filter(|ratio| *ratio < quality::RUNNING_RATIO_MIN) {
            return Err(Refusal::RanTooLittle { role, ratio });
        }
        let unit = match role.quantity {
            Quantity::Loads | Quantity::Stores | Quantity::Instructions => Unit::Instructions,
            Quantity::Lines => Unit::Lines,
            Quantity::TimeNs => Unit::Ns,
            Quantity::Clock | Quantity::Stalls | Quantity::Busy | Quantity::Full => Unit::Cycles,
            Quantity::Occupancy => Unit::Cycles,
            _ => Unit::Requests,
        };
        Ok(Figure::new(value, unit, total.provenance, running))
    }

    /// The time for which a role was to be counted, over all of its counters.
    pub fn enabled_ns(&self, role: Role) -> Option<f64> {
        let enabled = self.totals.get(&role)?.enabled_ns;
        (enabled > 0).then_some(enabled as f64)
    }

    /// Two counts that make one figure.
    ///
    /// # Errors
    /// One is not there, or they did not count at the same time.
    pub fn pair(&self, one: Role, other: Role) -> Result<(Figure, Figure), Refusal> {
        let (a, b) = (self.get(one)?, self.get(other)?);
        let ratios = [a.running_ratio, b.running_ratio].map(|ratio| ratio.unwrap_or(1.0));
        if (ratios[0] - ratios[1]).abs() > quality::GROUP_SLACK {
            return Err(Refusal::OtherGroup { one, other, ratios });
        }
        Ok((a, b))
    }

    /// A count with the clock in whose cycles it is, which must have run at least as long: a clock that runs
    /// all the time stands for any part of it.
    ///
    /// # Errors
    /// One is not there, or the clock ran for less of the time.
    pub fn with_clock(&self, one: Role, clock: Role) -> Result<(Figure, Figure), Refusal> {
        let (a, b) = (self.get(one)?, self.get(clock)?);
        match (a.running_ratio, b.running_ratio) {
            (Some(part), Some(whole)) if whole >= part => Ok((a, b)),
            _ => self.pair(one, clock),
        }
    }

    /// Refuses a role of which one box has far more than the others.
    ///
    /// # Errors
    /// [`Refusal::HotBox`].
    pub fn even(&self, role: Role) -> Result<(), Refusal> {
        let boxes = self.totals.get(&role).map(|total| &total.boxes);
        let values: Vec<u64> = boxes
            .into_iter()
            .flatten()
            .map(|(_, value)| *value)
            .collect();
        match quality::hottest(&values) {
            Some(ratio) if ratio > quality::HOT_BOX => Err(Refusal::HotBox { role, ratio }),
            _ => Ok(()),
        }
    }
}

impl Total {
    fn add(&mut self, count: &Count) {
        self.is_mixed |= discriminant(&self.kind) != discriminant(&count.of);
        self.enabled_ns += u128::from(count.enabled_ns.0);
        self.running_ns += u128::from(count.running_ns.0);
        self.provenance = self.provenance.max(count.provenance);
        match (&mut self.value, &count.value) {
            (Ok(sum), Ok(value)) => {
                self.is_counted = true;
                *sum += u128::from(*value);
                if matches!(count.of, CountScope::Box(_)) {
                    let of_box = self.boxes.entry(count.of).or_default();
                    *of_box = of_box.saturating_add(*value);
                }
            }
            (Ok(_), Err(Missing::NotYetRead)) if count.enabled_ns.0 > 0 => {
                self.without_counter_ns += u128::from(count.enabled_ns.0);
            }
            (Ok(_), Err(why)) => self.value = Err(why.clone()),
            (Err(_), _) => {}
        }
    }

    /// The sum, and in proportion to it what boxes and windows without a counter would have counted: lines
    /// are hashed over boxes.
    fn extrapolated(&self) -> Result<f64, Missing> {
        let sum = self.value.clone()? as f64;
        match self.without_counter_ns {
            0 => Ok(sum),
            _ if !self.is_counted => Err(Missing::NotYetRead),
            without => Ok(sum * self.enabled_ns as f64 / (self.enabled_ns - without) as f64),
        }
    }

    fn running_ratio(&self) -> Option<f64> {
        let ratio = self.running_ns as f64 / self.enabled_ns as f64;
        (self.enabled_ns > 0).then(|| ratio.min(1.0))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A count that ran all the time.
    pub fn count(role: &str, value: u64) -> Count {
        Count {
            role: role.parse().unwrap(),
            of: CountScope::All,
            value: Ok(value),
            enabled_ns: Nanos(1_000_000_000),
            running_ns: Nanos(1_000_000_000),
            provenance: CountProvenance::Documented,
        }
    }

    /// Counts of one window of a second.
    pub fn counts(all: &[(&str, u64)]) -> Counts {
        let all: Vec<Count> = all
            .iter()
            .map(|(role, value)| count(role, *value))
            .collect();
        Counts::new(&all, Some(Nanos(1_000_000_000)))
    }

    fn role(text: &str) -> Role {
        text.parse().unwrap()
    }

    #[test]
    fn counts_add_up_with_the_quality_of_the_weakest() {
        let mut half = count("sq.drd.cxl.lines", u64::MAX);
        half.running_ns = Nanos(500_000_000);
        half.provenance = CountProvenance::Raw;
        half.of = CountScope::Socket(0);
        let mut other = half.clone();
        other.of = CountScope::Socket(1);
        let counts = Counts::new([&half, &other], None);
        let sum = counts.get(half.role).unwrap();
        assert_eq!(sum.value, 2.0 * u64::MAX as f64);
        assert_eq!(sum.quality(), "counted (raw), 50 % of the time");
        other.of = CountScope::All;
        let why = Counts::new([&half, &other], None)
            .get(half.role)
            .unwrap_err();
        assert!(matches!(why, Refusal::MixedScopes { .. }), "{why}");
    }

    #[test]
    fn what_did_not_count_gives_no_figure() {
        let mut little = count("sq.drd.cxl.lines", 7);
        little.running_ns = Nanos(40_000_000);
        let mut lost = count("sq.rfo.cxl.lines", 7);
        lost.value = Err(Missing::Lost("no counter".into()));
        let counts = Counts::new([&little, &lost], None);
        let why = |text| counts.get(role(text)).unwrap_err().to_string();
        assert!(why("sq.drd.cxl.lines").contains("ran for 4.0 % of the time"));
        assert!(why("sq.rfo.cxl.lines").contains("no counter"));
        assert!(why("sq.pf.cxl.lines").contains("not in the recording"));
    }

    #[test]
    fn boxes_that_counted_stand_for_those_that_did_not() {
        let of = |place, value| Count {
            of: CountScope::Box(place),
            value,
            ..count("tor.drd.cxl.inserts", 0)
        };
        let none = |place| Count {
            running_ns: Nanos(0),
            ..of(place, Err(Missing::NotYetRead))
        };
        let (one, other) = (of(0, Ok(30)), of(2, Ok(50)));
        let counts = Counts::new([&one, &none(1), &other, &none(3)], None);
        let sum = counts.get(one.role).unwrap();
        assert_eq!((sum.value, sum.running_ratio), (160.0, Some(0.5)));
        let why = Counts::new([&none(1)], None).get(one.role).unwrap_err();
        assert!(why.to_string().contains("not yet read"), "{why}");
        let unknown = Count {
            enabled_ns: Nanos(0),
            ..none(1)
        };
        assert!(Counts::new([&one, &unknown], None).get(one.role).is_err());
    }

    #[test]
    fn a_clock_stands_for_a_part_of_its_time_and_not_for_more() {
        let mut half = count("tor.drd.cxl.occupancy", 7);
        half.running_ns = Nanos(500_000_000);
        let clock = count("tor.any.any.clock", 7);
        let mut less = clock.clone();
        less.running_ns = Nanos(200_000_000);
        assert!(
            Counts::new([&half, &clock], None)
                .with_clock(half.role, clock.role)
                .is_ok()
        );
        assert!(
            Counts::new([&half, &less], None)
                .with_clock(half.role, clock.role)
                .is_err()
        );
    }

    #[test]
    fn counts_of_other_groups_make_no_figure_together() {
        let mut half = count("tor.drd.cxl.occupancy", 7);
        half.running_ns = Nanos(500_000_000);
        let whole = count("tor.drd.cxl.inserts", 7);
        let counts = Counts::new([&half, &whole], None);
        let why = counts.pair(half.role, whole.role).unwrap_err().to_string();
        assert!(
            why.contains("not counted at the same time (50 and 100 % of it)"),
            "{why}"
        );
    }

    #[test]
    fn a_hot_line_is_noticed() {
        let boxes: Vec<Count> = [5, 6, 5, 90]
            .iter()
            .enumerate()
            .map(|(place, value)| Count {
                of: CountScope::Box(u32::try_from(place).unwrap()),
                ..count("tor.drd.cxl.occupancy", *value)
            })
            .collect();
        let role = role("tor.drd.cxl.occupancy");
        assert!(Counts::new(&boxes, None).even(role).is_err());
        assert!(Counts::new(&boxes[..3], None).even(role).is_ok());
    }
}
