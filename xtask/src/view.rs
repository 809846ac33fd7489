// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A contract as its renderers see it: constants, lists of codes, and blocks of registers.

use crate::map::Register;

/// A contract, ready to be rendered into each language.
pub struct View {
    pub source: &'static str,
    /// What it is, as the first words of a sentence: "The register map of the access counters".
    pub about: &'static str,
    pub content: &'static str,
    /// Name of the macro that guards the C view.
    pub c_guard: &'static str,
    /// What all macros begin with.
    pub c_prefix: &'static str,
    pub scala_object: &'static str,
    /// What is neither code nor register, for Rust and C.
    pub constants: Vec<Constant>,
    /// The same for Scala: name and value.
    pub scala_constants: Vec<(&'static str, String)>,
    pub codes: Vec<Codes>,
    pub blocks: Vec<Block>,
}

pub struct Constant {
    /// In capitals.
    pub name: &'static str,
    /// Its Rust type.
    pub kind: &'static str,
    /// Its value, in Rust and in C.
    pub value: String,
    pub doc: &'static str,
    /// Only the device itself needs it: left out of the C view.
    pub is_device_only: bool,
}

pub struct Codes {
    /// What their names begin with, in capitals.
    pub prefix: &'static str,
    /// What their Rust docs begin with.
    pub lead: &'static str,
    /// What stands above them in C.
    pub c_title: &'static str,
    pub scala_object: &'static str,
    pub scala_doc: &'static str,
    pub codes: Vec<Code>,
}

pub struct Code {
    pub name: String,
    pub value: String,
    pub scala_value: String,
    pub doc: String,
}

/// Registers, or the fields of an entry.
pub struct Block {
    /// What their names begin with, in capitals, with its `_`.
    pub prefix: &'static str,
    /// What the offset is, as Rust says it.
    pub lead: &'static str,
    /// What stands above them in C.
    pub c_title: &'static str,
    pub scala_object: &'static str,
    pub scala_doc: &'static str,
    pub base: u64,
    pub registers: Vec<Register>,
}

pub fn constant(
    name: &'static str,
    kind: &'static str,
    value: String,
    doc: &'static str,
) -> Constant {
    Constant {
        name,
        kind,
        value,
        doc,
        is_device_only: false,
    }
}
