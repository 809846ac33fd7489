// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The accelerator's contract (`contract/accelerator.toml`) as data, what must hold of it, and its view.
//!
//! Registers are checked as those of the access counters ([`crate::map`]). Besides: codes and bits are each
//! one's own, descriptors and completions lie in aligned entries that no line of 64 bytes splits, and the
//! blocks of the BAR do not meet.

use crate::map::{Feature, MapError, Register, check_block, check_feature_list, contradiction};
use crate::map::{is_identifier, text_problem};
use crate::render::hex;
use crate::view::{Block, Code, Codes, Constant, View, constant};
use serde::Deserialize;

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Accelerator {
    pub version: u32,
    pub window: AcceleratorWindow,
    pub emulated: AcceleratorPci,
    pub ring: Ring,
    /// What a device may have besides.
    pub feature: Vec<Feature>,
    pub op: Vec<Named>,
    pub status: Vec<Named>,
    pub flag: Vec<Feature>,
    pub header: Vec<Register>,
    pub counter: Vec<Register>,
    pub doorbell: Vec<Register>,
    pub descriptor: Vec<Register>,
    pub completion: Vec<Register>,
}

/// Where the blocks lie in the BAR.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AcceleratorWindow {
    /// The BAR with the registers.
    pub bar: u8,
    pub bar_bytes: u64,
    pub header_offset_bytes: u64,
    /// BAR offset of the counters of operation 0.
    pub counters_offset_bytes: u64,
    /// Distance from one operation's counters to the next.
    pub counter_stride_bytes: u64,
    pub doorbell_offset_bytes: u64,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AcceleratorPci {
    pub pci_vendor: u16,
    pub pci_device: u16,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ring {
    pub descriptor_bytes: u64,
    pub completion_bytes: u64,
    /// Log2 of the most entries.
    pub entries_log2_max: u32,
    /// Most requests that a device works on at a time.
    pub engine_count_max: u32,
    pub msi_vectors: u32,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Named {
    pub name: String,
    pub code: u32,
    pub doc: String,
}

/// Bytes that memory moves at once.
const LINE_BYTES: u64 = 64;

/// Codes of operations have a bit in a register of 32.
const CODE_MAX: u32 = 31;

/// Parses and checks a contract.
///
/// # Errors
/// The first thing that is wrong with it.
pub fn parse(text: &str) -> Result<Accelerator, MapError> {
    let contract: Accelerator =
        toml::from_str(text).map_err(|e| MapError::Syntax(e.to_string()))?;
    let (window, ring) = (&contract.window, &contract.ring);
    let entries = [ring.descriptor_bytes, ring.completion_bytes];
    for (name, bytes) in ["descriptor_bytes", "completion_bytes"]
        .into_iter()
        .zip(entries)
    {
        if !bytes.is_power_of_two() || !(8..=LINE_BYTES).contains(&bytes) {
            return Err(contradiction(format!(
                "ring.{name} is {bytes}: not a power of two from 8 to {LINE_BYTES}"
            )));
        }
    }
    let header_bytes = window
        .counters_offset_bytes
        .saturating_sub(window.header_offset_bytes);
    check_block("header", &contract.header, header_bytes)?;
    check_block("counter", &contract.counter, window.counter_stride_bytes)?;
    check_block("doorbell", &contract.doorbell, 8)?;
    check_block("descriptor", &contract.descriptor, ring.descriptor_bytes)?;
    check_block("completion", &contract.completion, ring.completion_bytes)?;
    check_feature_list(&contract.feature)?;
    check_feature_list(&contract.flag)?;
    check_codes("op", &contract.op)?;
    check_codes("status", &contract.status)?;
    check_window(window)?;
    check_fixed(&contract)?;
    Ok(contract)
}

fn check_codes(list: &str, codes: &[Named]) -> Result<(), MapError> {
    for (index, Named { name, code, doc }) in codes.iter().enumerate() {
        let other = codes[..index]
            .iter()
            .find(|o| o.code == *code || o.name == *name);
        let problem = if !is_identifier(name) {
            Some("the name must be lower-case letters, digits and _".into())
        } else if *code > CODE_MAX {
            Some(format!("code is {code}: 0 to {CODE_MAX} are allowed"))
        } else if let Some(other) = other {
            Some(format!(
                "has its name or its code {code} from {}",
                other.name
            ))
        } else {
            text_problem(doc)
        };
        if let Some(problem) = problem {
            return Err(contradiction(format!("[[{list}]] {name}: {problem}")));
        }
    }
    Ok(())
}

fn check_window(window: &AcceleratorWindow) -> Result<(), MapError> {
    if !window.bar_bytes.is_power_of_two() || window.bar > 5 {
        return Err(contradiction(
            "a PCI function has BARs 0 to 5, and bar_bytes must be a power of two".into(),
        ));
    }
    let counters = u64::from(CODE_MAX) + 1;
    let end = window
        .counter_stride_bytes
        .checked_mul(counters)
        .and_then(|bytes| bytes.checked_add(window.counters_offset_bytes));
    if end.is_none_or(|end| end > window.doorbell_offset_bytes) {
        return Err(contradiction(format!(
            "counters of {counters} operations, {} bytes each, meet the doorbell at {:#x}",
            window.counter_stride_bytes, window.doorbell_offset_bytes
        )));
    }
    if window.doorbell_offset_bytes.saturating_add(8) > window.bar_bytes {
        return Err(contradiction(format!(
            "the doorbell at {:#x} lies outside of bar_bytes = {:#x}",
            window.doorbell_offset_bytes, window.bar_bytes
        )));
    }
    Ok(())
}

fn check_fixed(contract: &Accelerator) -> Result<(), MapError> {
    let named = |name: &str| contract.header.iter().find(|r| r.name == name);
    if named("version").and_then(|r| r.value) != Some(u64::from(contract.version)) {
        return Err(contradiction(format!(
            "version is {}, but the version register's value is another",
            contract.version
        )));
    }
    for (register, key, most) in [
        (
            "engine_count",
            "engine_count_max",
            contract.ring.engine_count_max,
        ),
        (
            "ring_entries_log2_max",
            "entries_log2_max",
            contract.ring.entries_log2_max,
        ),
    ] {
        if named(register).and_then(|r| r.max) != Some(u64::from(most)) {
            return Err(contradiction(format!(
                "[[header]] {register} must have max = ring.{key} = {most}"
            )));
        }
    }
    Ok(())
}

impl Accelerator {
    /// The contract as its renderers see it.
    pub fn view(&self) -> View {
        View {
            source: "contract/accelerator.toml",
            about: "The contract of the accelerator",
            content: "the BAR, in descriptors and in completions,",
            c_guard: "WEIR_ACCEL_REGS_H",
            c_prefix: "WEIR_ACCEL",
            scala_object: "AcceleratorMap",
            constants: self.constants(),
            scala_constants: self.scala_constants(),
            codes: self.codes(),
            blocks: self.blocks().into(),
        }
    }

    fn constants(&self) -> Vec<Constant> {
        let (window, ring, pci) = (&self.window, &self.ring, &self.emulated);
        let offset = |name, bytes, doc| constant(name, "u64", hex(bytes), doc);
        let number = |name, value: u32, doc| constant(name, "u32", value.to_string(), doc);
        let bytes = |name, bytes: u64, doc| constant(name, "u64", bytes.to_string(), doc);
        let id = |name, id: u16, doc| constant(name, "u16", hex(id.into()), doc);
        vec![
            constant(
                "BAR",
                "u8",
                window.bar.to_string(),
                "The BAR with the registers.",
            ),
            offset("BAR_BYTES", window.bar_bytes, "Length of that BAR."),
            offset(
                "COUNTERS_OFFSET_BYTES",
                window.counters_offset_bytes,
                "BAR offset of operation 0's counters.",
            ),
            bytes(
                "COUNTER_STRIDE_BYTES",
                window.counter_stride_bytes,
                "Bytes from one operation's counters to the next.",
            ),
            id(
                "EMULATED_PCI_VENDOR",
                pci.pci_vendor,
                "PCI vendor, emulated device.",
            ),
            id(
                "EMULATED_PCI_DEVICE",
                pci.pci_device,
                "PCI device, emulated device.",
            ),
            bytes(
                "DESCRIPTOR_BYTES",
                ring.descriptor_bytes,
                "Bytes of a descriptor.",
            ),
            bytes(
                "COMPLETION_BYTES",
                ring.completion_bytes,
                "Bytes of a completion.",
            ),
            number(
                "ENTRIES_LOG2_MAX",
                ring.entries_log2_max,
                "Log2 of the most entries of a ring.",
            ),
            number(
                "ENGINE_COUNT_MAX",
                ring.engine_count_max,
                "Most requests that a device works on at a time.",
            ),
            number("MSI_VECTORS", ring.msi_vectors, "MSI vectors."),
        ]
    }

    fn scala_constants(&self) -> Vec<(&'static str, String)> {
        let (window, ring) = (&self.window, &self.ring);
        vec![
            ("barBytes", hex(window.bar_bytes)),
            ("countersOffsetBytes", hex(window.counters_offset_bytes)),
            (
                "counterStrideBytes",
                window.counter_stride_bytes.to_string(),
            ),
            ("descriptorBytes", ring.descriptor_bytes.to_string()),
            ("completionBytes", ring.completion_bytes.to_string()),
            ("entriesLog2Max", ring.entries_log2_max.to_string()),
            ("engineCountMax", ring.engine_count_max.to_string()),
        ]
    }

    fn codes(&self) -> Vec<Codes> {
        let bit = |feature: &Feature| Code {
            name: feature.name.clone(),
            value: hex(1 << feature.bit),
            scala_value: feature.bit.to_string(),
            doc: feature.doc.clone(),
        };
        let code = |named: &Named| Code {
            name: named.name.clone(),
            value: named.code.to_string(),
            scala_value: named.code.to_string(),
            doc: named.doc.clone(),
        };
        let list = |prefix, lead, c_title, (scala_object, scala_doc), codes| Codes {
            prefix,
            lead,
            c_title,
            scala_object,
            scala_doc,
            codes,
        };
        vec![
            list(
                "FEATURE",
                "In the register `features`: ",
                "Features: bits of the register `features`.",
                ("Feature", "Bits of the register `features`."),
                self.feature.iter().map(bit).collect(),
            ),
            list(
                "OP",
                "Operation: ",
                "Operations.",
                ("Op", "Codes of operations."),
                self.op.iter().map(code).collect(),
            ),
            list(
                "STATUS",
                "Status: ",
                "How a request ended.",
                ("Status", "How a request ended."),
                self.status.iter().map(code).collect(),
            ),
            list(
                "FLAG",
                "In a descriptor's `flags`: ",
                "Bits of a descriptor's flags.",
                ("Flag", "Bits of a descriptor's flags."),
                self.flag.iter().map(bit).collect(),
            ),
        ]
    }

    fn blocks(&self) -> [Block; 5] {
        let window = &self.window;
        let block = |prefix,
                     lead,
                     c_title,
                     (scala_object, scala_doc),
                     (base, registers): (u64, &[Register])| Block {
            prefix,
            lead,
            c_title,
            scala_object,
            scala_doc,
            base,
            registers: registers.to_vec(),
        };
        [
            block(
                "",
                "BAR offset",
                "Header: BAR offsets, and what a register holds where the contract fixes it.",
                ("Header", "Registers of the header, offsets in the BAR."),
                (window.header_offset_bytes, &self.header),
            ),
            block(
                "COUNTER_",
                "Offset in an operation's counters",
                "Counters: offsets in those of an operation.",
                ("Counter", "Counters of an operation, offsets in its entry."),
                (0, &self.counter),
            ),
            block(
                "",
                "BAR offset",
                "Doorbell: BAR offset.",
                ("Doorbell", "The doorbell, offset in the BAR."),
                (window.doorbell_offset_bytes, &self.doorbell),
            ),
            block(
                "DESCRIPTOR_",
                "Offset in a descriptor",
                "Descriptor: offsets in it.",
                ("Descriptor", "Fields of a descriptor."),
                (0, &self.descriptor),
            ),
            block(
                "COMPLETION_",
                "Offset in a completion",
                "Completion: offsets in it.",
                ("Completion", "Fields of a completion."),
                (0, &self.completion),
            ),
        ]
    }
}
