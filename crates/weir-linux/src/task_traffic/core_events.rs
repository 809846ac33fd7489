// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which events of a CPU count how much CXL memory a task reads. No CPU has one for writes, but some have one
//! for lines that are fetched to be stored to, which gives the ratio in which tasks write (see weir-events).

use super::counting_intf::COUNTED;
use crate::counters::pmu::Machine;
use weir_core::Missing;
use weir_events::{
    Amount, Config, Event, Provenance, Scope, Table, Traffic, tables, tables_with_roles,
};

/// Events that count together on each CPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ChosenEvents {
    /// For people: what it is and how far to trust it.
    pub(crate) name: String,
    pub(crate) is_documented: bool,
    /// The `type` of the PMU.
    pub(crate) kind: u32,
    pub(crate) pmu: String,
    pub(crate) configs: Vec<Config>,
    /// What one count of each stands for.
    pub(crate) bytes: Vec<u64>,
    /// An event of the same PMU for the part that was fetched by stores, where there is one and a free
    /// counter for it.
    pub(crate) stores: Option<Stores>,
}

/// An event that distinguishes stores from loads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stores {
    pub(crate) name: String,
    pub(crate) config: Config,
    pub(crate) bytes: u64,
}

impl ChosenEvents {
    /// Events of reads, and the one of stores behind them.
    pub(crate) fn all(&self) -> Vec<Config> {
        let stores = self.stores.as_ref().map(|stores| stores.config);
        self.configs.iter().copied().chain(stores).collect()
    }
}

/// `type` of the kernel's own events, and what they are called here: `sw:NAME`.
const SOFTWARE: u32 = 1;
const SOFTWARE_EVENTS: [(&str, u64); 4] = [
    ("sw:cpu-clock", 0),
    ("sw:task-clock", 1),
    ("sw:page-faults", 2),
    ("sw:context-switches", 3),
];

/// The best that this machine has: documented before all others, then in the order of the table.
///
/// # Errors
/// It has none: why.
pub(crate) fn best(machine: &Machine) -> Result<ChosenEvents, Missing> {
    let of_this_cpu = |table: &&Table| !table.cpu.is_empty() && machine.has(table);
    let Some(table) = tables().iter().find(of_this_cpu) else {
        return Err(match &machine.cpu {
            Ok(cpu) => Missing::NotSupported(format!("weir has no table of events for {cpu}")),
            Err(why) => why.clone(),
        });
    };
    let counts_tasks = |amount: &&Amount| {
        amount.of == Scope::Cpu
            && amount.traffic == Traffic::Read
            && amount.minus.is_empty()
            && amount.plus.len() <= COUNTED
    };
    let mut amounts: Vec<&Amount> = table.amount.iter().filter(counts_tasks).collect();
    amounts.sort_by_key(|amount| amount.provenance != Provenance::Documented);
    let mut why = Missing::NotSupported(format!(
        "{} has no event that counts reads of CXL memory by a task",
        table.family
    ));
    for amount in amounts {
        let events = amount.plus.iter().filter_map(|name| table.event(name));
        match encoded(
            machine,
            table,
            &events.collect::<Vec<_>>(),
            amount.provenance,
        ) {
            Ok(chosen) => {
                let stores = stores_beside(machine, table, &chosen);
                return Ok(ChosenEvents { stores, ..chosen });
            }
            Err(not_here) => why = not_here,
        }
    }
    Err(why)
}

/// The event that distinguishes stores from loads, if it can be counted together with the reads.
fn stores_beside(machine: &Machine, table: &Table, reads: &ChosenEvents) -> Option<Stores> {
    if reads.configs.len() >= COUNTED {
        return None;
    }
    let events = table.store.iter().filter_map(|s| table.event(&s.event));
    events.into_iter().find_map(|event| {
        let here = machine.standing(table, event).here;
        let (_, config) = here.into_iter().find(|(pmu, _)| pmu.kind == reads.kind)?;
        Some(Stores {
            name: event.name.clone(),
            config,
            bytes: event.bytes.unwrap_or(1).into(),
        })
    })
}

/// An event by its name: one of a table of this CPU, or of the kernel's own.
///
/// # Errors
/// There is no such event here.
pub(crate) fn named(machine: &Machine, name: &str) -> Result<ChosenEvents, Missing> {
    if let Some((name, config)) = SOFTWARE_EVENTS.iter().find(|(known, _)| *known == name) {
        return Ok(ChosenEvents {
            name: format!("{name} (no traffic: for trying it out)"),
            is_documented: true,
            kind: SOFTWARE,
            pmu: "software".into(),
            configs: vec![Config([*config, 0, 0, 0])],
            bytes: vec![1],
            stores: None,
        });
    }
    let found = tables_with_roles()
        .iter()
        .filter(|table| machine.has(table))
        .find_map(|table| Some((table, table.event(name)?)));
    let Some((table, event)) = found else {
        let own = SOFTWARE_EVENTS.map(|(name, _)| name).join(", ");
        return Err(Missing::NotSupported(format!(
            "no event {name:?} for this CPU: see `weir events`, or take one of {own}"
        )));
    };
    let of_cpu = table.pmu.get(&event.pmu);
    if of_cpu.is_none_or(|pmu| pmu.scope != Scope::Cpu) {
        return Err(Missing::NotSupported(format!(
            "{name} is not counted by CPU, and so not for a task"
        )));
    }
    encoded(machine, table, &[event], event.provenance)
}

fn encoded(
    machine: &Machine,
    table: &Table,
    events: &[&Event],
    provenance: Provenance,
) -> Result<ChosenEvents, Missing> {
    let mut chosen: Option<ChosenEvents> = None;
    for event in events {
        let standing = machine.standing(table, event);
        let Some((pmu, config)) = standing.here.into_iter().next() else {
            let nothing = || Missing::NotSupported(format!("{} is not here", event.name));
            return Err(standing.why.into_iter().next().unwrap_or_else(nothing));
        };
        let chosen = chosen.get_or_insert_with(|| ChosenEvents {
            name: String::new(),
            is_documented: provenance == Provenance::Documented,
            kind: pmu.kind,
            pmu: pmu.name.clone(),
            configs: Vec::new(),
            bytes: Vec::new(),
            stores: None,
        });
        chosen.configs.push(config);
        chosen.bytes.push(event.bytes.unwrap_or(1).into());
    }
    let names: Vec<&str> = events.iter().map(|event| event.name.as_str()).collect();
    let word = match provenance {
        Provenance::Documented => "documented",
        Provenance::OtherName => "published under another name",
        Provenance::Difference => "a difference",
        Provenance::Raw => "raw",
    };
    chosen.map_or_else(
        || Err(Missing::NotSupported("no event".into())),
        |chosen| {
            let name = format!("{} ({}, {word})", names.join(" + "), table.family);
            Ok(ChosenEvents { name, ..chosen })
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::Fake;

    const CPU: &str = "sys/bus/event_source/devices/cpu";

    fn machine(vendor: &str, family: u32, model: u32) -> Machine {
        let fake = Fake::new();
        let cpu = format!("vendor_id\t: {vendor}\ncpu family\t: {family}\nmodel\t\t: {model}\n");
        fake.write("proc/cpuinfo", cpu);
        fake.write(format!("{CPU}/type"), "4\n");
        fake.write(format!("{CPU}/format/event"), "config:0-7,32-35\n");
        fake.write(format!("{CPU}/format/umask"), "config:8-15\n");
        if vendor == "GenuineIntel" {
            fake.write(format!("{CPU}/format/event"), "config:0-7\n");
            fake.write(format!("{CPU}/format/offcore_rsp"), "config1:0-63\n");
        }
        Machine::probe(&fake.roots())
    }

    #[test]
    fn each_family_has_its_best() {
        let granite = best(&machine("GenuineIntel", 6, 0xad)).unwrap();
        assert_eq!(
            (granite.configs.as_slice(), granite.bytes.as_slice()),
            (&[Config([0x012a, 0x7_03c0_4477, 0, 0])][..], &[64][..])
        );
        assert!(granite.is_documented && granite.kind == 4);
        // Where stores are counted both registers of a core are taken.
        assert_eq!(granite.all()[1], Config([0x012a, 0x7_03c0_0002, 0, 0]));
        assert_eq!(granite.stores.as_ref().unwrap().bytes, 64);
        // Two responses, which are the two registers of a core.
        let sapphire = best(&machine("GenuineIntel", 6, 0x8f)).unwrap();
        let responses: Vec<u64> = sapphire.configs.iter().map(|c| c.0[1]).collect();
        assert_eq!(responses, [0x7_00c0_4477, 0x7_0300_4477]);
        assert!(!sapphire.is_documented, "{}", sapphire.name);
        assert_eq!(sapphire.stores, None);
        let zen5 = best(&machine("AuthenticAMD", 26, 2)).unwrap();
        assert!(
            zen5.is_documented && zen5.name.contains("alternate_memories"),
            "{}",
            zen5.name
        );
        assert_eq!(zen5.all(), zen5.configs);
    }

    #[test]
    fn what_has_none_says_so() {
        let sierra = best(&machine("GenuineIntel", 6, 0xaf)).unwrap_err();
        assert!(sierra.to_string().contains("sierra-forest has no event"));
        let old = best(&machine("GenuineIntel", 6, 0x55)).unwrap_err();
        assert!(old.to_string().contains("no table of events"), "{old}");
        let fake = Fake::new();
        assert!(best(&Machine::probe(&fake.roots())).is_err());
    }

    #[test]
    fn an_event_can_be_named() {
        let granite = machine("GenuineIntel", 6, 0xad);
        let clock = named(&granite, "sw:page-faults").unwrap();
        assert_eq!((clock.kind, clock.configs[0].0[0]), (1, 2));
        let reads = named(&granite, "OCR.READS_TO_CORE.CXL_MEM").unwrap();
        assert_eq!(reads.configs, best(&granite).unwrap().configs);
        assert_eq!(reads.stores, None, "what was named, and nothing else");
        let why = named(&granite, "sw:nothing").unwrap_err().to_string();
        assert!(why.contains("sw:cpu-clock"), "{why}");
        let table = tables().iter().find(|t| t.family == "granite-rapids");
        let of_socket = table.unwrap().event.iter().find(|e| e.pmu == "cha");
        let why = named(&granite, &of_socket.unwrap().name).unwrap_err();
        assert!(why.to_string().contains("not for a task"), "{why}");
    }
}
