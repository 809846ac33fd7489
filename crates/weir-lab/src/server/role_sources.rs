// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Roles of the synthetic server's events. The server has names of its own, weir-profile knows roles alone:
//! here is the one place that knows both.

use weir_core::Role;
use weir_core::window::CountProvenance;
use weir_core::window::role::{AccessPath, Quantity, Stage, Target};
use weir_server_model::pmu::UnitKind;

/// Events whose counts make a role's count, all of one box.
#[derive(Clone, Debug, PartialEq)]
pub struct RoleSource {
    pub role: Role,
    pub unit: UnitKind,
    pub events: Vec<String>,
    /// How the count is known, as on a CPU that has such events.
    pub provenance: CountProvenance,
}

/// Role, then events that are added, with blanks between them.
type Line = (&'static str, &'static str);

const CPU: &[Line] = &[
    ("core.any.any.clock", "cycles"),
    ("core.any.any.instructions", "instructions"),
    ("core.any.any.stalls", "stalls.total"),
    ("l1d.drd.miss.stalls", "stalls.l1d_miss"),
    ("l2.drd.miss.stalls", "stalls.l2_miss"),
    ("llc.drd.miss.stalls", "stalls.l3_miss"),
    ("sb.any.any.stalls", "stalls.bound_on_stores"),
    ("sb.any.any.full", "store_buffer.full"),
    ("lfb.drd.any.occupancy", "l1d_pend_miss.pending"),
    ("lfb.drd.any.busy", "l1d_pend_miss.pending_cycles"),
    ("lfb.drd.any.full", "l1d_pend_miss.fb_full"),
    ("l2.drd.any.full", "l1d_pend_miss.l2_stalls"),
    ("l1d.any.any.lines", "l1d.replacement"),
    ("l1d.drd.own.loads", "loads.l1_hit"),
    // Counted as by MEM_LOAD_RETIRED.L1_MISS: without loads that found their line under way.
    (
        "l1d.drd.miss.loads",
        "loads.l2_hit loads.l3_hit loads.l3_miss",
    ),
    ("lfb.drd.own.loads", "loads.fb_hit"),
    ("l2.drd.own.loads", "loads.l2_hit"),
    ("l2.drd.miss.loads", "loads.l3_hit loads.l3_miss"),
    ("llc.drd.own.loads", "loads.l3_hit"),
    ("llc.drd.miss.loads", "loads.l3_miss"),
    ("llc.drd.remote-cache.loads", "loads.remote_cache"),
    ("imc.drd.dram-own.loads", "loads.dram"),
    ("imc.drd.dram-remote.loads", "loads.dram_remote"),
    ("device.drd.cxl-own.loads", "loads.cxl"),
    ("device.drd.cxl-remote.loads", "loads.cxl_remote"),
    ("sb.wb.any.stores", "stores.all"),
    ("l2.wb.own.stores", "stores.l2_hit"),
    ("l2.drd.own.lines", "l2.drd_hit"),
    ("l2.drd.miss.lines", "l2.drd_miss"),
    ("l2.rfo.own.lines", "l2.rfo_hit"),
    ("l2.rfo.miss.lines", "l2.rfo_miss"),
    ("l2.pf.own.lines", "l2.pf_hit"),
    ("l2.pf.miss.lines", "l2.pf_miss"),
    ("sq.any.any.inserts", "offcore_requests.all"),
    ("sq.drd.any.inserts", "offcore_requests.drd"),
    ("sq.drd.any.occupancy", "offcore_outstanding.drd"),
    ("sq.drd.any.busy", "offcore_outstanding.drd_cycles"),
    ("sq.drd.miss.inserts", "offcore_requests.l3_miss_drd"),
    ("sq.drd.miss.occupancy", "offcore_outstanding.l3_miss_drd"),
    ("sq.rfo.any.inserts", "offcore_requests.rfo"),
    ("sq.rfo.any.occupancy", "offcore_outstanding.rfo"),
];

const CHA: &[Line] = &[
    ("tor.any.any.clock", "clock"),
    ("ingress.any.any.inserts", "rxc_inserts.irq"),
    ("ingress.any.any.rejects", "rxc_rejects.irq"),
    ("ingress.any.any.occupancy", "rxc_occupancy.irq"),
];

const IMC: &[Line] = &[
    ("imc.any.any.clock", "clock"),
    ("imc.reads.dram-own.inserts", "rpq_inserts"),
    ("imc.reads.dram-own.occupancy", "rpq_occupancy"),
    ("imc.reads.dram-own.busy", "rpq_cycles_ne"),
    ("imc.reads.dram-own.lines", "cas.rd"),
    ("imc.wb.dram-own.inserts", "wpq_inserts"),
    ("imc.wb.dram-own.occupancy", "wpq_occupancy"),
    ("imc.wb.dram-own.busy", "wpq_cycles_ne"),
    ("imc.wb.dram-own.lines", "cas.wr"),
];

// Ingress of reads, and of write-backs with non-temporal stores. It is full where no credit is left.
const M2P: &[Line] = &[
    ("m2pcie.any.any.clock", "clock"),
    ("m2pcie.reads.cxl.inserts", "rxc_req_inserts"),
    ("m2pcie.reads.cxl.occupancy", "rxc_req_occupancy"),
    ("m2pcie.reads.cxl.busy", "rxc_req_cycles_ne"),
    ("m2pcie.reads.cxl.full", "no_credit.req"),
    ("m2pcie.wb.cxl.inserts", "rxc_data_inserts"),
    ("m2pcie.wb.cxl.occupancy", "rxc_data_occupancy"),
    ("m2pcie.wb.cxl.busy", "rxc_data_cycles_ne"),
    ("m2pcie.wb.cxl.full", "no_credit.data"),
];

// Buffers are by direction: `reads` is the direction that data of reads takes, with the completions of
// writes; `wb` is the other, with the requests of reads. Lines are those with data.
const CXLCM: &[Line] = &[
    ("port.any.any.clock", "clock"),
    ("port.reads.cxl.lines", "rxc_inserts.mem_data"),
    (
        "port.reads.cxl.inserts",
        "rxc_inserts.mem_data rxc_inserts.mem_rsp",
    ),
    ("port.reads.cxl.occupancy", "rxc_occupancy"),
    ("port.reads.cxl.busy", "rxc_cycles_ne"),
    ("port.wb.cxl.lines", "txc_inserts.mem_data"),
    (
        "port.wb.cxl.inserts",
        "txc_inserts.mem_data txc_inserts.mem_req",
    ),
    ("port.wb.cxl.occupancy", "txc_occupancy"),
    ("port.wb.cxl.busy", "txc_cycles_ne"),
    ("port.any.cxl.errors", "rxc_resends"),
    ("port.any.cxl.rejects", "txc_resends"),
];

const CXL_PMU: &[Line] = &[
    ("device.any.any.clock", "clock"),
    ("device.reads.cxl.lines", "s2m.drs"),
    ("device.wb.cxl.lines", "m2s.rwd"),
    ("device.reads.cxl.inserts", "m2s.req"),
    ("device.wb.cxl.inserts", "m2s.rwd"),
    ("device.any.cxl.inserts", "queue_inserts"),
    ("device.any.cxl.occupancy", "queue_occupancy"),
];

/// A word of a role with words of events, whose sum it is.
type Words<T> = (T, &'static [&'static str]);

const TOR_PATHS: &[Words<AccessPath>] = &[
    (AccessPath::Any, &["ia"]),
    (AccessPath::Drd, &["drd"]),
    (AccessPath::Rfo, &["rfo"]),
    // Prefetches into L1 and into L2 have one opcode.
    (AccessPath::PfL2, &["drd_pref"]),
    (AccessPath::PfLlc, &["llc_pref"]),
    (AccessPath::Nt, &["nt"]),
    (AccessPath::Wb, &["wb"]),
    (AccessPath::Reads, &["drd", "rfo", "drd_pref", "llc_pref"]),
];

const TOR_TARGETS: &[Words<Target>] = &[
    (Target::Any, &["all"]),
    (Target::Own, &["hit"]),
    (Target::Miss, &["miss"]),
    (Target::Dram, &["dram", "dram_remote"]),
    (Target::DramOwn, &["dram"]),
    (Target::DramRemote, &["dram_remote"]),
    (Target::Cxl, &["cxl", "cxl_remote"]),
    (Target::CxlOwn, &["cxl"]),
    (Target::CxlRemote, &["cxl_remote"]),
];

const OCR_PATHS: &[Words<AccessPath>] = &[
    (AccessPath::Drd, &["drd"]),
    (AccessPath::Rfo, &["rfo"]),
    (AccessPath::Pf, &["pf_l1", "pf_l2"]),
    (AccessPath::PfL1, &["pf_l1"]),
    (AccessPath::PfL2, &["pf_l2"]),
    (AccessPath::PfLlc, &["pf_l3"]),
    (AccessPath::Reads, &["reads"]),
    (AccessPath::Nt, &["nt"]),
];

const OCR_TARGETS: &[Words<Target>] = &[
    (Target::Any, &["any"]),
    (Target::Own, &["l3_hit"]),
    (Target::Snc, &["snc"]),
    (Target::RemoteCache, &["remote_cache"]),
    (
        Target::Miss,
        &["remote_cache", "dram", "dram_remote", "cxl", "cxl_remote"],
    ),
    (Target::Dram, &["dram", "dram_remote"]),
    (Target::DramOwn, &["dram"]),
    (Target::DramRemote, &["dram_remote"]),
    (Target::Cxl, &["cxl", "cxl_remote"]),
    (Target::CxlOwn, &["cxl"]),
    (Target::CxlRemote, &["cxl_remote"]),
];

pub fn role_sources() -> Vec<RoleSource> {
    let tables = [
        (UnitKind::Cpu, CPU),
        (UnitKind::Cha, CHA),
        (UnitKind::Imc, IMC),
        (UnitKind::M2p, M2P),
        (UnitKind::CxlCm, CXLCM),
        (UnitKind::CxlDevice, CXL_PMU),
    ];
    let lines = tables
        .into_iter()
        .flat_map(|(unit, lines)| lines.iter().map(move |line| (unit, line)));
    let mut all: Vec<RoleSource> = lines
        .filter_map(|(unit, line)| listed(unit, line))
        .collect();
    for (path, of_path) in TOR_PATHS {
        for (target, of_target) in TOR_TARGETS {
            for (quantity, kind) in [
                (Quantity::Inserts, "tor_inserts"),
                (Quantity::Occupancy, "tor_occupancy"),
            ] {
                let role = Role::new(Stage::Tor, *path, *target, quantity);
                let provenance = CountProvenance::Documented;
                all.push(crossed(
                    role,
                    UnitKind::Cha,
                    kind,
                    of_path,
                    of_target,
                    provenance,
                ));
            }
        }
    }
    for (path, of_path) in OCR_PATHS {
        for (target, of_target) in OCR_TARGETS {
            let role = Role::new(Stage::SuperQueue, *path, *target, Quantity::Lines);
            let provenance = response_provenance(*path, *target);
            all.push(crossed(
                role,
                UnitKind::Cpu,
                "ocr",
                of_path,
                of_target,
                provenance,
            ));
        }
    }
    all
}

/// Prefetches by target have published names nowhere.
fn response_provenance(path: AccessPath, target: Target) -> CountProvenance {
    use AccessPath::{Pf, PfL1, PfL2, PfLlc};
    if matches!(path, Pf | PfL1 | PfL2 | PfLlc) && target != Target::Any {
        CountProvenance::Raw
    } else {
        CountProvenance::Documented
    }
}

/// A line of a table; a test holds that each reads.
fn listed(unit: UnitKind, (role, events): &Line) -> Option<RoleSource> {
    Some(RoleSource {
        role: role.parse().ok()?,
        unit,
        events: events.split(' ').map(str::to_owned).collect(),
        provenance: CountProvenance::Documented,
    })
}

/// The sum over all pairs of words: `KIND.PATH.TARGET`.
fn crossed(
    role: Role,
    unit: UnitKind,
    kind: &str,
    paths: &[&str],
    targets: &[&str],
    provenance: CountProvenance,
) -> RoleSource {
    let pairs = paths
        .iter()
        .flat_map(|path| targets.iter().map(move |target| (path, target)));
    RoleSource {
        role,
        unit,
        events: pairs
            .map(|(path, target)| format!("{kind}.{path}.{target}"))
            .collect(),
        provenance,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use weir_server_model::Machine;
    use weir_server_model::pmu::catalogue;

    #[test]
    fn every_line_reads_and_every_event_is_one_of_the_server() {
        let mut machine = Machine::named("spr-agilex").unwrap();
        machine.cha.counts_ingress = true;
        let known = catalogue(&machine);
        let known: BTreeSet<(UnitKind, &str)> = known.iter().map(|e| (e.unit, &*e.name)).collect();
        let lines = [CPU, CHA, IMC, M2P, CXLCM, CXL_PMU].map(<[Line]>::len);
        let tor = TOR_PATHS.len() * TOR_TARGETS.len() * 2;
        let sources = role_sources();
        let count = lines.iter().sum::<usize>() + tor + OCR_PATHS.len() * OCR_TARGETS.len();
        assert_eq!(sources.len(), count);
        for source in &sources {
            for event in &source.events {
                assert!(
                    known.contains(&(source.unit, event)),
                    "{}: {event}",
                    source.role
                );
            }
        }
        let roles: BTreeSet<Role> = sources.iter().map(|source| source.role).collect();
        assert_eq!(roles.len(), count, "a role has one source");
    }
}
