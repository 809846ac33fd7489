// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The guest's memory as QEMU's firmware describes it: ordinary memory on node 0 with all CPUs, each group
//! on a node of its own behind it.

use std::process::Command;
use weir_scenario::testbed::TestbedMachine;

/// Latency of ordinary memory in the firmware's tables. Nothing in the guest depends on it.
const DRAM_NS: u64 = 100;
const DRAM_MIB_PER_SEC: u64 = 2000;

pub(crate) fn add(q: &mut Command, machine: &TestbedMachine) {
    let total_mib = machine.dram_mib + machine.groups_mib.iter().sum::<u64>();
    q.args(["-m", &format!("{total_mib}M")]);
    nodes(q, machine);
    distances(q, machine.groups_mib.len());
    if machine.firmware_figures {
        figures(q, machine);
    }
}

fn nodes(q: &mut Command, machine: &TestbedMachine) {
    let last_cpu = machine.cpu_count - 1;
    q.arg("-object").arg(format!(
        "memory-backend-ram,id=dram,size={}M",
        machine.dram_mib
    ));
    q.arg("-numa")
        .arg(format!("node,nodeid=0,cpus=0-{last_cpu},memdev=dram"));
    let next_to = if machine.firmware_figures {
        ",initiator=0"
    } else {
        ""
    };
    for (i, mib) in machine.groups_mib.iter().enumerate() {
        let node = i + 1;
        q.arg("-object")
            .arg(format!("memory-backend-ram,id=cxl{i},size={mib}M"));
        q.arg("-numa")
            .arg(format!("node,nodeid={node},memdev=cxl{i}{next_to}"));
    }
}

fn distances(q: &mut Command, group_count: usize) {
    for node in 1..=group_count {
        q.arg("-numa").arg(format!("dist,src=0,dst={node},val=20"));
        // From one group to another goes through a CPU's node. QEMU takes all distances or none.
        for other in 1..node {
            q.arg("-numa")
                .arg(format!("dist,src={other},dst={node},val=30"));
        }
    }
}

/// An HMAT with the figures of the device model.
fn figures(q: &mut Command, machine: &TestbedMachine) {
    q.args(["-machine", "hmat=on"]);
    let device = (machine.idle_ns, machine.capacity_mib_per_sec());
    let groups = (1..=machine.groups_mib.len()).map(|node| (node, device));
    for (node, (ns, mib)) in std::iter::once((0, (DRAM_NS, DRAM_MIB_PER_SEC))).chain(groups) {
        for figure in [
            format!("access-latency,latency={ns}"),
            format!("access-bandwidth,bandwidth={mib}M"),
        ] {
            q.arg("-numa").arg(format!(
                "hmat-lb,initiator=0,target={node},hierarchy=memory,data-type={figure}"
            ));
        }
    }
}
