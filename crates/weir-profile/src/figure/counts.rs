// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Counts of one subject, one of each role: summed over sockets, CPUs, boxes and windows, with the quality of
//! the weakest.

use crate::figure::{Figure, Unit};
use crate::quality::{self, Refusal};
use crate::stages::{Capacities, contradiction};
use std::collections::BTreeMap;
use std::mem::discriminant;
use weir_core::window::role::{Quantity, Stage};
use weir_core::window::{Count, CountProvenance, CountScope};
use weir_core::{Missing, Nanos, Role};

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
    /// Rates of the single counts, the least and the most, each second.
    rates: Option<[f64; 2]>,
}

#[derive(Clone, Debug, Default)]
pub struct Counts {
    totals: BTreeMap<Role, Total>,
    length: Option<Nanos>,
    /// Counts that others contradict. No figure is made of them.
    refused: BTreeMap<Role, Refusal>,
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
                rates: None,
            });
            total.add(count);
        }
        let mut counts = Counts {
            totals,
            length,
            refused: BTreeMap::new(),
        };
        // Clocks first: queues are held against them.
        let clocks = counts
            .roles()
            .filter(|role| role.quantity == Quantity::Clock);
        for role in clocks.collect::<Vec<_>>() {
            let why = counts.no_such_clock(role);
            counts.refused.extend(why.map(|why| (role, why)));
        }
        counts.within(&Capacities::new())
    }

    /// The same where it is known how much some queues hold.
    #[must_use]
    pub fn within(mut self, capacities: &Capacities) -> Self {
        let contradiction = |role| Some((role, contradiction(&self, role, capacities)?));
        let refused: Vec<_> = self.roles().filter_map(contradiction).collect();
        self.refused.extend(refused);
        self
    }

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
    /// It is not there, ran too little, would be counted twice, or cannot be.
    pub fn get(&self, role: Role) -> Result<Figure, Refusal> {
        let figure = self.unchecked(role)?;
        match self.refused.get(&role) {
            Some(why) => Err(why.clone()),
            None => Ok(figure),
        }
    }

    fn unchecked(&self, role: Role) -> Result<Figure, Refusal> {
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

    /// Why a clock cannot have run so. Each count of it must be possible: a clock that stood for half of the
    /// time has half of a rate, which may be another clock's. That of a core stands while the core is halted.
    fn no_such_clock(&self, clock: Role) -> Option<Refusal> {
        let ticks = self.unchecked(clock).ok()?.value;
        let per_sec = |ns: f64| ticks / (ns / 1e9);
        let [least, most] = match clock.stage {
            Stage::Core => {
                let time = self.unchecked(clock.with(Quantity::TimeNs)).ok()?;
                let hz = (time.value > 0.0).then(|| per_sec(time.value))?;
                [quality::CLOCK_HZ[0], hz]
            }
            _ if ticks <= 0.0 => return Some(Refusal::ClockStood { clock }),
            _ => {
                let all = per_sec(self.enabled_ns(clock)?);
                let [least, most] = self.totals.get(&clock)?.rates.unwrap_or([all; 2]);
                [least.min(all), most.max(all)]
            }
        };
        if least <= 0.0 {
            return Some(Refusal::ClockStood { clock });
        }
        let hz = if most > quality::CLOCK_HZ[1] {
            most
        } else {
            least
        };
        let is_possible = (quality::CLOCK_HZ[0]..=quality::CLOCK_HZ[1]).contains(&hz);
        (!is_possible).then_some(Refusal::ClockImplausible { clock, hz })
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
                self.rates = rates(self.rates, count, *value);
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

/// The least and the most rate, with that of one more count, if it ran for so much of its time that it stands
/// for the rest.
fn rates(before: Option<[f64; 2]>, count: &Count, value: u64) -> Option<[f64; 2]> {
    let [enabled, running] = [count.enabled_ns, count.running_ns].map(|ns| ns.0 as f64);
    if enabled <= 0.0 || running < enabled * quality::RUNNING_RATIO_MIN {
        return before;
    }
    let rate = value as f64 / (enabled / 1e9);
    let [least, most] = before.unwrap_or([rate; 2]);
    Some([least.min(rate), most.max(rate)])
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::stages::stages;

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
        let clock = count("tor.any.any.clock", 2_000_000_000);
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

    fn refused(counts: &Counts, text: &str) -> bool {
        counts.get(role(text)).is_err()
    }

    #[test]
    fn a_clock_that_no_clock_is_takes_all_with_it_that_is_made_of_it() {
        const CLOCK: &str = "tor.any.any.clock";
        let queue = ["tor.drd.cxl.inserts", "tor.drd.cxl.occupancy"];
        for ticks in [0, 3607, 90_000_000_000] {
            let counts = counts(&[(CLOCK, ticks), (queue[0], 5_000_000), (queue[1], 1 << 39)]);
            assert!(refused(&counts, CLOCK), "{ticks}");
            let stages = stages(&counts, None, &Capacities::new());
            let figures = &stages.queues[0];
            let whys = [&figures.entries, &figures.pressure, &figures.residence_ns];
            for why in whys.map(|answer| answer.as_ref().unwrap_err().to_string()) {
                assert!(why.contains(CLOCK), "{ticks}: {why}");
            }
        }
        // It stood in one of two windows: half of its rate is another clock's.
        let windows = [count(CLOCK, 2_000_000_000), count(CLOCK, 0)];
        assert!(refused(&Counts::new(&windows, None), CLOCK));
        // What had no counter in a window, or hardly one, says nothing of the clock.
        let mut short = count(CLOCK, 0);
        short.running_ns = Nanos(1_000_000);
        let windows = [count(CLOCK, 2_000_000_000), short];
        assert!(!refused(&Counts::new(&windows, None), CLOCK));
        // A core's clock stands while the core is halted.
        let core = [
            ("core.any.any.clock", 3607),
            ("core.any.any.time-ns", 1_000_000_000),
        ];
        assert!(!refused(&counts(&core), "core.any.any.clock"));
        let timeless = [core[0], ("core.any.any.time-ns", 0)];
        assert!(!refused(&counts(&timeless), "core.any.any.clock"));
    }

    #[test]
    fn a_queue_that_no_queue_is_gives_no_figure_where_the_clock_is_right() {
        let [inserts, occupancy] = ["tor.drd.cxl.inserts", "tor.drd.cxl.occupancy"];
        let of = |came, held| {
            let clock = ("tor.any.any.clock", 2_000_000_000);
            counts(&[clock, (inserts, came), (occupancy, held)])
        };
        // Too many at once, too early an answer, nothing came.
        for (came, held) in [(1 << 30, 1 << 60), (1 << 30, 1 << 33), (0, 7)] {
            let counts = of(came, held);
            assert!(refused(&counts, occupancy), "{came} {held}");
            assert!(!refused(&counts, inserts), "{came} {held}");
        }
        // 64 at once are possible, but not where 32 have room.
        let sound = of(1 << 28, 64 * 2_000_000_000);
        assert!(!refused(&sound, occupancy));
        let room = Capacities::from([(role(occupancy), 32)]);
        assert!(refused(&sound.within(&room), occupancy));
        let busy = [
            ("tor.any.any.clock", 2_000_000_000),
            ("tor.drd.cxl.busy", 3_000_000_000),
        ];
        assert!(refused(&counts(&busy), "tor.drd.cxl.busy"));
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
