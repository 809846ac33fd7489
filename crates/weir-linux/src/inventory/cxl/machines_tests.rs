// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Machines as servers have them, made of files: which nodes are CXL memory, and what says so.

use super::tests::Tree;
use super::{CxlNode, Fabric, MemoryKind};

const GIB: u64 = 1 << 30;
/// Memory blocks have 2 GiB here, as on large servers.
const BLOCK: u64 = 2 * GIB;
/// Where the first CXL window begins.
pub(super) const WINDOW: u64 = 65 * BLOCK;
const NODES: &str = "/sys/devices/system/node";
const ROOT: &str = "/sys/devices/platform/ACPI0017:00/root0";

/// Two nodes with CPUs and 16 GiB each, and some without: number, first block, count of blocks.
pub(super) fn machine(without_cpus: &[(u32, u64, u64)]) -> Tree {
    let tree = Tree::of("");
    tree.write("/sys/devices/system/memory/block_size_bytes", "80000000\n");
    let all = [&[(0, 0, 8), (1, 16, 8)], without_cpus].concat();
    let last = all.iter().map(|(id, _, _)| *id).max().unwrap_or(1);
    tree.write(&format!("{NODES}/online"), format!("0-{last}\n"));
    tree.write(&format!("{NODES}/has_memory"), format!("0-{last}\n"));
    tree.write(&format!("{NODES}/has_cpu"), "0-1\n");
    tree.write("/sys/devices/system/cpu/online", "0-7\n");
    for (id, first, count) in all {
        let dir = format!("{NODES}/node{id}");
        let kib = count * BLOCK / 1024;
        tree.write(
            &format!("{dir}/meminfo"),
            format!("Node {id} MemTotal: {kib} kB\n"),
        );
        for block in first..first + count {
            tree.write(&format!("{dir}/memory{block}/state"), "online\n");
            block_state(&tree, block, "online");
        }
    }
    tree
}

/// A memory block, of no node yet.
pub(super) fn block_state(tree: &Tree, block: u64, state: &str) {
    let path = format!("/sys/devices/system/memory/memory{block}/state");
    tree.write(&path, format!("{state}\n"));
}

pub(super) fn object(tree: &Tree, name: &str, below: &str, files: &[(&str, &str)]) {
    let dir = format!("{below}/{name}");
    for (file, text) in files {
        tree.write(&format!("{dir}/{file}"), format!("{text}\n"));
    }
    let target = format!("../../..{}", dir.trim_start_matches("/sys"));
    tree.link(&format!("/sys/bus/cxl/devices/{name}"), &target);
}

/// A window to one host bridge.
pub(super) fn window(tree: &Tree, number: u32, start: u64, size: u64) {
    let (start, size) = (format!("{start:#x}"), format!("{size:#x}"));
    object(
        tree,
        "root0",
        "/sys/devices/platform/ACPI0017:00",
        &[("devtype", "cxl_port")],
    );
    let files = [
        ("devtype", "cxl_decoder_root"),
        ("start", &start),
        ("size", &size),
        ("target_list", "21"),
        ("cap_ram", "1"),
    ];
    object(tree, &format!("decoder0.{number}"), ROOT, &files);
    tree.link(&format!("{ROOT}/dport21"), "../../../pci0000:15");
}

/// A memory device of 16 GiB below that host bridge, with its endpoint and a decoder of it.
pub(super) fn device(tree: &Tree, number: u32, decoder: &[(&str, &str)]) {
    let function = format!("/sys/devices/pci0000:15/0000:15:0{number}.0/0000:1{number}:00.0");
    let files = [
        ("serial", "0x1"),
        ("numa_node", "0"),
        ("ram/size", "0x400000000"),
        ("pmem/size", "0x0"),
    ];
    object(tree, &format!("mem{number}"), &function, &files);
    let endpoint = format!("endpoint{}", number + 2);
    let port = format!("{ROOT}/port1");
    object(tree, &endpoint, &port, &[("devtype", "cxl_port")]);
    let up = format!(
        "../../../../..{}/mem{number}",
        function.trim_start_matches("/sys/devices")
    );
    tree.link(&format!("{port}/{endpoint}/uport"), &up);
    let files = [&[("devtype", "cxl_decoder_endpoint")], decoder].concat();
    let name = format!("decoder{}.0", number + 2);
    object(tree, &name, &format!("{port}/{endpoint}"), &files);
}

/// A region of `decoder0.0` with these targets.
pub(super) fn region(tree: &Tree, number: u32, start: u64, size: u64, targets: &[&str]) {
    let (start, size) = (format!("{start:#x}"), format!("{size:#x}"));
    let ways = targets.len().to_string();
    let mut files = vec![
        ("devtype", "cxl_region"),
        ("resource", &start),
        ("size", &size),
        ("mode", "ram"),
        ("commit", "1"),
        ("interleave_ways", &ways),
        ("interleave_granularity", "256"),
    ];
    let names: Vec<String> = (0..targets.len()).map(|n| format!("target{n}")).collect();
    files.extend(
        names
            .iter()
            .map(String::as_str)
            .zip(targets.iter().copied()),
    );
    object(
        tree,
        &format!("region{number}"),
        &format!("{ROOT}/decoder0.0"),
        &files,
    );
}

/// A dax device below something in `/sys/devices`, bound to a driver if one is named.
pub(super) fn dax(tree: &Tree, name: &str, below: &str, files: &[(&str, &str)], driver: &str) {
    let dir = format!("/sys/devices/{below}/{name}");
    for (file, text) in files {
        tree.write(&format!("{dir}/{file}"), format!("{text}\n"));
    }
    let target = format!("../../../devices/{below}/{name}");
    tree.link(&format!("/sys/bus/dax/devices/{name}"), &target);
    if !driver.is_empty() {
        tree.link(
            &format!("{dir}/driver"),
            &format!("/sys/bus/dax/drivers/{driver}"),
        );
    }
}

pub(super) const OF_REGION: &str = "platform/ACPI0017:00/root0/decoder0.0/region0/dax_region0";

fn node(fabric: &Fabric, id: u32) -> &CxlNode {
    fabric.nodes.iter().find(|node| node.id == id).unwrap()
}

/// The verdict, and its words.
fn verdict(tree: &Tree, id: u32) -> (bool, MemoryKind, String) {
    let fabric = tree.read();
    let verdict = &node(&fabric, id).verdict;
    (verdict.is_cxl, verdict.kind, verdict.words())
}

fn reach(tree: &Tree, node: u32, latency: u32, bandwidth: u32) {
    let dir = format!("{NODES}/node{node}/access0/initiators");
    tree.write(&format!("{dir}/read_latency"), format!("{latency}\n"));
    tree.write(&format!("{dir}/read_bandwidth"), format!("{bandwidth}\n"));
}

#[test]
fn high_bandwidth_memory_beside_a_cxl_device() {
    let tree = machine(&[(2, 32, 4), (3, 36, 4), (4, 65, 8)]);
    window(&tree, 0, WINDOW, 16 * GIB);
    device(&tree, 0, &[]);
    region(&tree, 0, WINDOW, 16 * GIB, &["decoder2.0"]);
    dax(&tree, "dax0.0", OF_REGION, &[("target_node", "4")], "kmem");
    for hbm in [2, 3] {
        let (is_cxl, kind, said) = verdict(&tree, hbm);
        assert_eq!((is_cxl, kind), (false, MemoryKind::Other));
        assert!(
            said.contains("outside of all CXL windows (decoder0.0)"),
            "{said}"
        );
    }
    let (is_cxl, _, said) = verdict(&tree, 4);
    assert!(is_cxl && said.contains("region0"), "{said}");
    // The firmware's figures say what the others are.
    reach(&tree, 0, 110, 250_000);
    reach(&tree, 2, 130, 900_000);
    let (_, kind, said) = verdict(&tree, 2);
    assert_eq!(kind, MemoryKind::HighBandwidth);
    assert!(
        said.contains("reads take 130 ns, those of DRAM 110"),
        "{said}"
    );
    let fabric = tree.read();
    assert_eq!(
        fabric.cxl_nodes().map(|node| node.id).collect::<Vec<_>>(),
        [4]
    );
    assert!(node(&fabric, 2).devices.is_err() && node(&fabric, 2).windows.is_empty());
}

#[test]
fn soft_reserved_memory_is_cxl_where_it_lies_in_a_window() {
    let tree = machine(&[(2, 32, 4), (3, 65, 4)]);
    window(&tree, 0, WINDOW, 8 * GIB);
    let at = |block: u64| (block * BLOCK).to_string();
    let size = (8 * GIB).to_string();
    for (name, below, node, block) in [
        ("dax0.0", "platform/hmem.0", "2", 32),
        ("dax1.0", "platform/hmem.1", "3", 65),
    ] {
        let files = [
            ("target_node", node),
            ("resource", &at(block)),
            ("size", &size),
        ];
        dax(&tree, name, below, &files, "kmem");
    }
    let (is_cxl, _, said) = verdict(&tree, 2);
    assert!(
        !is_cxl && said.contains("dax0.0 is memory that firmware reserved"),
        "{said}"
    );
    assert!(verdict(&tree, 3).0);
    let fabric = tree.read();
    assert_eq!(node(&fabric, 3).dax, ["dax1.0"]);
    assert_eq!(node(&fabric, 3).windows, ["decoder0.0"]);
}

/// Without windows a CPU-less node is taken for CXL memory, and says why; what is faster than DRAM is none.
#[test]
fn a_kernel_that_knows_no_window() {
    let tree = machine(&[(2, 32, 4)]);
    let (is_cxl, _, said) = verdict(&tree, 2);
    assert!(is_cxl, "{said}");
    assert_eq!(
        said,
        "taken for CXL memory: it has memory and no CPUs, and the kernel knows no CXL window"
    );
    assert!(!node(&tree.read(), 2).verdict.is_proven);
    reach(&tree, 0, 110, 250_000);
    reach(&tree, 2, 250, 60_000);
    let (is_cxl, _, said) = verdict(&tree, 2);
    assert!(is_cxl && said.contains("reads take 250 ns"), "{said}");
    // Eight interleaved devices: more bandwidth than DRAM, and the latency of CXL memory.
    reach(&tree, 2, 250, 400_000);
    assert!(verdict(&tree, 2).0);
    reach(&tree, 2, 130, 900_000);
    let (is_cxl, kind, said) = verdict(&tree, 2);
    assert_eq!((is_cxl, kind), (false, MemoryKind::HighBandwidth), "{said}");
    // The testbed: a driver names the node, and no CXL bus is there.
    tree.write("/sys/class/weir_cxl/weir_cxl0/group_count", "1\n");
    tree.write("/sys/class/weir_cxl/weir_cxl0/group0/node", "2\n");
    let (is_cxl, _, said) = verdict(&tree, 2);
    assert!(is_cxl && said.contains("the counters weir_cxl0"), "{said}");
}

/// libnvdimm calls its regions as CXL does, and dax devices of the two have one bus.
#[test]
fn persistent_memory_as_system_ram() {
    let tree = machine(&[(2, 32, 4), (3, 65, 8)]);
    let nvdimm = "LNXSYSTM:00/LNXSYBUS:00/ACPI0012:00/ndbus0/region0/dax0.1";
    dax(&tree, "dax0.1", nvdimm, &[("target_node", "2")], "kmem");
    let (is_cxl, kind, said) = verdict(&tree, 2);
    assert_eq!((is_cxl, kind), (false, MemoryKind::Persistent));
    assert!(
        said.contains("dax0.1 is persistent memory (ndbus0)"),
        "{said}"
    );
    window(&tree, 0, WINDOW, 16 * GIB);
    device(&tree, 0, &[]);
    region(&tree, 0, WINDOW, 16 * GIB, &["decoder2.0"]);
    dax(&tree, "dax0.0", OF_REGION, &[("target_node", "3")], "kmem");
    assert_eq!(verdict(&tree, 2).1, MemoryKind::Persistent);
    let fabric = tree.read();
    assert!(node(&fabric, 2).regions.is_err(), "region0 is another's");
    assert_eq!(node(&fabric, 3).dax, ["dax0.0"]);
    assert!(node(&fabric, 3).verdict.is_cxl);
}

#[test]
fn persistent_memory_by_the_map_of_addresses() {
    let tree = machine(&[(2, 32, 4), (3, 40, 4)]);
    let map = |name: &str| {
        let (start, end) = (32 * BLOCK, 36 * BLOCK - 1);
        let line = format!("00001000-0009ffff : System RAM\n{start:x}-{end:x} : {name}\n");
        tree.write("/proc/iomem", line);
    };
    map("Persistent Memory");
    assert_eq!(verdict(&tree, 2).1, MemoryKind::Persistent);
    assert!(verdict(&tree, 3).0, "another's addresses");
    map("System RAM (NVIDIA)");
    let (is_cxl, kind, said) = verdict(&tree, 2);
    assert_eq!((is_cxl, kind), (false, MemoryKind::Accelerator), "{said}");
    // A dax device of any memory, and a virtual machine's memory.
    for any in ["System RAM (kmem)", "System RAM (virtio_mem)", "System RAM"] {
        map(any);
        assert!(verdict(&tree, 2).0, "{any}");
    }
    tree.write("/proc/iomem", "00000000-00000000 : Persistent Memory\n");
    assert!(verdict(&tree, 2).0, "addresses are hidden");
}

/// A CXL device can have persistent memory; it is made a node by libnvdimm, below the CXL root.
#[test]
fn persistent_memory_of_a_cxl_device_is_cxl_memory() {
    let tree = machine(&[(2, 65, 4)]);
    window(&tree, 0, WINDOW, 8 * GIB);
    let below = "platform/ACPI0017:00/root0/nvdimm-bridge0/ndbus1/region1/dax1.0";
    dax(&tree, "dax1.0", below, &[("target_node", "2")], "kmem");
    let (is_cxl, _, said) = verdict(&tree, 2);
    assert!(is_cxl && said.contains("decoder0.0"), "{said}");
}

#[test]
fn memory_of_gpus() {
    let gpu = "/proc/driver/nvidia/gpus/0009:01:00.0/numa_status";
    let function = "/sys/bus/pci/devices/0009:01:00.0";
    let initiator = format!("{NODES}/has_generic_initiator");
    for (files, said) in [
        (
            &[(gpu, "Node: 2\nStatus: online\n")][..],
            "GPU 0009:01:00.0",
        ),
        (&[(&initiator[..], "2\n")], "has_generic_initiator"),
        (
            &[
                ("/sys/bus/pci/devices/0009:01:00.0/class", "0x030200\n"),
                ("/sys/bus/pci/devices/0009:01:00.0/numa_node", "2\n"),
            ],
            "0009:01:00.0 is there",
        ),
    ] {
        let tree = machine(&[(2, 32, 4), (3, 40, 4)]);
        for (path, text) in files {
            tree.write(path, text);
        }
        let (is_cxl, kind, words) = verdict(&tree, 2);
        assert_eq!((is_cxl, kind), (false, MemoryKind::Accelerator), "{words}");
        assert!(words.contains(said), "{words}");
        assert!(verdict(&tree, 3).0, "another node has a verdict of its own");
    }
    // A network card is near a node, and is not its memory; a GPU is near CPUs.
    let tree = machine(&[(2, 32, 4)]);
    for (class, node) in [
        ("0x020000\n", "2\n"),
        ("0x030200\n", "0\n"),
        ("0x030200\n", "-1\n"),
    ] {
        tree.write(&format!("{function}/class"), class);
        tree.write(&format!("{function}/numa_node"), node);
        assert!(verdict(&tree, 2).0, "{class} {node}");
    }
    tree.write(gpu, "Node: \u{1b}[2J\n");
    assert!(verdict(&tree, 2).0);
    // No evidence of the GPU is left, but the kernel knows the windows, and the memory is in none.
    window(&tree, 0, WINDOW, 8 * GIB);
    assert_eq!(verdict(&tree, 2).1, MemoryKind::Other);
}

#[test]
fn dram_of_a_socket_that_is_offline() {
    for link in ["node/node2/cpu56", "cpu/cpu56/node2"] {
        let tree = machine(&[(2, 32, 8)]);
        tree.write(&format!("/sys/devices/system/{link}/online"), "0\n");
        tree.write("/sys/devices/system/node/node2/cpulist", "\n");
        let (is_cxl, kind, said) = verdict(&tree, 2);
        assert_eq!((is_cxl, kind), (false, MemoryKind::Dram), "{link}");
        assert!(
            said.contains("CPUs 56 belong to it and are offline"),
            "{said}"
        );
        // Firmware gave a CXL device the socket's domain: the smaller part of the node is the device's.
        for block in 65..67 {
            tree.write(&format!("{NODES}/node2/memory{block}/state"), "online\n");
        }
        window(&tree, 0, WINDOW, 4 * GIB);
        assert_eq!(verdict(&tree, 2).1, MemoryKind::Dram);
    }
}

#[test]
fn a_node_in_two_windows_and_one_across_an_edge() {
    let tree = machine(&[(2, 65, 4), (3, 80, 1), (4, 90, 4)]);
    window(&tree, 0, WINDOW, 4 * GIB);
    window(&tree, 1, WINDOW + 4 * GIB, 4 * GIB);
    // The window begins in the middle of node 3's only block, and ends in the first of node 4's.
    window(&tree, 2, 80 * BLOCK + GIB, GIB);
    window(&tree, 3, 90 * BLOCK, GIB);
    let fabric = tree.read();
    assert_eq!(node(&fabric, 2).windows, ["decoder0.0", "decoder0.1"]);
    let said = node(&fabric, 2).verdict.words();
    assert_eq!(
        said,
        "CXL memory: it lies in the CXL window decoder0.0 and decoder0.1"
    );
    let said = node(&fabric, 3).verdict.words();
    assert!(
        said.contains("0x40000000 of 0x80000000 bytes") && said.contains("cannot separate the two"),
        "{said}"
    );
    assert!(node(&fabric, 3).verdict.is_cxl);
    let said = node(&fabric, 4).verdict.words();
    assert!(
        said.contains("only 0x40000000 of 0x200000000 bytes"),
        "{said}"
    );
    assert!(!node(&fabric, 4).verdict.is_cxl);
}

/// `weir groups acpi` makes two nodes of one device; a region of two interleaved devices lies over both.
#[test]
fn an_interleaved_region_with_several_nodes() {
    let tree = machine(&[(2, 65, 4), (3, 69, 4)]);
    window(&tree, 0, WINDOW, 16 * GIB);
    device(&tree, 0, &[]);
    device(&tree, 1, &[]);
    region(&tree, 0, WINDOW, 16 * GIB, &["decoder2.0", "decoder3.0"]);
    let fabric = tree.read();
    for id in [2, 3] {
        let node = node(&fabric, id);
        assert!(node.verdict.is_cxl);
        assert_eq!(node.regions, Ok(vec!["region0".to_owned()]));
        assert_eq!(node.devices, Ok(vec!["mem0".into(), "mem1".into()]));
    }
}

#[test]
fn windows_that_sysfs_does_not_show_are_those_of_the_map_of_addresses() {
    let tree = machine(&[(2, 32, 4), (3, 65, 4)]);
    window(&tree, 0, WINDOW, 8 * GIB);
    tree.write(
        "/sys/devices/platform/ACPI0017:00/root0/decoder0.0/start",
        "x\n",
    );
    let said = verdict(&tree, 2).2;
    assert!(
        said.contains("addresses of the CXL window decoder0.0 are not known"),
        "{said}"
    );
    let map = format!("{WINDOW:x}-{:x} : CXL Window 0\n", WINDOW + 8 * GIB - 1);
    tree.write("/proc/iomem", map);
    assert!(!verdict(&tree, 2).0 && verdict(&tree, 3).0);
}

/// A kernel without memory blocks: what is proven to be CXL memory speaks against what is not.
#[test]
fn addresses_that_are_not_known() {
    let tree = machine(&[(2, 32, 4), (3, 65, 8)]);
    tree.remove("/sys/devices/system/memory");
    window(&tree, 0, WINDOW, 16 * GIB);
    assert!(verdict(&tree, 2).0 && verdict(&tree, 3).0);
    device(&tree, 0, &[]);
    region(&tree, 0, WINDOW, 16 * GIB, &["decoder2.0"]);
    dax(&tree, "dax0.0", OF_REGION, &[("target_node", "3")], "kmem");
    let (is_cxl, kind, said) = verdict(&tree, 2);
    assert_eq!((is_cxl, kind), (false, MemoryKind::Unknown));
    assert!(said.contains("node3 is CXL memory for sure"), "{said}");
    assert!(verdict(&tree, 3).0);
}

#[test]
fn a_named_node_is_cxl_memory_whatever_the_machine_says() {
    let tree = machine(&[(2, 32, 4), (3, 65, 4)]);
    window(&tree, 0, WINDOW, 8 * GIB);
    let fabric = Fabric::read_with(&tree.roots(), &[2]);
    let said = node(&fabric, 2).verdict.words();
    assert_eq!(said, "CXL memory: --device node:2 says so");
    let said = node(&fabric, 3).verdict.words();
    assert_eq!(said, "no CXL memory: --device names node:2 only");
    // One with CPUs too, if it must be.
    let fabric = Fabric::read_with(&tree.roots(), &[1, 3]);
    assert_eq!(
        fabric.cxl_nodes().map(|node| node.id).collect::<Vec<_>>(),
        [1, 3]
    );
}
