// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The last windows of what is being counted. One of them has not seen all sets of events, which take turns.

use std::collections::{BTreeSet, VecDeque};
use weir_core::window::{Count, CountScope};
use weir_core::{Nanos, Role, Window};
use weir_profile::WindowFile;
use weir_profile::window_file::Header;

/// Windows that are taken together: of a second each, each set of events has its turn several times.
pub const WINDOWS_TOGETHER: usize = 10;

pub struct LatestWindows {
    header: Header,
    windows: VecDeque<Window>,
    pub seen: usize,
}

impl LatestWindows {
    pub fn new(header: Header) -> LatestWindows {
        LatestWindows {
            header,
            windows: VecDeque::new(),
            seen: 0,
        }
    }

    /// One more. What cannot be counted stands in a recording's first window, and stays in the first of
    /// these.
    pub fn add(&mut self, window: Window) {
        self.seen += 1;
        self.windows.push_back(window);
        if self.windows.len() <= WINDOWS_TOGETHER {
            return;
        }
        if let (Some(old), Some(first)) = (self.windows.pop_front(), self.windows.front_mut()) {
            keep_reasons(old, first);
        }
    }

    pub fn file(&self) -> WindowFile {
        WindowFile {
            header: self.header.clone(),
            windows: self.windows.iter().cloned().collect(),
        }
    }

    /// When the last one ends, on the recording's clock.
    pub fn to(&self) -> Nanos {
        self.windows.back().map_or(Nanos(0), |window| window.to)
    }
}

fn keep_reasons(old: Window, next: &mut Window) {
    add_reasons(old.machine, &mut next.machine);
    for workload in old.workloads {
        let mut same = next.workloads.iter_mut();
        if let Some(found) = same.find(|other| other.id == workload.id) {
            add_reasons(workload.counts, &mut found.counts);
        }
    }
}

/// Counts that were never to be had, with their reasons.
fn add_reasons(old: Vec<Count>, next: &mut Vec<Count>) {
    let there: BTreeSet<(Role, CountScope)> = next.iter().map(|one| (one.role, one.of)).collect();
    let is_reason = |count: &Count| {
        let is_absent = count.value.is_err() && count.enabled_ns == Nanos(0);
        is_absent && !there.contains(&(count.role, count.of))
    };
    next.extend(old.into_iter().filter(is_reason));
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_core::Missing;
    use weir_core::window::CountProvenance;

    fn count(role: &str, value: Result<u64, Missing>) -> Count {
        let enabled_ns = Nanos(u64::from(value.is_ok()));
        Count {
            role: role.parse().unwrap(),
            of: CountScope::All,
            value,
            enabled_ns,
            running_ns: enabled_ns,
            provenance: CountProvenance::Documented,
        }
    }

    #[test]
    fn the_last_windows_stay_with_the_reasons_of_the_first() {
        let mut latest = LatestWindows::new(Header::new("a test"));
        for number in 0..3 * WINDOWS_TOGETHER as u64 {
            let mut machine = vec![count("tor.drd.cxl.inserts", Ok(number))];
            if number == 0 {
                let why = Missing::NotSupported("no such PMU".into());
                machine.push(count("m2pcie.any.any.clock", Err(why)));
            }
            latest.add(Window {
                to: Nanos(number),
                machine,
                ..Window::default()
            });
        }
        let file = latest.file();
        assert_eq!((latest.seen, file.windows.len()), (30, WINDOWS_TOGETHER));
        assert_eq!(latest.to(), Nanos(29));
        let counts: Vec<usize> = file.windows.iter().map(|w| w.machine.len()).collect();
        assert_eq!(counts, [2, 1, 1, 1, 1, 1, 1, 1, 1, 1]);
        assert_eq!(file.windows[0].machine[0].value, Ok(20));
    }
}
