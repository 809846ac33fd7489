// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a CPU shares with others: its core's threads and its last-level cache (kernel,
//! `Documentation/ABI/stable/sysfs-devices-system-cpu`). For people's commands, not for the loop.

use crate::kernel::files::read_path;
use crate::kernel::parse::decimal;
use crate::kernel::parse::sysfs::list;
use crate::options::Roots;
use std::path::Path;

/// Levels and kinds of caches that a CPU may have.
const CACHES_MAX: usize = 16;

/// CPUs of the same core, `cpu` among them; `cpu` alone where the kernel does not say.
pub fn siblings(roots: &Roots, cpu: u32) -> Vec<u32> {
    let path = format!("devices/system/cpu/cpu{cpu}/topology/thread_siblings_list");
    let found = read_path(&roots.sys.join(path)).ok();
    let found = found.and_then(|text| list(&text).ok());
    found
        .filter(|cpus| cpus.contains(&cpu))
        .unwrap_or_else(|| vec![cpu])
}

/// The socket of a CPU; nothing where the kernel does not say.
pub(crate) fn socket(roots: &Roots, cpu: u32) -> Option<u32> {
    let path = format!("devices/system/cpu/cpu{cpu}/topology/physical_package_id");
    let text = read_path(&roots.sys.join(path)).ok()?;
    u32::try_from(decimal(&text).ok()?).ok()
}

/// The socket that a CXL memory device is attached to, by the node of its host bridge; nothing where the
/// kernel does not say. `pmu`: one of its PMUs, such as `cxl_pmu_mem0.0`. The CPU on which the kernel opens
/// that PMU's events says nothing of it.
pub(crate) fn socket_of_cxl_pmu(roots: &Roots, pmu: &str) -> Option<u32> {
    let device = pmu.strip_prefix("cxl_pmu_")?.split('.').next()?;
    let number = device.strip_prefix("mem")?;
    if number.is_empty() || !number.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let node = format!("bus/cxl/devices/{device}/numa_node");
    // Without a node the kernel says -1.
    let node = decimal(&read_path(&roots.sys.join(node)).ok()?).ok()?;
    let cpus = format!("devices/system/node/node{node}/cpulist");
    let cpus = list(&read_path(&roots.sys.join(cpus)).ok()?).ok()?;
    socket(roots, *cpus.first()?)
}

/// Size of the highest cache of a CPU that holds data, in bytes.
pub fn last_cache_bytes(roots: &Roots, cpu: u32) -> Option<u64> {
    let dir = roots.sys.join(format!("devices/system/cpu/cpu{cpu}/cache"));
    let caches = (0..CACHES_MAX).filter_map(|n| cache(&dir.join(format!("index{n}"))));
    caches.max().map(|(_, bytes)| bytes)
}

/// Level and size.
fn cache(dir: &Path) -> Option<(u64, u64)> {
    let text = |name: &str| read_path(&dir.join(name)).ok();
    if text("type")?.trim_ascii() == b"Instruction" {
        return None;
    }
    let level = decimal(text("level")?.trim_ascii()).ok()?;
    let size = text("size")?;
    let kib = size.trim_ascii().strip_suffix(b"K")?;
    Some((level, decimal(kib).ok()?.checked_mul(1024)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::Fake;

    #[test]
    fn a_device_is_attached_to_the_socket_of_its_node() {
        let fake = Fake::new();
        for (cpu, socket) in [(0, "0\n"), (56, "1\n")] {
            let path = format!("sys/devices/system/cpu/cpu{cpu}/topology/physical_package_id");
            fake.write(path, socket);
        }
        fake.write("sys/devices/system/node/node1/cpulist", "56-111\n");
        fake.write("sys/devices/system/node/node2/cpulist", "\n");
        for (device, node) in [(0, "1\n"), (1, "-1\n"), (2, "2\n")] {
            fake.write(format!("sys/bus/cxl/devices/mem{device}/numa_node"), node);
        }
        let of = |pmu| socket_of_cxl_pmu(&fake.roots(), pmu);
        assert_eq!(of("cxl_pmu_mem0.0"), Some(1));
        for unknown in [
            "cxl_pmu_mem1.0",
            "cxl_pmu_mem2.0",
            "cxl_pmu_mem7.0",
            "cxl_pmu_mem0/..",
            "cxl_pmu_mem",
            "uncore_cha_0",
        ] {
            assert_eq!(of(unknown), None, "{unknown}");
        }
        assert_eq!(socket(&fake.roots(), 7), None);
    }

    #[test]
    fn the_highest_cache_with_data_counts() {
        let fake = Fake::new();
        let dir = "sys/devices/system/cpu/cpu3";
        for (index, level, kind, size) in [
            (0, "1", "Data", "48K"),
            (1, "1", "Instruction", "99999999K"),
            (2, "2", "Unified", "2048K"),
            (3, "3", "Unified", "107520K"),
            (4, "9", "Unified", "18446744073709551615K"),
        ] {
            for (name, value) in [("level", level), ("type", kind), ("size", size)] {
                fake.write(
                    format!("{dir}/cache/index{index}/{name}"),
                    format!("{value}\n"),
                );
            }
        }
        assert_eq!(last_cache_bytes(&fake.roots(), 3), Some(105 << 20));
        assert_eq!(last_cache_bytes(&fake.roots(), 4), None);
        fake.write(format!("{dir}/topology/thread_siblings_list"), "3,67\n");
        assert_eq!(siblings(&fake.roots(), 3), [3, 67]);
        fake.write(format!("{dir}/topology/thread_siblings_list"), "67\n");
        assert_eq!(siblings(&fake.roots(), 3), [3]);
    }
}
