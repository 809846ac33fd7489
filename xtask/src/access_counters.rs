// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The register map of the access counters as its renderers see it.

use crate::map::Map;
use crate::render::hex;
use crate::view::{Block, Code, Codes, Constant, View, constant};

pub fn view(map: &Map) -> View {
    View {
        source: "contract/registers.toml",
        about: "The register map of the access counters",
        content: "the BAR",
        c_guard: "WEIR_REGS_H",
        c_prefix: "WEIR",
        scala_object: "RegisterMap",
        constants: constants(map),
        scala_constants: window(map).into(),
        codes: vec![features(map)],
        blocks: blocks(map).into(),
    }
}

fn features(map: &Map) -> Codes {
    let code = |feature: &crate::map::Feature| Code {
        name: feature.name.clone(),
        value: hex(1 << feature.bit),
        scala_value: feature.bit.to_string(),
        doc: feature.doc.clone(),
    };
    Codes {
        prefix: "FEATURE",
        lead: "In the register `features`: ",
        c_title: "Features: what a device may have, bits of its register `features`.",
        scala_object: "Feature",
        scala_doc: "Bits of the register `features`.",
        codes: map.feature.iter().map(code).collect(),
    }
}

fn blocks(map: &Map) -> [Block; 3] {
    let entry = "Offset in a group's entry";
    [
        Block {
            prefix: "",
            lead: "BAR offset",
            c_title: "Header: BAR offsets, and what a register holds where the map fixes it.",
            scala_object: "Header",
            scala_doc: "Registers of the header, offsets in the BAR.",
            base: map.window.header_offset_bytes,
            registers: map.header.clone(),
        },
        Block {
            prefix: "COUNTER_",
            lead: entry,
            c_title: "Counters: offsets in a group's entry.",
            scala_object: "Counter",
            scala_doc: "Counters of a group, offsets in its entry.",
            base: 0,
            registers: map.counter.clone(),
        },
        Block {
            prefix: "GROUP_",
            lead: entry,
            c_title: "Group table: offsets in a group's entry.",
            scala_object: "Group",
            scala_doc: "Registers of the group table, offsets in a group's entry.",
            base: 0,
            registers: map.group_table.clone(),
        },
    ]
}

fn constants(map: &Map) -> Vec<Constant> {
    window_constants(map)
        .into_iter()
        .chain(device_constants(map))
        .collect()
}

fn window_constants(map: &Map) -> [Constant; 5] {
    let window = &map.window;
    let offset = |name, bytes, doc| constant(name, "u64", hex(bytes), doc);
    let stride = |name, bytes: u64, doc| constant(name, "u64", bytes.to_string(), doc);
    let (header, counters) = (window.header_offset_bytes, window.counters_offset_bytes);
    let (pair, entry) = (window.counter_stride_bytes, window.group_table_stride_bytes);
    let groups = window.group_count_max.to_string();
    [
        offset("HEADER_OFFSET_BYTES", header, "BAR offset of the header."),
        offset(
            "COUNTERS_OFFSET_BYTES",
            counters,
            "BAR offset of the first group's counters.",
        ),
        stride(
            "COUNTER_STRIDE_BYTES",
            pair,
            "Bytes from one group's counters to the next.",
        ),
        stride(
            "GROUP_TABLE_STRIDE_BYTES",
            entry,
            "Bytes from one table entry to the next.",
        ),
        constant(
            "GROUP_COUNT_MAX",
            "u32",
            groups,
            "Most groups a device may have.",
        ),
    ]
}

fn device_constants(map: &Map) -> [Constant; 7] {
    let emulated = &map.emulated;
    let bar = |name, number: u8, doc| constant(name, "u8", number.to_string(), doc);
    let id = |name, number: u16, doc| constant(name, "u16", hex(number.into()), doc);
    let only = |name, bytes, doc| Constant {
        is_device_only: true,
        ..constant(name, "u64", hex(bytes), doc)
    };
    let table = emulated.group_table_offset_bytes;
    let table_doc = "Where the emulated device puts its group table. Others read the header.";
    [
        bar(
            "FPGA_BAR",
            map.fpga.bar,
            "The BAR with the registers, FPGA.",
        ),
        only("FPGA_BAR_BYTES", map.fpga.bar_bytes, "Length of that BAR."),
        id(
            "EMULATED_PCI_VENDOR",
            emulated.pci_vendor,
            "PCI vendor, emulated device.",
        ),
        id(
            "EMULATED_PCI_DEVICE",
            emulated.pci_device,
            "PCI device, emulated device.",
        ),
        bar(
            "EMULATED_BAR",
            emulated.bar,
            "The BAR with the registers, emulated device.",
        ),
        only(
            "EMULATED_BAR_BYTES",
            emulated.bar_bytes,
            "Length of that BAR.",
        ),
        only("EMULATED_GROUP_TABLE_OFFSET_BYTES", table, table_doc),
    ]
}

fn window(map: &Map) -> [(&'static str, String); 8] {
    let window = &map.window;
    [
        ("headerOffsetBytes", hex(window.header_offset_bytes)),
        ("countersOffsetBytes", hex(window.counters_offset_bytes)),
        (
            "counterStrideBytes",
            window.counter_stride_bytes.to_string(),
        ),
        (
            "groupTableStrideBytes",
            window.group_table_stride_bytes.to_string(),
        ),
        ("groupCountMax", window.group_count_max.to_string()),
        ("barBytes", hex(map.fpga.bar_bytes)),
        (
            "groupTableOffsetBytes",
            hex(map.fpga.group_table_offset_bytes),
        ),
        ("snapshotOffsetBytes", hex(map.fpga.snapshot_offset_bytes)),
    ]
}
