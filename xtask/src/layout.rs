// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Where the blocks of the register map lie in a BAR, and that they do not meet, for the largest
//! device that the map allows.

use crate::map::{Map, MapError, contradiction};

/// A block of registers and its end, in bytes from the start of the BAR.
struct Block {
    name: &'static str,
    start: u64,
    end: u64,
}

/// Checks alignment, overlaps and the length of both BARs.
pub(crate) fn check(map: &Map) -> Result<(), MapError> {
    check_multiples(map)?;
    let groups = u64::from(map.window.group_count_max);
    let emulated = [("group table", map.emulated.group_table_offset_bytes)];
    let fpga = [
        ("group table", map.fpga.group_table_offset_bytes),
        ("snapshot", map.fpga.snapshot_offset_bytes),
    ];
    let devices = [
        ("emulated", map.emulated.bar_bytes, emulated.as_slice()),
        ("fpga", map.fpga.bar_bytes, fpga.as_slice()),
    ];
    for (device, bar_bytes, announced) in devices {
        let blocks = blocks(map, announced).ok_or_else(|| {
            contradiction(format!("{groups} groups do not fit 64 bits of offset"))
        })?;
        if let Some(pair) = blocks.windows(2).find(|p| p[0].end > p[1].start) {
            return Err(contradiction(format!(
                "the {device} {} at {:#x} overlaps the {}, which end at {:#x} with {groups} groups",
                pair[1].name, pair[1].start, pair[0].name, pair[0].end
            )));
        }
        let end = blocks.last().map_or(0, |block| block.end);
        if end > bar_bytes {
            return Err(contradiction(format!(
                "{groups} groups need {end:#x} bytes, but {device}.bar_bytes is {bar_bytes:#x}"
            )));
        }
    }
    if map.emulated.bar > 5 || map.fpga.bar > 5 {
        return Err(contradiction("a PCI function has BARs 0 to 5".into()));
    }
    Ok(())
}

/// The blocks of a device in the order of their addresses, or nothing where one has no end.
fn blocks(map: &Map, announced: &[(&'static str, u64)]) -> Option<Vec<Block>> {
    let groups = u64::from(map.window.group_count_max);
    let window = &map.window;
    let mut blocks = vec![Block {
        name: "header and counters",
        start: window.header_offset_bytes,
        end: window
            .counter_stride_bytes
            .checked_mul(groups)?
            .checked_add(window.counters_offset_bytes)?,
    }];
    for (name, start) in announced {
        let stride = match *name {
            "snapshot" => window.counter_stride_bytes,
            _ => window.group_table_stride_bytes,
        };
        blocks.push(Block {
            name,
            start: *start,
            end: stride.checked_mul(groups)?.checked_add(*start)?,
        });
    }
    blocks.sort_by_key(|block| block.start);
    Some(blocks)
}

fn check_multiples(map: &Map) -> Result<(), MapError> {
    let window = &map.window;
    for (name, bytes) in [
        ("header_offset_bytes", window.header_offset_bytes),
        ("counters_offset_bytes", window.counters_offset_bytes),
        ("counter_stride_bytes", window.counter_stride_bytes),
        ("group_table_stride_bytes", window.group_table_stride_bytes),
        (
            "emulated.group_table_offset_bytes",
            map.emulated.group_table_offset_bytes,
        ),
        ("emulated.bar_bytes", map.emulated.bar_bytes),
        (
            "fpga.group_table_offset_bytes",
            map.fpga.group_table_offset_bytes,
        ),
        ("fpga.snapshot_offset_bytes", map.fpga.snapshot_offset_bytes),
        ("fpga.bar_bytes", map.fpga.bar_bytes),
    ] {
        if bytes == 0 || !bytes.is_multiple_of(8) {
            return Err(contradiction(format!(
                "{name} is {bytes:#x}: not a positive multiple of 8"
            )));
        }
    }
    for (name, bytes) in [
        ("emulated", map.emulated.bar_bytes),
        ("fpga", map.fpga.bar_bytes),
    ] {
        if !bytes.is_power_of_two() {
            return Err(contradiction(format!(
                "{name}.bar_bytes must be a power of two, as PCI BARs are"
            )));
        }
    }
    Ok(())
}
