// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The views of the contracts are what these say, and a wrong contract is refused with the register and the
//! numbers in the message.

use std::fs;
use xtask::map::{self, MapError};

fn source() -> String {
    contract("contract/registers.toml")
}

fn accelerator() -> String {
    contract("contract/accelerator.toml")
}

fn contract(name: &str) -> String {
    let path = xtask::repository_root().join(name);
    fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// The map with one piece of its text replaced; the piece must be there.
fn broken(from: &str, to: &str) -> MapError {
    let text = source();
    assert!(
        text.contains(from),
        "registers.toml no longer contains {from:?}"
    );
    match map::parse(&text.replacen(from, to, 1)) {
        Ok(_) => panic!("accepted a map with {to:?} for {from:?}"),
        Err(error) => error,
    }
}

#[test]
fn views_are_fresh() {
    xtask::generate(&xtask::repository_root(), true).unwrap();
}

#[test]
fn a_stale_view_is_named_and_generation_repairs_it() {
    let root = tempfile::tempdir().unwrap();
    for folder in [
        "contract",
        "kernel/access_counters",
        "crates/weir-hw/src/access_counters",
        "rtl/src/main/scala/weir/access_counters",
        "kernel/accelerator",
        "crates/weir-type2/src/engines",
        "rtl/src/main/scala/weir/accelerator",
    ] {
        fs::create_dir_all(root.path().join(folder)).unwrap();
    }
    fs::write(root.path().join("contract/registers.toml"), source()).unwrap();
    fs::write(root.path().join("contract/accelerator.toml"), accelerator()).unwrap();
    let missing = xtask::generate(root.path(), true).unwrap_err().to_string();
    assert!(
        missing.contains("kernel/access_counters/weir_regs.h: missing"),
        "{missing}"
    );

    xtask::generate(root.path(), false).unwrap();
    xtask::generate(root.path(), true).unwrap();

    let header = root.path().join("kernel/access_counters/weir_regs.h");
    let text = fs::read_to_string(&header).unwrap();
    fs::write(&header, text.replace("0x18100", "0x18110")).unwrap();
    let stale = xtask::generate(root.path(), true).unwrap_err().to_string();
    assert!(
        stale.contains("weir_regs.h:") && stale.contains("0x18110"),
        "{stale}"
    );
    assert!(!stale.contains("regmap.rs"), "{stale}");
}

#[test]
fn overlaps_and_alignment_are_found() {
    let overlap = broken("offset_bytes = 0x04", "offset_bytes = 0x00").to_string();
    assert!(
        overlap.contains("version: at 0x0 overlaps magic, which ends at 0x4"),
        "{overlap}"
    );
    let crooked = broken("offset_bytes = 0x10", "offset_bytes = 0x14").to_string();
    assert!(
        crooked.contains("0x14 is not a multiple of its 8 bytes"),
        "{crooked}"
    );
    let outside = broken("offset_bytes = 0x0c", "offset_bytes = 0x100").to_string();
    assert!(
        outside.contains("line_bytes: ends at 0x104, outside its block of 0x100"),
        "{outside}"
    );
    let stride = broken("counter_stride_bytes = 16", "counter_stride_bytes = 8").to_string();
    assert!(
        stride.contains("[[counter]] writes: ends at 0x10"),
        "{stride}"
    );
    let width = broken("width_bits = 64", "width_bits = 48").to_string();
    assert!(width.contains("width_bits is 48"), "{width}");
}

#[test]
fn blocks_must_not_meet() {
    let order = broken(
        "counters_offset_bytes = 0x18100",
        "counters_offset_bytes = 0x17000",
    );
    assert!(
        order.to_string().contains("must come after the header"),
        "{order}"
    );
    let table = "group_table_offset_bytes = 0x60000";
    let meets = broken(table, "group_table_offset_bytes = 0x58000").to_string();
    assert!(
        meets.contains("end at 0x58100 with 16384 groups"),
        "{meets}"
    );
    // Exactly behind the counters is allowed.
    let text = source().replacen(table, "group_table_offset_bytes = 0x58100", 1);
    map::parse(&text).unwrap();
    let short = broken("bar_bytes = 0x100000", "bar_bytes = 0x80000").to_string();
    assert!(short.contains("16384 groups need 0xa0000 bytes"), "{short}");
    let vast = broken(
        "counter_stride_bytes = 16",
        "counter_stride_bytes = 0x7ffffffffffffff0",
    );
    assert!(vast.to_string().contains("do not fit 64 bits"), "{vast}");
}

#[test]
fn values_must_agree() {
    let count = broken("\nmax = 16384", "\nmax = 16385").to_string();
    assert!(count.contains("group_count_max = 16384"), "{count}");
    let version = broken("version = 1\n", "version = 2\n").to_string();
    assert!(version.contains("version is 2"), "{version}");
    let wide = broken("value = 64", "value = 0x1_0000_0000").to_string();
    assert!(wide.contains("does not fit 32 bits"), "{wide}");
    let unknown = broken("\nmax = 16384", "\nmaximum = 16384");
    assert!(matches!(unknown, MapError::Syntax(_)), "{unknown}");
    let gone = broken("name = \"reads\"", "name = \"loads\"").to_string();
    assert!(
        gone.contains("needs a register \"reads\" of 64 bits"),
        "{gone}"
    );
    let comment = broken("Number of monitoring groups.", "Ends here: */").to_string();
    assert!(comment.contains("must not end the C comment"), "{comment}");
}

#[test]
fn features_are_checked() {
    let bit = broken("bit = 1\n", "bit = 0\n").to_string();
    assert!(bit.contains("its bit 0 from snapshot"), "{bit}");
    let far = broken("bit = 3\n", "bit = 32\n").to_string();
    assert!(far.contains("bits 0 to 31"), "{far}");
    let unknown = broken("feature = \"latency\"", "feature = \"lateness\"").to_string();
    assert!(
        unknown.contains("there is no [[feature]] \"lateness\""),
        "{unknown}"
    );
    let access = broken("access = \"rw\"", "access = \"wo\"");
    assert!(matches!(access, MapError::Syntax(_)), "{access}");
    let reads = "name = \"reads\"\n";
    let writable = broken(reads, "name = \"reads\"\naccess = \"rw\"\n").to_string();
    assert!(
        writable.contains("reads: registers of a group are read-only"),
        "{writable}"
    );
}

#[test]
fn the_fpga_s_blocks_must_not_meet_either() {
    let snapshot = "snapshot_offset_bytes = 0xa0000";
    let meets = broken(snapshot, "snapshot_offset_bytes = 0x90000").to_string();
    assert!(
        meets.contains(
            "the fpga snapshot at 0x90000 overlaps the group table, which end at 0xa0000"
        ),
        "{meets}"
    );
    let outside = broken(snapshot, "snapshot_offset_bytes = 0xc0008").to_string();
    assert!(
        outside.contains("need 0x100008 bytes, but fpga.bar_bytes is 0x100000"),
        "{outside}"
    );
}

/// The hardware's decoder is made from this list, so it must be the header's.
#[test]
fn the_scala_view_has_every_register() {
    let map = map::parse(&source()).unwrap();
    let text = xtask::render_scala::scala(&xtask::access_counters::view(&map));
    for wanted in [
        "val magic = Register(0x18000, 32, false, Some(BigInt(\"52494557\", 16)), None)",
        "val hostBaseBytes = Register(0x18020, 64, true, None, Some(Feature.map))",
        "val writes = Register(0x8, 64, false, None, None)",
        "val snapshotOffsetBytes = 0xa0000",
    ] {
        assert!(text.contains(wanted), "no `{wanted}` in:\n{text}");
    }
    let registers = map.header.len() + map.counter.len() + map.group_table.len();
    assert_eq!(text.matches(" = Register(").count(), registers);
}

#[test]
fn a_wrong_contract_of_the_accelerator_is_refused() {
    for (from, to, said) in [
        ("bar_bytes = 0x2000", "bar_bytes = 0x1000", "bar_bytes"),
        ("offset_bytes = 0x04\n", "offset_bytes = 0x00\n", "overlaps"),
        (
            "code = 2\n",
            "code = 1\n",
            "has its name or its code 1 from",
        ),
        ("code = 4\n", "code = 40\n", "0 to 31"),
        (
            "descriptor_bytes = 64",
            "descriptor_bytes = 32",
            "outside its block of 0x20 bytes",
        ),
        (
            "completion_bytes = 32",
            "completion_bytes = 24",
            "power of two",
        ),
        (
            "counter_stride_bytes = 32",
            "counter_stride_bytes = 0x800",
            "meet the doorbell",
        ),
        ("max = 16\n", "max = 17\n", "engine_count_max"),
        ("version = 1\n", "version = 2\n", "version is 2"),
        ("name = \"tag\"", "name = \"Tag\"", "lower-case"),
        ("msi_vectors = 1", "vectors = 1", "unknown field"),
    ] {
        let text = accelerator();
        assert!(
            text.contains(from),
            "accelerator.toml no longer contains {from:?}"
        );
        let error = xtask::accelerator::parse(&text.replacen(from, to, 1));
        let error = error
            .err()
            .unwrap_or_else(|| panic!("accepted {to:?} for {from:?}"));
        assert!(error.to_string().contains(said), "{to}: {error}");
    }
}
