// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Renders the register map for the RTL: a Scala object with the offsets, and the header registers
//! as a list, from which the hardware's address decoder is made.

use crate::map::{Access, Map, Register};
use crate::render::{LINE_CHARS, MARK, described, hex, wrap};
use std::fmt::Write;

/// `rtl/src/main/scala/weir/access_counters/RegisterMap.scala`.
pub fn scala(map: &Map) -> String {
    let mut out = String::from("// SPDX-License-Identifier: Apache-2.0 OR MIT\n");
    let _ = writeln!(out, "// {MARK}.\npackage weir\n");
    out.push_str(
        "/** The register map of the access counters. The prose is in contract/registers.toml. */\n\
         object RegisterMap {\n",
    );
    for (name, value) in window(map) {
        let _ = writeln!(out, "  val {name} = {value}");
    }
    out.push_str("\n  /** Bits of the register `features`. */\n  object Feature {\n");
    for feature in &map.feature {
        scala_doc(&mut out, "    ", &feature.doc);
        let _ = writeln!(out, "    val {} = {}", camel(&feature.name), feature.bit);
    }
    out.push_str(
        "  }\n\n  /** A register: where it lies in its block, its width in bits, what it always reads, and the\n    \
         * feature that it belongs to.\n    */\n  \
         case class Register(\n    \
         offsetBytes: Int,\n    widthBits: Int,\n    writable: Boolean,\n    \
         value: Option[BigInt],\n    feature: Option[Int]\n  )\n",
    );
    let blocks = [
        (
            "Header",
            "Registers of the header, offsets in the BAR.",
            map.window.header_offset_bytes,
            &map.header,
        ),
        (
            "Counter",
            "Counters of a group, offsets in its entry.",
            0,
            &map.counter,
        ),
        (
            "Group",
            "Registers of the group table, offsets in a group's entry.",
            0,
            &map.group_table,
        ),
    ];
    for (name, doc, base, registers) in blocks {
        let _ = writeln!(out, "\n  /** {doc} */\n  object {name} {{");
        for register in registers {
            one_register(&mut out, register, base);
        }
        let names: Vec<String> = registers.iter().map(|r| camel(&r.name)).collect();
        let _ = writeln!(out, "    val all: Seq[Register] = Seq(");
        for line in wrap(&names.join(", "), LINE_CHARS - "      ".len()) {
            let _ = writeln!(out, "      {line}");
        }
        out.push_str("    )\n  }\n");
    }
    out.push_str("}\n");
    out
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

fn one_register(out: &mut String, register: &Register, base: u64) {
    scala_doc(out, "    ", &described(register));
    let value = register.value.map_or("None".into(), |value| {
        format!("Some(BigInt(\"{value:x}\", 16))")
    });
    let feature = register.feature.as_ref().map_or("None".into(), |name| {
        format!("Some(Feature.{})", camel(name))
    });
    let _ = writeln!(
        out,
        "    val {} = Register({}, {}, {}, {value}, {feature})",
        camel(&register.name),
        hex(base + register.offset_bytes),
        register.width_bits,
        register.access == Access::Rw,
    );
}

fn scala_doc(out: &mut String, indent: &str, text: &str) {
    let lines = wrap(text, LINE_CHARS - indent.len() - "/**  */".len());
    for (index, line) in lines.iter().enumerate() {
        let start = if index == 0 { "/**" } else { "  *" };
        let end = if index + 1 == lines.len() { " */" } else { "" };
        let _ = writeln!(out, "{indent}{start} {line}{end}");
    }
}

/// `group_count` as `groupCount`.
fn camel(name: &str) -> String {
    let mut out = String::new();
    let mut upper = false;
    for c in name.chars() {
        match c {
            '_' => upper = true,
            _ if upper => {
                out.push(c.to_ascii_uppercase());
                upper = false;
            }
            _ => out.push(c),
        }
    }
    out
}
