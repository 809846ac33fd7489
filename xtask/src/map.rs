// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The register map of the access counters as data, and what must hold of it.
//!
//! The text is `contract/registers.toml`. It is parsed strictly (an unknown key is an error, so a
//! misspelt one cannot be ignored) and then checked as a whole, because a map that contradicts
//! itself would be rendered into three languages at once:
//!
//! 1. names are unique identifiers; widths are 32 or 64 bits; offsets are aligned to their width;
//! 2. no two registers of a block overlap, and each lies inside its block: the header ends where
//!    the counters begin, a counter or table entry ends at its stride;
//! 3. fixed values fit their width, bounds are ordered and fit too, and the map's version and the
//!    version register agree;
//! 4. features have a bit each, and registers name features that exist;
//! 5. the largest device the map allows fits the BAR, emulated and in the FPGA, and no two of its
//!    blocks meet (`layout.rs`).

use crate::layout;
use serde::Deserialize;

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Map {
    pub version: u32,
    pub window: Window,
    pub emulated: Emulated,
    pub fpga: Fpga,
    /// What a device may have besides counters and group table.
    pub feature: Vec<Feature>,
    pub header: Vec<Register>,
    /// Registers of one group's counters, offsets from their start.
    pub counter: Vec<Register>,
    /// Registers of one entry of the group table, offsets from its start.
    pub group_table: Vec<Register>,
}

/// Where the blocks lie in the BAR.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Window {
    /// BAR offset of the header.
    pub header_offset_bytes: u64,
    /// BAR offset of the first group's counters.
    pub counters_offset_bytes: u64,
    /// Distance from one group's counters to the next.
    pub counter_stride_bytes: u64,
    /// Distance from one entry of the group table to the next.
    pub group_table_stride_bytes: u64,
    /// Most groups a device may have.
    pub group_count_max: u32,
}

/// How QEMU shows the device.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Emulated {
    pub pci_vendor: u16,
    pub pci_device: u16,
    pub bar: u8,
    pub bar_bytes: u64,
    /// Where the emulated device puts its group table.
    pub group_table_offset_bytes: u64,
}

/// How the FPGA shows the device.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fpga {
    pub bar: u8,
    /// How much of it the registers need.
    pub bar_bytes: u64,
    /// Where the RTL puts its group table.
    pub group_table_offset_bytes: u64,
    /// Where the RTL puts the counters of the last snapshot.
    pub snapshot_offset_bytes: u64,
}

/// Something that a device may have or not.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Feature {
    pub name: String,
    /// Its bit in the register `features`.
    pub bit: u32,
    pub doc: String,
}

/// What the host may do with a register.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum Access {
    /// Read it; writes change nothing.
    #[default]
    Ro,
    Rw,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Register {
    pub name: String,
    /// Offset from the start of its block.
    pub offset_bytes: u64,
    /// 32 or 64.
    pub width_bits: u32,
    /// The value that this version of the map fixes.
    pub value: Option<u64>,
    /// The smallest value a device may show.
    pub min: Option<u64>,
    /// The largest value a device may show.
    pub max: Option<u64>,
    #[serde(default)]
    pub access: Access,
    /// The feature without which it reads 0.
    pub feature: Option<String>,
    pub doc: String,
}

impl Register {
    fn width_bytes(&self) -> u64 {
        u64::from(self.width_bits / 8)
    }

    fn end_bytes(&self) -> u64 {
        self.offset_bytes.saturating_add(self.width_bytes())
    }
}

#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum MapError {
    /// The text is not TOML, or a key is missing, unknown or of the wrong type.
    #[error("{0}")]
    Syntax(String),
    #[error("[[{block}]] {register}: {problem}")]
    Register {
        block: &'static str,
        register: String,
        /// What is wrong, with numbers.
        problem: String,
    },
    #[error("{0}")]
    Layout(String),
}

/// Parses and checks a map.
///
/// # Errors
/// The first thing that is wrong with it.
pub fn parse(text: &str) -> Result<Map, MapError> {
    let map: Map = toml::from_str(text).map_err(|e| MapError::Syntax(e.to_string()))?;
    let window = &map.window;
    let header_bytes = window
        .counters_offset_bytes
        .checked_sub(window.header_offset_bytes)
        .filter(|bytes| *bytes > 0)
        .ok_or_else(|| {
            contradiction(format!(
                "the counters at {:#x} must come after the header at {:#x}",
                window.counters_offset_bytes, window.header_offset_bytes
            ))
        })?;
    check_block("header", &map.header, header_bytes)?;
    check_block("counter", &map.counter, window.counter_stride_bytes)?;
    check_block(
        "group_table",
        &map.group_table,
        window.group_table_stride_bytes,
    )?;
    check_required(&map)?;
    check_features(&map)?;
    layout::check(&map)?;
    Ok(map)
}

pub(crate) fn contradiction(problem: String) -> MapError {
    MapError::Layout(problem)
}

/// Names and bits of features are each one's own.
pub(crate) fn check_feature_list(features: &[Feature]) -> Result<(), MapError> {
    for (index, feature) in features.iter().enumerate() {
        let Feature { name, bit, doc } = feature;
        let problem = if !is_identifier(name) {
            Some("the name must be lower-case letters, digits and _".into())
        } else if *bit > 31 {
            Some(format!("bit is {bit}, but the register has bits 0 to 31"))
        } else {
            text_problem(doc)
        };
        if let Some(problem) = problem {
            return Err(contradiction(format!("[[feature]] {name}: {problem}")));
        }
        if let Some(other) = features[..index]
            .iter()
            .find(|o| o.bit == *bit || o.name == *name)
        {
            return Err(contradiction(format!(
                "[[feature]] {name}: has its name or its bit {bit} from {}",
                other.name
            )));
        }
    }
    Ok(())
}

fn check_features(map: &Map) -> Result<(), MapError> {
    check_feature_list(&map.feature)?;
    for register in &map.header {
        let Some(wanted) = &register.feature else {
            continue;
        };
        if !map.feature.iter().any(|f| f.name == *wanted) {
            return Err(contradiction(format!(
                "[[header]] {}: there is no [[feature]] \"{wanted}\"",
                register.name
            )));
        }
    }
    let mut per_group = map.counter.iter().chain(&map.group_table);
    if let Some(register) = per_group.find(|r| r.feature.is_some() || r.access == Access::Rw) {
        return Err(contradiction(format!(
            "{}: registers of a group are read-only and on every device",
            register.name
        )));
    }
    Ok(())
}

pub(crate) fn is_identifier(name: &str) -> bool {
    let letters = |c: char| c.is_ascii_lowercase() || c == '_' || c.is_ascii_digit();
    name.starts_with(|c: char| c.is_ascii_lowercase()) && name.chars().all(letters)
}

/// The text goes into comments of C, Scala and Rust.
pub(crate) fn text_problem(doc: &str) -> Option<String> {
    if doc.trim().is_empty() || doc.contains(['\n', '\r']) {
        return Some("doc must be one line of text".into());
    }
    if doc.contains("*/") {
        return Some("doc must not end the C comment it is rendered into".into());
    }
    None
}

/// The registers that the renderers and the driver call by name.
fn check_required(map: &Map) -> Result<(), MapError> {
    const HEADER: [(&str, u32); 6] = [
        ("magic", 32),
        ("version", 32),
        ("group_count", 32),
        ("line_bytes", 32),
        ("group_table_offset_bytes", 64),
        ("features", 32),
    ];
    let lists = [
        ("header", &map.header, HEADER.as_slice()),
        ("counter", &map.counter, &[("reads", 64), ("writes", 64)]),
        (
            "group_table",
            &map.group_table,
            &[("base_bytes", 64), ("size_bytes", 64)],
        ),
    ];
    for (block, registers, wanted) in lists {
        for (name, width_bits) in wanted {
            let found = registers.iter().find(|r| r.name == *name);
            if found.map(|r| r.width_bits) != Some(*width_bits) {
                return Err(contradiction(format!(
                    "[[{block}]] needs a register \"{name}\" of {width_bits} bits"
                )));
            }
        }
    }
    let named = |name: &str| map.header.iter().find(|r| r.name == name);
    for fixed in ["magic", "version", "line_bytes"] {
        if named(fixed).and_then(|r| r.value).is_none_or(|v| v == 0) {
            return Err(contradiction(format!(
                "[[header]] {fixed} needs a value other than 0"
            )));
        }
    }
    if named("version").and_then(|r| r.value) != Some(u64::from(map.version)) {
        return Err(contradiction(format!(
            "version is {}, but the version register's value is another",
            map.version
        )));
    }
    let groups_max = u64::from(map.window.group_count_max);
    if named("group_count").map(|r| (r.min, r.max)) != Some((Some(1), Some(groups_max))) {
        return Err(contradiction(format!(
            "group_count must have min = 1 and max = group_count_max = {groups_max}"
        )));
    }
    Ok(())
}

pub(crate) fn check_block(
    block: &'static str,
    registers: &[Register],
    block_bytes: u64,
) -> Result<(), MapError> {
    for register in registers {
        check_register(register, block_bytes).map_err(|problem| MapError::Register {
            block,
            register: register.name.clone(),
            problem,
        })?;
    }
    let mut sorted: Vec<&Register> = registers.iter().collect();
    sorted.sort_by_key(|r| r.offset_bytes);
    for pair in sorted.windows(2) {
        if pair[0].end_bytes() > pair[1].offset_bytes {
            return Err(MapError::Register {
                block,
                register: pair[1].name.clone(),
                problem: format!(
                    "at {:#x} overlaps {}, which ends at {:#x}",
                    pair[1].offset_bytes,
                    pair[0].name,
                    pair[0].end_bytes()
                ),
            });
        }
    }
    let mut names: Vec<&str> = registers.iter().map(|r| r.name.as_str()).collect();
    names.sort_unstable();
    if let Some(twice) = names.windows(2).find(|w| w[0] == w[1]) {
        return Err(contradiction(format!(
            "[[{block}]] names \"{}\" twice",
            twice[0]
        )));
    }
    Ok(())
}

fn check_register(register: &Register, block_bytes: u64) -> Result<(), String> {
    if !is_identifier(&register.name) {
        return Err("the name must be lower-case letters, digits and _".into());
    }
    if !matches!(register.width_bits, 32 | 64) {
        return Err(format!(
            "width_bits is {}, not 32 or 64",
            register.width_bits
        ));
    }
    if !register.offset_bytes.is_multiple_of(register.width_bytes()) {
        return Err(format!(
            "offset {:#x} is not a multiple of its {} bytes",
            register.offset_bytes,
            register.width_bytes()
        ));
    }
    if register.end_bytes() > block_bytes {
        return Err(format!(
            "ends at {:#x}, outside its block of {block_bytes:#x} bytes",
            register.end_bytes()
        ));
    }
    let largest = if register.width_bits == 32 {
        u64::from(u32::MAX)
    } else {
        u64::MAX
    };
    for (key, value) in [
        ("value", register.value),
        ("min", register.min),
        ("max", register.max),
    ] {
        if value.is_some_and(|v| v > largest) {
            return Err(format!("{key} does not fit {} bits", register.width_bits));
        }
    }
    if register.value.is_some() && (register.min.is_some() || register.max.is_some()) {
        return Err("has both a fixed value and bounds".into());
    }
    if let (Some(min), Some(max)) = (register.min, register.max)
        && min > max
    {
        return Err(format!("min {min} is above max {max}"));
    }
    text_problem(&register.doc).map_or(Ok(()), Err)
}
