// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weir groups` over a machine made of files: what is written, what is refused, and whether the check
//! after the boot sees each thing that can be wrong.

#[allow(dead_code)]
#[path = "../../../weir-acpi/src/tests/builders.rs"]
mod builders;

use builders::{GIB, memory, processor};
use serde_json::Value;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

const MIB_128: u64 = 128 << 20;

/// Node 0 with 1 GiB and a CPU; a device of 1 GiB behind it, in one domain or in groups.
pub struct World(tempfile::TempDir);

impl World {
    pub fn new() -> World {
        let world = World(tempfile::tempdir().unwrap());
        let srat = builders::srat(&[
            processor(0, 0),
            memory(0, 0, GIB, 1),
            memory(1, GIB, GIB, 1),
        ]);
        world.write("sys/firmware/acpi/tables/SRAT", srat);
        let slit = builders::slit(&[&[10, 20], &[20, 10]]);
        world.write("sys/firmware/acpi/tables/SLIT", slit);
        let cells = [80, 300];
        let hmat = builders::hmat(&[builders::locality(0, 1000, &[0], &[0, 1], &cells)]);
        world.write("sys/firmware/acpi/tables/HMAT", hmat);
        world
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, bytes: impl AsRef<[u8]>) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }

    fn weir(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
        command.arg("--root").arg(self.0.path());
        command.arg("groups").args(arguments);
        command.current_dir(self.0.path()).output().unwrap()
    }

    fn json(&self, arguments: &[&str]) -> Value {
        let output = self.weir(arguments);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code().is_some_and(|c| c < 2), "{said}");
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// Makes the machine as if it had booted with the overlay: its tables are in use, and the kernel made a
    /// node of each of these runs of blocks.
    fn boot(&self, overlay: &str, groups: &[u64]) {
        let bytes = fs::read(self.path(overlay)).unwrap();
        for table in weir_acpi::cpio::unpack(&bytes).unwrap() {
            let name = format!("sys/firmware/acpi/tables/{}", table.kind().signature());
            self.write(&name, table.bytes());
        }
        self.write("sys/devices/system/memory/block_size_bytes", "8000000\n");
        let nodes = "sys/devices/system/node";
        self.write(&format!("{nodes}/online"), format!("0-{}\n", groups.len()));
        self.write(&format!("{nodes}/has_cpu"), "0\n");
        let mut block = 0;
        for (id, count) in [&[8], groups].concat().into_iter().enumerate() {
            let dir = format!("{nodes}/node{id}");
            let kib = (count * MIB_128) >> 10;
            self.write(
                &format!("{dir}/meminfo"),
                format!("Node {id} MemTotal: {kib} kB\nNode {id} MemFree: 1024 kB\n"),
            );
            let distance = |other| match (id, other) {
                (a, b) if a == b => "10",
                (0, _) | (_, 0) => "20",
                _ => "11",
            };
            let row: Vec<&str> = (0..=groups.len()).map(distance).collect();
            self.write(&format!("{dir}/distance"), row.join(" "));
            let latency = if id == 0 { "80\n" } else { "300\n" };
            for name in ["read_latency", "write_latency"] {
                self.write(&format!("{dir}/access0/initiators/{name}"), latency);
            }
            for _ in 0..count {
                self.write(&format!("{dir}/memory{block}/state"), "online\n");
                block += 1;
            }
        }
    }

    fn findings(&self) -> Vec<String> {
        let report = self.json(&["acpi", "--check", "weir-groups.cpio", "--json"]);
        let findings = report["findings"].as_array().unwrap();
        assert_eq!(report["as_written"], findings.is_empty());
        findings
            .iter()
            .map(|f| f.as_str().unwrap().into())
            .collect()
    }
}

#[test]
fn an_overlay_is_made_booted_and_checked() {
    let world = World::new();
    let report = world.json(&["acpi", "--sizes", "1/2,1/4,1/4", "--json"]);
    let sizes: Vec<_> = report["groups"]
        .as_array()
        .unwrap()
        .iter()
        .map(|g| &g["size_bytes"])
        .collect();
    assert_eq!(
        sizes,
        [
            &Value::from(GIB / 2),
            &Value::from(GIB / 4),
            &Value::from(GIB / 4)
        ]
    );
    assert_eq!(report["overlay"], "weir-groups.cpio");

    // It was not booted yet.
    let findings = world.findings();
    assert_eq!(findings.len(), 3, "{findings:?}");
    assert!(
        findings[0].contains("SRAT is not the overlay's: the kernel did not take it"),
        "{findings:?}"
    );

    world.boot("weir-groups.cpio", &[4, 2, 2]);
    assert_eq!(world.findings(), Vec::<String>::new());
    let list = world.json(&["list", "--json"]);
    let groups = list["groups"].as_array().unwrap();
    assert_eq!(groups.len(), 3);
    assert_eq!(groups[0]["size_bytes"], GIB / 2);
    assert_eq!(groups[2]["distance"], 20);
}

#[test]
fn each_thing_that_can_be_wrong_is_found() {
    let world = World::new();
    world.json(&["acpi", "--sizes", "1/2,1/4,1/4", "--json"]);
    let nodes = "sys/devices/system/node";
    let find = |name: &str, value: &str, part: &str| {
        world.boot("weir-groups.cpio", &[4, 2, 2]);
        world.write(name, value);
        let findings = world.findings();
        assert!(
            findings.iter().any(|f| f.contains(part)),
            "{part}: {findings:?}"
        );
    };
    find(
        &format!("{nodes}/node1/distance"),
        "20 10 15 11",
        "from node 1 to node 2 it is 15, and the SLIT says 11",
    );
    find(
        &format!("{nodes}/node2/access0/initiators/read_latency"),
        "301",
        "read latency (ns) is 301, and the HMAT says 300",
    );
    find(
        &format!("{nodes}/has_cpu"),
        "0,3\n",
        "node 3, which has CPUs",
    );

    world.boot("weir-groups.cpio", &[4, 2, 2]);
    fs::remove_dir_all(world.path(&format!("{nodes}/node3/memory15"))).unwrap();
    assert!(
        world.findings()[0].contains("128 MiB of 256 MiB are not there"),
        "{:?}",
        world.findings()
    );

    fs::remove_dir_all(world.path(nodes)).unwrap();
    world.boot("weir-groups.cpio", &[5, 1, 2]);
    let findings = world.findings();
    assert!(
        findings.iter().any(|f| f.contains("several nodes")),
        "{findings:?}"
    );
    assert!(
        findings.iter().any(|f| f.contains("are one node, 1")),
        "{findings:?}"
    );

    let newer = builders::srat(&[memory(1, GIB, GIB, 1)]);
    world.write("sys/firmware/acpi/tables/SRAT", newer);
    assert!(world.findings()[0].contains("SRAT is not the overlay's"));
}

#[test]
fn bad_input_writes_nothing() {
    let world = World::new();
    let refused = |arguments: &[&str], part: &str| {
        let output = world.weir(&[&["acpi"], arguments].concat());
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(part), "{part:?} is not in {said}");
        assert!(!world.path("weir-groups.cpio").exists());
    };
    refused(&[], "--sizes");
    refused(&["--sizes", "1/2,1/3"], "add up to 5/6");
    refused(
        &["--sizes", "1/2,1/2", "--domain", "3"],
        "no memory of domain 3",
    );
    refused(&["--sizes", "1/16,15/16"], "leaves no multiple");
    refused(
        &["--sizes", "1/2,1/2", "--out", "no/such/dir/x"],
        "cannot write no/such/dir/x",
    );
    refused(
        &["--sizes", "1/2,1/2", "--tables", "sys"],
        "there is no sys/SRAT",
    );
    refused(
        &["--check", "sys/firmware/acpi/tables/SRAT"],
        "no overlay made by",
    );
    refused(&["--check", "/dev/zero"], "it is a device");

    let dry = world.weir(&["acpi", "--sizes", "1/2,1/2", "--dry-run"]);
    assert!(dry.status.success() && !world.path("weir-groups.cpio").exists());

    world.write("weir-groups.cpio", "mine");
    let output = world.weir(&["acpi", "--sizes", "1/2,1/2"]);
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(fs::read(world.path("weir-groups.cpio")).unwrap(), b"mine");
    fs::remove_file(world.path("weir-groups.cpio")).unwrap();

    let tables = "sys/firmware/acpi/tables";
    for (name, part) in [
        ("SRAT", "SRAT has a wrong checksum"),
        ("HMAT", "HMAT has a wrong checksum"),
    ] {
        let good = fs::read(world.path(&format!("{tables}/{name}"))).unwrap();
        let mut bad = good.clone();
        bad[50] ^= 0x10;
        world.write(&format!("{tables}/{name}"), bad);
        refused(&["--sizes", "1/2,1/2"], part);
        world.write(&format!("{tables}/{name}"), &good);
    }
    let overlapping = builders::srat(&[
        processor(0, 0),
        memory(0, 0, 2 * GIB, 1),
        memory(1, GIB, GIB, 1),
    ]);
    world.write(&format!("{tables}/SRAT"), overlapping);
    refused(&["--sizes", "1/2,1/2"], "overlaps");
}

#[test]
fn a_group_that_is_none_is_not_bound_to() {
    let world = World::new();
    world.json(&["acpi", "--sizes", "1/2,1/2", "--json"]);
    world.boot("weir-groups.cpio", &[4, 4]);
    for (arguments, part) in [
        (&["bind", "0", "--", "true"][..], "node 0 has CPUs"),
        (&["bind", "7", "--", "true"], "no node 7"),
        (&["bind", "1"], "--pid"),
        (&["bind", "cxl", "--", "true"], "a node's number"),
    ] {
        let output = world.weir(arguments);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(part), "{part:?} is not in {said}");
    }
}

const COPIES: &str = "copy-bytes = 0x1000_0000\nbases-bytes = [0x4000_0000, 0x5000_0000]\n\
     cpu-caches = \"coherent\"\n";

/// Two copies of 256 MiB: blocks 8 and 9 on node 1, 10 and 11 on node 2.
fn world_with_copies() -> World {
    let world = World::new();
    let memory = "sys/devices/system/memory";
    world.write(&format!("{memory}/block_size_bytes"), "8000000\n");
    world.write(&format!("{memory}/auto_online_blocks"), "offline\n");
    for block in 8..12 {
        world.write(&format!("{memory}/memory{block}/state"), "offline\n");
        let node = (block - 8) / 2 + 1;
        world.write(
            &format!("sys/devices/system/node/node{node}/memory{block}/state"),
            "",
        );
    }
    world.write("copies.toml", COPIES);
    fs::create_dir_all(world.path("run")).unwrap();
    world
}

#[test]
fn a_resize_that_cannot_be_is_refused() {
    let world = world_with_copies();
    let refused = |arguments: &[&str], part: &str| {
        let output = world.weir(&[&["resize"], arguments].concat());
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(part), "{part:?} is not in {said}");
        for block in 8..12 {
            let state = format!("sys/devices/system/memory/memory{block}/state");
            assert_eq!(fs::read_to_string(world.path(&state)).unwrap(), "offline\n");
        }
    };
    let with = |size: &'static str| ["--alias-map", "copies.toml", size];
    refused(&["1=128MiB", "--alias-map", "nowhere.toml"], "nowhere.toml");
    refused(&with("1=100MiB"), "no multiple of a block");
    refused(&with("1=384MiB"), "the device has 2");
    refused(&with("5=128MiB"), "node 5 is no copy");
    refused(&with("1=128"), "2=384MiB");
    refused(
        &[&with("1=128MiB")[..], &["1=0"]].concat(),
        "node 1 is given twice",
    );
    refused(
        &[&with("1=128MiB")[..], &["--offline-timeout", "10ms"]].concat(),
        "--offline-timeout",
    );
    world.write("sys/devices/system/memory/auto_online_blocks", "online\n");
    refused(&with("1=128MiB"), "memhp_default_state=offline");
    world.write("sys/devices/system/memory/auto_online_blocks", "offline\n");
    world.write("copies.toml", COPIES.replace("coherent", "separate"));
    refused(&with("1=128MiB"), "old owner");
    world.write(
        "copies.toml",
        COPIES.split("cpu-").next().unwrap_or_default(),
    );
    refused(&with("1=128MiB"), "missing field `cpu-caches`");
    world.write("copies.toml", "copy-bytes = 1\nbase = 3\n");
    refused(&with("1=128MiB"), "unknown field `base`");
    world.write("copies.toml", COPIES.replace(", 0x5000_0000", ""));
    refused(&with("1=128MiB"), "copies.toml: the copies: 1 are given");
}
