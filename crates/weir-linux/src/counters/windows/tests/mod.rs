// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The recorder over a made machine, a made perf and a made clock; and once over the kernel's own perf.

mod by_cgroup;
mod fake_perf;
mod kernel;
mod recording;
mod refusals;
mod switches;

use crate::fake::Fake;
use crate::options::Roots;

const DEVICES: &str = "sys/bus/event_source/devices";

/// A PMU with these fields; of sockets on these CPUs.
pub(super) fn pmu(fake: &Fake, name: &str, kind: u32, cpus: Option<&str>, fields: &[(&str, &str)]) {
    fake.write(format!("{DEVICES}/{name}/type"), format!("{kind}\n"));
    for (field, format) in fields {
        fake.write(
            format!("{DEVICES}/{name}/format/{field}"),
            format!("{format}\n"),
        );
    }
    if let Some(cpus) = cpus {
        fake.write(format!("{DEVICES}/{name}/cpumask"), format!("{cpus}\n"));
    }
}

/// A Sapphire Rapids of two sockets with one CPU each, four boxes a socket, and two ports.
pub(super) fn sapphire() -> Fake {
    let fake = Fake::new();
    let cpu = "vendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 143\n";
    fake.write("proc/cpuinfo", cpu);
    fake.write("proc/sys/kernel/nmi_watchdog", "1\n");
    for socket in 0..2 {
        let topology = format!("sys/devices/system/cpu/cpu{socket}/topology");
        fake.write(
            format!("{topology}/physical_package_id"),
            format!("{socket}\n"),
        );
    }
    let plain = [
        ("event", "config:0-7"),
        ("umask", "config:8-15"),
        ("cmask", "config:24-31"),
    ];
    let core = [&plain[..], &[("offcore_rsp", "config1:0-63")]].concat();
    pmu(&fake, "cpu", 4, None, &core);
    let wide = [("event", "config:0-7"), ("umask", "config:8-15,32-63")];
    for number in 0..4 {
        pmu(
            &fake,
            &format!("uncore_cha_{number}"),
            40 + number,
            Some("0-1"),
            &wide,
        );
    }
    for number in 0..2 {
        pmu(
            &fake,
            &format!("uncore_cxlcm_{number}"),
            60 + number,
            Some("0"),
            &plain,
        );
    }
    fake
}

pub(super) fn roots(fake: &Fake) -> Roots {
    fake.roots()
}
