// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The access counters against the thesis's layout, their limits, and a plain version of themselves.

use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;
use weir_core::units::Bytes;
use weir_hw::access_counters::regmap;
use weir_hw::access_counters::{AccessCounters, CountersError, GroupRegion, Lines, SharedBar};

fn region(base: u64, size: u64) -> GroupRegion {
    GroupRegion {
        base,
        size: Bytes(size),
    }
}

#[test]
fn the_host_reads_header_table_and_counters_where_the_thesis_puts_them() {
    let counters = AccessCounters::new(&[region(0x1_0000_0000, 4096), region(0x8000, 64)])
        .expect("two regions apart");
    assert_eq!(counters.count(0x8000, false), Some(1));
    assert_eq!(counters.count(0x1_0000_0fff, true), Some(0));
    assert_eq!(counters.count(0x1_0000_0000, true), Some(0));

    assert_eq!(
        counters.read_u32(0x18000),
        Some(u32::from_le_bytes(*b"WEIR"))
    );
    assert_eq!(counters.read_u32(0x18004), Some(1));
    assert_eq!(counters.read_u32(0x18008), Some(2));
    assert_eq!(counters.read_u32(0x1800c), Some(64));
    let table = counters.read_u64(0x18010).expect("inside the BAR");
    let entries: Vec<_> = (0..4).map(|i| counters.read_u64(table + i * 8)).collect();
    assert_eq!(
        entries,
        [Some(0x1_0000_0000), Some(4096), Some(0x8000), Some(64)]
    );
    // read#0 write#0 read#1 write#1 (thesis 5.1.3)
    let pairs: Vec<_> = (0..4).map(|i| counters.read_u64(0x18100 + i * 8)).collect();
    assert_eq!(pairs, [Some(0), Some(2), Some(1), Some(0)]);
    assert_eq!(
        counters.lines(0),
        Some(Lines {
            reads: 0,
            writes: 2
        })
    );
    assert_eq!(counters.lines(2), None);
}

#[test]
fn a_region_ends_before_its_last_byte_plus_one() {
    let counters = AccessCounters::new(&[region(0x1000, 0x1000)]).expect("one region");
    let groups: Vec<_> = [0xfff, 0x1000, 0x1fff, 0x2000]
        .map(|at| counters.count(at, false))
        .into();
    assert_eq!(groups, [None, Some(0), Some(0), None]);
}

#[test]
fn reads_outside_or_across_registers_give_nothing() {
    let counters = AccessCounters::new(&[region(0, 64)]).expect("one region");
    let end = regmap::EMULATED_BAR_BYTES;
    for offset in [1, 2, 4, end, end + 8, u64::MAX - 7, u64::MAX] {
        assert_eq!(counters.read_u64(offset), None, "{offset:#x}");
    }
    for offset in [1, 2, 6, end, u64::MAX - 3, u64::MAX] {
        assert_eq!(counters.read_u32(offset), None, "{offset:#x}");
    }
    assert_eq!(counters.read_u64(end - 8), Some(0));
    assert_eq!(counters.read_u32(end - 4), Some(0));
}

#[test]
fn counters_wrap() {
    let counters = AccessCounters::new(&[region(0, 64)]).expect("one region");
    counters.add(0, true, u64::MAX);
    counters.count(0, true);
    assert_eq!(counters.lines(0), Some(Lines::default()));
    counters.add(1, true, 1);
    assert_eq!(
        counters.read_u64(0x18110),
        Some(0),
        "a group that does not exist"
    );
}

#[test]
fn wrong_groups_are_refused_with_numbers() {
    let fail = |groups: &[GroupRegion]| AccessCounters::new(groups).map(|_| ()).unwrap_err();
    let max = u64::from(regmap::GROUP_COUNT_MAX);
    let many: Vec<_> = (0..=max).map(|i| region(i * 64, 64)).collect();
    assert!(
        AccessCounters::new(&many[1..]).is_ok(),
        "the map's limit itself is allowed"
    );
    assert_eq!(fail(&many), CountersError::GroupCount { count: many.len() });
    assert_eq!(fail(&[]), CountersError::GroupCount { count: 0 });
    for (base, size_bytes) in [(5, 0), (u64::MAX, 1), (u64::MAX - 63, 64), (1, u64::MAX)] {
        let refused = fail(&[region(base, size_bytes)]);
        assert_eq!(
            refused,
            CountersError::Region {
                group: 0,
                base,
                size_bytes
            }
        );
    }
    assert!(AccessCounters::new(&[region(u64::MAX - 64, 64)]).is_ok());
    assert_eq!(
        fail(&[region(0x2000, 64), region(0x1000, 0x1001)]),
        CountersError::Overlap {
            first: 1,
            second: 0,
            at: 0x2000
        }
    );
    let short: Vec<AtomicU64> = (0..100).map(|_| AtomicU64::new(0)).collect();
    let refused = AccessCounters::over(short, &[region(0, 64)]).map(|_| ());
    assert_eq!(
        refused,
        Err(CountersError::BarTooShort {
            have_bytes: 800,
            need_bytes: 0x60010
        })
    );
}

#[test]
fn shared_memory_holds_the_registers_themselves() {
    let bytes = regmap::EMULATED_BAR_BYTES as usize;
    let words: &'static mut [u64] = Box::leak(vec![!0u64; bytes / 8].into_boxed_slice());
    let start: *mut u8 = words.as_mut_ptr().cast();
    // SAFETY: leaked, so mapped for good; from here on only the counters touch it, and the one
    // plain read below has no other thread beside it.
    let bar = unsafe { SharedBar::from_raw(start, bytes) }.expect("aligned memory");
    let counters = AccessCounters::over(bar, &[region(0, 64)]).expect("one region");
    counters.count(0, true);
    // SAFETY: as above.
    let byte_at = |offset: usize| unsafe { start.add(offset).read() };
    assert_eq!([0, 1, 2, 3].map(|i| byte_at(0x18000 + i)), *b"WEIR");
    assert_eq!(byte_at(0x18108), 1, "one write, little endian");
    assert_eq!(
        byte_at(0x17fff),
        0xff,
        "words that are no registers stay as they were"
    );
    // SAFETY: refused before anything is read.
    let odd = unsafe { SharedBar::from_raw(start.wrapping_add(4), 64) };
    assert!(odd.is_err());
    // SAFETY: the same.
    let null = unsafe { SharedBar::from_raw(std::ptr::null_mut(), 64) };
    assert!(null.is_err());
    // SAFETY: the same.
    let ragged = unsafe { SharedBar::from_raw(start, 63) };
    assert!(ragged.is_err());
}

#[test]
fn no_access_is_lost_between_threads() {
    let counters = AccessCounters::new(&[region(0, 64), region(64, 64)]).expect("regions");
    std::thread::scope(|scope| {
        for thread in 0..4u64 {
            let counters = &counters;
            scope.spawn(move || {
                for i in 0..10_000 {
                    counters.count((i + thread) % 2 * 64, thread == 0);
                }
            });
        }
    });
    let each = Lines {
        reads: 15_000,
        writes: 5_000,
    };
    assert_eq!(
        (counters.lines(0), counters.lines(1)),
        (Some(each), Some(each))
    );
}

/// The plain version: one group after the other, with counts in a map.
fn reference(groups: &[GroupRegion], accesses: &[(u64, bool)]) -> BTreeMap<(usize, bool), u64> {
    let mut counts = BTreeMap::new();
    for (address, is_write) in accesses {
        let inside = |g: &GroupRegion| *address >= g.base && *address - g.base < g.size.0;
        if let Some(group) = groups.iter().position(inside) {
            *counts.entry((group, *is_write)).or_insert(0) += 1;
        }
    }
    counts
}

proptest! {
    #[test]
    fn agrees_with_the_plain_version(
        spans in prop::collection::vec((0u64..300, 1u64..300), 1..12),
        order in any::<prop::sample::Index>(),
        accesses in prop::collection::vec((0u64..4000, any::<bool>()), 0..200),
    ) {
        let mut end = 0;
        let mut groups: Vec<_> = spans.iter().map(|(gap, size)| {
            let base = end + gap;
            end = base + size;
            region(base, *size)
        }).collect();
        let shift = order.index(groups.len());
        groups.rotate_left(shift);
        let counters = AccessCounters::new(&groups).expect("regions that do not overlap");
        for (address, is_write) in &accesses {
            counters.count(*address, *is_write);
        }
        let wanted = reference(&groups, &accesses);
        for group in 0..groups.len() {
            let at = |w| wanted.get(&(group, w)).copied().unwrap_or(0);
            let pair = 0x18100 + group as u64 * 16;
            prop_assert_eq!(counters.read_u64(pair), Some(at(false)));
            prop_assert_eq!(counters.read_u64(pair + 8), Some(at(true)));
        }
    }

    #[test]
    fn any_regions_and_any_offset_give_an_answer(
        raw in prop::collection::vec((any::<u64>(), any::<u64>()), 0..5),
        offset in any::<u64>(),
    ) {
        let groups: Vec<_> = raw.iter().map(|(base, size)| region(*base, *size)).collect();
        if let Ok(counters) = AccessCounters::new(&groups) {
            for group in &groups {
                prop_assert!(counters.count(group.base, true).is_some());
                prop_assert!(group.base.checked_add(group.size.0).is_some());
            }
            prop_assert!(counters.read_u64(offset).is_none() || offset < 0x100000);
            prop_assert!(counters.read_u32(offset).is_none() || offset < 0x100000);
        }
    }
}
