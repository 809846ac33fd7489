// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Whether this is a virtual machine, as the CPU or the kernel says. For what a hypervisor hides (the PMUs
//! outside of cores, real firmware tables), an old kernel is then not given as the reason.

use crate::kernel::files::{read_path, read_start};
use crate::kernel::parse::cpu::flags;
use crate::options::Roots;
use weir_core::seam::topology::Fact;

/// What says so, for people; nothing on a machine that is none, as far as it can be known.
pub(crate) fn guest(roots: &Roots) -> Option<String> {
    let cpuinfo = read_start(&roots.proc.join("cpuinfo")).unwrap_or_default();
    if flags(&cpuinfo).any(|flag| flag == b"hypervisor") {
        return Some("the CPU has the flag hypervisor".into());
    }
    // Xen; KVM and others on Arm, by the device tree.
    for (root, path) in [
        (&roots.sys, "hypervisor/type"),
        (&roots.proc, "device-tree/hypervisor/compatible"),
    ] {
        let path = root.join(path);
        if read_path(&path).is_ok() {
            return Some(format!("{} is there", path.display()));
        }
    }
    let vendor = read_path(&roots.sys.join("class/dmi/id/sys_vendor")).ok()?;
    let vendor = vendor.trim_ascii();
    let known = VENDORS.iter().find(|known| known.as_bytes() == vendor)?;
    Some(format!("its maker is {known}"))
}

/// A machine, or one that a hypervisor makes.
pub(crate) fn fact(roots: &Roots) -> Fact {
    let text = guest(roots).map_or_else(
        || "no hypervisor is seen".into(),
        |what| format!("a virtual machine: {what}"),
    );
    Fact {
        name: "kernel.machine".into(),
        value: Ok(text),
        next_move: None,
    }
}

/// Makers of machines that are none (systemd, src/basic/virt.c).
const VENDORS: [&str; 8] = [
    "QEMU",
    "VMware, Inc.",
    "innotek GmbH",
    "Xen",
    "Bochs",
    "Parallels",
    "BHYVE",
    "Google Compute Engine",
];

/// Why PMUs are not there in a virtual machine, and what to do.
pub(crate) const NO_UNCORE: &str =
    "this is a virtual machine, which is not shown the PMUs outside of its cores (uncore)";
pub(crate) const ON_THE_HOST: &str = "run weir on the host of this virtual machine";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::Fake;

    #[test]
    fn a_guest_is_known_by_its_cpu_its_kernel_or_its_maker() {
        let fake = Fake::new();
        assert_eq!(guest(&fake.roots()), None);
        fake.write("sys/class/dmi/id/sys_vendor", "Dell Inc.\n");
        fake.write(
            "proc/cpuinfo",
            "flags\t\t: fpu vmx nohypervisor\nmodel name\t: hypervisor\n",
        );
        assert_eq!(guest(&fake.roots()), None);
        fake.write("sys/class/dmi/id/sys_vendor", "QEMU\n");
        assert_eq!(guest(&fake.roots()).unwrap(), "its maker is QEMU");
        fake.write("proc/device-tree/hypervisor/compatible", "linux,kvm\0");
        assert!(guest(&fake.roots()).unwrap().contains("device-tree"));
        fake.write(
            "proc/cpuinfo",
            "vendor_id\t: GenuineIntel\nflags\t\t: fpu hypervisor sse\n",
        );
        assert!(guest(&fake.roots()).unwrap().contains("flag hypervisor"));
    }
}
