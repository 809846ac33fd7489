// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Lines of device memory that each emulated CPU has filled, and those of them that it filled in order to
//! store to them: counts that a real CPU's PMU has and the device has not. They lie in the emulated
//! device's BAR, behind all registers of the map, where no driver reads; the testbed's module
//! `weir_guest_pmu` shows them as events of perf.

use std::sync::atomic::{AtomicU64, Ordering};
use weir_hw::access_counters::Bar;
use weir_hw::access_counters::regmap::EMULATED_BAR_BYTES;

pub const CPU_COUNT_MAX: usize = 64;
/// From one CPU's words to the next: a line of the host, as each is written by a thread of its own.
pub const STRIDE_BYTES: u64 = 64;
/// BAR offset of the first CPU's words.
pub const OFFSET_BYTES: u64 = EMULATED_BAR_BYTES - CPU_COUNT_MAX as u64 * STRIDE_BYTES;

/// From a CPU's word of all fills to that of the ones for a store.
pub const STORES_BYTES: u64 = 8;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CoreFills {
    /// All lines.
    pub lines: u64,
    /// Those of them that were fetched by a store.
    pub store_lines: u64,
}

/// Adds one to a CPU's fills. A CPU above the largest number is not counted.
pub fn count(bar: &impl Bar, cpu: usize, is_store: bool) {
    let add = |offset_bytes| {
        if let Some(word) = word(bar, cpu, offset_bytes) {
            word.fetch_add(1, Ordering::Relaxed);
        }
    };
    add(0);
    if is_store {
        add(STORES_BYTES);
    }
}

/// CoreFills of a CPU; nothing for one above the largest number.
pub fn of(bar: &impl Bar, cpu: usize) -> Option<CoreFills> {
    let load = |offset_bytes| Some(word(bar, cpu, offset_bytes)?.load(Ordering::Relaxed));
    Some(CoreFills {
        lines: load(0)?,
        store_lines: load(STORES_BYTES)?,
    })
}

fn word(bar: &impl Bar, cpu: usize, offset_bytes: u64) -> Option<&AtomicU64> {
    let at =
        (cpu < CPU_COUNT_MAX).then(|| OFFSET_BYTES + cpu as u64 * STRIDE_BYTES + offset_bytes)?;
    bar.words().get(usize::try_from(at / 8).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_core::Bytes;
    use weir_hw::access_counters::regmap::{
        EMULATED_GROUP_TABLE_OFFSET_BYTES, GROUP_COUNT_MAX, GROUP_TABLE_STRIDE_BYTES,
    };
    use weir_hw::access_counters::{AccessCounters, GroupRegion};

    fn bar() -> Vec<AtomicU64> {
        (0..EMULATED_BAR_BYTES / 8)
            .map(|_| AtomicU64::new(0))
            .collect()
    }

    #[test]
    fn each_cpu_has_its_words_and_one_too_many_has_none() {
        let bar = bar();
        for (cpu, is_store) in [(0, false), (63, true), (63, false), (64, true)] {
            count(&bar, cpu, is_store);
        }
        count(&bar, usize::MAX, true);
        let found = [0, 1, 63, 64].map(|cpu| of(&bar, cpu).map(|f| (f.lines, f.store_lines)));
        assert_eq!(found, [Some((1, 0)), Some((0, 0)), Some((2, 1)), None]);
    }

    #[test]
    fn they_are_behind_the_registers() {
        let table = GROUP_TABLE_STRIDE_BYTES * u64::from(GROUP_COUNT_MAX);
        assert!(EMULATED_GROUP_TABLE_OFFSET_BYTES + table <= OFFSET_BYTES);
        let bar = bar();
        let groups = [GroupRegion {
            base: 0,
            size: Bytes(1 << 20),
        }];
        let counters = AccessCounters::over(bar.as_slice(), &groups).unwrap();
        counters.count(64, false);
        let none = Some(CoreFills {
            lines: 0,
            store_lines: 0,
        });
        assert!((0..CPU_COUNT_MAX).all(|cpu| of(&bar, cpu) == none));
    }
}
