// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Does `weir topology` say of QEMU's emulated CXL device what the kernel made of it? A host bridge, a root
//! port and a memory device of 256 MiB; from it a region, a dax device and a NUMA node are made with the
//! kernel's own interface. The node's memory is never used: each access to it would leave QEMU's
//! translated code.
//!
//! With `WEIR_RECORD_SYSFS=FILE` the tree that is read is written down, for the tests of weir-linux.

use crate::common::{Bench, Questions, json, until};
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use weir_scenario::testbed::TestbedMachine;
use weir_testbed::vm::condition::Condition;
use weir_testbed::vm::{BootOptions, GuestFile, Vm};

const DEVICE_BYTES: u64 = 256 << 20;

fn machine() -> TestbedMachine {
    TestbedMachine {
        cpu_count: 2,
        dram_mib: 512,
        groups_mib: vec![128],
        instruction_ps: 2000,
        ..TestbedMachine::default()
    }
}

/// A CXL host bridge with one port and one device. Under a hypervisor the kernel refuses to make regions,
/// because it could not flush the caches of the host: so QEMU shows it none.
fn options() -> BootOptions {
    let arguments = format!(
        "-cpu max,-erms,-fsrm,-hypervisor \
         -machine cxl=on,cxl-fmw.0.targets.0=cxl_hb0,cxl-fmw.0.size=1G \
         -object memory-backend-ram,id=cxl_media0,size={DEVICE_BYTES},share=on \
         -device pxb-cxl,bus_nr=12,bus=pcie.0,id=cxl_hb0 \
         -device cxl-rp,port=0,bus=cxl_hb0,id=cxl_rp0,chassis=0,slot=2 \
         -device cxl-type3,bus=cxl_rp0,volatile-memdev=cxl_media0,id=cxl_dev0,sn=0x1234"
    );
    BootOptions {
        qemu_args: arguments.split_whitespace().map(str::to_owned).collect(),
        is_cold: true,
        ..BootOptions::default()
    }
}

const MODULES: [&str; 6] = [
    "cxl/cxl_acpi",
    "cxl/cxl_pci",
    "cxl/cxl_mem",
    "dax/device_dax",
    "dax/dax_cxl",
    "dax/kmem",
];

/// Files of the modules and of those they need, in the order in which they can be loaded.
fn modules(bench: &Bench) -> Result<Vec<String>> {
    let dir = format!("lib/modules/{}", bench.env.kernel_release);
    let list = bench.env.root().join(&dir).join("modules.dep");
    let text = std::fs::read_to_string(&list).with_context(|| list.display().to_string())?;
    let mut files: Vec<String> = Vec::new();
    for name in MODULES {
        let wanted = format!("kernel/drivers/{name}.ko.xz:");
        let line = text.lines().find_map(|line| line.strip_prefix(&wanted));
        let needed = line.with_context(|| format!("no {wanted} in modules.dep"))?;
        // The modules that a module needs stand behind it, and so on.
        let needed = needed.split_whitespace().rev().map(str::to_owned);
        for file in needed.chain([wanted.trim_end_matches(':').to_owned()]) {
            let file = format!("{dir}/{file}");
            if !files.contains(&file) {
                files.push(file);
            }
        }
    }
    Ok(files)
}

/// The kernel's drivers of CXL and dax, and what can load them packed as they are.
fn drivers(bench: &Bench, modules: &[String]) -> Result<Vec<GuestFile>> {
    let root = bench.env.root();
    let loader = bench.env.extra_program("usr/bin/kmod")?;
    let cxl = bench.env.extra_program("usr/bin/cxl")?;
    let programs = loader.union(&cxl);
    let files = modules.iter().chain(programs);
    Ok(files
        .map(|file| GuestFile::new(root.join(file), file))
        .collect())
}

fn load(vm: &Vm, modules: &[String]) -> Result<()> {
    vm.run("ln -sf /usr/bin/kmod /run/insmod")?;
    for file in modules {
        vm.run(&format!("/run/insmod /{file}"))?;
    }
    until(
        vm,
        "[ -e /sys/bus/cxl/devices/mem0 ] &&
         grep -qs cxl_decoder_endpoint /sys/bus/cxl/devices/decoder*.0/devtype",
    )
}

/// A region of all of the device, by the kernel's interface; its memory online as a node of its own.
fn make_region(vm: &Vm) -> Result<()> {
    vm.run(&format!(
        "cd /sys/bus/cxl/devices
         end=$(ls -d decoder*.0 | while read d; do [ $(cat $d/devtype) = cxl_decoder_endpoint ] && echo $d; done | head -n 1)
         name=$(cat decoder0.0/create_ram_region)
         echo $name > decoder0.0/create_ram_region
         echo 256 > $name/interleave_granularity
         echo 1 > $name/interleave_ways
         echo ram > $end/mode
         echo {DEVICE_BYTES} > $end/dpa_size
         echo {DEVICE_BYTES} > $name/size
         echo $end > $name/target0
         echo 1 > $name/commit
         echo $name > /sys/bus/cxl/drivers/cxl_region/bind"
    ))?;
    // The device comes first, its memory after it.
    until(
        vm,
        "node=$(cat /sys/bus/dax/devices/dax*/target_node) &&
         [ \"$(cat /sys/devices/system/node/node$node/memory*/state | sort -u)\" = online ]",
    )
}

/// Numbers that `weir topology --json` gives, as `{"Ok": 2}`.
fn ok(value: &Value) -> &Value {
    &value["Ok"]
}

fn the_chain_is_whole(vm: &Vm) -> Result<()> {
    let seen = json(vm, "weir topology --json")?;
    ensure!(seen["problems"] == serde_json::json!([]), "{seen}");
    let device = &seen["devices"][0];
    ensure!(
        device["name"] == "mem0" && *ok(&device["serial"]) == 0x1234,
        "{device}"
    );
    ensure!(*ok(&device["ram_bytes"]) == DEVICE_BYTES, "{device}");
    // The bridge is the one that QEMU has as bus 12, its port is the only one.
    ensure!(
        *ok(&device["bridge"]) == "pci0000:0c" && *ok(&device["root_port"]) == "0000:0c:00.0",
        "{device}"
    );
    let region = &seen["regions"][0];
    ensure!(*ok(&region["targets"][0]["device"]) == "mem0", "{region}");
    let dax = vm.run("cat /sys/bus/dax/devices/dax*/target_node")?;
    let node = dax.trim().parse::<u64>()?;
    ensure!(*ok(&region["dax"][0]["node"]) == node, "{region}");
    let nodes = seen["nodes"].as_array().context("nodes")?;
    let found = nodes
        .iter()
        .find(|n| n["id"] == node)
        .with_context(|| seen.to_string())?;
    ensure!(
        *ok(&found["devices"]) == serde_json::json!(["mem0"]),
        "{found}"
    );
    // The testbed's own node is placed by firmware, and no device is claimed for it.
    let own = nodes
        .iter()
        .find(|n| n["id"] == 1)
        .with_context(|| seen.to_string())?;
    ensure!(own["regions"]["Err"]["reason"] == "not_supported", "{own}");
    println!("{}", vm.run("weir topology")?);
    Ok(())
}

/// The kernel's own tool reads the same files by other code.
fn cxl_list_says_the_same(vm: &Vm) -> Result<()> {
    let theirs = json(vm, "cxl list -M -m mem0")?;
    let theirs = if theirs.is_array() {
        theirs[0].clone()
    } else {
        theirs
    };
    let seen = json(vm, "weir topology --json")?;
    let ours = &seen["devices"][0];
    ensure!(
        theirs["memdev"] == ours["name"] && theirs["host"] == *ok(&ours["pci"]),
        "{theirs} {ours}"
    );
    ensure!(
        theirs["ram_size"] == *ok(&ours["ram_bytes"]),
        "{theirs} {ours}"
    );
    let theirs = json(vm, "cxl list -R")?;
    let theirs = if theirs.is_array() {
        theirs[0].clone()
    } else {
        theirs
    };
    let ours = &seen["regions"][0];
    ensure!(
        theirs["region"] == ours["name"] && theirs["size"] == *ok(&ours["size_bytes"]),
        "{theirs} {ours}"
    );
    ensure!(theirs["resource"] == *ok(&ours["start"]), "{theirs} {ours}");
    Ok(())
}

/// When the device goes, so does what belongs to it.
fn a_device_that_is_gone_is_not_shown(vm: &Vm) -> Result<()> {
    vm.run("echo 0000:0d:00.0 > /sys/bus/pci/drivers/cxl_pci/unbind")?;
    until(
        vm,
        !Condition::Exists("/sys/bus/cxl/devices/mem0".to_owned()),
    )?;
    let seen = json(vm, "weir topology --json")?;
    ensure!(seen["devices"] == serde_json::json!([]), "{seen}");
    println!("{}", vm.run("weir topology")?);
    Ok(())
}

fn record(vm: &Vm, path: &str) -> Result<()> {
    let script = r#"
        dirs=$(for l in /sys/bus/cxl/devices/* /sys/bus/dax/devices/* /sys/bus/event_source/devices/*; do
            [ -L $l ] || continue
            echo "$l -> $(readlink $l)" >&3; readlink -f $l; done 3>> /run/tree | sort -u)
        for d in $dirs; do
            for f in $d/* $d/ram/size $d/pmem/size; do
                n=${f##*/}
                if [ -L $f ]; then
                    case $n in subsystem|driver|firmware_node|physical_node) continue;; esac
                    echo "$f -> $(readlink $f)"
                elif [ -f $f ]; then
                    case $n in uevent|CDAT|modalias|create_*|delete_region|remove|waiting_for_supplier|trigger_*|inject_*|clear_*) continue;; esac
                    case $d in */tracepoint|*/kprobe|*/uprobe|*/cpu|*/breakpoint|*/software) [ $n = type ] || continue;; esac
                    v=$(cat $f 2> /dev/null) && echo "$f=$v" | tr '\n' '|' | sed 's/|$/\n/'
                fi
            done
        done >> /run/tree
        for f in online has_cpu has_memory node0/meminfo node1/meminfo node2/meminfo node0/distance node1/distance node2/distance; do
            f=/sys/devices/system/node/$f
            [ -f $f ] && echo "$f=$(head -n 3 $f)" | tr '\n' '|' | sed 's/|$/\n/'
        done >> /run/tree
        cat /run/tree"#;
    let tree = vm.run(script)?;
    std::fs::write(path, tree).with_context(|| path.to_owned())
}

#[test]
fn topology_says_what_the_kernel_made() -> Result<()> {
    let Some(bench) = Bench::ready("topology")? else {
        return Ok(());
    };
    let modules = modules(&bench)?;
    let vm = &bench.boot(&machine(), drivers(&bench, &modules)?, &options())?;
    load(vm, &modules)?;
    let mut questions = Questions::default();
    questions.ask("a region is made", || make_region(vm));
    if let Ok(path) = std::env::var("WEIR_RECORD_SYSFS") {
        record(vm, &path)?;
    }
    questions.ask("the chain is whole", || the_chain_is_whole(vm));
    questions.ask("cxl list says the same", || cxl_list_says_the_same(vm));
    questions.ask("a device that is gone is not shown", || {
        a_device_that_is_gone_is_not_shown(vm)
    });
    questions.done()
}
