// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Malformed tables are refused with the fault, and no input panics.

use super::builders::{
    GIB, firmware, hmat, locality, machine, memory, processor, seal, sizes, slit, srat, table,
};
use crate::table::{Kind, Table};
use crate::{AcpiError, Firmware, GRAIN_BYTES, Sizes, Split, cpio, split};
use proptest::prelude::*;

fn refusal(tables: &[Vec<u8>; 3], domain: Option<u32>, shares: &str) -> String {
    match try_all(tables, domain, shares) {
        Ok(made) => panic!("made {:?}", made.groups),
        Err(error) => error.to_string(),
    }
}

fn try_all(tables: &[Vec<u8>; 3], domain: Option<u32>, shares: &str) -> Result<Split, AcpiError> {
    let read = |kind, bytes: &[u8]| Table::read(kind, bytes.to_vec());
    let [srat, slit, hmat] = tables;
    let (slit, hmat) = (read(Kind::Slit, slit)?, read(Kind::Hmat, hmat)?);
    let firmware = Firmware::read(read(Kind::Srat, srat)?, Some(slit), Some(hmat))?;
    split(&firmware, domain, &shares.parse::<Sizes>()?, GRAIN_BYTES)
}

fn with(place: usize, table: Vec<u8>) -> [Vec<u8>; 3] {
    let mut tables = machine();
    tables[place] = table;
    tables
}

#[test]
fn sizes_that_do_not_add_up() {
    for (text, part) in [
        ("1/2,1/4", "add up to 3/4"),
        ("1/2,1/2,1/1000", "add up to 1001/1000"),
        ("1", "2 to 1024"),
        ("1/2,,1/2", "\"\" is no fraction"),
        ("1/2,1/0", "\"1/0\""),
        ("0/2,1/1", "\"0/2\""),
        ("3/2,-1/2", "\"3/2\""),
        ("1/2,50%", "\"50%\""),
        ("1/2,1/99999999999999999999", "no fraction"),
    ] {
        let error = text.parse::<Sizes>().unwrap_err().to_string();
        assert!(error.contains(part), "{text}: {error}");
    }
    let primes = (60_000..65_536_u32)
        .filter(|n| (2..256).all(|d| n % d != 0))
        .take(20);
    let text: Vec<String> = primes.map(|p| format!("1/{p}")).collect();
    let error = text.join(",").parse::<Sizes>().unwrap_err().to_string();
    assert!(error.contains("common multiple"), "{error}");
}

#[test]
fn damage_is_named() {
    let [good, distances, _] = machine();
    let mut checksum = good.clone();
    checksum[40] ^= 1;
    assert!(refusal(&with(0, checksum), None, "1/2,1/2").contains("SRAT has a wrong checksum"));
    let truncated = good[..good.len() - 3].to_vec();
    assert!(refusal(&with(0, truncated), None, "1/2,1/2").contains("it says"));
    assert!(
        refusal(&with(0, distances.clone()), None, "1/2,1/2").contains("signature is \"SLIT\"")
    );
    assert!(refusal(&with(0, Vec::new()), None, "1/2,1/2").contains("0 bytes"));
    for (structure, part) in [
        (vec![1, 0], "a structure of 0 bytes"),
        (vec![1, 39], "runs past the end"),
        (vec![1, 4, 0, 0], "type 1 has 4 bytes, not 40"),
        (memory(5, 17 * GIB, GIB, 1), "overlaps"),
        (memory(2, 20 * GIB - 1, 2, 0b11), "with other flags"),
    ] {
        let table = srat(&[processor(0, 0), memory(2, 16 * GIB, 4 * GIB, 1), structure]);
        let said = refusal(&with(0, table), Some(2), "1/2,1/2");
        assert!(
            said.contains(part) && said.contains("SRAT is damaged at byte"),
            "{said}"
        );
    }
}

/// A fault in a SLIT or HMAT with a right checksum is the firmware's: Linux runs without that table.
#[test]
fn tables_that_linux_does_not_use_are_left_out_and_named() {
    let [_, distances, attributes] = machine();
    let left_out = |place, table, part: &str| {
        let made = try_all(&with(place, table), None, "1/2,1/2").unwrap();
        let kind = Kind::ALL[place];
        assert!(made.tables.iter().all(|table| table.kind() != kind));
        let said = made.notes.join("\n");
        assert!(
            said.contains(part) && said.contains(kind.signature()),
            "{said}"
        );
    };
    let mut wrong = distances;
    wrong[36] = 200;
    left_out(1, seal(wrong), "200 localities need 40000 bytes");
    let near = slit(&[&[10, 9], &[20, 10]]);
    left_out(1, near, "distance from 0 to 1 is 9");
    left_out(
        1,
        slit(&[&[10, 10], &[10, 10]]),
        "distance from 0 to 1 is 10",
    );
    left_out(
        1,
        slit(&[&[20, 20], &[20, 10]]),
        "distance from 0 to 0 is 20",
    );
    let huge = table(Kind::Slit, 1, &u64::MAX.to_le_bytes());
    left_out(1, huge, "18446744073709551615 localities");
    left_out(1, table(Kind::Slit, 1, &[1, 0, 0]), "truncated");
    let mut lying = attributes;
    // The number of targets of the first matrix.
    lying[36 + 4 + 80 + 16] = 200;
    left_out(2, seal(lying), "200 targets need");
    let short = hmat(&[locality(0, 1, &[0], &[2], &[1])[..8].to_vec()]);
    left_out(2, short, "HMAT");
}

#[test]
fn domains_that_cannot_be_split() {
    let tables = machine();
    assert!(
        refusal(&tables, Some(7), "1/2,1/2")
            .contains("no memory of domain 7 (--domain; it can be: 2)")
    );
    assert!(refusal(&tables, Some(0), "1/2,1/2").contains("domain 0 has processors"));
    let two = srat(&[memory(2, 0, GIB, 1), memory(3, GIB, GIB, 1)]);
    assert!(
        refusal(&with(0, two), None, "1/2,1/2").contains("name one (--domain; it can be: 2, 3)")
    );
    let none = srat(&[processor(0, 0), memory(0, 0, GIB, 1)]);
    assert!(refusal(&with(0, none), None, "1/2,1/2").contains("CEDT"));
    let tiny = srat(&[memory(2, 0, GIB, 1)]);
    assert!(refusal(&with(0, tiny), None, "1/64,63/64").contains("1/64"));
    let far = srat(&[memory(2, 0, GIB, 1), processor(1023, 0)]);
    assert!(refusal(&with(0, far), None, "1/2,1/2").contains("do not fit"));
    let mut last = machine()[0].clone();
    last[24..28].fill(0xff);
    assert!(refusal(&with(0, seal(last)), None, "1/2,1/2").contains("highest there is"));
}

/// Changes of bytes, and at the end a right checksum again or not.
fn mutated(mut bytes: Vec<u8>, changes: &[(usize, u8)], truncated: usize, sealed: bool) -> Vec<u8> {
    for (at, value) in changes {
        let at = at % bytes.len();
        bytes[at] = *value;
    }
    bytes.truncate(bytes.len() - truncated % bytes.len());
    if sealed && bytes.len() >= 36 {
        let length = bytes.len() as u32;
        bytes[4..8].copy_from_slice(&length.to_le_bytes());
        bytes = seal(bytes);
    }
    bytes
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    /// Tables accepted in spite of changes still give sound tables in which no memory is lost.
    #[test]
    fn changed_tables_are_refused_or_split_soundly(
        place in 0_usize..3,
        changes in prop::collection::vec((0_usize..4000, prop_oneof![any::<u8>(), Just(0), Just(0xff), 1_u8..4]), 0..6),
        truncated in prop_oneof![3 => Just(0_usize), 1 => 0_usize..400],
        sealed in prop::bool::weighted(0.9),
        domain in prop::option::of(0_u32..4),
    ) {
        let mut tables = machine();
        tables[place] = mutated(tables[place].clone(), &changes, truncated, sealed);
        let Ok(made) = try_all(&tables, domain, "1/2,1/4,1/4") else { return Ok(()) };
        let before = Firmware::read(
            Table::read(Kind::Srat, tables[0].clone()).unwrap(), None, None).unwrap();
        let whole: u64 = before.srat.memory(made.groups[0].domain).iter().map(|s| s.length_bytes).sum();
        prop_assert_eq!(made.groups.iter().map(crate::Group::bytes).sum::<u64>(), whole);
        let find = |kind| made.tables.iter().find(|t| t.kind() == kind).cloned();
        let after = Firmware::read(find(Kind::Srat).unwrap(), find(Kind::Slit), find(Kind::Hmat)).unwrap();
        for group in &made.groups {
            prop_assert_eq!(after.srat.memory(group.domain), group.spans.clone());
        }
    }

    #[test]
    fn any_bytes_are_survived(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        for kind in Kind::ALL {
            let _ = Table::read(kind, bytes.clone());
            let inside = table(kind, bytes.first().copied().unwrap_or(0), &bytes);
            let read = Table::read(kind, inside).unwrap();
            let good = firmware(&machine());
            let _ = match kind {
                Kind::Srat => Firmware::read(read, None, None).and_then(|f| split(&f, None, &sizes("1/2,1/2"), 1)),
                Kind::Slit => crate::slit::Slit::read(read)
                    .and_then(|s| split(&Firmware { slit: Some(s), ..good }, None, &sizes("1/2,1/2"), 1)),
                Kind::Hmat => crate::hmat::Hmat::read(read)
                    .and_then(|h| split(&Firmware { hmat: Some(h), ..good }, None, &sizes("1/2,1/2"), 1)),
            };
        }
    }

    #[test]
    fn changed_overlays_are_survived(
        changes in prop::collection::vec((0_usize..4000, any::<u8>()), 0..8),
        truncated in 0_usize..3000,
    ) {
        let made = try_all(&machine(), None, "1/2,1/2").unwrap();
        let archive = mutated(cpio::pack(&made.tables), &changes, truncated, false);
        if let Ok(tables) = cpio::unpack(&archive) {
            prop_assert!(tables.len() <= 3);
        }
    }
}
