// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Renders a contract for the RTL: a Scala object with the offsets, and the registers of each block as a
//! list, from which the hardware's address decoder is made.

use crate::map::{Access, Register};
use crate::render::{LINE_CHARS, described, hex, mark, wrap};
use crate::view::View;
use std::fmt::Write;

pub fn scala(view: &View) -> String {
    let mut out = String::from("// SPDX-License-Identifier: Apache-2.0 OR MIT\n");
    let _ = writeln!(out, "// {}.\npackage weir\n", mark(view));
    let (about, source, object) = (view.about, view.source, view.scala_object);
    let _ = writeln!(
        out,
        "/** {about}. The prose is in {source}. */\nobject {object} {{"
    );
    for (name, value) in &view.scala_constants {
        let _ = writeln!(out, "  val {name} = {value}");
    }
    for codes in &view.codes {
        let _ = writeln!(
            out,
            "\n  /** {} */\n  object {} {{",
            codes.scala_doc, codes.scala_object
        );
        for code in &codes.codes {
            scala_doc(&mut out, "    ", &code.doc);
            let _ = writeln!(out, "    val {} = {}", camel(&code.name), code.scala_value);
        }
        out.push_str("  }\n");
    }
    for block in &view.blocks {
        let (doc, object) = (block.scala_doc, block.scala_object);
        let _ = writeln!(out, "\n  /** {doc} */\n  object {object} {{");
        for register in &block.registers {
            one_register(&mut out, register, block.base);
        }
        let names: Vec<String> = block.registers.iter().map(|r| camel(&r.name)).collect();
        let _ = writeln!(out, "    val all: Seq[Register] = Seq(");
        for line in wrap(&names.join(", "), LINE_CHARS - "      ".len()) {
            let _ = writeln!(out, "      {line}");
        }
        out.push_str("    )\n  }\n");
    }
    out.push_str("}\n");
    out
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
