// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Each rule on stalls finds its cause, and not where its refutation holds.

use super::*;
use crate::counts::tests::counts;
use crate::culprit::waits;
use crate::stalls::stalls;
use std::collections::BTreeMap;

impl<'a> View<'a> {
    /// A view of counts alone: nothing is split, nothing waits.
    pub(crate) fn plain(counts: &'a Counts, idle: Option<&'a Counts>) -> View<'a> {
        static NONE: Refusal = Refusal::NoTime;
        View {
            name: "workload",
            counts,
            idle,
            sources: Sources::alone(counts),
            idle_sources: idle.map(Sources::alone),
            stalls: Err(&NONE),
            waits: Err(&NONE),
            sharers: &[],
            place: None,
        }
    }
}

type Case = BTreeMap<&'static str, u64>;

const S: u64 = 1_000_000_000;

/// A workload on a machine for a second, at 2 GHz: two million lines from CXL memory (320 ns) and DRAM (80
/// ns) each, half of the loads in chains; nothing waits. Clocks of all stages run at 1 GHz but the core's.
fn workload() -> Case {
    Case::from([
        ("core.any.any.clock", 2 * S),
        ("core.any.any.time-ns", S),
        ("core.any.any.instructions", S / 2),
        ("l1d.drd.miss.stalls", 13 * S / 10),
        ("sb.any.any.stalls", 0),
        ("lfb.drd.any.occupancy", 4 * S),
        ("lfb.drd.any.busy", 3 * S / 2),
        ("lfb.drd.any.full", 0),
        ("l2.drd.own.loads", 2_000_000),
        ("l2.drd.miss.lines", 4_000_000),
        ("l2.pf.miss.lines", 0),
        ("l2.rfo.own.lines", 0),
        ("l2.rfo.miss.lines", 0),
        ("sq.drd.cxl-own.lines", 2_000_000),
        ("sq.drd.dram-own.lines", 2_000_000),
        ("sq.reads.own.lines", 4_000_000),
        ("sq.reads.cxl-own.lines", 2_000_000),
        ("sq.reads.dram-own.lines", 2_000_000),
        ("sq.drd.any.inserts", 4_000_000),
        ("sq.drd.any.occupancy", 2 * 220 * 4_000_000),
        ("sq.rfo.any.inserts", 0),
    ])
}

/// The machine of it, with a neighbour's requests.
fn machine() -> Case {
    Case::from([
        ("tor.any.any.clock", S),
        ("tor.drd.cxl-own.occupancy", 320 * 20_000_000),
        ("tor.drd.cxl-own.inserts", 20_000_000),
        ("tor.drd.dram-own.occupancy", 80 * 20_000_000),
        ("tor.drd.dram-own.inserts", 20_000_000),
        ("device.any.any.clock", S),
        ("device.reads.cxl.occupancy", 250 * 20_000_000),
        ("device.reads.cxl.inserts", 20_000_000),
        ("port.any.any.clock", S),
        ("port.reads.cxl.busy", S / 10),
        ("port.wb.cxl.busy", S / 20),
        ("port.reads.cxl.lines", 20_000_000),
        ("port.wb.cxl.lines", 1_000_000),
    ])
}

fn with(case: Case, changes: &[(&'static str, u64)]) -> Case {
    let mut case = case;
    case.extend(changes.iter().copied());
    case
}

fn counts_of(case: &Case) -> Counts {
    let all: Vec<(&str, u64)> = case.iter().map(|(role, value)| (*role, *value)).collect();
    counts(&all)
}

/// What the rules find of a workload beside a neighbour that moves nine of ten lines.
fn found(own: &Case, now: &Case, before: &Case) -> Vec<(&'static str, Finding)> {
    let [own, now, quiet, before] = [own, now, &machine(), before].map(counts_of);
    let neighbour = counts(&[
        ("sq.reads.cxl-own.lines", 48_000_000),
        ("sq.reads.dram-own.lines", 40_000_000),
        ("sq.nt.cxl-own.lines", 9_000_000),
    ]);
    let sharers = [
        Sharer {
            name: "own",
            counts: &own,
            memory_part: 1.0,
            cores_part: 1.0,
        },
        Sharer {
            name: "neighbour",
            counts: &neighbour,
            memory_part: 1.0,
            cores_part: 1.0,
        },
    ];
    let sources = |own, machine| Sources {
        own,
        peers: own,
        machine,
        fill_buffers: None,
    };
    let stalls = stalls(&sources(&own, &now));
    let waits = waits(&sharers, &now, Some(&quiet));
    let view = View {
        name: "own",
        counts: &own,
        idle: Some(&before),
        sources: sources(&own, &now),
        idle_sources: Some(sources(&before, &quiet)),
        stalls: stalls.as_ref(),
        waits: waits.as_ref(),
        sharers: &sharers,
        place: None,
    };
    let said = RULES.iter().filter_map(|rule| match (rule.check)(view) {
        RuleOutcome::Found(finding) => Some((rule.name, finding)),
        _ => None,
    });
    said.collect()
}

fn names(own: &[(&'static str, u64)], now: &[(&'static str, u64)]) -> Vec<&'static str> {
    let made = found(&with(workload(), own), &with(machine(), now), &workload());
    made.into_iter().map(|(name, _)| name).collect()
}

const FULL_DEVICE: [(&str, u64); 2] = [
    ("tor.drd.cxl-own.occupancy", 570 * 20_000_000),
    ("device.reads.cxl.occupancy", 500 * 20_000_000),
];

#[test]
fn a_machine_without_waiting_gives_no_finding() {
    assert_eq!(names(&[], &[]), [""; 0]);
    let busy = [("port.reads.cxl.busy", 95 * S / 100)];
    assert_eq!(
        names(&[], &busy),
        [""; 0],
        "a busy link alone holds up no request"
    );
}

#[test]
fn a_full_device_is_saturated_and_an_empty_one_is_slow() {
    let made = found(&workload(), &with(machine(), &FULL_DEVICE), &workload());
    let (name, finding) = &made[0];
    assert_eq!((made.len(), *name), (1, "device_saturated"));
    assert_eq!(finding.because_of[0].workload, "neighbour");
    assert!(finding.because_of[0].share > 0.85, "{finding:?}");
    assert!(finding.time_ratio.unwrap() > 0.2, "{finding:?}");
}

/// The same residence with a few requests in it: no neighbour's, and few of its own.
#[test]
fn a_device_with_few_requests_is_slow() {
    let own = with(workload(), &[("sq.reads.cxl-own.lines", 20_000)]);
    let (own, now) = (counts_of(&own), counts_of(&with(machine(), &FULL_DEVICE)));
    let quiet = counts_of(&machine());
    let sharers = [Sharer {
        name: "own",
        counts: &own,
        memory_part: 1.0,
        cores_part: 1.0,
    }];
    let sources = Sources {
        own: &own,
        peers: &own,
        machine: &now,
        fill_buffers: None,
    };
    let (stalls, waits) = (stalls(&sources), waits(&sharers, &now, Some(&quiet)));
    let view = View {
        sources,
        stalls: stalls.as_ref(),
        waits: waits.as_ref(),
        ..View::plain(&own, None)
    };
    assert!(matches!(
        (device_slow::RULE.check)(view),
        RuleOutcome::Found(_)
    ));
    assert!(matches!(
        (device_saturated::RULE.check)(view),
        RuleOutcome::NotFound
    ));
    let unknown = View {
        waits: View::plain(&own, None).waits,
        ..view
    };
    assert!(matches!(
        (device_slow::RULE.check)(unknown),
        RuleOutcome::CannotTell { .. }
    ));
}

#[test]
fn a_direction_of_the_link_is_told_from_the_other_and_from_a_bad_link() {
    let waits = ("tor.drd.cxl-own.occupancy", 420 * 20_000_000);
    let reads = ("port.reads.cxl.busy", 97 * S / 100);
    let writes = ("port.wb.cxl.busy", 99 * S / 100);
    assert_eq!(names(&[], &[waits, reads]), ["link_reads"]);
    assert_eq!(names(&[], &[waits, writes]), ["link_writes"]);
    let resent = ("port.any.cxl.rejects", 3_000_000);
    let crc = ("port.any.cxl.errors", 0);
    assert_eq!(
        names(&[], &[waits, reads, resent, crc]),
        [""; 0],
        "errors are the machine's"
    );
}

#[test]
fn dram_is_contended_where_reads_wait_there() {
    let long = ("tor.drd.dram-own.occupancy", 240 * 20_000_000);
    let own = [
        ("sq.drd.cxl-own.lines", 20_000),
        ("sq.reads.cxl-own.lines", 20_000),
    ];
    let mut both = own.to_vec();
    both.push(("sq.drd.any.occupancy", 2 * 270 * 4_000_000));
    assert_eq!(names(&both, &[long]), ["dram_contended"]);
    let short = ("tor.drd.dram-own.occupancy", 90 * 20_000_000);
    let mut quick = own.to_vec();
    quick.push(("sq.drd.any.occupancy", 2 * 120 * 4_000_000));
    assert_eq!(names(&quick, &[short]), [""; 0]);
}

#[test]
fn the_table_of_requests_is_held_where_the_mesh_takes_longer() {
    let own = [
        ("sq.drd.cxl-own.lines", 20_000),
        ("sq.drd.any.occupancy", 2 * 250 * 2_020_000),
        ("sq.drd.any.inserts", 2_020_000),
    ];
    assert_eq!(names(&own, &[]), ["tor_held"]);
    let busy = ("port.wb.cxl.busy", 95 * S / 100);
    assert!(!names(&own, &[busy]).contains(&"tor_held"));
}

#[test]
fn displaced_lines_are_fewer_hits_than_before() {
    let fewer = ("sq.reads.own.lines", 1_000_000);
    assert_eq!(names(&[fewer], &[]), ["llc_displaced"]);
    assert_eq!(names(&[("sq.reads.own.lines", 3_900_000)], &[]), [""; 0]);
    // Behind a wait before the table it is a small part of the stalls, and still a tenth of the time; or
    // less.
    let is_felt = |ns: u64| {
        names(&[fewer, ("sq.drd.any.occupancy", 2 * ns * 4_000_000)], &[])
            .contains(&"llc_displaced")
    };
    assert_eq!((is_felt(1000), is_felt(3000)), (true, false));
    // A workload that did next to nothing then says nothing of its cache.
    let quiet = [
        ("sq.reads.own.lines", 400_000),
        ("sq.reads.cxl-own.lines", 1000),
        ("sq.reads.dram-own.lines", 1000),
    ];
    let before = with(workload(), &quiet);
    let made = found(&with(workload(), &[fewer]), &machine(), &before);
    assert_eq!(made.len(), 0, "{made:?}");
}

#[test]
fn buffers_are_held_by_long_reads_of_a_device_that_is_not_full() {
    let full = ("lfb.drd.any.full", 18 * S / 10);
    assert_eq!(names(&[full], &[]), ["fill_buffers_held"]);
    assert_eq!(names(&[full], &FULL_DEVICE), ["device_saturated"]);
}

#[test]
fn stores_are_the_reason_where_they_stall_on_cxl_memory() {
    let stores = [
        ("l1d.drd.miss.stalls", 0),
        ("sb.any.any.stalls", 12 * S / 10),
        ("sq.rfo.cxl-own.lines", 4_000_000),
        ("sq.rfo.any.inserts", 4_000_000),
        ("l2.rfo.miss.lines", 4_000_000),
    ];
    assert_eq!(names(&stores, &[]), ["store_bound"]);
    let mut from_dram = stores.to_vec();
    from_dram[2] = ("sq.rfo.dram-own.lines", 4_000_000);
    assert_eq!(names(&from_dram, &[]), [""; 0]);
}

#[test]
fn prefetch_is_late_or_useless() {
    let late = [
        ("sq.drd.cxl-own.lines", 0),
        ("sq.drd.dram-own.lines", 0),
        ("sq.drd.any.inserts", 0),
        ("sq.drd.any.occupancy", 0),
        ("device.drd.cxl-own.loads", 4_000_000),
        ("l2.drd.own.loads", 100_000),
        ("l2.pf.miss.lines", 4_100_000),
        ("lfb.drd.any.occupancy", 3 * S / 2),
    ];
    assert_eq!(names(&late, &[]), ["prefetch_late"]);
    let mut in_time = late.to_vec();
    in_time[5] = ("l2.drd.own.loads", 2_000_000);
    assert_eq!(names(&in_time, &[]), [""; 0]);
    let useless = [("l2.pf.miss.lines", 9_000_000)];
    assert_eq!(names(&useless, &[]), ["prefetch_useless"]);
    let used = [
        ("l2.pf.miss.lines", 9_000_000),
        ("l2.drd.own.loads", 7_000_000),
    ];
    assert_eq!(names(&used, &[]), [""; 0]);
}

#[test]
fn chains_are_found_on_an_idle_device_only() {
    let chain = [
        ("l1d.drd.miss.stalls", 19 * S / 10),
        ("lfb.drd.any.occupancy", 2 * S),
        ("lfb.drd.any.busy", 2 * S),
    ];
    assert_eq!(names(&chain, &[]), ["chains"]);
    assert_eq!(names(&chain, &FULL_DEVICE), ["device_saturated"]);
}
