// SPDX-License-Identifier: Apache-2.0 OR MIT
//! This machine before the tables: which events it has, and why not the others.

use super::pmus::{self, Pmu};
use crate::files::read_start;
use crate::options::Roots;
use crate::parse::cpu::cpu;
use crate::topology::missing;
use std::collections::BTreeMap;
use weir_core::Missing;
use weir_events::{Config, Cpu, Event, Scope, Table, tables};

/// How the kernel calls an uncore PMU of a kind that it has no name for (`uncore_discovery.c`).
const NUMBERED: &str = "uncore_type_";

/// CPU and PMUs.
#[derive(Debug)]
pub struct Machine {
    /// What CPU this is.
    pub cpu: Result<Cpu, Missing>,
    /// Names of its PMUs.
    pub names: Result<Vec<String>, Missing>,
    /// Those that a table speaks of, or why one could not be read.
    pub pmus: BTreeMap<String, Result<Pmu, Missing>>,
}

/// How an event stands here.
#[derive(Debug, PartialEq)]
pub struct Standing<'a> {
    /// PMUs that can count it, each with its encoding.
    pub here: Vec<(&'a Pmu, Config)>,
    /// Why not those that look as if they could, or why there is none.
    pub why: Vec<Missing>,
}

impl Machine {
    /// Looks.
    pub fn probe(roots: &Roots) -> Machine {
        let path = roots.proc.join("cpuinfo");
        let cpu = read_cpuinfo(&path);
        let names = pmus::names(roots);
        let wanted = |name: &&String| {
            let fits = |table: &Table| {
                let mut patterns = table.pmu.values().flat_map(|pmu| &pmu.names);
                patterns.any(|pattern| pattern.fits(name))
            };
            tables().iter().any(fits)
        };
        let found = names.as_deref().unwrap_or_default().iter().filter(wanted);
        let pmus = found
            .map(|name| (name.clone(), pmus::read(roots, name)))
            .collect();
        Machine { cpu, names, pmus }
    }

    /// PMUs of CXL ports. Before Linux 6.11 the kernel numbers kinds of PMUs instead of naming them, and a number is a
    /// port's on some CPUs only; a name is a port's on any.
    pub fn ports(&self) -> Vec<String> {
        let is_port = |name: &String| {
            tables().iter().any(|table| {
                let ports = table.pmu.values().filter(|pmu| pmu.scope == Scope::Port);
                let mut patterns = ports.flat_map(|pmu| &pmu.names);
                let fits = patterns.any(|pattern| pattern.fits(name));
                fits && (self.has(table) || !name.starts_with(NUMBERED))
            })
        };
        self.pmus.keys().filter(|n| is_port(n)).cloned().collect()
    }

    /// Whether a table is of this machine's CPU. Tables of devices are of any.
    pub fn has(&self, table: &Table) -> bool {
        table.cpu.is_empty() || self.cpu.as_ref().is_ok_and(|cpu| table.is_of(cpu))
    }

    /// How an event stands here.
    pub fn standing(&self, table: &Table, event: &Event) -> Standing<'_> {
        let mut standing = Standing {
            here: Vec::new(),
            why: Vec::new(),
        };
        if !self.has(table) {
            let cpu = self
                .cpu
                .as_ref()
                .map_or_else(ToString::to_string, ToString::to_string);
            standing
                .why
                .push(Missing::NotSupported(format!("this CPU is {cpu}")));
            return standing;
        }
        let Some(kind) = table.pmu.get(&event.pmu) else {
            return standing;
        };
        // The per-CPU term of such an event is given when it is counted.
        let terms = match &kind.each {
            Some(each) => event.terms.with(each, 0),
            None => event.terms.clone(),
        };
        for (name, pmu) in &self.pmus {
            if !kind.names.iter().any(|pattern| pattern.fits(name)) {
                continue;
            }
            match pmu.as_ref().map_err(Clone::clone).and_then(|pmu| {
                let config = pmu.encode(&terms).map_err(|e| {
                    let needs = kind.needs.as_ref().map(|n| format!("; needs {n}"));
                    Missing::NotSupported(format!("{name}: {e}{}", needs.unwrap_or_default()))
                })?;
                Ok((pmu, config))
            }) {
                Ok(found) => standing.here.push(found),
                Err(why) => standing.why.push(why),
            }
        }
        if standing.here.is_empty() && standing.why.is_empty() {
            standing.why.push(self.no_pmu(kind));
        }
        standing
    }

    fn no_pmu(&self, kind: &weir_events::Pmu) -> Missing {
        match &self.names {
            Err(why) => why.clone(),
            Ok(_) => {
                let names: Vec<String> = kind.names.iter().map(ToString::to_string).collect();
                let needs = kind.needs.as_ref().map(|n| format!("; needs {n}"));
                let names = names.join(" or ");
                Missing::NotSupported(format!("no PMU {names}{}", needs.unwrap_or_default()))
            }
        }
    }
}

fn read_cpuinfo(path: &std::path::Path) -> Result<Cpu, Missing> {
    // One page holds the first CPU; the whole file can be megabytes on a large machine.
    let text = read_start(path).map_err(|e| missing(path, &e))?;
    cpu(&text).map_err(|e| Missing::Lost(format!("{}: {e}", path.display())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::Fake;

    const INTEL: &str = "vendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 143\n";
    const CHA: &str = "sys/bus/event_source/devices/uncore_cha_0";

    fn table(family: &str) -> &'static Table {
        tables().iter().find(|t| t.family == family).unwrap()
    }

    fn machine(umask: &str) -> (Fake, Machine) {
        let fake = Fake::new();
        fake.write("proc/cpuinfo", INTEL);
        fake.write(format!("{CHA}/type"), "40\n");
        fake.write(format!("{CHA}/format/event"), "config:0-7\n");
        fake.write(format!("{CHA}/format/umask"), umask);
        let machine = Machine::probe(&fake.roots());
        (fake, machine)
    }

    #[test]
    fn an_event_of_this_cpu_is_encoded() {
        let (_fake, machine) = machine("config:8-15,32-63\n");
        let rapids = table("sapphire-rapids");
        let event = rapids
            .event("UNC_CHA_TOR_INSERTS.IA_MISS_DRD_CXL_ACC")
            .unwrap();
        let standing = machine.standing(rapids, event);
        assert_eq!(standing.here[0].1, Config([0x10c8_1782_0000_0135, 0, 0, 0]));
        assert!(standing.why.is_empty());
    }

    /// The kernels before 6.11 that took the umask and counted something else.
    #[test]
    fn an_older_kernel_is_told_from_a_missing_pmu() {
        let (_fake, machine) = machine("config:8-15,32-55\n");
        let rapids = table("sapphire-rapids");
        let event = rapids
            .event("UNC_CHA_TOR_INSERTS.IA_MISS_DRD_CXL_ACC")
            .unwrap();
        let standing = machine.standing(rapids, event);
        let why = standing.why[0].to_string();
        assert!(
            standing.here.is_empty() && why.contains("needs Linux 6.11"),
            "{why}"
        );
        let port = rapids
            .event("UNC_CXLCM_TxC_PACK_BUF_INSERTS.MEM_DATA")
            .unwrap();
        let why = machine.standing(rapids, port).why[0].to_string();
        assert!(
            why.contains("no PMU uncore_cxlcm_# or uncore_type_12_#"),
            "{why}"
        );
    }

    /// Ports have numbers before Linux 6.11: on Sapphire Rapids 12 and 13 are theirs, elsewhere something else's.
    #[test]
    fn ports_are_known_by_name_anywhere_and_by_number_on_their_cpus() {
        let ports = |cpu: &str, names: &[&str]| {
            let fake = Fake::new();
            fake.write("proc/cpuinfo", cpu);
            for name in names {
                fake.write(format!("sys/bus/event_source/devices/{name}/type"), "60\n");
            }
            Machine::probe(&fake.roots()).ports()
        };
        let numbered = [
            "uncore_type_12_0",
            "uncore_type_13_0",
            "uncore_type_11_0",
            "uncore_cha_0",
        ];
        assert_eq!(
            ports(INTEL, &numbered),
            ["uncore_type_12_0", "uncore_type_13_0"]
        );
        let granite = INTEL.replace("143", "173");
        assert!(ports(&granite, &numbered).is_empty());
        let named = ["uncore_cxlcm_3", "uncore_b2cxl_0", "uncore_cxlcm_x"];
        for cpu in [INTEL, &granite, ""] {
            assert_eq!(ports(cpu, &named), ["uncore_b2cxl_0", "uncore_cxlcm_3"]);
        }
    }

    #[test]
    fn another_cpus_events_are_not_here() {
        let (_fake, machine) = machine("config:8-15,32-63\n");
        let other = table("emerald-rapids");
        let standing = machine.standing(other, &other.event[0]);
        assert_eq!(
            standing.why[0].to_string(),
            "not supported: this CPU is GenuineIntel-6-8F"
        );
    }
}
