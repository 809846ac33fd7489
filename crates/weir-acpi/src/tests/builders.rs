// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tables byte by byte, as ACPI 6.5 lays them out: written here a second time, from the other side.

use crate::table::{Kind, Table};
use crate::{Firmware, Sizes};

pub const GIB: u64 = 1 << 30;
pub const MIB: u64 = 1 << 20;

/// A table around a body, with a right length and checksum.
pub fn table(kind: Kind, revision: u8, body: &[u8]) -> Vec<u8> {
    let mut out = kind.signature().as_bytes().to_vec();
    out.extend((36 + body.len() as u32).to_le_bytes());
    out.extend([revision, 0]);
    out.extend(b"MAKER MAKERTAB");
    out.extend(7_u32.to_le_bytes());
    out.extend(b"TOOL");
    out.extend(1_u32.to_le_bytes());
    out.extend(body);
    seal(out)
}

pub fn seal(mut bytes: Vec<u8>) -> Vec<u8> {
    bytes[9] = 0;
    bytes[9] = bytes
        .iter()
        .fold(0_u8, |s, b| s.wrapping_add(*b))
        .wrapping_neg();
    bytes
}

pub fn processor(domain: u32, id: u8) -> Vec<u8> {
    let d = domain.to_le_bytes();
    vec![0, 16, d[0], id, 1, 0, 0, 0, 0, d[1], d[2], d[3], 0, 0, 0, 0]
}

pub fn memory(domain: u32, base: u64, length: u64, flags: u32) -> Vec<u8> {
    let mut out = vec![1, 40];
    out.extend(domain.to_le_bytes());
    out.extend([0, 0]);
    out.extend(base.to_le_bytes());
    out.extend(length.to_le_bytes());
    out.extend([0; 4]);
    out.extend(flags.to_le_bytes());
    out.extend([0; 8]);
    out
}

pub fn srat(structures: &[Vec<u8>]) -> Vec<u8> {
    let mut body = 1_u32.to_le_bytes().to_vec();
    body.extend([0; 8]);
    body.extend(structures.concat());
    table(Kind::Srat, 3, &body)
}

pub fn slit(rows: &[&[u8]]) -> Vec<u8> {
    let mut body = (rows.len() as u64).to_le_bytes().to_vec();
    body.extend(rows.concat());
    table(Kind::Slit, 1, &body)
}

pub fn proximity(initiator: u32, memory: u32) -> Vec<u8> {
    let mut out = vec![0, 0, 0, 0];
    out.extend(40_u32.to_le_bytes());
    out.extend([1, 0, 0, 0]);
    out.extend(initiator.to_le_bytes());
    out.extend(memory.to_le_bytes());
    out.extend([0; 20]);
    out
}

pub fn locality(
    data_type: u8,
    unit: u64,
    initiators: &[u32],
    targets: &[u32],
    cells: &[u16],
) -> Vec<u8> {
    let length = 32 + 4 * (initiators.len() + targets.len()) + 2 * cells.len();
    let mut out = vec![1, 0, 0, 0];
    out.extend((length as u32).to_le_bytes());
    out.extend([0, data_type, 0, 0]);
    out.extend((initiators.len() as u32).to_le_bytes());
    out.extend((targets.len() as u32).to_le_bytes());
    out.extend([0; 4]);
    out.extend(unit.to_le_bytes());
    for domain in initiators.iter().chain(targets) {
        out.extend(domain.to_le_bytes());
    }
    for cell in cells {
        out.extend(cell.to_le_bytes());
    }
    out
}

pub fn cache(memory: u32, bytes: u64) -> Vec<u8> {
    let mut out = vec![2, 0, 0, 0];
    out.extend(34_u32.to_le_bytes());
    out.extend(memory.to_le_bytes());
    out.extend([0; 4]);
    out.extend(bytes.to_le_bytes());
    out.extend([0x21, 0, 0, 0, 0, 0, 1, 0, 0x34, 0x12]);
    out
}

pub fn hmat(structures: &[Vec<u8>]) -> Vec<u8> {
    let mut body = vec![0; 4];
    body.extend(structures.concat());
    table(Kind::Hmat, 2, &body)
}

/// Two sockets and a device of 4 GiB on domain 2; domain 3 is an initiator without memory.
pub fn machine() -> [Vec<u8>; 3] {
    let srat = srat(&[
        processor(0, 0),
        processor(1, 1),
        memory(0, 0, 2 * GIB, 1),
        memory(2, 16 * GIB, 4 * GIB, 0b11),
        memory(1, 4 * GIB, 4 * GIB, 1),
        memory(9, 0, 0, 0),
        vec![99, 4, 1, 2],
    ]);
    let slit = slit(&[
        &[10, 21, 24, 30],
        &[21, 10, 28, 30],
        &[24, 28, 10, 40],
        &[30, 30, 40, 10],
    ]);
    let hmat = hmat(&[
        proximity(0, 0),
        proximity(0, 2),
        locality(0, 1000, &[0, 1], &[0, 1, 2], &[90, 140, 250, 140, 90, 300]),
        locality(
            3,
            100,
            &[0, 1],
            &[2, 0, 1],
            &[200, 2000, 1000, 180, 1000, 2000],
        ),
        cache(2, 64 * MIB),
        vec![7, 0, 0, 0, 8, 0, 0, 0],
    ]);
    [srat, slit, hmat]
}

pub fn firmware(tables: &[Vec<u8>; 3]) -> Firmware {
    let [srat, slit, hmat] = tables.clone();
    let read = |kind, bytes| Table::read(kind, bytes).unwrap();
    let (slit, hmat) = (read(Kind::Slit, slit), read(Kind::Hmat, hmat));
    Firmware::read(read(Kind::Srat, srat), Some(slit), Some(hmat)).unwrap()
}

pub fn sizes(text: &str) -> Sizes {
    text.parse().unwrap()
}
