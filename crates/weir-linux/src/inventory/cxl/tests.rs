// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Recorded and written trees, and trees with hostile contents.

use super::*;
use crate::options::Roots;
use proptest::prelude::*;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::sync::LazyLock;

const QEMU: &str = include_str!("trees/qemu-type3.txt");
const TWO_WAY: &str = include_str!("trees/two-way.txt");

/// A tree of files that imitates a machine.
pub(super) struct Tree(tempfile::TempDir);

impl Tree {
    pub(super) fn of(recorded: &str) -> Tree {
        let tree = Tree(tempfile::tempdir().unwrap());
        for line in recorded.lines().filter(|line| !line.starts_with('#')) {
            tree.add(line);
        }
        tree
    }

    fn add(&self, line: &str) {
        match line.split_once(" -> ") {
            Some((path, target)) => self.link(path, target),
            None => {
                let (path, content) = line.split_once('=').unwrap();
                self.write(path, format!("{}\n", content.replace('|', "\n")));
            }
        }
    }

    fn path(&self, path: &str) -> PathBuf {
        self.0.path().join(path.trim_start_matches('/'))
    }

    pub(super) fn write(&self, path: &str, text: impl AsRef<[u8]>) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    pub(super) fn link(&self, path: &str, target: &str) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let _ = fs::remove_file(&path);
        symlink(target, path).unwrap();
    }

    pub(super) fn read(&self) -> Fabric {
        Fabric::read(&self.roots())
    }

    pub(super) fn roots(&self) -> Roots {
        Roots::beneath(self.0.path())
    }

    /// A file, a link or a whole directory.
    pub(super) fn remove(&self, path: &str) {
        let path = self.path(path);
        if path.symlink_metadata().unwrap().is_dir() {
            fs::remove_dir_all(path).unwrap()
        } else {
            fs::remove_file(path).unwrap()
        }
    }
}

fn names<'a>(known: impl IntoIterator<Item = &'a Known<String>>) -> Vec<&'a str> {
    known
        .into_iter()
        .map(|name| name.as_ref().unwrap().as_str())
        .collect()
}

#[test]
fn what_a_kernel_made_of_qemu_s_device() {
    let fabric = Tree::of(QEMU).read();
    assert_eq!(fabric.problems, []);
    let window = &fabric.windows[0];
    assert_eq!(
        (window.name.as_str(), &window.size_bytes),
        ("decoder0.0", &Ok(1 << 30))
    );
    assert_eq!(window.bridges, Ok(vec!["pci0000:0c".to_owned()]));
    let region = &fabric.regions[0];
    assert_eq!(
        (&region.window, &region.start),
        (&Ok("decoder0.0".into()), &Ok(0x1_1000_0000))
    );
    assert_eq!(names(region.targets.iter().map(|t| &t.device)), ["mem0"]);
    assert_eq!(
        (&region.dax[0].name[..], &region.dax[0].node),
        ("dax0.0", &Ok(2))
    );
    let device = &fabric.devices[0];
    let way = [
        &device.pci,
        &device.root_port,
        &device.bridge,
        &device.endpoint,
    ];
    assert_eq!(
        names(way),
        ["0000:0d:00.0", "0000:0c:00.0", "pci0000:0c", "endpoint2"]
    );
    assert_eq!(
        (&device.serial, &device.ram_bytes),
        (&Ok(0x1234), &Ok(256 << 20))
    );
    assert!(
        matches!(device.cpu_node, Err(Missing::NotSupported(_))),
        "QEMU names no node"
    );
    assert_eq!(device.regions, ["region0"]);
    let [own, cxl] = &fabric.nodes[..] else {
        panic!("{:?}", fabric.nodes)
    };
    assert_eq!(
        (cxl.id, &cxl.devices, &cxl.dax[..]),
        (2, &Ok(vec!["mem0".into()]), &["dax0.0".to_owned()][..])
    );
    assert_eq!(
        (own.id, own.regions.is_err(), own.devices.is_err()),
        (1, true, true)
    );
}

#[test]
fn two_interleaved_devices_and_one_left_over() {
    let tree = Tree::of(TWO_WAY);
    let counted = crate::counters::CountedFabric::read(&tree.roots(), &[]);
    let fabric = &counted.bus;
    assert_eq!(fabric.problems, []);
    assert_eq!(
        fabric.windows[0].bridges,
        Ok(vec!["pci0000:15".into(), "pci0000:38".into()])
    );
    let region = &fabric.regions[0];
    assert_eq!(
        names(region.targets.iter().map(|t| &t.device)),
        ["mem0", "mem1"]
    );
    assert_eq!(region.granularity_bytes, Ok(4096));
    assert_eq!(
        fabric.nodes[0].devices,
        Ok(vec!["mem0".into(), "mem1".into()])
    );
    let [first, second, third] = &fabric.devices[..] else {
        panic!("{:?}", fabric.devices)
    };
    assert_eq!(
        (&first.pmus[..], &first.counters[..]),
        (
            &["cxl_pmu_mem0.0".to_owned()][..],
            &["weir_cxl0".to_owned()][..]
        )
    );
    assert_eq!(first.cpu_node, Ok(0));
    // Behind a switch: the function is the last, the port the first.
    assert_eq!(
        names([&second.pci, &second.root_port]),
        ["0000:3b:00.0", "0000:38:01.0"]
    );
    assert!(
        second.ram_bytes.is_err() && second.pmus.is_empty(),
        "mem1 is not mem10"
    );
    assert_eq!((third.name.as_str(), third.pmus.len()), ("mem10", 2));
    assert!(third.endpoint.is_err() && third.regions.is_empty());
    assert_eq!(counted.port_pmus, ["uncore_cxlcm_0"]);
    let json = serde_json::to_value(&counted).unwrap();
    assert_eq!(json["port_pmus"][0], "uncore_cxlcm_0");
    let groups = serde_json::json!(counted.counters_of(&fabric.nodes[0]));
    assert_eq!(json["nodes"][0]["counters"], groups);
    assert_eq!(json["nodes"][0]["id"], fabric.nodes[0].id);
}

#[test]
fn a_machine_without_cxl_says_so() {
    let fabric =
        Tree::of("/sys/devices/system/node/has_memory=0\n/sys/devices/system/node/has_cpu=0")
            .read();
    assert!(fabric.nodes.is_empty() && fabric.devices.is_empty());
    let said = fabric.problems[0].to_string();
    assert!(
        said.contains("bus/cxl/devices") && said.contains("cxl_acpi"),
        "{said}"
    );
    let nothing = Fabric::read(&Roots::beneath(std::path::Path::new("/nowhere")));
    assert_eq!(nothing.problems.len(), 1);
}

#[test]
fn nothing_leads_out_and_nothing_hangs() {
    let mem = "/sys/devices/pci0000:0c/0000:0c:00.0/0000:0d:00.0/mem0";
    let endpoint = "/sys/devices/platform/ACPI0017:00/root0/port1/endpoint2";
    let region = "/sys/devices/platform/ACPI0017:00/root0/decoder0.0/region0";
    let tree = Tree::of(QEMU);
    tree.write("/outside/secret", "7\n");
    // A circle, a way out, a file behind a link, a huge one, one that is no text, one that is missing.
    tree.link("/sys/bus/cxl/devices/mem7", "mem7");
    tree.link("/sys/bus/cxl/devices/mem8", "../../../../outside");
    tree.link(&format!("{endpoint}/uport"), "../../../../../../../outside");
    fs::remove_file(tree.path(&format!("{mem}/serial"))).unwrap();
    tree.link(&format!("{mem}/serial"), "/outside/secret");
    tree.write(&format!("{mem}/ram/size"), vec![b'1'; 1 << 20]);
    tree.write(&format!("{region}/mode"), b"ra\xff\n");
    tree.write(
        &format!("{region}/interleave_ways"),
        "18446744073709551615\n",
    );
    fs::remove_file(tree.path(&format!("{region}/resource"))).unwrap();
    let fabric = tree.read();
    let problems: Vec<String> = fabric.problems.iter().map(ToString::to_string).collect();
    assert!(problems.iter().any(|p| p.contains("mem7")), "{problems:?}");
    assert!(
        problems
            .iter()
            .any(|p| p.contains("mem8: the link leads out of sysfs")),
        "{problems:?}"
    );
    let device = &fabric.devices[0];
    for (known, name) in [(&device.serial, "serial"), (&device.ram_bytes, "ram/size")] {
        assert!(
            known.as_ref().unwrap_err().to_string().contains(name),
            "{known:?}"
        );
    }
    assert!(device.endpoint.is_err());
    let found = &fabric.regions[0];
    assert!(
        found
            .mode
            .as_ref()
            .unwrap_err()
            .to_string()
            .contains("region0/mode")
    );
    assert!(matches!(&found.start, Err(Missing::NotSupported(why)) if why.contains("resource")));
    assert_eq!(found.targets.len(), 16, "bounded");
    assert!(found.targets.iter().all(|target| target.device.is_err()));
    assert!(fabric.nodes[1].devices.is_err());
}

/// One tree for all cases: making it is most of the work.
static MEDDLED: LazyLock<Tree> = LazyLock::new(|| Tree::of(TWO_WAY));

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    /// Any of the recorded files with anything in it, any link anywhere.
    #[test]
    fn meddled_trees_are_survived(
        at: prop::sample::Index,
        bytes in prop_oneof![prop::collection::vec(any::<u8>(), 0..40), "-?(0x)?[0-9a-f,]{0,20}\n?".prop_map(String::into_bytes)],
        target in "(\\.\\./){0,8}(sys|devices|bus|mem0|port1|root0|decoder0\\.0|/){0,3}",
    ) {
        let tree = &*MEDDLED;
        let lines: Vec<&str> = TWO_WAY.lines().filter(|line| !line.starts_with('#')).collect();
        let line = at.get(&lines);
        match line.split_once(" -> ") {
            Some((path, _)) if target.is_empty() => fs::remove_file(tree.path(path)).unwrap(),
            Some((path, _)) => tree.link(path, &target),
            None => tree.write(line.split_once('=').unwrap().0, &bytes),
        }
        let fabric = tree.read();
        tree.add(line);
        prop_assert!(fabric.devices.len() <= 4 && fabric.regions.len() <= 2);
    }
}
