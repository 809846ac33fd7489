// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which devices have a node's memory, which devices are not in use, and what brings memory into use.

use super::machines_tests::{
    OF_REGION, WINDOW, block_state, dax, device, machine, object, region, window,
};
use super::tests::Tree;
use super::{CxlMemory, Fabric, unused_memory};
use weir_core::Missing;

const GIB: u64 = 1 << 30;

fn devices_of(tree: &Tree, node: u32) -> Result<Vec<String>, Missing> {
    let fabric = tree.read();
    let found = fabric.nodes.into_iter().find(|found| found.id == node);
    found.unwrap().devices
}

fn memory(fabric: &Fabric, name: &str) -> CxlMemory {
    let found = fabric.devices.iter().find(|device| device.name == name);
    found.unwrap().clone()
}

fn hmem(tree: &Tree, node: &str, driver: &str) {
    let start = format!("{WINDOW:#x}");
    let files = [
        ("target_node", node),
        ("resource", &start),
        ("size", "8589934592"),
    ];
    dax(tree, "dax0.0", "platform/hmem.0", &files, driver);
}

/// Soft-reserved memory: no region names the device, and the only one below the window's bridge has it.
#[test]
fn memory_in_a_window_is_of_the_only_device_that_it_leads_to() {
    let tree = machine(&[(2, 65, 4)]);
    window(&tree, 0, WINDOW, 8 * GIB);
    device(&tree, 0, &[("size", "0x0")]);
    hmem(&tree, "2", "kmem");
    assert_eq!(devices_of(&tree, 2), Ok(vec!["mem0".into()]));
    let fabric = tree.read();
    assert_eq!(memory(&fabric, "mem0").is_in_use, Ok(true));
    // A second one below the same bridge: it may be of either.
    device(&tree, 1, &[]);
    let why = devices_of(&tree, 2).unwrap_err().to_string();
    assert!(
        why.contains("mem0, mem1") && why.contains("does not say which"),
        "{why}"
    );
    let fabric = tree.read();
    for name in ["mem0", "mem1"] {
        let in_use = memory(&fabric, name).is_in_use;
        assert!(
            in_use
                .unwrap_err()
                .to_string()
                .contains("memory lies in a window")
        );
    }
    // Firmware has set a decoder: its addresses are known.
    let start = format!("{WINDOW:#x}");
    device(&tree, 1, &[("start", &start), ("size", "0x200000000")]);
    assert_eq!(devices_of(&tree, 2), Ok(vec!["mem1".into()]));
}

#[test]
fn a_device_that_is_too_small_is_not_the_one() {
    let tree = machine(&[(2, 65, 16)]);
    window(&tree, 0, WINDOW, 32 * GIB);
    device(&tree, 0, &[]);
    let why = devices_of(&tree, 2).unwrap_err().to_string();
    assert!(why.contains("smaller than the node"), "{why}");
    tree.remove("/sys/bus/cxl/devices/mem0");
    let why = devices_of(&tree, 2).unwrap_err().to_string();
    assert!(why.contains("knows no device there"), "{why}");
}

/// Firmware made the region and brought its memory online; there is no dax device.
#[test]
fn a_region_without_a_dax_device_is_linked_by_addresses() {
    let tree = machine(&[(2, 65, 4), (3, 69, 4)]);
    window(&tree, 0, WINDOW, 16 * GIB);
    device(&tree, 0, &[]);
    region(&tree, 0, WINDOW, 8 * GIB, &["decoder2.0"]);
    let fabric = tree.read();
    assert_eq!(fabric.nodes[0].regions, Ok(vec!["region0".into()]));
    assert_eq!(fabric.nodes[0].devices, Ok(vec!["mem0".into()]));
    // The rest of the window belongs to a device that the kernel does not know.
    assert!(fabric.nodes[1].verdict.is_cxl && fabric.nodes[1].regions.is_err());
    let why = fabric.nodes[1].devices.clone().unwrap_err().to_string();
    assert!(why.contains("in no region"), "{why}");
    assert_eq!(memory(&fabric, "mem0").is_in_use, Ok(true));
}

#[test]
fn memory_that_is_nowhere_is_proven() {
    let tree = machine(&[]);
    window(&tree, 0, WINDOW, 16 * GIB);
    device(&tree, 0, &[("size", "0x0"), ("start", "0x0")]);
    let in_use = |tree: &Tree| memory(&tree.read(), "mem0").is_in_use;
    assert_eq!(in_use(&tree), Ok(false));
    assert_eq!(
        said(&tree),
        "mem0 is in no region: cxl create-region -m -t ram -d decoder0.0 mem0"
    );
    let unproven = |what: &str, part: &str| {
        let why = in_use(&tree).unwrap_err().to_string();
        assert!(why.contains(part), "{what}: {why}");
    };
    // A dax device that does not say where it is.
    dax(
        &tree,
        "dax9.0",
        "platform/hmem.9",
        &[("target_node", "3")],
        "",
    );
    unproven("dax", "dax9.0 may have its memory");
    tree.remove("/sys/bus/dax/devices/dax9.0");
    // Firmware put the memory into the domain of a socket.
    tree.write("/sys/devices/system/node/node1/memory66/state", "online\n");
    unproven("a socket's node", "memory lies in a window");
    tree.remove("/sys/devices/system/node/node1/memory66");
    assert_eq!(in_use(&tree), Ok(false));
    tree.write(
        "/sys/devices/platform/ACPI0017:00/root0/decoder0.0/size",
        "\n",
    );
    unproven("the window", "decoder0.0/size");
    window(&tree, 0, WINDOW, 16 * GIB);
    tree.remove("/sys/devices/system/memory/block_size_bytes");
    unproven("blocks", "block_size_bytes");
}

/// What `cxl create-region` leaves behind when its second device fails.
#[test]
fn a_region_that_was_set_up_halfway() {
    let tree = machine(&[]);
    window(&tree, 0, WINDOW, 16 * GIB);
    device(&tree, 0, &[]);
    let files = [
        ("devtype", "cxl_region"),
        ("resource", "0xffffffffffffffff"),
        ("size", "0x0"),
        ("mode", "ram"),
        ("commit", "0"),
        ("interleave_ways", "2"),
        ("interleave_granularity", "4096"),
        ("target0", "decoder2.0"),
        ("target1", ""),
    ];
    let below = "/sys/devices/platform/ACPI0017:00/root0/decoder0.0";
    object(&tree, "region0", below, &files);
    let fabric = tree.read();
    let region = &fabric.regions[0];
    assert_eq!(
        (&region.is_committed, &region.size_bytes),
        (&Ok(false), &Ok(0))
    );
    assert!(region.start.is_err() && region.targets[1].decoder.is_err());
    assert_eq!(memory(&fabric, "mem0").is_in_use, Ok(false));
    let said = said(&tree);
    assert!(
        said.contains("region0 was set up halfway: cxl destroy-region region0"),
        "{said}"
    );
    // One with an address that is not committed decodes nothing: a node there is not its memory.
    for (file, text) in [
        ("resource", format!("{WINDOW:#x}")),
        ("size", "0x400000000".into()),
    ] {
        tree.write(&format!("{below}/region0/{file}"), format!("{text}\n"));
    }
    tree.write("/sys/devices/system/node/has_memory", "0-2\n");
    tree.write("/sys/devices/system/node/node2/memory65/state", "online\n");
    assert!(tree.read().nodes[0].regions.is_err());
    tree.write(&format!("{below}/region0/commit"), "1\n");
    assert_eq!(tree.read().nodes[0].regions, Ok(vec!["region0".into()]));
}

fn said(tree: &Tree) -> String {
    let found = unused_memory(&tree.roots());
    let words: Vec<String> = found.iter().map(ToString::to_string).collect();
    words.join("; ")
}

/// A dax device of `region0` at the start of the window: four blocks of memory.
fn of_region0(tree: &Tree, node: &str, driver: &str) {
    let at = format!("{WINDOW:#x}");
    let files = [
        ("target_node", node),
        ("resource", &at),
        ("size", "8589934592"),
    ];
    dax(tree, "dax0.0", OF_REGION, &files, driver);
}

#[test]
fn the_next_move_is_one_that_helps() {
    let tree = machine(&[]);
    assert_eq!(said(&tree), "");
    window(&tree, 0, WINDOW, 16 * GIB);
    device(&tree, 0, &[]);
    region(&tree, 0, WINDOW, 16 * GIB, &["decoder2.0"]);
    assert_eq!(
        said(&tree),
        "region0 has no dax device: cxl enable-region region0"
    );
    let region = "/sys/devices/platform/ACPI0017:00/root0/decoder0.0/region0";
    tree.write(&format!("{region}/driver/module"), "");
    assert!(
        said(&tree).starts_with("region0 is enabled"),
        "{}",
        said(&tree)
    );
    for driver in ["device_dax", ""] {
        of_region0(&tree, "2", driver);
        let move_ = "daxctl reconfigure-device --mode=system-ram dax0.0";
        assert!(said(&tree).contains("dax_kmem: "), "{}", said(&tree));
        tree.write("/sys/bus/dax/drivers/kmem/bind", "");
        assert_eq!(said(&tree), format!("dax0.0 is no system RAM: {move_}"));
        tree.remove("/sys/bus/dax/drivers/kmem");
        tree.remove("/sys/bus/dax/devices/dax0.0");
    }
    // A name with a command in it is not printed for pasting.
    let files = [("target_node", "2")];
    dax(&tree, "dax0.0;reboot", OF_REGION, &files, "device_dax");
    assert!(!said(&tree).contains("reboot"));
}

#[test]
fn memory_is_called_offline_where_blocks_of_it_are() {
    let tree = machine(&[]);
    window(&tree, 0, WINDOW, 16 * GIB);
    of_region0(&tree, "2", "kmem");
    let start = WINDOW / (2 * GIB);
    assert_eq!(
        said(&tree),
        "kmem has dax0.0, and made no memory block of it"
    );
    for block in start..start + 4 {
        block_state(&tree, block, "offline");
    }
    let online = "daxctl online-memory dax0.0";
    assert_eq!(
        said(&tree),
        format!("the memory of dax0.0 is offline: {online}")
    );
    block_state(&tree, start, "online");
    assert_eq!(
        said(&tree),
        format!("3 of 4 memory blocks of dax0.0 are offline: {online}")
    );
    block_state(&tree, start, "going-offline");
    let unknown = "whether the memory of dax0.0 is online is not known";
    assert_eq!(said(&tree), unknown);
}

/// What weir could not tell from DRAM is not proposed.
#[test]
fn memory_of_a_node_with_cpus_is_called_that() {
    let tree = machine(&[]);
    window(&tree, 0, WINDOW, 16 * GIB);
    for driver in ["kmem", "device_dax"] {
        of_region0(&tree, "0", driver);
        let would = said(&tree);
        assert!(
            would.starts_with("dax0.0 is of node 0, which has CPUs:"),
            "{would}"
        );
        tree.remove("/sys/bus/dax/devices/dax0.0");
    }
    let start = WINDOW / (2 * GIB);
    for block in start..start + 4 {
        block_state(&tree, block, "online");
        let link = format!("/sys/devices/system/node/node0/memory{block}");
        tree.link(&link, &format!("../../memory/memory{block}"));
    }
    of_region0(&tree, "0", "kmem");
    let lies = said(&tree);
    assert!(
        lies.starts_with("the memory of dax0.0 lies in node 0, among the DRAM"),
        "{lies}"
    );
    // Firmware brought it online: no dax device is made of the region.
    tree.remove("/sys/bus/dax/devices/dax0.0");
    region(&tree, 0, WINDOW, 8 * GIB, &["decoder2.0"]);
    let lies = said(&tree);
    assert!(
        lies.starts_with("the memory of region0 lies in node 0"),
        "{lies}"
    );
}

#[test]
fn a_region_is_proposed_where_the_device_and_a_window_can_have_one() {
    let tree = machine(&[]);
    window(&tree, 0, WINDOW, 16 * GIB);
    device(&tree, 0, &[("size", "0x0"), ("start", "0x0")]);
    let create = "cxl create-region";
    assert!(said(&tree).contains(create));
    let window = "/sys/devices/platform/ACPI0017:00/root0/decoder0.0";
    for cap in ["0\n", "\n"] {
        tree.write(&format!("{window}/cap_ram"), cap);
        assert!(said(&tree).contains("cap_ram") && !said(&tree).contains(create));
    }
    tree.write(&format!("{window}/cap_ram"), "1\n");
    // Another device's, in all of the window: it is persistent memory.
    region(&tree, 7, WINDOW, 16 * GIB, &[]);
    tree.write(&format!("{window}/region7/mode"), "pmem\n");
    assert!(!said(&tree).contains(create), "{}", said(&tree));
    tree.remove("/sys/bus/cxl/devices/region7");
    let ram = "/sys/devices/pci0000:15/0000:15:00.0/0000:10:00.0/mem0/ram/size";
    tree.write(ram, "0x0\n");
    let pmem = said(&tree);
    assert!(
        pmem.contains("no volatile memory") && !pmem.contains(create),
        "{pmem}"
    );
    tree.write(ram, "0x400000000\n");
    tree.remove("/sys/bus/cxl/devices/endpoint2");
    assert!(!said(&tree).contains(create), "{}", said(&tree));
}

/// High-bandwidth memory is soft-reserved too: no advice is given for it.
#[test]
fn a_dax_device_outside_of_the_windows_is_left_alone() {
    let tree = machine(&[]);
    hmem(&tree, "2", "device_dax");
    assert!(said(&tree).contains("dax0.0"), "it may be CXL memory");
    window(&tree, 0, WINDOW, 8 * GIB);
    assert!(said(&tree).contains("dax0.0"), "it is");
    window(&tree, 0, WINDOW + 64 * GIB, 8 * GIB);
    assert!(!said(&tree).contains("dax0.0"));
}
