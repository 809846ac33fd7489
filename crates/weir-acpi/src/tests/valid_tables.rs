// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Valid tables: the result describes the requested groups, and nothing else has changed.

use super::builders::{GIB, MIB, firmware, machine, memory, processor, sizes, slit, srat};
use crate::hmat::DataType;
use crate::srat::Span;
use crate::table::{Kind, Table};
use crate::{Firmware, GRAIN_BYTES, Split, cpio, split};
use proptest::prelude::*;

fn again(made: &Split) -> Firmware {
    let find = |kind| made.tables.iter().find(|t| t.kind() == kind).cloned();
    Firmware::read(
        find(Kind::Srat).unwrap(),
        find(Kind::Slit),
        find(Kind::Hmat),
    )
    .unwrap()
}

fn span(base: u64, length: u64) -> Span {
    Span {
        base_bytes: base,
        length_bytes: length,
    }
}

#[test]
fn the_device_becomes_groups_of_the_requested_sizes() {
    let made = split(
        &firmware(&machine()),
        None,
        &sizes("1/2,1/4,1/8,1/8"),
        GRAIN_BYTES,
    )
    .unwrap();
    let found: Vec<_> = made
        .groups
        .iter()
        .map(|g| (g.domain, g.spans.clone()))
        .collect();
    let wanted = [
        (2, vec![span(16 * GIB, 2 * GIB)]),
        (4, vec![span(18 * GIB, GIB)]),
        (5, vec![span(19 * GIB, GIB / 2)]),
        (6, vec![span(19 * GIB + GIB / 2, GIB / 2)]),
    ];
    assert_eq!(found, wanted);
    let after = again(&made);
    for (domain, spans) in wanted {
        assert_eq!(after.srat.memory(domain), spans);
    }
    assert_eq!(after.srat.memory_only(), [2, 4, 5, 6]);
    assert_eq!(after.srat.memory(0), [span(0, 2 * GIB)]);
    assert_eq!(after.srat.memory(1), [span(4 * GIB, 4 * GIB)]);
}

#[test]
fn structures_keep_their_flags_and_those_of_others_their_bytes() {
    let tables = machine();
    let made = split(&firmware(&tables), None, &sizes("1/2,1/2"), GRAIN_BYTES).unwrap();
    let wanted = srat(&[
        processor(0, 0),
        processor(1, 1),
        memory(0, 0, 2 * GIB, 1),
        memory(2, 16 * GIB, 2 * GIB, 0b11),
        memory(4, 18 * GIB, 2 * GIB, 0b11),
        memory(1, 4 * GIB, 4 * GIB, 1),
        memory(9, 0, 0, 0),
        vec![99, 4, 1, 2],
    ]);
    // All but checksum and OEM revision, which is one higher.
    let bytes = made.tables[0].bytes();
    assert_eq!(bytes[36..], wanted[36..]);
    assert_eq!(bytes[..9], wanted[..9]);
    assert_eq!(made.tables[0].oem_revision(), 8);
    assert_eq!(made.tables[0].oem(), (&b"MAKER "[..], &b"MAKERTAB"[..]));
}

#[test]
fn distances_are_those_of_the_device_and_groups_lie_side_by_side() {
    let made = split(
        &firmware(&machine()),
        Some(2),
        &sizes("1/2,1/4,1/4"),
        GRAIN_BYTES,
    )
    .unwrap();
    let slit = again(&made).slit.unwrap();
    assert_eq!(slit.count(), 6);
    for group in [2, 4, 5] {
        assert_eq!(slit.distance(0, group), Some(24));
        assert_eq!(slit.distance(group, 1), Some(28));
        assert_eq!(slit.distance(3, group), Some(40));
        for other in [2, 4, 5] {
            let wanted = if group == other { 10 } else { 11 };
            assert_eq!(slit.distance(group, other), Some(wanted));
        }
    }
    assert_eq!(slit.distance(0, 1), Some(21));
}

#[test]
fn every_group_has_the_latency_and_the_bandwidth_of_the_device() {
    let before = firmware(&machine());
    let made = split(&before, None, &sizes("1/2,1/4,1/4"), GRAIN_BYTES).unwrap();
    let (before, after) = (before.hmat.unwrap(), again(&made).hmat.unwrap());
    for (figure, device) in [
        (DataType::ReadLatency, 250),
        (DataType::WriteLatency, 250),
        (DataType::ReadBandwidth, 20_000),
        (DataType::WriteBandwidth, 20_000),
    ] {
        assert_eq!(before.best(figure, 2), Some(device));
        // Its own row names the initiator next to it; that of the groups is copied with it.
        for group in [2, 4, 5] {
            assert_eq!(
                after.best(figure, group),
                Some(device),
                "{figure:?} of {group}"
            );
        }
        for other in [0, 1] {
            assert_eq!(after.best(figure, other), before.best(figure, other));
        }
        assert_eq!(after.best(figure, 3), None);
    }
    let caches = made.tables[2]
        .bytes()
        .windows(2)
        .filter(|w| w == &[0x34, 0x12])
        .count();
    assert_eq!(
        caches, 3,
        "the cache in front of the device is in front of each group"
    );
}

#[test]
fn a_device_in_two_pieces_is_divided_across_them() {
    let [_, slit, hmat] = machine();
    let srat = srat(&[
        processor(0, 0),
        memory(2, 32 * GIB, GIB, 1),
        memory(0, 0, GIB, 1),
        memory(2, 16 * GIB, GIB, 1),
    ]);
    let made = split(
        &firmware(&[srat, slit, hmat]),
        None,
        &sizes("1/4,1/2,1/4"),
        GRAIN_BYTES,
    )
    .unwrap();
    let spans: Vec<_> = made.groups.iter().map(|g| g.spans.clone()).collect();
    let half = GIB / 2;
    assert_eq!(
        spans,
        [
            vec![span(16 * GIB, half)],
            vec![span(16 * GIB + half, half), span(32 * GIB, half)],
            vec![span(32 * GIB + half, half)],
        ]
    );
    assert_eq!(again(&made).srat.memory(4), spans[1]);
}

#[test]
fn a_table_that_does_not_know_the_device_stays_as_it_is() {
    let [srat, _, hmat] = machine();
    let small = slit(&[&[10, 20], &[20, 10]]);
    let made = split(
        &firmware(&[srat, small, hmat]),
        None,
        &sizes("1/2,1/2"),
        GRAIN_BYTES,
    )
    .unwrap();
    assert_eq!(made.untouched, [Kind::Slit]);
    assert!(made.tables.iter().all(|t| t.kind() != Kind::Slit));
}

#[test]
fn an_overlay_reads_back_also_in_front_of_an_initrd() {
    let made = split(&firmware(&machine()), None, &sizes("1/2,1/2"), GRAIN_BYTES).unwrap();
    let mut archive = cpio::pack(&made.tables);
    assert_eq!(archive.len() % 512, 0);
    assert_eq!(cpio::unpack(&archive).unwrap(), made.tables);
    archive.extend(b"\x28\xb5\x2f\xfd and so on");
    assert_eq!(cpio::unpack(&archive).unwrap(), made.tables);
}

proptest! {
    /// Whatever the shares and the grain: no byte is lost, none is in two groups, each border lies on
    /// the grain or where the device ends, and none is further from the share than half a grain.
    #[test]
    fn groups_partition_the_device(
        weights in prop::collection::vec(1_u64..40, 2..20),
        grain in prop::sample::select(vec![2 * MIB, 32 * MIB, 128 * MIB]),
        base in 0_u64..4096,
        length in 1_u64..65_536,
    ) {
        let total: u64 = weights.iter().sum();
        let text: Vec<String> = weights.iter().map(|w| format!("{w}/{total}")).collect();
        let (base, length) = (base * MIB, length * MIB);
        let srat = srat(&[memory(2, base, length, 1)]);
        let [_, slit, hmat] = machine();
        let Ok(made) = split(&firmware(&[srat, slit, hmat]), None, &sizes(&text.join(",")), grain) else {
            // Only where a group would be empty.
            prop_assert!(weights.iter().any(|w| w * length / total <= grain));
            return Ok(());
        };
        let mut at = base;
        let mut share = 0;
        for (group, weight) in made.groups.iter().zip(&weights) {
            prop_assert_eq!(group.spans.len(), 1);
            prop_assert_eq!(group.spans[0].base_bytes, at);
            at = group.spans[0].end_bytes();
            share += weight;
            let ideal = base + u64::try_from(u128::from(length) * u128::from(share) / u128::from(total)).unwrap();
            prop_assert!(at.abs_diff(ideal) <= grain / 2, "{at:#x} for {ideal:#x}");
            prop_assert!(at % grain == 0 || at == base + length);
        }
        prop_assert_eq!(at, base + length);
        let after = again(&made);
        for group in &made.groups {
            prop_assert_eq!(after.srat.memory(group.domain), group.spans.clone());
        }
        let unpacked = cpio::unpack(&cpio::pack(&made.tables)).unwrap();
        prop_assert_eq!(unpacked, made.tables.clone());
        prop_assert!(made.tables.iter().all(|t| Table::read(t.kind(), t.bytes().to_vec()).is_ok()));
    }
}
