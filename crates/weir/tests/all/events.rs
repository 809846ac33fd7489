// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weir events` over machines made of files: which events does it say are there, and why not?

use serde_json::Value;
use std::fs;
use std::process::{Command, Output};

struct World(tempfile::TempDir);

impl World {
    fn new(model: u32) -> World {
        let world = World(tempfile::tempdir().unwrap());
        let cpu = format!("vendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: {model}\n");
        world.write("proc/cpuinfo", &cpu);
        world
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.0.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn pmu(&self, name: &str, formats: &[(&str, &str)]) {
        let dir = format!("sys/bus/event_source/devices/{name}");
        self.write(&format!("{dir}/type"), "40\n");
        for (field, format) in formats {
            self.write(&format!("{dir}/format/{field}"), format);
        }
    }

    fn weir(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
        command.arg("--root").arg(self.0.path()).arg("events");
        command.args(arguments).output().unwrap()
    }

    fn json(&self, arguments: &[&str]) -> Value {
        let output = self.weir(&[arguments, &["--json"]].concat());
        assert_eq!(output.status.code(), Some(0));
        serde_json::from_slice(&output.stdout).unwrap()
    }
}

fn family<'a>(report: &'a Value, name: &str) -> &'a Value {
    let families = report["families"].as_array().unwrap();
    families.iter().find(|f| f["name"] == name).unwrap()
}

fn event<'a>(family: &'a Value, name: &str) -> &'a Value {
    let events = family["events"].as_array().unwrap();
    events.iter().find(|e| e["name"] == name).unwrap()
}

const BOX: [(&str, &str); 2] = [("event", "config:0-7"), ("umask", "config:8-15")];

#[test]
fn granite_rapids_has_its_ports() {
    let world = World::new(0xad);
    for port in 0..2 {
        world.pmu(&format!("uncore_cxlcm_{port}"), &BOX);
        world.pmu(&format!("uncore_cxldp_{port}"), &BOX);
    }
    let report = world.json(&[]);
    let granite = family(&report, "granite-rapids");
    assert_eq!(
        (&report["cpu"]["Ok"], &granite["is_this_cpu"]),
        (&"GenuineIntel-6-AD".into(), &true.into())
    );
    let read = event(granite, "UNC_CXLCM_RxC_PACK_BUF_INSERTS.MEM_DATA");
    assert_eq!(
        read["here"],
        serde_json::json!(["uncore_cxlcm_0", "uncore_cxlcm_1"])
    );
    assert_eq!(read["perf"], "uncore_cxlcm_0/event=0x41,umask=0x10/");
    assert_eq!(read["config"], serde_json::json!([0x1041, 0, 0, 0]));
    let amounts = granite["amounts"].as_array().unwrap();
    let here: Vec<bool> = amounts
        .iter()
        .map(|a| a["is_here"].as_bool().unwrap())
        .collect();
    assert_eq!(
        here,
        [true, true, false, false],
        "the ports, and neither CHA nor cores"
    );
    let stores = &granite["stores"][0];
    assert_eq!(
        (&stores["event"], &stores["is_here"]),
        (&"OCR.DEMAND_RFO.CXL_MEM".into(), &false.into())
    );
    assert_eq!(family(&report, "zen5")["is_this_cpu"], false);
    assert_eq!(family(&report, "zen5")["stores"], serde_json::json!([]));
    let page = String::from_utf8(world.weir(&[]).stdout).unwrap();
    assert!(page.contains("on uncore_cxlcm_0 and 1 more"), "{page}");
    assert!(
        page.contains("in the ratio of OCR.DEMAND_RFO.CXL_MEM"),
        "{page}"
    );
    assert!(
        !page.contains("UNC_CHA_TOR_INSERTS.RRQ_MISS"),
        "another family in full: {page}"
    );
}

#[test]
fn a_machine_without_anything_and_an_unknown_family() {
    let world = World(tempfile::tempdir().unwrap());
    let page = String::from_utf8(world.weir(&[]).stdout).unwrap();
    assert!(
        page.contains("CPU not known") && page.contains("granite-rapids"),
        "{page}"
    );
    let output = world.weir(&["--family", "pentium"]);
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("pentium") && said.contains("zen5"), "{said}");
}

#[test]
fn hostile_names_do_not_reach_the_terminal() {
    let world = World::new(0xad);
    world.pmu("uncore_cxlcm_0\u{1b}[2J", &BOX);
    world.write(
        "sys/bus/event_source/devices/uncore_cxldp_0/type",
        "\u{1b}[2J",
    );
    let page = String::from_utf8(world.weir(&["--family", "granite-rapids"]).stdout).unwrap();
    assert!(
        !page.contains('\u{1b}') && page.contains("uncore_cxldp_0/type"),
        "{page}"
    );
}

#[test]
fn counting_without_events_names_the_next_move() {
    let world = World::new(0xad);
    let output = world.weir(&["--count", "--", "true"]);
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(
        said.contains("`weir events` says what is missing"),
        "{said}"
    );
    assert_eq!(
        world.weir(&["--count"]).status.code(),
        Some(2),
        "a command is missing"
    );
}

#[test]
fn topology_of_a_node_without_a_region() {
    let world = World::new(0xad);
    let nodes = "sys/devices/system/node";
    world.write(&format!("{nodes}/has_cpu"), "0\n");
    world.write(&format!("{nodes}/has_memory"), "0-1\n");
    world.write(
        &format!("{nodes}/node1/meminfo"),
        "Node 1 MemTotal: 1048576 kB\n",
    );
    world.write("sys/class/weir_cxl/weir_cxl0/group_count", "1\n");
    world.write("sys/class/weir_cxl/weir_cxl0/group0/node", "1\n");
    let weir = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
        command.arg("--root").arg(world.0.path()).arg("topology");
        let output = command.args(arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(0));
        String::from_utf8(output.stdout).unwrap()
    };
    let page = weir(&[]);
    assert!(
        page.contains("node1: 1.00 GiB, counted as cxl0.0"),
        "{page}"
    );
    assert!(
        page.contains("no region and no CXL window has its memory"),
        "{page}"
    );
    let report: Value = serde_json::from_str(&weir(&["--json"])).unwrap();
    assert_eq!(report["nodes"][0]["size_bytes"]["Ok"], 1u64 << 30);
    assert_eq!(
        report["nodes"][0]["devices"]["Err"]["reason"],
        "not_supported"
    );
    assert!(
        report["problems"][0]
            .to_string()
            .contains("bus/cxl/devices")
    );
}
