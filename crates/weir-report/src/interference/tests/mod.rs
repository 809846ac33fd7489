// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Made-up matrices: read, shown and compared.

mod comparing;
mod reading;
mod showing;

use super::class::InfluenceClass;
use super::document::*;
use crate::results::Caveat;
use std::collections::BTreeMap;

/// A stream of 16 threads.
fn stream(target: &str, op: &str) -> InterferenceStream {
    let is_ssd = target == "ssd";
    InterferenceStream {
        target: target.into(),
        op: op.into(),
        threads: 16,
        width_bytes: (!is_ssd).then_some(64),
        block_bytes: is_ssd.then_some(4096),
        depth: is_ssd.then_some(16),
        direct: is_ssd.then_some(true),
    }
}

fn figures(bytes_per_sec: f64, latency_ns: f64) -> StreamFigures {
    StreamFigures {
        bytes_per_sec: Some(bytes_per_sec),
        latency_ns: Some(latency_ns),
        ..StreamFigures::default()
    }
}

/// A cell with an interval of ± `half` around `ratio`, and a sweep that leads to it.
fn cell(
    victim: InterferenceStream,
    background: InterferenceStream,
    ratio: f64,
    half: f64,
) -> InterferenceCell {
    let (low, high) = ((ratio - half).max(0.0), ratio + half);
    let alone = figures(2e11, 90.0);
    let at = |threads: u32| {
        let ratio = 1.0 + (ratio - 1.0) * f64::from(threads) / 16.0;
        SweepPoint {
            victim_threads: 16,
            background_threads: threads,
            ratio: Some(ratio),
            ratio_low: Some((ratio - half).max(0.0)),
            ratio_high: Some(ratio + half),
            repeats: 9,
            alone,
            together: figures(2e11 * ratio, 90.0 / ratio.max(0.01)),
        }
    };
    InterferenceCell {
        victim,
        background,
        alone,
        together: figures(2e11 * ratio, 90.0 / ratio.max(0.01)),
        ratio: Some(ratio),
        ratio_low: Some(low),
        ratio_high: Some(high),
        repeats: 9,
        interferes: match (low, high) {
            (low, high) if low >= 0.95 && high <= 1.05 => Some(false),
            (low, high) if high < 1.0 || low > 1.0 => Some(true),
            _ => None,
        },
        class: InfluenceClass::between(low, high),
        counters: WaitCounters::default(),
        sweep: [1, 2, 4, 8, 16].map(at).into(),
        placements: Vec::new(),
        place: Some("Requests waited before admission.".into()),
        missing: BTreeMap::from([("counters".into(), "no uncore_cha PMU".into())]),
    }
}

fn document(cells: Vec<InterferenceCell>) -> InterferenceDocument {
    let fact = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
    InterferenceDocument {
        kind: KIND.into(),
        version: VERSION,
        weir_version: "0.1.0".into(),
        world: World::Machine,
        date_utc: Some("2026-11-27T04:00:00Z".into()),
        machine: InterferenceMachine {
            name: "Intel Xeon Gold 6430".into(),
            cpus: 32,
            targets: [("mmem", "node0"), ("cxl", "node2"), ("ssd", "/dev/nvme0n1")]
                .map(fact)
                .into(),
            facts: [
                ("kernel", "7.2.12"),
                ("governor", "performance"),
                ("smt", "off"),
                ("microcode", "0x2b000590"),
            ]
            .map(fact)
            .into(),
        },
        plan: InterferencePlan {
            command: "weir bench interference --json".into(),
            seed: 1,
            seconds: Some(0.5),
            repeats_max: 20,
            half_width_ratio: 0.02,
            levers: BTreeMap::new(),
        },
        cells,
        caveats: vec![Caveat::new(
            "frequency",
            "2.0 GHz was asked for and 1.8 GHz seen",
        )],
        missing: BTreeMap::new(),
    }
}

/// The paper's 30 cells, with effects of every size.
fn matrix() -> InterferenceDocument {
    let kinds = |target: &str, ops: &[&str]| -> Vec<InterferenceStream> {
        ops.iter().map(|op| stream(target, op)).collect()
    };
    let memory = ["ld", "st", "ntst"];
    let (mmem, cxl) = (kinds("mmem", &memory), kinds("cxl", &memory));
    let ssd = kinds("ssd", &["randread", "randwrite"]);
    let others: Vec<_> = mmem.into_iter().chain(ssd).collect();
    let ratios = [0.068, 0.45, 0.58, 0.92, 0.97, 1.0, 1.07, 1.2, 1.6, 0.75];
    let halves = [0.002, 0.01, 0.05, 0.004, 0.08];
    let mut cells = Vec::new();
    for other in &others {
        for slow in &cxl {
            for (victim, background) in [(other, slow), (slow, other)] {
                let i = cells.len();
                let (ratio, half) = (ratios[i % ratios.len()], halves[i % halves.len()]);
                cells.push(cell(victim.clone(), background.clone(), ratio, half));
            }
        }
    }
    document(cells)
}

/// One node and no SSD.
fn small() -> InterferenceDocument {
    let [ld, ntst] = ["ld", "ntst"].map(|op| stream("mmem", op));
    let cells = [
        (&ld, &ld, 0.82),
        (&ld, &ntst, 0.64),
        (&ntst, &ld, 0.93),
        (&ntst, &ntst, 0.99),
    ];
    let mut document = document(
        cells
            .map(|(v, b, r)| cell(v.clone(), b.clone(), r, 0.02))
            .into(),
    );
    document
        .missing
        .insert("cxl".into(), "this machine has one NUMA node".into());
    document
        .missing
        .insert("ssd".into(), "no --ssd was given".into());
    document
}
