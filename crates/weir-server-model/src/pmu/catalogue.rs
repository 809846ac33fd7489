// SPDX-License-Identifier: Apache-2.0 OR MIT
//! All events of a machine, by names of our own: those of Intel's lists stand in weir-events.
//!
//! | unit | boxes | events |
//! |---|---|---|
//! | `cpu` | CPUs that run something | stalls, loads and stores, caches, offcore requests, responses |
//! | `cha` | CHAs | clock, ingress, `tor_inserts.PATH.CLASS`, `tor_occupancy.PATH.CLASS` |
//! | `imc` | DRAM channels | clock, RPQ, WPQ, lines |
//! | `m2p` | CXL ports | clock, ingress, time without credits |
//! | `cxlcm` | CXL ports | clock, messages down (`txc`) and up (`rxc`), busy time, resends |
//! | `cxl_pmu` | CXL devices | clock, messages, queue |
//! | `upi` | the way to the other socket | clock, lines, entries |
//!
//! Events with *occupancy* in their name count on counter 0 alone; `ocr.*` take one of two response
//! registers; `instructions` and `cycles` have counters of their own.

use crate::cpu::CpuCount;
use crate::machine::Machine;
use crate::pmu::boxes::{cha, cpu};
use crate::pmu::unit::UnitKind;
use crate::words::{Path, Target};
use std::sync::Arc;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Scale {
    Count,
    /// Picoseconds of a cycle.
    Cycles(f64),
}

#[derive(Clone, Debug)]
pub struct EventInfo {
    pub unit: UnitKind,
    pub name: Arc<str>,
    /// Counters of the box that can count it, as a bit mask; 0: it has one of its own.
    pub counters: u32,
    /// It takes one of the two response registers of a CPU.
    pub has_response: bool,
    scale: Scale,
    /// Numbers of the box that it sums up.
    terms: Vec<usize>,
}

impl EventInfo {
    /// The count, from all numbers of a box.
    pub(super) fn count(&self, numbers: &[u64]) -> u64 {
        let sum: u64 = self.terms.iter().map(|term| numbers[*term]).sum();
        match self.scale {
            Scale::Count => sum,
            Scale::Cycles(ps) => (sum as f64 / ps) as u64,
        }
    }
}

const ANY: u32 = u32::MAX;
const FIRST: u32 = 1;
const LOW_FOUR: u32 = 0xf;

struct Listing<'a> {
    unit: UnitKind,
    cycle_ps: f64,
    events: &'a mut Vec<EventInfo>,
}

impl<'a> Listing<'a> {
    fn new(unit: UnitKind, ghz: f64, events: &'a mut Vec<EventInfo>) -> Self {
        Listing {
            unit,
            cycle_ps: 1000.0 / ghz,
            events,
        }
    }

    fn add(&mut self, name: &str, counters: u32, scale: Scale, terms: Vec<usize>) {
        self.events.push(EventInfo {
            unit: self.unit,
            name: name.into(),
            counters,
            has_response: name.starts_with("ocr."),
            scale,
            terms,
        });
    }

    fn count(&mut self, name: &str, counters: u32, terms: Vec<usize>) {
        self.add(name, counters, Scale::Count, terms);
    }

    fn cycles(&mut self, name: &str, counters: u32, terms: Vec<usize>) {
        self.add(name, counters, Scale::Cycles(self.cycle_ps), terms);
    }
}

pub fn catalogue(machine: &Machine) -> Vec<EventInfo> {
    let mut events = Vec::new();
    core_events(&mut Listing::new(
        UnitKind::Cpu,
        machine.cores.ghz,
        &mut events,
    ));
    cha_events(
        machine,
        &mut Listing::new(UnitKind::Cha, machine.mesh.ghz, &mut events),
    );
    let mut imc = Listing::new(UnitKind::Imc, machine.dram.clock_ghz, &mut events);
    imc.cycles("clock", ANY, vec![0]);
    queue_events(&mut imc, "rpq", 1);
    queue_events(&mut imc, "wpq", 4);
    imc.count("cas.rd", ANY, vec![7]);
    imc.count("cas.wr", ANY, vec![8]);
    if let Some(device) = machine.device.first() {
        port_events(device.clock_ghz, &mut events);
    }
    if machine.remote.is_some() {
        let mut upi = Listing::new(UnitKind::Upi, machine.mesh.ghz, &mut events);
        upi.cycles("clock", ANY, vec![0]);
        upi.count("lines.in", ANY, vec![1]);
        upi.count("lines.out", ANY, vec![2]);
        upi.count("entry_inserts", ANY, vec![3]);
        upi.cycles("entry_occupancy", FIRST, vec![4]);
    }
    events
}

/// Inserts, occupancy and not-empty cycles of a queue whose numbers begin at `first`.
fn queue_events(listing: &mut Listing, queue: &str, first: usize) {
    listing.count(&format!("{queue}_inserts"), ANY, vec![first]);
    listing.cycles(&format!("{queue}_occupancy"), ANY, vec![first + 1]);
    listing.cycles(&format!("{queue}_cycles_ne"), ANY, vec![first + 2]);
}

/// Events of a port, of its link and of its device. Numbers are positions in what [`super::boxes::read`]
/// lists for each of the three kinds of boxes.
fn port_events(ghz: f64, events: &mut Vec<EventInfo>) {
    let mut m2p = Listing::new(UnitKind::M2p, ghz, events);
    m2p.cycles("clock", ANY, vec![0]);
    queue_events(&mut m2p, "rxc_req", 1);
    queue_events(&mut m2p, "rxc_data", 4);
    m2p.cycles("no_credit.req", ANY, vec![7]);
    m2p.cycles("no_credit.data", ANY, vec![8]);
    let mut link = Listing::new(UnitKind::CxlCm, ghz, events);
    link.cycles("clock", ANY, vec![0]);
    for (direction, first) in [("txc", 1), ("rxc", 6)] {
        let short = if direction == "txc" {
            "mem_req"
        } else {
            "mem_rsp"
        };
        link.count(&format!("{direction}_inserts.{short}"), ANY, vec![first]);
        link.count(
            &format!("{direction}_inserts.mem_data"),
            ANY,
            vec![first + 1],
        );
        link.cycles(&format!("{direction}_occupancy"), FIRST, vec![first + 2]);
        link.cycles(&format!("{direction}_cycles_ne"), ANY, vec![first + 3]);
        link.count(&format!("{direction}_resends"), ANY, vec![first + 4]);
    }
    let mut device = Listing::new(UnitKind::CxlDevice, ghz, events);
    device.cycles("clock", ANY, vec![0]);
    device.count("m2s.req", ANY, vec![1]);
    device.count("m2s.rwd", ANY, vec![2]);
    device.count("s2m.ndr", ANY, vec![3]);
    device.count("s2m.drs", ANY, vec![4]);
    device.count("queue_inserts", ANY, vec![5]);
    device.cycles("queue_occupancy", FIRST, vec![6]);
}

/// Kinds of TOR entries, with the paths that they count.
const TOR_PATHS: &[(&str, &[Path])] = &[
    (
        "ia",
        &[
            Path::Drd,
            Path::Rfo,
            Path::PfL1,
            Path::PfL2,
            Path::PfLlc,
            Path::Nt,
        ],
    ),
    ("drd", &[Path::Drd]),
    ("rfo", &[Path::Rfo]),
    ("drd_pref", &[Path::PfL1, Path::PfL2]),
    ("llc_pref", &[Path::PfLlc]),
    ("nt", &[Path::Nt]),
    ("wb", &[Path::Wb]),
    ("clean", &[Path::Clean]),
    ("io", &[Path::Io]),
];

/// Classes of TOR entries, with the targets that they count.
const TOR_CLASSES: &[(&str, &[Target])] = &[
    ("all", Target::ALL),
    ("hit", &[Target::Llc, Target::Snc]),
    (
        "miss",
        &[
            Target::Dram,
            Target::DramRemote,
            Target::Cxl,
            Target::CxlRemote,
        ],
    ),
    ("dram", &[Target::Dram]),
    ("dram_remote", &[Target::DramRemote]),
    ("cxl", &[Target::Cxl]),
    ("cxl_remote", &[Target::CxlRemote]),
];

fn cha_events(machine: &Machine, listing: &mut Listing) {
    listing.cycles("clock", ANY, vec![cha::CLOCK]);
    listing.count("rxc_inserts.irq", ANY, vec![cha::ARRIVALS]);
    listing.count("rxc_rejects.irq", ANY, vec![cha::REJECTS]);
    if machine.cha.counts_ingress {
        listing.cycles("rxc_occupancy.irq", FIRST, vec![cha::INGRESS_AREA]);
    }
    for (path_name, paths) in TOR_PATHS {
        for (class_name, targets) in TOR_CLASSES {
            let cells = |cell: fn(Path, Target) -> usize| -> Vec<usize> {
                let pairs = paths
                    .iter()
                    .flat_map(|path| targets.iter().map(|target| (*path, *target)));
                pairs.map(|(path, target)| cell(path, target)).collect()
            };
            let what = format!("{path_name}.{class_name}");
            listing.count(&format!("tor_inserts.{what}"), ANY, cells(cha::inserts));
            listing.cycles(&format!("tor_occupancy.{what}"), FIRST, cells(cha::area));
        }
    }
}

const CPU_CYCLES: &[(&str, CpuCount)] = &[
    ("stalls.total", CpuCount::Stalls),
    ("stalls.l1d_miss", CpuCount::StallsL1Miss),
    ("stalls.l2_miss", CpuCount::StallsL2Miss),
    ("stalls.l3_miss", CpuCount::StallsLlcMiss),
    ("stalls.bound_on_stores", CpuCount::BoundOnStores),
    ("store_buffer.full", CpuCount::StoreBufferFull),
    ("l1d_pend_miss.pending", CpuCount::L1Pending),
    ("l1d_pend_miss.pending_cycles", CpuCount::L1PendingCycles),
    ("l1d_pend_miss.fb_full", CpuCount::FillBufferFull),
    ("l1d_pend_miss.l2_stalls", CpuCount::SuperQueueFull),
    ("offcore_outstanding.drd_cycles", CpuCount::DemandReadCycles),
];

const CPU_COUNTS: &[(&str, CpuCount)] = &[
    ("l1d.replacement", CpuCount::L1Replaced),
    ("loads.all", CpuCount::Loads),
    ("loads.l1_hit", CpuCount::LoadsL1),
    ("loads.fb_hit", CpuCount::LoadsFillBuffer),
    ("loads.l2_hit", CpuCount::LoadsL2),
    ("loads.l3_hit_snc", CpuCount::LoadsLlcOfOther),
    ("loads.remote_cache", CpuCount::LoadsRemoteCache),
    ("loads.dram", CpuCount::LoadsDram),
    ("loads.dram_remote", CpuCount::LoadsDramRemote),
    ("loads.cxl", CpuCount::LoadsCxl),
    ("loads.cxl_remote", CpuCount::LoadsCxlRemote),
    ("stores.all", CpuCount::Stores),
    ("stores.l2_hit", CpuCount::StoresL2),
    ("l2.drd_hit", CpuCount::L2ReadHit),
    ("l2.drd_miss", CpuCount::L2ReadMiss),
    ("l2.rfo_hit", CpuCount::L2RfoHit),
    ("l2.rfo_miss", CpuCount::L2RfoMiss),
    ("l2.pf_hit", CpuCount::L2PrefetchHit),
    ("l2.pf_miss", CpuCount::L2PrefetchMiss),
    ("l2.out_clean", CpuCount::L2OutClean),
    ("l2.out_dirty", CpuCount::L2OutDirty),
    ("l2.pf_useless", CpuCount::PrefetchUseless),
    ("l2.pf_late", CpuCount::PrefetchLate),
];

const OFFCORE: &[(&str, &[Path])] = &[
    ("drd", &[Path::Drd]),
    ("rfo", &[Path::Rfo]),
    ("data_rd", &[Path::Drd, Path::PfL1, Path::PfL2]),
    ("all", Path::ALL),
];

const OCR_PATHS: &[(&str, &[Path])] = &[
    ("drd", &[Path::Drd]),
    ("rfo", &[Path::Rfo]),
    ("pf_l1", &[Path::PfL1]),
    ("pf_l2", &[Path::PfL2]),
    ("pf_l3", &[Path::PfLlc]),
    ("reads", &[Path::Drd, Path::Rfo, Path::PfL1, Path::PfL2]),
    ("nt", &[Path::Nt]),
];

const OCR_TARGETS: &[(&str, &[Target])] = &[
    ("any", Target::ALL),
    ("l3_hit", &[Target::Llc]),
    ("snc", &[Target::Snc]),
    ("remote_cache", &[Target::RemoteCache]),
    ("dram", &[Target::Dram]),
    ("dram_remote", &[Target::DramRemote]),
    ("cxl", &[Target::Cxl]),
    ("cxl_remote", &[Target::CxlRemote]),
];

/// Events of a CPU. Some sum up several numbers: loads that left the last-level cache, for example, are those
/// that another place supplied. Cycles and instructions have fixed counters of their own; most others need
/// one of the first four.
fn core_events(listing: &mut Listing) {
    listing.cycles("cycles", 0, vec![cpu::CLOCK]);
    listing.count("instructions", 0, vec![cpu::INSTRUCTIONS]);
    for (name, what) in CPU_CYCLES {
        listing.cycles(name, LOW_FOUR, vec![cpu::count(*what)]);
    }
    for (name, what) in CPU_COUNTS {
        listing.count(name, LOW_FOUR, vec![cpu::count(*what)]);
    }
    let on_chip = [CpuCount::LoadsLlc, CpuCount::LoadsLlcOfOther];
    listing.count("loads.l3_hit", LOW_FOUR, on_chip.map(cpu::count).to_vec());
    let beyond = [
        CpuCount::LoadsRemoteCache,
        CpuCount::LoadsDram,
        CpuCount::LoadsDramRemote,
        CpuCount::LoadsCxl,
        CpuCount::LoadsCxlRemote,
    ];
    listing.count("loads.l3_miss", LOW_FOUR, beyond.map(cpu::count).to_vec());
    for (name, paths) in OFFCORE {
        let inserts = paths.iter().map(|path| cpu::queue_inserts(*path)).collect();
        listing.count(&format!("offcore_requests.{name}"), LOW_FOUR, inserts);
        if *name != "all" {
            let areas = paths.iter().map(|path| cpu::queue_area(*path)).collect();
            listing.cycles(&format!("offcore_outstanding.{name}"), LOW_FOUR, areas);
        }
    }
    listing.count(
        "offcore_requests.l3_miss_drd",
        LOW_FOUR,
        vec![cpu::MISS_INSERTS],
    );
    listing.cycles(
        "offcore_outstanding.l3_miss_drd",
        LOW_FOUR,
        vec![cpu::MISS_AREA],
    );
    for (path_name, paths) in OCR_PATHS {
        for (target_name, targets) in OCR_TARGETS {
            let pairs = paths
                .iter()
                .flat_map(|path| targets.iter().map(|target| (*path, *target)));
            let terms = pairs
                .map(|(path, target)| cpu::response(path, target))
                .collect();
            listing.count(&format!("ocr.{path_name}.{target_name}"), ANY, terms);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_event_reads_numbers_that_there_are() {
        let machine = Machine::named("small").expect("built in");
        for event in catalogue(&machine)
            .iter()
            .filter(|e| e.unit == UnitKind::Cpu)
        {
            assert!(
                event.terms.iter().all(|term| *term < cpu::LENGTH),
                "{}",
                event.name
            );
        }
    }

    #[test]
    fn names_are_unique_in_a_unit() {
        let machine = Machine::named("spr-agilex").expect("built in");
        let mut names: Vec<_> = catalogue(&machine)
            .into_iter()
            .map(|e| (e.unit, e.name))
            .collect();
        let count = names.len();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), count);
    }
}
