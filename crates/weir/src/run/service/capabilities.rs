// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What weir cannot do without a capability that it lacks: said at the start, one line for each.

use crate::cli::BackendName;
use crate::run::settings::Settings;

/// A capability (capability.h), when weir needs it, and what it cannot do without.
struct Need {
    bit: u32,
    name: &'static str,
    is_needed: fn(&Settings) -> bool,
    without: &'static str,
}

/// They have a process of their own.
fn has_server(settings: &Settings) -> bool {
    settings.metrics.is_some() || settings.page.is_some() || settings.push.is_some()
}

const NEEDS: [Need; 9] = [
    Need {
        bit: 1,
        name: "CAP_DAC_OVERRIDE",
        is_needed: |settings| settings.config.limit,
        without: "cgroups that belong to other users cannot be limited",
    },
    Need {
        bit: 5,
        name: "CAP_KILL",
        is_needed: has_server,
        without: "the process for metrics, page and push cannot be ended where it hangs",
    },
    Need {
        bit: 6,
        name: "CAP_SETGID",
        is_needed: has_server,
        without: "the process for metrics, page and push stays root, without a capability",
    },
    Need {
        bit: 7,
        name: "CAP_SETUID",
        is_needed: has_server,
        without: "the process for metrics, page and push stays root, without a capability",
    },
    Need {
        bit: 19,
        name: "CAP_SYS_PTRACE",
        is_needed: |_| true,
        without: "memory of processes is not seen: it is estimated for each cgroup",
    },
    Need {
        bit: 21,
        name: "CAP_SYS_ADMIN",
        is_needed: |settings| settings.backend != BackendName::CpuMax,
        without: "weir's own scheduler cannot be loaded",
    },
    Need {
        bit: 23,
        name: "CAP_SYS_NICE",
        is_needed: |settings| settings.config.limit,
        without: "the loop may wait for a CPU behind workloads that it limits",
    },
    Need {
        bit: 38,
        name: "CAP_PERFMON",
        is_needed: |_| true,
        without: "performance counters are closed, and BPF programs that read processes",
    },
    Need {
        bit: 39,
        name: "CAP_BPF",
        is_needed: |_| true,
        without: "processes and CPU time are read from files, which takes more CPU time",
    },
];

/// A line for each capability that this process lacks and these settings need. Nothing where capabilities
/// cannot be read.
pub fn lacking(settings: &Settings) -> Vec<String> {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    effective(&status).map_or_else(Vec::new, |mask| lines(mask, settings))
}

/// `CapEff` of `/proc/PID/status` (proc_pid_status(5)).
fn effective(status: &str) -> Option<u64> {
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("CapEff:"))?;
    u64::from_str_radix(line.trim(), 16).ok()
}

fn lines(mask: u64, settings: &Settings) -> Vec<String> {
    if mask == 0 {
        let all = "no capabilities (not root): memory of processes, performance counters and BPF are closed";
        return vec![all.to_owned()];
    }
    let is_lacking = |need: &&Need| mask >> need.bit & 1 == 0 && (need.is_needed)(settings);
    let said = |need: &Need| format!("no {}: {}", need.name, need.without);
    NEEDS.iter().filter(is_lacking).map(said).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::settings::args::LoopArgs;

    #[test]
    fn each_lacking_capability_is_a_line_where_it_is_needed() {
        let observing = Settings::new(&LoopArgs::default()).unwrap();
        let mut limiting = observing.clone();
        limiting.config.limit = true;
        limiting.backend = BackendName::Auto;
        limiting.page = Some(([127, 0, 0, 1], 9780).into());
        assert_eq!(lines(u64::MAX, &limiting), [""; 0]);
        for need in NEEDS {
            let mask = !(1 << need.bit);
            let said = lines(mask, &limiting);
            assert_eq!(said.len(), 1, "{}", need.name);
            assert!(said[0].contains(need.name), "{said:?}");
        }
        assert_eq!(lines(1, &observing).len(), 3);
        assert_eq!(lines(0, &limiting).len(), 1);
        assert_eq!(
            effective("CapPrm:\t0\nCapEff:\t00000000000000ff\n"),
            Some(255)
        );
        assert_eq!(effective("CapPrm:\t0\n"), None);
    }
}
