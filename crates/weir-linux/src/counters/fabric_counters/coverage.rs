// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which memory devices of a node are counted. Devices have a node's memory by turns, or one after the other,
//! and each has counters of its own: where one has none, its traffic is in no figure of the node.
//!
//! That is claimed with proof only: one of the node's devices has the counters of a group of the node, by its
//! PCI function, and another one has none. Where no counters lead to a device, those of a socket or of a
//! module without devices may count all of it.

use crate::counters::Counters;
use crate::inventory::cxl::{CxlMemory, CxlNode, Fabric, Region};
use weir_core::seam::next_move::{Act, NextMove, Precondition};
use weir_core::seam::topology::{Fact, NodeCoverage};
use weir_core::{Missing, NodeId};

/// The nodes of CXL memory with a device that is counted.
pub(crate) fn coverage(bus: &Fabric, counters: &Counters) -> Vec<NodeCoverage> {
    let of_node = |node: &CxlNode| of_node(bus, counters, node);
    bus.cxl_nodes().filter_map(of_node).collect()
}

pub(crate) fn facts(coverage: &[NodeCoverage]) -> impl Iterator<Item = Fact> + '_ {
    coverage.iter().map(|node| Fact {
        name: format!("numa.{}.devices", node.node),
        value: if node.is_partial() {
            Err(Missing::NotSupported(node.to_string()))
        } else {
            Ok(node.to_string())
        },
        next_move: node.is_partial().then(|| {
            let names = node.uncounted.join(", ");
            NextMove {
                act: Act::Deed(format!(
                    "bring up the counters of {names}, or make regions of one device each"
                )),
                why: format!("the traffic of {names} is in no figure of the node"),
                needs: Precondition::Seen("other devices of the node have counters".into()),
            }
        }),
    })
}

fn of_node(bus: &Fabric, counters: &Counters, node: &CxlNode) -> Option<NodeCoverage> {
    let id = NodeId(node.id);
    let names = node.devices.as_ref().ok()?;
    let is_counted = |name: &&String| {
        let device = bus.devices.iter().find(|device| device.name == **name);
        device.is_some_and(|device| has_group(counters, device, id))
    };
    let (counted, mut uncounted): (Vec<String>, Vec<String>) =
        names.iter().cloned().partition(|name| is_counted(&name));
    let regions = node.regions.as_deref().unwrap_or_default();
    let of_node = |region: &&Region| regions.contains(&region.name);
    uncounted.extend(bus.regions.iter().filter(of_node).flat_map(nameless));
    (!counted.is_empty()).then_some(NodeCoverage {
        node: id,
        counted,
        uncounted,
    })
}

/// Whether counters of this device have a group of the node.
fn has_group(counters: &Counters, memory: &CxlMemory, node: NodeId) -> bool {
    let is_its = |name: &String| *name == memory.name || memory.counters.contains(name);
    let mut devices = counters
        .devices
        .iter()
        .filter(|device| is_its(&device.name));
    devices.any(|device| {
        let mut groups = counters.groups.iter();
        groups.any(|group| group.id.device == device.id && group.node == Some(node))
    })
}

/// Devices of a region that the kernel names no more, or not yet.
fn nameless(region: &Region) -> impl Iterator<Item = String> + '_ {
    let targets = region.targets.iter().enumerate();
    targets.filter_map(|(place, target)| {
        let why = target.device.as_ref().err()?;
        let is_gone = !matches!(why, Missing::NotPermitted(_));
        is_gone.then(|| format!("target{place} of {}", region.name))
    })
}

#[cfg(test)]
mod tests {
    use crate::fake::Fake;
    use crate::options::By;
    use crate::platform::LinuxPlatform;
    use weir_core::Platform;
    use weir_core::seam::topology::Description;

    const BUS: &str = "sys/bus/cxl/devices";
    const PCI: [&str; 2] = [
        "sys/devices/pci0000:15/0000:15:01.0/0000:16:00.0",
        "sys/devices/pci0000:38/0000:38:01.0/0000:39:00.0",
    ];

    /// Node 1 is a region of so many ways, of which the first device has the counters.
    fn region(ways: usize) -> Fake {
        let fake = Fake::new();
        let link = |below: &str, to: &str| {
            let path = fake.path(below);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::os::unix::fs::symlink(fake.path(to), path).unwrap();
        };
        let of_region = "sys/devices/platform/root0/decoder0.0/region0";
        for (file, value) in [
            ("devtype", "cxl_region"),
            ("resource", "0x2080000000"),
            ("size", "0x20000000"),
            ("mode", "ram"),
            ("commit", "1"),
            ("interleave_ways", &ways.to_string()),
            ("interleave_granularity", "4096"),
            ("dax_region0/dax0.0/target_node", "1"),
            ("dax_region0/dax0.0/size", "536870912"),
            ("dax_region0/dax0.0/resource", "0x2080000000"),
        ] {
            fake.write(format!("{of_region}/{file}"), format!("{value}\n"));
        }
        link(&format!("{BUS}/region0"), of_region);
        link(
            "sys/bus/dax/devices/dax0.0",
            &format!("{of_region}/dax_region0/dax0.0"),
        );
        for (place, pci) in PCI.iter().enumerate().take(ways) {
            let endpoint = format!("sys/devices/platform/root0/port1/endpoint{place}");
            let decoder = format!("{endpoint}/decoder{place}.0");
            fake.write(format!("{pci}/mem{place}/serial"), "0x1\n");
            fake.write(format!("{endpoint}/devtype"), "cxl_port\n");
            fake.write(format!("{decoder}/devtype"), "cxl_decoder_endpoint\n");
            fake.write(
                format!("{of_region}/target{place}"),
                format!("decoder{place}.0\n"),
            );
            link(&format!("{endpoint}/uport"), &format!("{pci}/mem{place}"));
            link(&format!("{BUS}/mem{place}"), &format!("{pci}/mem{place}"));
            link(&format!("{BUS}/endpoint{place}"), &endpoint);
            link(&format!("{BUS}/decoder{place}.0"), &decoder);
        }
        link("sys/class/weir_cxl/weir_cxl0/device", PCI[0]);
        fake
    }

    fn uncounted(machine: &Description) -> Vec<String> {
        let nodes = machine.partly_counted.iter();
        nodes.flat_map(|node| node.uncounted.clone()).collect()
    }

    /// What a tick says of node 1, at which names of devices are scanned too.
    fn said(platform: &mut LinuxPlatform) -> Option<String> {
        platform.hurry();
        let seen = platform.observe().unwrap();
        let node = seen.skipped.into_iter().find(|skip| skip.what == "node1");
        node.map(|skip| skip.why.to_string())
    }

    #[test]
    fn a_device_without_counters_is_told_until_they_come() {
        let fake = region(2);
        let mut platform = LinuxPlatform::open_inline(fake.options(By::Cgroup)).unwrap();
        let told = said(&mut platform).expect("half of the node is not counted");
        assert!(told.contains("mem1") && told.contains("refused"), "{told}");
        assert_eq!(uncounted(platform.describe()), ["mem1"]);
        fake.device(1, &[(1, 0, 0)]);
        let link = fake.path("sys/class/weir_cxl/weir_cxl1/device");
        std::os::unix::fs::symlink(fake.path(PCI[1]), link).unwrap();
        assert_eq!(said(&mut platform), None);
        assert_eq!(uncounted(platform.describe()), [""; 0]);
        // Counters without a group of this node count another one.
        fake.write("sys/class/weir_cxl/weir_cxl1/group0/node", "3\n");
        fake.write("sys/class/weir_cxl/weir_cxl2/version", "1\n");
        assert!(said(&mut platform).is_some());
    }

    #[test]
    fn a_target_without_a_device_is_not_counted() {
        let fake = region(2);
        fake.remove(format!("{BUS}/mem1"));
        fake.remove(format!("{BUS}/decoder1.0"));
        let platform = LinuxPlatform::open_inline(fake.options(By::Cgroup)).unwrap();
        assert_eq!(uncounted(platform.describe()), ["target1 of region0"]);
    }

    #[test]
    fn nothing_is_claimed_without_proof() {
        let whole = region(1);
        let platform = LinuxPlatform::open_inline(whole.options(By::Cgroup)).unwrap();
        assert_eq!(uncounted(platform.describe()), [""; 0]);
        // The counters are of no device that the bus knows: they may count all of it.
        let other = region(2);
        other.remove("sys/class/weir_cxl/weir_cxl0/device");
        let mut platform = LinuxPlatform::open_inline(other.options(By::Cgroup)).unwrap();
        assert_eq!(said(&mut platform), None);
    }
}
