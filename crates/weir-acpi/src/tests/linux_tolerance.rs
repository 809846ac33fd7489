// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tables that Linux accepts are accepted: padding, oddities of domains that are not split. How Linux
//! reads them: `drivers/acpi/numa/srat.c` (`slit_valid`, `acpi_parse_slit`), `mm/numa_memblks.c`
//! (`numa_cleanup_meminfo`, `numa_add_memblk`).

use super::builders::{GIB, firmware, machine, memory, processor, sizes, srat, table};
use crate::srat::Span;
use crate::table::{Kind, Table};
use crate::{Firmware, GRAIN_BYTES, Split, split};

fn span(base_bytes: u64, length_bytes: u64) -> Span {
    Span {
        base_bytes,
        length_bytes,
    }
}

fn made(place: usize, table: Vec<u8>) -> Split {
    let mut tables = machine();
    tables[place] = table;
    split(&firmware(&tables), None, &sizes("1/2,1/2"), GRAIN_BYTES).unwrap()
}

/// A SLIT that says so many localities, and these bytes behind its head.
fn slit_of(count: u64, cells: &[u8]) -> Vec<u8> {
    let body = [&count.to_le_bytes(), cells].concat();
    table(Kind::Slit, 1, &body)
}

fn memory_of(made: &Split, domain: u32) -> Vec<Span> {
    let srat = made.tables[0].clone();
    Firmware::read(srat, None, None)
        .unwrap()
        .srat
        .memory(domain)
}

/// Two localities and space for eight: bytes behind the matrix are none of its cells.
#[test]
fn a_slit_with_padding_has_the_distances_of_its_localities() {
    let cells = [10, 21, 24, 21, 10, 28, 24, 28, 10];
    let padded = [&cells[..], &[0; 60]].concat();
    let [exact, spare] = [&cells[..], &padded].map(|cells| made(1, slit_of(3, cells)));
    assert_eq!(exact.tables[1].bytes()[36..], spare.tables[1].bytes()[36..]);
    assert_eq!(spare.notes, [] as [String; 0]);
    let slit = crate::slit::Slit::read(spare.tables[1].clone()).unwrap();
    assert_eq!(
        (slit.distance(0, 2), slit.distance(2, 3)),
        (Some(24), Some(11))
    );
}

/// A desktop with one locality and 64 bytes, as firmware leaves it: it does not know the device.
#[test]
fn a_slit_of_one_locality_stays_as_it_is() {
    let mut cells = [0; 64];
    cells[0] = 10;
    for count in [1, 0] {
        let made = made(1, slit_of(count, &cells));
        assert_eq!(made.untouched, [Kind::Slit]);
        assert_eq!(made.notes, [] as [String; 0]);
    }
}

/// More localities than Linux has nodes: it uses those that it knows.
#[test]
fn a_slit_of_more_localities_than_nodes_is_read() {
    let count = 1100_usize;
    let mut cells = vec![20; count * count];
    for domain in 0..count {
        cells[domain * count + domain] = 10;
    }
    let read = Table::read(Kind::Slit, slit_of(count as u64, &cells)).unwrap();
    let slit = crate::slit::Slit::read(read).unwrap();
    assert_eq!(slit.distance(1099, 3), Some(20));
}

#[test]
fn overlaps_of_other_domains_are_reported_and_stay() {
    let odd = [
        processor(0, 0),
        memory(0, 0, 2 * GIB, 1),
        memory(0, GIB, 2 * GIB, 1),
        memory(1, 4 * GIB, 4 * GIB, 1),
        memory(3, 7 * GIB, 4 * GIB, 1),
        processor(1, 1),
        processor(3, 2),
        memory(2, 16 * GIB, 4 * GIB, 1),
    ];
    let made = made(0, srat(&odd));
    assert_eq!(memory_of(&made, 2), [span(16 * GIB, 2 * GIB)]);
    assert_eq!(memory_of(&made, 0), [span(0, 3 * GIB)]);
    let said = made.notes.join("\n");
    assert!(
        said.contains("domain 0 (0x0–0x7fffffff) overlaps that of domain 0"),
        "{said}"
    );
    assert!(said.contains("Linux takes them for one"), "{said}");
    assert!(
        said.contains("overlaps that of domain 3") && said.contains("no NUMA at all"),
        "{said}"
    );
    // Their bytes are copied, in their order.
    let body = &made.tables[0].bytes()[48..];
    assert_eq!(body[..odd[..7].concat().len()], odd[..7].concat());
}

/// The device's own ranges overlap: Linux takes them for one, and so does the division.
#[test]
fn a_device_that_overlaps_itself_is_divided_as_one() {
    let odd = [
        processor(0, 0),
        memory(0, 0, GIB, 1),
        memory(2, 18 * GIB, 2 * GIB, 1),
        memory(2, 16 * GIB, 3 * GIB, 1),
        memory(2, 17 * GIB, GIB, 1),
    ];
    let made = made(0, srat(&odd));
    assert_eq!(memory_of(&made, 2), [span(16 * GIB, 2 * GIB)]);
    assert_eq!(memory_of(&made, 4), [span(18 * GIB, 2 * GIB)]);
    let again = Firmware::read(made.tables[0].clone(), None, None).unwrap();
    let all: u64 = again
        .srat
        .memory_only()
        .iter()
        .flat_map(|d| again.srat.memory(*d))
        .map(|s| s.length_bytes)
        .sum();
    assert_eq!(all, 4 * GIB, "no byte twice, none lost");
}

#[test]
fn a_range_above_the_last_address_is_no_memory() {
    let odd = [
        processor(0, 0),
        memory(5, u64::MAX - 5, 100, 1),
        memory(2, 16 * GIB, 4 * GIB, 1),
    ];
    let made = made(0, srat(&odd));
    assert!(
        made.notes[0].contains("domain 5 ends above the last address"),
        "{:?}",
        made.notes
    );
    assert_eq!(
        made.groups.iter().map(|g| g.domain).collect::<Vec<_>>(),
        [2, 6]
    );
    assert_eq!(made.tables[0].bytes()[64..104], odd[1]);
}

/// One byte behind the last structure is none.
#[test]
fn a_byte_behind_the_last_structure_is_padding() {
    let odd = [processor(0, 0), memory(2, 16 * GIB, 4 * GIB, 1), vec![0]];
    assert_eq!(
        memory_of(&made(0, srat(&odd)), 2),
        [span(16 * GIB, 2 * GIB)]
    );
}
