// SPDX-License-Identifier: Apache-2.0 OR MIT
//! This machine before the tables: which events it has, and why not the others.

use super::pmus::{self, Pmu};
use crate::inventory::hypervisor::{NO_UNCORE, ON_THE_HOST, guest};
use crate::inventory::numa::missing;
use crate::kernel::files::{read_path, read_start};
use crate::kernel::parse::cpu::{arm, cpu};
use crate::options::Roots;
use std::collections::BTreeMap;
use weir_core::Missing;
use weir_core::seam::next_move::{Act, NextMove, Precondition};
use weir_events::{Config, Cpu, Event, Scope, Table, tables};

/// The reason for events that a core has and a guest does not see.
const NOT_PASSED_ON: &str = "the hypervisor of this virtual machine does not pass that on";
/// How the kernel calls an uncore PMU of a kind that it has no name for (`uncore_discovery.c`).
const NUMBERED: &str = "uncore_type_";

#[derive(Debug)]
pub struct Machine {
    pub cpu: Result<Cpu, Missing>,
    pub names: Result<Vec<String>, Missing>,
    /// Those that a table speaks of, or why one could not be read.
    pub pmus: BTreeMap<String, Result<Pmu, Missing>>,
    /// What says that this is a virtual machine, if so.
    pub guest: Option<String>,
    pub release: Option<(u32, u32)>,
}

#[derive(Debug, PartialEq)]
pub struct EventStatus<'a> {
    /// PMUs that can count it, each with its encoding.
    pub here: Vec<(&'a Pmu, Config)>,
    /// Why not those that seem to be usable, or why there is none.
    pub why: Vec<Missing>,
}

impl Machine {
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
        let release = read_path(&roots.proc.join("sys/kernel/osrelease")).ok();
        let release = release.and_then(|text| version(std::str::from_utf8(&text).ok()?));
        Machine {
            cpu,
            names,
            pmus,
            guest: guest(roots),
            release,
        }
    }

    /// What is to be known before a search for an event, and what to do: that this machine can have none
    /// outside of its cores, or that weir knows none of its CPU.
    pub fn obstacle(&self) -> Option<NextMove> {
        let has_uncore = |name: &String| name.starts_with("uncore_") || name.starts_with("amd_");
        let names = self.names.as_deref().unwrap_or_default();
        if self.guest.is_some() && !names.iter().any(has_uncore) {
            return Some(NextMove {
                act: Act::Deed(ON_THE_HOST.into()),
                why: NO_UNCORE.into(),
                needs: Precondition::Seen("a hypervisor is there, and no PMU of the uncore".into()),
            });
        }
        match &self.cpu {
            Err(Missing::NotSupported(why)) if !names.is_empty() => Some(NextMove {
                act: Act::Deed(
                    "counters of the devices themselves (cxl_pmu, weir's driver) are read on any CPU"
                        .into(),
                ),
                why: format!("{why}: no events of it are known"),
                needs: Precondition::Seen("no table of events is of this CPU".into()),
            }),
            _ => None,
        }
    }

    /// PMUs of CXL ports. Before Linux 6.11 the kernel numbers kinds of PMUs instead of naming them, and a
    /// number is a port's on some CPUs only; a name is a port's on any.
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

    /// Whether this table describes the CPU of this machine. Tables of devices belong to every machine.
    pub fn has(&self, table: &Table) -> bool {
        table.cpu.is_empty() || self.cpu.as_ref().is_ok_and(|cpu| table.is_of(cpu))
    }

    pub fn standing(&self, table: &Table, event: &Event) -> EventStatus<'_> {
        let mut standing = EventStatus {
            here: Vec::new(),
            why: Vec::new(),
        };
        if !self.has(table) {
            let why = match &self.cpu {
                Ok(cpu) => Missing::NotSupported(format!("this CPU is {cpu}")),
                Err(why) => why.clone(),
            };
            standing.why.push(why);
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
                    let lacking = self.lacking(kind, NOT_PASSED_ON);
                    Missing::NotSupported(format!("{name}: {e}{lacking}"))
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
                let of_a_guest = match kind.scope {
                    Scope::Cpu => NOT_PASSED_ON,
                    _ => NO_UNCORE,
                };
                let lacking = self.lacking(kind, of_a_guest);
                Missing::NotSupported(format!("no PMU {}{lacking}", names.join(" or ")))
            }
        }
    }

    /// Why that may be: this is a virtual machine, or the kernel is older than what is needed.
    fn lacking(&self, kind: &weir_events::Pmu, of_a_guest: &str) -> String {
        // A device that a guest has been given has its own PMU or none.
        let is_of_device = matches!(kind.scope, Scope::Device | Scope::Group);
        match &kind.needs {
            _ if self.guest.is_some() && !is_of_device => format!("; {of_a_guest}"),
            Some(needs) if !self.is_new_enough(needs) => format!("; needs {needs}"),
            _ => String::new(),
        }
    }

    /// Whether only a kernel of some version is needed, and this is one.
    fn is_new_enough(&self, needs: &str) -> bool {
        let wanted = needs.strip_prefix("Linux ").and_then(version);
        let is_more = needs.contains("CONFIG_");
        !is_more
            && wanted
                .zip(self.release)
                .is_some_and(|(wanted, here)| here >= wanted)
    }
}

/// `6.18.5-cloud` is 6.18.
fn version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.trim().split(|c: char| !c.is_ascii_digit());
    let mut next = || numbers.next()?.parse().ok();
    Some((next()?, next()?))
}

fn read_cpuinfo(path: &std::path::Path) -> Result<Cpu, Missing> {
    // One page holds the first CPU; the whole file can be megabytes on a large machine.
    let text = read_start(path).map_err(|e| missing(path, &e))?;
    match (cpu(&text), arm(&text)) {
        (Ok(cpu), _) => Ok(cpu),
        (Err(_), Some(arm)) => Err(Missing::NotSupported(format!("this is {arm}"))),
        (Err(e), None) => Err(Missing::Lost(format!("{}: {e}", path.display()))),
    }
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
    fn an_older_kernel_and_a_missing_pmu_have_different_reasons() {
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

    /// Ports have numbers before Linux 6.11: on Sapphire Rapids 12 and 13 are theirs, elsewhere something
    /// else's.
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
    fn the_reason_in_a_guest_names_the_hypervisor_and_not_the_kernel() {
        let fake = Fake::new();
        let flagged = format!("{INTEL}flags\t\t: fpu hypervisor\n");
        fake.write("proc/cpuinfo", flagged);
        fake.write("proc/sys/kernel/osrelease", "6.12.0\n");
        let cpu = "sys/bus/event_source/devices/cpu";
        fake.write(format!("{cpu}/type"), "4\n");
        fake.write(format!("{cpu}/format/event"), "config:0-7\n");
        fake.write(format!("{cpu}/format/umask"), "config:8-15\n");
        let machine = Machine::probe(&fake.roots());
        let rapids = table("sapphire-rapids");
        for event in &rapids.event {
            for why in machine.standing(rapids, event).why {
                let why = why.to_string();
                let said = why.contains("virtual machine") || why.contains("hypervisor");
                assert!(
                    said && !why.contains("needs Linux"),
                    "{}: {why}",
                    event.name
                );
            }
        }
        let next_move = machine.obstacle().unwrap();
        let (why, next_move) = (next_move.why.clone(), next_move.to_string());
        assert!(
            why.contains("uncore") && next_move.contains("host"),
            "{why}"
        );
        // One that is shown them has no such obstacle.
        fake.write(format!("{CHA}/type"), "40\n");
        assert_eq!(Machine::probe(&fake.roots()).obstacle(), None);
    }

    #[test]
    fn a_kernel_that_is_new_enough_is_not_what_is_lacking() {
        let (fake, machine) = machine("config:8-15,32-55\n");
        let rapids = table("sapphire-rapids");
        let event = rapids
            .event("UNC_CHA_TOR_INSERTS.IA_MISS_DRD_CXL_ACC")
            .unwrap();
        let said = |machine: &Machine| machine.standing(rapids, event).why[0].to_string();
        assert!(
            said(&machine).contains("needs Linux 6.11"),
            "its version is not known"
        );
        for (release, is_lacking) in [
            ("6.10.9-generic", true),
            ("6.11.0", false),
            ("7.2.0-rc1", false),
            ("zwei", true),
        ] {
            fake.write("proc/sys/kernel/osrelease", release);
            let said = said(&Machine::probe(&fake.roots()));
            assert_eq!(
                said.contains("needs Linux 6.11"),
                is_lacking,
                "{release}: {said}"
            );
        }
    }

    #[test]
    fn an_arm_host_is_named_as_such() {
        let fake = Fake::new();
        fake.write(
            "proc/cpuinfo",
            "processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd4f\n",
        );
        fake.write("sys/bus/event_source/devices/arm_cmn_0/type", "9\n");
        let machine = Machine::probe(&fake.roots());
        let rapids = table("sapphire-rapids");
        let why = machine.standing(rapids, &rapids.event[0]).why[0].to_string();
        assert!(
            why.contains("this is an Arm CPU (implementer 0x41, part 0xd4f)"),
            "{why}"
        );
        let next_move = machine.obstacle().unwrap();
        let (why, next_move) = (next_move.why.clone(), next_move.to_string());
        assert!(
            why.contains("an Arm CPU") && next_move.contains("any CPU"),
            "{why}"
        );
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
