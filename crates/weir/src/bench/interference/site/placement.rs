// SPDX-License-Identifier: Apache-2.0 OR MIT
//! On which cores the host runs the CPUs of a virtual machine. It moves them within seconds to minutes, and
//! CPUs that share a cache share its way to memory: cells of two placements are cells of two machines. Round
//! trips between CPUs show it (`weir_bench::round_trip`). Pure.

use std::collections::BTreeMap;
use weir_report::interference::{APART_RATIO, ROUND_TRIP_FACT};
use weir_report::results::Caveat;

/// Cells do not use a placement that fewer than this part of the repetitions had.
///
/// Cells of several placements cannot be put together: loads beside loads keep 0.67 of their rate where the
/// CPUs share a cache, and 0.97 where they do not, and the host changes between the two every 4 to 270 s
/// (docs/evidence/interference-bench.md). Neither streams alone nor steal time show it.
const SHARE_MIN: f64 = 1.0 / 3.0;

/// The placements of a run, by the round trips of its repetitions.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Placements {
    /// Round trips of each, ascending; the nearest first.
    groups: Vec<Vec<f64>>,
}

impl Placements {
    /// The placements that these round trips show: a gap of [`APART_RATIO`] or more between two of them parts
    /// two placements.
    pub fn of(round_trips_ns: impl Iterator<Item = f64>) -> Placements {
        let mut all: Vec<f64> = round_trips_ns.collect();
        all.sort_by(f64::total_cmp);
        let groups = all.chunk_by(|near, far| *far < APART_RATIO * near);
        Placements {
            groups: groups.map(<[f64]>::to_vec).collect(),
        }
    }

    /// The nearest that is frequent enough, else the most frequent.
    fn chosen(&self) -> Option<&Vec<f64>> {
        let all: usize = self.groups.iter().map(Vec::len).sum();
        let mut frequent = self.groups.iter();
        let frequent = frequent.find(|group| group.len() as f64 >= SHARE_MIN * all as f64);
        frequent.or_else(|| self.groups.iter().max_by_key(|group| group.len()))
    }

    /// Whether a repetition with this round trip had the placement that cells use. Where no round trip is
    /// known, every repetition counts.
    pub fn has(&self, round_trip_ns: Option<f64>) -> bool {
        let (Some(ns), Some(chosen)) = (round_trip_ns, self.chosen()) else {
            return true;
        };
        chosen.first().is_some_and(|least| *least <= ns)
            && chosen.last().is_some_and(|most| ns <= *most)
    }

    /// Least, median and greatest round trip of each, the nearest first.
    pub fn all(&self) -> impl Iterator<Item = [f64; 3]> {
        let of = |group: &Vec<f64>| {
            let at = |place: usize| group.get(place).copied().unwrap_or(0.0);
            [at(0), at(group.len() / 2), at(group.len() - 1)]
        };
        self.groups.iter().map(of)
    }

    /// Median round trip of the repetitions that cells use.
    pub fn round_trip_ns(&self) -> Option<f64> {
        let chosen = self.chosen()?;
        chosen.get(chosen.len() / 2).copied()
    }

    /// All that were seen, for people.
    pub fn words(&self) -> String {
        let of = |group: &Vec<f64>| {
            let (least, most) = (group.first().unwrap_or(&0.0), group.last().unwrap_or(&0.0));
            format!("{least:.0} to {most:.0} ns in {} repetitions", group.len())
        };
        self.groups.iter().map(of).collect::<Vec<_>>().join(", ")
    }

    /// Adds to the facts of the machine the placement that cells use, and all that were seen.
    pub fn facts(&self, facts: &mut BTreeMap<String, String>) {
        if let Some(ns) = self.round_trip_ns() {
            facts.insert(ROUND_TRIP_FACT.into(), format!("{ns:.0}"));
            facts.insert("cpu_round_trips_seen".into(), self.words());
        }
    }

    /// What is to be said where the CPUs were moved. `lost` repetitions were under way meanwhile.
    pub fn caveat(&self, lost: usize) -> Option<Caveat> {
        if self.groups.len() < 2 && lost == 0 {
            return None;
        }
        let kept = self.round_trip_ns().unwrap_or(0.0);
        Some(Caveat::new(
            "placement of virtual CPUs",
            format!(
                "the host moved them: a line took {} between them and back, and {lost} repetitions were under way \
                 meanwhile; cells are of the repetitions near {kept:.0} ns",
                self.words()
            ),
        ))
    }
}

/// The round trip of a repetition, of those before, between and after its measurements. Nothing if CPUs were
/// moved meanwhile.
pub fn steady(round_trips_ns: &[f64]) -> Option<f64> {
    let mut all = round_trips_ns.to_vec();
    all.sort_by(f64::total_cmp);
    let (least, most) = (*all.first()?, *all.last()?);
    (most < APART_RATIO * least).then(|| all[all.len() / 2])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(round_trips_ns: &[f64]) -> Placements {
        Placements::of(round_trips_ns.iter().copied())
    }

    #[test]
    fn cells_are_of_the_nearest_placement_that_is_frequent() {
        let mixed = of(&[380.0, 90.0, 411.0, 80.0, 391.0]);
        assert_eq!(mixed.round_trip_ns(), Some(90.0));
        assert!(mixed.has(Some(80.0)) && !mixed.has(Some(380.0)));
        assert_eq!(
            mixed.words(),
            "80 to 90 ns in 2 repetitions, 380 to 411 ns in 3 repetitions"
        );
        // Once near, else far: near is too rare.
        let far = of(&[380.0, 90.0, 411.0, 385.0, 391.0]);
        assert!(!far.has(Some(90.0)) && far.has(Some(411.0)));
        assert_eq!(far.round_trip_ns(), Some(391.0));
        let many = of(&[10.0, 20.0, 40.0, 80.0, 81.0]);
        assert_eq!(many.round_trip_ns(), Some(81.0));
        let said = mixed.caveat(3).unwrap().reason;
        assert!(
            said.contains("3 repetitions were under way") && said.contains("near 90 ns"),
            "{said}"
        );
    }

    #[test]
    fn where_nothing_moved_nothing_is_said() {
        let still = of(&[80.0, 90.0, 110.0, 100.0]);
        assert_eq!(still.caveat(0), None);
        assert!(still.has(Some(110.0)));
        assert!(still.caveat(1).is_some());
        // This is no virtual machine: there are no round trips, and all repetitions count.
        assert!(of(&[]).has(None) && of(&[]).round_trip_ns().is_none());
    }

    #[test]
    fn a_repetition_in_which_cpus_moved_has_no_round_trip() {
        assert_eq!(steady(&[90.0, 80.0, 81.0, 90.0]), Some(90.0));
        assert_eq!(steady(&[90.0, 80.0, 81.0, 380.0]), None);
        assert_eq!(steady(&[]), None);
    }
}
