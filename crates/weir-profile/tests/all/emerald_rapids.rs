// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Counts of a public recording: Emerald Rapids with CXL memory, perf stat on kernel 7.0
//! (github.com/jaewan/DutyFree, results/mechanism_decomp at commit 154c209; Apache-2.0). Run 1: inserts as
//! recorded, occupancy of the CXL event as recorded, the other two as cycles a request × requests.

use weir_core::Nanos;
use weir_core::window::{Count, CountProvenance, CountScope};
use weir_profile::stages::{Capacities, stages};
use weir_profile::{Counts, Refusal};

const MISSES: u64 = 8_446_584;
const DRAM: u64 = 3_157_538;
const ACC: u64 = 1_109_804;

fn counts(all: &[(&str, u64)]) -> Counts {
    let count = |(role, value): &(&str, u64)| Count {
        role: role.parse().unwrap(),
        of: CountScope::All,
        value: Ok(*value),
        enabled_ns: Nanos(332_232_889_783),
        running_ns: Nanos(332_232_889_783),
        provenance: CountProvenance::OtherName,
    };
    let all: Vec<Count> = all.iter().map(count).collect();
    Counts::new(&all, None)
}

fn run_1(dram_cycles: u64) -> Counts {
    counts(&[
        ("tor.drd.miss.inserts", MISSES),
        ("tor.drd.miss.occupancy", MISSES * 421),
        ("tor.drd.dram-own.inserts", DRAM),
        ("tor.drd.dram-own.occupancy", DRAM * dram_cycles),
        ("tor.drd.cxl-own.inserts", ACC),
        ("tor.drd.cxl-own.occupancy", 534_414_836),
    ])
}

/// The accelerators' event misses most reads of an expander: what it and DRAM leave stays as long as CXL
/// does.
#[test]
fn the_parts_are_not_the_whole() {
    let all = stages(&run_1(348), None, &Capacities::new());
    let whole = &all.wholes[0];
    let covered = whole.covered.as_ref().unwrap().value;
    assert!((covered - 0.505).abs() < 0.001, "{covered}");
    let rest = whole.rest_residence_cycles.as_ref().unwrap().value;
    assert!((459.0..=474.0).contains(&rest), "{rest}");
    let Err(Refusal::NamelessRest { low, high, .. }) = whole.cxl_share else {
        panic!("a share was given: {:?}", whole.cxl_share);
    };
    assert!(
        (0.131..0.132).contains(&low) && (0.625..0.627).contains(&high),
        "{low} {high}"
    );
}

#[test]
fn cycles_without_a_clock_are_no_time() {
    let all = stages(&run_1(348), None, &Capacities::new());
    let cxl = all
        .queues
        .iter()
        .find(|q| q.role.to_string() == "tor.drd.cxl-own.occupancy")
        .unwrap();
    let cycles = cxl.residence_cycles.as_ref().unwrap().value;
    assert!((cycles - 481.5).abs() < 0.1, "{cycles}");
    for answer in [&cxl.residence_ns, &cxl.entries, &cxl.pressure] {
        assert!(matches!(answer, Err(Refusal::NoClock { .. })), "{answer:?}");
    }
}

/// DRAM reads stay 31 % longer while the other cores stream: 261 and 343 cycles.
#[test]
fn dram_reads_stay_longer_beside_a_stream() {
    let cycles = |of| {
        let all = stages(&run_1(of), None, &Capacities::new());
        let dram = |q: &&weir_profile::stages::StageFigures| q.role.to_string().contains("dram");
        all.queues
            .iter()
            .find(dram)
            .unwrap()
            .residence_cycles
            .as_ref()
            .unwrap()
            .value
    };
    let longer = cycles(343) / cycles(261);
    assert!((longer - 1.31).abs() < 0.005, "{longer}");
}

/// intel/perfmon issue 332: the clock of M2PCIe counted 4263 in 5 s; on another run nothing.
#[test]
fn a_clock_that_stands_or_crawls_gives_no_time() {
    let of = |clock| weir_profile::stages::clock_hz(&counts_of_5_s(&run_clock(clock)), m2pcie());
    assert!(matches!(of(4263), Err(Refusal::ClockImplausible { .. })));
    assert!(matches!(of(0), Err(Refusal::ClockStood { .. })));
    assert!(of(10_000_000_000).is_ok());
    let full = stages(&counts_of_5_s(&run_clock(4263)), None, &Capacities::new()).full;
    assert!(
        matches!(full[0].1, Err(Refusal::ClockImplausible { .. })),
        "{full:?}"
    );
}

fn m2pcie() -> weir_core::Role {
    "m2pcie.any.any.clock".parse().unwrap()
}

fn run_clock(clock: u64) -> Vec<(&'static str, u64)> {
    vec![
        ("m2pcie.any.any.clock", clock),
        ("m2pcie.any.any.full", 926_672_909_365),
    ]
}

fn counts_of_5_s(all: &[(&str, u64)]) -> Counts {
    let count = |(role, value): &(&str, u64)| Count {
        role: role.parse().unwrap(),
        of: CountScope::All,
        value: Ok(*value),
        enabled_ns: Nanos(5_000_000_000),
        running_ns: Nanos(5_000_000_000),
        provenance: CountProvenance::Documented,
    };
    let all: Vec<Count> = all.iter().map(count).collect();
    Counts::new(&all, Some(Nanos(5_000_000_000)))
}
