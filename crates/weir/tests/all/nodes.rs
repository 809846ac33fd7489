// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which nodes the command takes for CXL memory, on machines as servers have them, and what it says of each.

use crate::world::{stderr, stdout};
use serde_json::Value;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

/// Two sockets, high-bandwidth memory on nodes 2 and 3, and a CXL device on node 4.
const HBM: &str = include_str!("trees/hbm.txt");
const DEVDAX: &str = include_str!("trees/devdax.txt");
const HALFWAY: &str = include_str!("trees/halfway.txt");
const DUMP: &str = "sys/kernel/debug/cxl-counter-driver/counter-dump";

struct Machine(tempfile::TempDir);

impl Machine {
    fn of(tree: &str) -> Machine {
        let machine = Machine(tempfile::tempdir().unwrap());
        for (path, text) in [
            ("sys/devices/system/cpu/online", "0-7\n"),
            ("sys/devices/system/node/online", "0\n"),
            ("sys/devices/system/node/has_memory", "0\n"),
            ("sys/devices/system/node/has_cpu", "0\n"),
            ("sys/fs/cgroup/cgroup.controllers", "cpu memory\n"),
            ("sys/fs/cgroup/cgroup.subtree_control", "cpu memory\n"),
            ("sys/fs/cgroup/cgroup.procs", "\n"),
            ("proc/self/cgroup", "0::/weir.service\n"),
            ("proc/self/numa_maps", ""),
            ("run/.keep", ""),
        ] {
            machine.write(path, text);
        }
        for line in tree.lines().filter(|line| !line.starts_with('#')) {
            match line.split_once(" -> ") {
                Some((path, target)) => {
                    let path = machine.path(path);
                    fs::create_dir_all(path.parent().unwrap()).unwrap();
                    symlink(target, path).unwrap();
                }
                None if line.ends_with('/') => fs::create_dir_all(machine.path(line)).unwrap(),
                None => {
                    let (path, text) = line.split_once('=').unwrap();
                    machine.write(path, &(text.replace("\\n", "\n") + "\n"));
                }
            }
        }
        machine
    }

    fn path(&self, path: &str) -> PathBuf {
        self.0.path().join(path.trim_start_matches('/'))
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
        command.arg("--root").arg(self.0.path()).args(arguments);
        command.stdin(Stdio::null());
        command
    }

    fn weir(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    fn json(&self, arguments: &[&str]) -> Value {
        let output = self.weir(arguments);
        let said = stderr(&output);
        serde_json::from_str(&stdout(&output))
            .unwrap_or_else(|e| panic!("{arguments:?}: {e} {said}"))
    }
}

fn fact<'a>(doctor: &'a Value, name: &str) -> &'a Value {
    let facts = doctor["description"]["facts"].as_array().unwrap();
    let found = facts.iter().find(|fact| fact["name"] == name);
    found.unwrap_or_else(|| panic!("{name}: {facts:?}"))
}

fn group_nodes(doctor: &Value) -> Vec<u64> {
    let groups = doctor["description"]["groups"].as_array().unwrap();
    groups
        .iter()
        .filter_map(|group| group["node"].as_u64())
        .collect()
}

#[test]
fn high_bandwidth_memory_is_no_device() {
    let machine = Machine::of(HBM);
    let doctor = machine.json(&["doctor", "--json"]);
    assert_eq!(group_nodes(&doctor), [4]);
    assert!(
        fact(&doctor, "numa.node4")["value"]["Ok"]
            .as_str()
            .unwrap()
            .contains("region0")
    );
    let why = fact(&doctor, "numa.node2")["value"]["Err"]["detail"].as_str();
    assert!(
        why.unwrap().contains("outside of all CXL windows"),
        "{why:?}"
    );
    let list = stdout(&machine.weir(&["groups", "list"]));
    let groups: Vec<&str> = list
        .lines()
        .filter(|line| line.starts_with("node"))
        .collect();
    assert!(
        groups.len() == 1 && groups[0].starts_with("node4 "),
        "{list}"
    );
    assert!(list.contains("no group: node2, no CXL memory"), "{list}");
    let list = machine.json(&["groups", "list", "--json"]);
    assert_eq!(list["others"][1]["node"], 3);
    let bind = machine.weir(&["groups", "bind", "2", "--", "true"]);
    assert_eq!(bind.status.code(), Some(2));
    assert!(
        stderr(&bind).contains("node 2 is no group") && stderr(&bind).contains("--device node:2")
    );
    let topology = machine.json(&["topology", "--json"]);
    let verdicts: Vec<&Value> = topology["nodes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|n| &n["verdict"]["is_cxl"])
        .collect();
    assert_eq!(verdicts, [false, false, true]);
}

/// Two lines, and nothing that says which node each belongs to.
#[test]
fn counters_that_do_not_name_their_nodes_need_an_option() {
    let machine = Machine::of(HBM);
    machine.write(DUMP, "read write\n64 128\n192 256\n");
    let doctor = machine.json(&["doctor", "--json"]);
    assert_eq!(group_nodes(&doctor), [0; 0]);
    let nodes = fact(&doctor, "cxl.counters.nodes");
    assert!(
        nodes["next_move"]["deed"]
            .as_str()
            .unwrap()
            .contains("--device node:4"),
        "{nodes}"
    );
    let run = machine.weir(&["run", "--duration", "1s"]);
    assert_eq!(run.status.code(), Some(0));
    assert!(
        stderr(&run).contains("do not say of which node they are"),
        "{}",
        stderr(&run)
    );
    let limit = machine.weir(&["run", "--limit", "--set-point", "1GiB/s"]);
    assert_eq!(limit.status.code(), Some(69));
    assert!(
        stderr(&limit).contains("--device node:"),
        "{}",
        stderr(&limit)
    );
    let said = [
        "doctor", "--json", "--device", "node:4", "--device", "node:2",
    ];
    assert_eq!(
        group_nodes(&machine.json(&said)),
        [4, 2],
        "in the order of the lines"
    );
}

#[test]
fn a_device_that_is_named_is_the_one() {
    let machine = Machine::of(HBM);
    let named = |command: &[&str]| machine.json(&[command, &["--device", "node:3"]].concat());
    assert_eq!(group_nodes(&named(&["doctor", "--json"])), [3]);
    assert_eq!(named(&["groups", "list", "--json"])["groups"][0]["node"], 3);
    let topology = named(&["topology", "--json"]);
    assert_eq!(
        topology["nodes"][1]["verdict"]["evidence"][0],
        "--device node:3 says so"
    );
    assert_eq!(topology["nodes"][2]["verdict"]["is_cxl"], false);
    let snapshot = named(&["top", "--json"]);
    assert_eq!(snapshot["description"]["groups"][0]["node"], 3);
    for command in ["run", "record x.weir"] {
        let mut arguments: Vec<&str> = command.split(' ').collect();
        arguments.extend(["--duration", "1s", "--device", "node:3"]);
        let mut run = machine.command(&arguments);
        let said = stderr(&run.current_dir(machine.path("")).output().unwrap());
        assert!(said.contains("on node3"), "{said}");
    }
    let bound = machine.weir(&["groups", "bind", "2", "--device", "node:3", "--", "true"]);
    assert!(
        stderr(&bound).contains("--device names node:3 only"),
        "{}",
        stderr(&bound)
    );
    machine.write("weir.toml", "device = [\"node:3\"]\n");
    let config = machine.path("weir.toml");
    let run = [
        "run",
        "--duration",
        "1s",
        "--config",
        config.to_str().unwrap(),
    ];
    assert!(stderr(&machine.weir(&run)).contains("on node3"));
}

#[test]
fn a_device_that_cannot_be_is_refused() {
    let machine = Machine::of(HBM);
    machine.write("weir.toml", "limit = false\ndevice = [\"cxl0\"]\n");
    let config = machine.path("weir.toml").to_str().unwrap().to_owned();
    for (arguments, part) in [
        (
            &["doctor", "--device", "node:9"][..],
            "this machine has node:0, node:1, node:2, node:3, node:4",
        ),
        (
            &["topology", "--device", "node:2", "--device", "node:2"],
            "given twice",
        ),
        (&["run", "--device", "cxl0"], "such as node:2"),
        (&["groups", "list", "--device", "node:-1"], "such as node:2"),
        (&["calibrate", "--device", "node:x"], "such as node:2"),
        (&["calibrate", "--device", "node:9"], "no such node"),
        (
            &["calibrate", "--device", "cxl0", "--device", "cxl1"],
            "one device at a time",
        ),
    ] {
        let output = machine.weir(arguments);
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
        assert!(said.contains(part), "{arguments:?}: {said}");
    }
    let output = machine.weir(&["run", "--config", &config]);
    assert_eq!(output.status.code(), Some(78));
    assert!(stderr(&output).contains("line 2"), "{}", stderr(&output));
}

#[test]
fn memory_that_is_a_file_in_dev_has_a_next_move_that_works() {
    let machine = Machine::of(DEVDAX);
    let doctor = machine.weir(&["doctor"]);
    assert_eq!(doctor.status.code(), Some(1));
    let wanted = "daxctl reconfigure-device --mode=system-ram dax0.0";
    assert!(stdout(&doctor).contains(wanted), "{}", stdout(&doctor));
    let run = machine.weir(&["run"]);
    assert_eq!(run.status.code(), Some(69));
    assert!(stderr(&run).contains(wanted) && stderr(&run).contains("weir doctor"));
    assert!(
        !stderr(&run).contains("online-memory"),
        "it fails on such a device"
    );
}

#[test]
fn a_region_without_memory_is_called_that() {
    let machine = Machine::of(HALFWAY);
    let page = stdout(&machine.weir(&["topology"]));
    assert!(
        page.contains("region0: a region without memory, not committed"),
        "{page}"
    );
    assert!(!page.contains("0xffffffffffffffff"), "{page}");
    let lines: Vec<&str> = page
        .lines()
        .filter(|line| line.contains("target1"))
        .collect();
    assert!(
        lines.len() == 1 && lines[0].matches("target1").count() == 1,
        "{page}"
    );
    let region = &machine.json(&["topology", "--json"])["regions"][0];
    assert_eq!(region["start"]["Err"]["reason"], "not_supported");
    assert_eq!(region["is_committed"]["Ok"], false);
}
