// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A guest with two devices over the same memory: the emulated one, and the simulated RTL.

use crate::common::{Bench, MODULE, skip};
use anyhow::Result;
use weir_scenario::testbed::TestbedMachine;
use weir_testbed::vm::Vm;
use weir_testbed::vm::cosim::{Library, library};

pub const LINE_BYTES: u64 = 64;
pub const GROUPS: usize = 2;
/// The emulated device, and the RTL.
pub const SHARED: &str = "/sys/class/weir_cxl/weir_cxl0";
pub const RTL: &str = "/sys/class/weir_cxl/weir_cxl1";

/// What tests need, the RTL for a machine included; nothing, said aloud, where it cannot be had.
///
/// # Errors
/// It does not build.
pub fn ready(test: &str, machine: &TestbedMachine) -> Result<Option<Bench>> {
    let Some(bench) = Bench::ready(test)? else {
        return Ok(None);
    };
    match library(machine)? {
        Library::Built(_) => Ok(Some(bench)),
        Library::Lacking(what) => skip(test, &what),
    }
}

/// Binds the emulated device first, then the RTL if it is there, as one would bind the FPGA; a file of 16 MiB
/// in the memory of each group.
///
/// # Errors
/// The guest's: the driver does not take one.
pub fn bind(vm: &Vm) -> Result<()> {
    vm.run(&format!("insmod {MODULE} && [ -e {SHARED} ]"))?;
    if vm.machine.cosim {
        vm.run(&format!(
            "for d in /sys/bus/pci/devices/*; do
                 [ $(cat $d/vendor)$(cat $d/device) = 0x80860x0ddb ] && found=$d; done
             echo weir_cxl > $found/driver_override
             echo ${{found##*/}} > /sys/bus/pci/drivers_probe
             [ -e {RTL}/group1/read_bytes ] || {{ dmesg | tail -n 20; exit 1; }}"
        ))?;
    }
    for group in 0..GROUPS {
        let node = group + 1;
        vm.run(&format!(
            "mkdir -p /cxl{group}; mount -t tmpfs -o size=100%,mpol=bind:{node} cxl /cxl{group}
             dd if=/dev/zero of=/cxl{group}/file bs=1M count=16 2> /dev/null"
        ))?;
    }
    Ok(())
}

/// fio on the file of one group, with what else there is to say of it.
pub fn fio(group: usize, more: &str) -> String {
    format!(
        "fio --name=group{group} --filename=/cxl{group}/file --thread --ioengine=mmap --bs=256k \
         --disk_util=0 {more}"
    )
}
