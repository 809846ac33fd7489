// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Firmware that describes the device's memory as memory that can be taken out: the kernel then keeps none of
//! its own data there. Memory of a CXL device is set up in this way where its driver brings it online
//! (`daxctl reconfigure-device`, movable by default): hash tables, descriptions of pages and page tables lie
//! in ordinary memory.
//!
//! QEMU has no word for it, so its table is changed and given to the kernel anew
//! (Documentation/admin-guide/acpi/ `initrd_table_override.rst`); the kernel's argument is `movable_node`.
//! Tables: ACPI 6.5, 5.2.16.

use crate::guest_env::{Environment, pack};
use crate::vm::{BootOptions, Vm};
use anyhow::{Context, Result, bail, ensure};
use std::path::Path;
use weir_scenario::testbed::TestbedMachine;

const TABLE: &str = "/sys/firmware/acpi/tables/SRAT";
const HEADER_BYTES: usize = 48;
/// Offsets in the header.
const CHECKSUM: usize = 9;
const OEM_REVISION: usize = 24;
/// The structure that describes memory: its type, its length, and where in it the domain and the flags are.
const MEMORY: (u8, usize) = (1, 40);
const DOMAIN: usize = 2;
const FLAGS: usize = 28;
const ENABLED: u8 = 1;
const HOT_PLUGGABLE: u8 = 2;

/// Programs that were unpacked at boot, when the kernel spreads pages over all nodes, into ordinary memory:
/// anew.
const PROGRAMS_HOME: &str = "find /bin /sbin /lib /usr -xdev -type f | while read -r f; do
    cp -p \"$f\" /tmp/home && mv /tmp/home \"$f\" || exit 1
done";

/// How to boot a machine with groups that hold nothing of the kernel's. Boots it once without, for its table.
///
/// # Errors
/// The guest's, or a table that is none.
pub fn movable(env: &Environment, machine: &TestbedMachine, dir: &Path) -> Result<BootOptions> {
    let text = Vm::boot(env, machine, &[])?.run(&format!("od -An -v -tx1 {TABLE}"))?;
    let bytes = text
        .split_whitespace()
        .map(|hex| u8::from_str_radix(hex, 16));
    let table = changed(&bytes.collect::<Result<Vec<u8>, _>>()?)?;
    let stage = dir.join("tables");
    let place = stage.join("kernel/firmware/acpi");
    std::fs::create_dir_all(&place)?;
    std::fs::write(place.join("srat.aml"), table)?;
    let archive = dir.join("tables.cpio");
    pack(&stage, &archive)?;
    Ok(BootOptions {
        kernel_args: "movable_node".into(),
        before_initrd: Some(archive),
        ..BootOptions::default()
    })
}

/// Takes out of the groups what came there before a policy could be set.
///
/// # Errors
/// The guest's, or the kernel did not take the table: it keeps things of its own in a group.
pub fn clear(vm: &Vm) -> Result<()> {
    let zones = vm.run("cat /proc/buddyinfo")?;
    if let Some(kept) = zones.lines().find(|line| is_kernels(line)) {
        bail!("a group is not movable, the kernel has it: {kept}");
    }
    vm.run(PROGRAMS_HOME)
        .context("programs cannot be moved")
        .map(drop)
}

/// Whether a line of `/proc/buddyinfo` describes memory that the kernel may keep things in, and that is not
/// on node 0.
fn is_kernels(line: &str) -> bool {
    !line.starts_with("Node 0,") && !line.contains("zone  Movable")
}

/// The same table, with all memory but that of node 0 hot-pluggable, and a revision that the kernel takes for
/// newer.
fn changed(table: &[u8]) -> Result<Vec<u8>> {
    let mut new = table.to_vec();
    let long_enough = new.starts_with(b"SRAT") && new.len() > HEADER_BYTES;
    ensure!(long_enough, "{TABLE} is no table: {} bytes", new.len());
    let mut at = HEADER_BYTES;
    while at < new.len() {
        let length = usize::from(*new.get(at + 1).context("half a structure in the table")?);
        ensure!(length >= 2, "a structure of {length} bytes in the table");
        let of_memory = (new[at], length) == MEMORY && at + length <= new.len();
        if of_memory && new[at + DOMAIN] > 0 && new[at + FLAGS] & ENABLED != 0 {
            new[at + FLAGS] |= HOT_PLUGGABLE;
        }
        at += length;
    }
    ensure!(new != table, "no memory behind node 0 in the table");
    new[OEM_REVISION] = new[OEM_REVISION].wrapping_add(1).max(1);
    new[CHECKSUM] = 0;
    let sum = new.iter().fold(0u8, |sum, byte| sum.wrapping_add(*byte));
    new[CHECKSUM] = sum.wrapping_neg();
    Ok(new)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(domains: &[u8]) -> Vec<u8> {
        let mut table = b"SRAT".to_vec();
        table.resize(HEADER_BYTES, 0);
        // A CPU's.
        table.extend([0, 16, 1]);
        table.resize(HEADER_BYTES + 16, 0);
        for domain in domains {
            let mut memory = [0; 40];
            (memory[0], memory[1], memory[DOMAIN], memory[FLAGS]) = (1, 40, *domain, ENABLED);
            table.extend(memory);
        }
        table
    }

    #[test]
    fn only_memory_of_other_nodes_can_be_taken_out() {
        let old = table(&[0, 1, 2]);
        let new = changed(&old).unwrap();
        let flags: Vec<u8> = (0..3)
            .map(|i| new[HEADER_BYTES + 16 + i * 40 + FLAGS])
            .collect();
        assert_eq!(flags, [1, 3, 3]);
        assert_eq!(new.iter().fold(0u8, |sum, b| sum.wrapping_add(*b)), 0);
        assert!(new[OEM_REVISION] > old[OEM_REVISION]);
        assert_eq!(
            new[HEADER_BYTES..HEADER_BYTES + 16],
            old[HEADER_BYTES..HEADER_BYTES + 16]
        );
    }

    #[test]
    fn a_group_that_the_kernel_has_is_seen() {
        assert!(is_kernels("Node 6, zone    DMA32      3      4      2"));
        assert!(!is_kernels("Node 1, zone  Movable      1      1      0"));
        assert!(!is_kernels("Node 0, zone    DMA32     36      5      2"));
        assert!(is_kernels("Node 10, zone   Normal     1"));
    }

    #[test]
    fn what_is_no_table_is_refused() {
        assert!(changed(b"SRAT").is_err() && changed(&[0; 200]).is_err());
        let why = changed(&table(&[0])).unwrap_err().to_string();
        assert!(why.contains("no memory behind node 0"), "{why}");
        // Truncated in the middle of a structure: whole structures are taken.
        let mut truncated = table(&[0, 1]);
        truncated.push(1);
        assert!(
            changed(&truncated)
                .unwrap_err()
                .to_string()
                .contains("half a structure")
        );
        let mut endless = table(&[1]);
        endless[HEADER_BYTES + 1] = 0;
        assert!(changed(&endless).is_err());
    }
}
