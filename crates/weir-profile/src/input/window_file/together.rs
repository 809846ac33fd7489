// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Windows of a long recording, taken together so that all of them fit in memory: of a day two, four, eight
//! to one. Counts and times are sums. Windows with a hole between them stay apart.

use std::collections::BTreeMap;
use weir_core::window::{Count, CountScope, WorkloadCounts};
use weir_core::{Missing, Nanos, Role, Window};

/// Counts that are kept, of 64 bytes each: 512 MB. A day of 86 400 windows with 630 counts each has 54
/// million. Before windows were taken together, such a file was refused (docs/evidence/phases.md).
pub(super) const COUNTS_KEPT_MAX: usize = 8_000_000;
/// A hole is longer than this part of the window before it.
const HOLE_PART: u64 = 10;

/// Windows, with so many of the file in each.
pub(super) struct Together {
    windows: Vec<Window>,
    counts: usize,
    counts_max: usize,
    each: usize,
    in_last: usize,
}

impl Together {
    /// None so far. With more counts than this, windows are taken together.
    pub(super) fn new(counts_max: usize) -> Together {
        Together {
            windows: Vec::new(),
            counts: 0,
            counts_max,
            each: 1,
            in_last: 0,
        }
    }

    pub(super) fn add(&mut self, window: Window) {
        let room = self.in_last < self.each;
        match self
            .windows
            .last_mut()
            .filter(|last| room && follows(last, &window))
        {
            Some(last) => {
                let before = counts_of(last);
                join(last, window);
                self.counts += counts_of(last) - before;
                self.in_last += 1;
            }
            None => {
                self.counts += counts_of(&window);
                self.windows.push(without_room(window));
                self.in_last = 1;
            }
        }
        if self.counts > self.counts_max {
            self.halve();
        }
    }

    fn halve(&mut self) {
        self.each *= 2;
        let all = std::mem::take(&mut self.windows);
        self.windows.reserve(all.len() / 2 + 1);
        let mut is_single = false;
        for window in all {
            let last = self.windows.last_mut();
            match last.filter(|last| is_single && follows(last, &window)) {
                Some(last) => {
                    join(last, window);
                    is_single = false;
                }
                None => {
                    self.windows.push(window);
                    is_single = true;
                }
            }
        }
        self.in_last = self.each;
        self.counts = self.windows.iter().map(counts_of).sum();
        // Windows that do not follow each other cannot be fewer.
        self.counts_max = self.counts_max.max(self.counts * 2);
    }

    pub(super) fn last(&self) -> Option<&Window> {
        self.windows.last()
    }

    /// All of them, and how many of the file are in each.
    pub(super) fn into_windows(self) -> (Vec<Window>, usize) {
        (self.windows, self.each)
    }
}

/// The same, without memory for more counts: readers do not know before how many a window has, and up to half
/// of what they ask for is left over.
pub(super) fn without_room(mut window: Window) -> Window {
    window.machine.shrink_to_fit();
    window.workloads.shrink_to_fit();
    for workload in &mut window.workloads {
        workload.counts.shrink_to_fit();
    }
    window
}

fn counts_of(window: &Window) -> usize {
    let of_workloads: usize = window.workloads.iter().map(|one| one.counts.len()).sum();
    window.machine.len() + of_workloads + window.unassigned.len()
}

fn follows(before: &Window, after: &Window) -> bool {
    let Some(length) = before.length().filter(|_| after.length().is_some()) else {
        return false;
    };
    let hole = after.from.0.checked_sub(before.to.0);
    hole.is_some_and(|hole| hole <= length.0 / HOLE_PART)
}

/// Adds a window to the one before it.
fn join(window: &mut Window, next: Window) {
    window.to = next.to;
    join_counts(&mut window.machine, next.machine);
    for workload in next.workloads {
        join_workload(&mut window.workloads, workload);
    }
    for event in next.unassigned {
        let mut known = window.unassigned.iter_mut();
        let is_it = |one: &&mut weir_core::window::UnassignedEvent| {
            one.event == event.event && one.workload == event.workload && one.of == event.of
        };
        match known.find(is_it) {
            Some(known) => known.value = sum(known.value.clone(), event.value),
            None => window.unassigned.push(event),
        }
    }
}

fn join_workload(all: &mut Vec<WorkloadCounts>, next: WorkloadCounts) {
    match all.iter_mut().find(|one| one.id == next.id) {
        Some(known) => join_counts(&mut known.counts, next.counts),
        None => all.push(next),
    }
}

fn join_counts(counts: &mut Vec<Count>, next: Vec<Count>) {
    let is_same = |(one, other): (&Count, &Count)| one.role == other.role && one.of == other.of;
    if counts.len() == next.len() && counts.iter().zip(&next).all(is_same) {
        for (count, next) in counts.iter_mut().zip(next) {
            join_count(count, next);
        }
        return;
    }
    let places = counts.iter().enumerate();
    let mut places: BTreeMap<(Role, CountScope), usize> = places
        .map(|(place, count)| ((count.role, count.of), place))
        .collect();
    for next in next {
        match places.get(&(next.role, next.of)) {
            Some(place) => join_count(&mut counts[*place], next),
            None => {
                places.insert((next.role, next.of), counts.len());
                counts.push(next);
            }
        }
    }
}

/// A window in which it had no counter counts as the other did: its value stands for all its time.
fn join_count(count: &mut Count, next: Count) {
    let (first, second) = (count.enabled_ns, next.enabled_ns);
    let value = std::mem::replace(&mut count.value, Ok(0));
    count.enabled_ns = Nanos(first.0.saturating_add(second.0));
    count.running_ns = Nanos(count.running_ns.0.saturating_add(next.running_ns.0));
    count.provenance = count.provenance.max(next.provenance);
    count.value = match (value, next.value) {
        (Ok(value), Err(Missing::NotYetRead)) if second.0 > 0 && first.0 > 0 => {
            stretched(value, first, count.enabled_ns)
        }
        (Err(Missing::NotYetRead), Ok(value)) if first.0 > 0 && second.0 > 0 => {
            stretched(value, second, count.enabled_ns)
        }
        (value, next) => sum(value, next),
    };
}

fn stretched(value: u64, of: Nanos, to: Nanos) -> Result<u64, Missing> {
    let whole = u128::from(value) * u128::from(to.0) / u128::from(of.0);
    u64::try_from(whole).map_err(|_| too_large())
}

fn sum(a: Result<u64, Missing>, b: Result<u64, Missing>) -> Result<u64, Missing> {
    match (a, b) {
        (Ok(a), Ok(b)) => a.checked_add(b).ok_or_else(too_large),
        // A reason that says more than that nothing was read.
        (Err(Missing::NotYetRead), Err(why)) => Err(why),
        (Err(why), _) | (_, Err(why)) => Err(why),
    }
}

fn too_large() -> Missing {
    Missing::Lost("a sum of windows does not fit 64 bits".into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counts::Counts;
    use crate::counts::tests::count;
    use proptest::prelude::*;
    use weir_core::WorkloadId;

    const SECOND: u64 = 1_000_000_000;

    fn window(at: u64, value: u64) -> Window {
        Window {
            from: Nanos(at * SECOND),
            to: Nanos((at + 1) * SECOND),
            machine: vec![count("tor.drd.cxl.inserts", value)],
            workloads: vec![WorkloadCounts {
                id: WorkloadId::new("/a"),
                counts: vec![count("sq.drd.cxl.lines", value)],
            }],
            ..Window::default()
        }
    }

    fn together(windows: Vec<Window>, counts_max: usize) -> (Vec<Window>, usize) {
        let mut all = Together::new(counts_max);
        windows.into_iter().for_each(|window| all.add(window));
        all.into_windows()
    }

    fn total(windows: &[Window]) -> u64 {
        let counts = windows.iter().flat_map(|window| &window.machine);
        counts.map(|count| *count.value.as_ref().unwrap()).sum()
    }

    #[test]
    fn windows_that_follow_each_other_become_fewer_and_lose_nothing() {
        let all: Vec<Window> = (0..1000).map(|at| window(at, at)).collect();
        let (windows, each) = together(all.clone(), 100);
        assert!(
            windows.len() <= 50 && each == 32,
            "{} of {each}",
            windows.len()
        );
        assert_eq!(total(&windows), total(&all));
        assert_eq!(
            (windows[0].from, windows[0].to),
            (Nanos(0), Nanos(32 * SECOND))
        );
        assert_eq!(windows.last().unwrap().to, Nanos(1000 * SECOND));
        assert_eq!(windows[0].machine[0].enabled_ns, Nanos(32 * SECOND));
        assert_eq!(together(all.clone(), 2000), (all, 1));
    }

    #[test]
    fn a_hole_and_windows_without_length_stay_apart() {
        let holes: Vec<Window> = (0..100).map(|at| window(at * 2, 1)).collect();
        assert_eq!(together(holes.clone(), 20).0, holes);
        let timeless = Window {
            to: Nanos(0),
            ..window(0, 1)
        };
        assert_eq!(together(vec![timeless; 30], 20).0.len(), 30);
    }

    #[test]
    fn a_window_without_a_counter_counts_as_the_other_did() {
        let mut none = window(1, 0);
        none.machine[0].value = Err(Missing::NotYetRead);
        none.machine[0].running_ns = Nanos(0);
        let (windows, _) = together(vec![window(0, 30), none, window(2, 50)], 3);
        let counts: Vec<&Count> = windows.iter().flat_map(|window| &window.machine).collect();
        assert_eq!(counts[0].value, Ok(60));
        let mut lost = window(1, 0);
        lost.machine[0].value = Err(Missing::Lost("it stood".into()));
        let (windows, _) = together(vec![window(0, 30), lost], 3);
        assert!(matches!(windows[0].machine[0].value, Err(Missing::Lost(_))));
    }

    proptest! {
        /// Figures are made of sums over windows, and these stay.
        #[test]
        fn sums_are_those_of_all_windows(values in prop::collection::vec(0u64..1 << 40, 1..60), max in 4usize..80) {
            let all: Vec<Window> = values.iter().enumerate().map(|(at, value)| {
                let mut made = window(at as u64, *value);
                if value % 5 == 0 {
                    made.machine.push(count("tor.any.any.inserts", *value));
                }
                made
            }).collect();
            let sums = |windows: &[Window]| {
                let counts = Counts::new(windows.iter().flat_map(|window| &window.machine), None);
                let roles: Vec<Role> = counts.roles().collect();
                roles.iter().map(|role| counts.get(*role).unwrap().value).collect::<Vec<f64>>()
            };
            let (windows, _) = together(all.clone(), max);
            prop_assert_eq!(sums(&windows), sums(&all));
        }
    }
}
