// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Compares the orders of a DRAM channel on mixes of sources; prints the tables of docs/evidence/dram.md.
//!
//! ```text
//! cargo run --release -p weir-dram --example dram_orders [WINDOWS]
//! ```

mod mixes;

use mixes::{Bench, Mix, MixRun, copy, max_min, mixes, random};
use weir_dram::{DramProfile, OrderKind};

/// A mix under each order, and under `rates` at the split of FR-FCFS.
struct Compared {
    name: &'static str,
    alone: Vec<f64>,
    fair: Vec<f64>,
    runs: Vec<MixRun>,
    at_split: MixRun,
}

type Figure = fn(&Compared, &MixRun) -> String;

const FIGURES: [(&str, Figure); 6] = [
    ("Bandwidth, GB/s", |_, run| format!("{:.1}", run.total())),
    (
        "Share error against max-min of equal weights, percent",
        |of, run| format!("{:.1}", 100.0 * run.share_error(&of.fair)),
    ),
    (
        "Scatter of shares in windows of 100 µs, percent",
        |_, run| format!("{:.1}", 100.0 * run.scatter),
    ),
    ("Weighted speed-up", |of, run| {
        format!("{:.2}", of.speeds(run).iter().sum::<f64>())
    }),
    ("Greatest slowdown", |of, run| {
        let slowest = of.speeds(run).into_iter().fold(f64::INFINITY, f64::min);
        format!("{:.1}", 1.0 / slowest)
    }),
    ("p99 of the first source's reads, ns", |_, run| {
        format!("{:.0}", run.first_p99_ns)
    }),
];

fn main() {
    let windows = std::env::args().nth(1).map(|text| text.parse());
    let windows = windows.and_then(Result::ok).unwrap_or(8);
    let bench = Bench {
        profile: DramProfile::named("ddr4-3200").expect("built in"),
        windows,
        warm_windows: 2,
        // 100 µs.
        window_clocks: 160_000,
    };
    let compared: Vec<Compared> = mixes().iter().map(|mix| compare(&bench, mix)).collect();
    FIGURES
        .iter()
        .for_each(|(title, figure)| table(title, *figure, &compared));
    println!("`rates` at the split of FR-FCFS:\n");
    println!("| mix | part of its bandwidth, % | share error, % | scatter, % |\n|---|---|---|---|");
    for mix in &compared {
        let free = &mix.runs[1];
        println!(
            "| {} | {:.1} | {:.1} | {:.1} |",
            mix.name,
            100.0 * mix.at_split.total() / free.total(),
            100.0 * mix.at_split.share_error(&free.rates),
            100.0 * mix.at_split.scatter
        );
    }
    println!("\nA random reader with 2 reads out beside a copy with 64, under `rates`:\n");
    println!("| rates | GB/s | ratio | p99 of the reader, ns |\n|---|---|---|---|");
    [1.0, 2.0, 4.0, 6.0, 8.0, 12.0]
        .iter()
        .for_each(|slope| sloped(&bench, *slope));
}

impl Compared {
    /// Rate of each source ÷ its rate alone.
    fn speeds(&self, run: &MixRun) -> Vec<f64> {
        run.rates
            .iter()
            .zip(&self.alone)
            .map(|(rate, alone)| rate / alone)
            .collect()
    }
}

fn compare(bench: &Bench, mix: &Mix) -> Compared {
    let alone = bench.alone(&mix.sources);
    let free = bench.run(&mix.sources, OrderKind::FrFcfs, None);
    let fair = max_min(&alone, free.total());
    let run = |(_, order): (&str, OrderKind)| {
        let shares = (order == OrderKind::Rates).then_some(&fair[..]);
        bench.run(&mix.sources, order, shares)
    };
    Compared {
        name: mix.name,
        runs: OrderKind::ALL.into_iter().map(run).collect(),
        at_split: bench.run(&mix.sources, OrderKind::Rates, Some(&free.rates)),
        alone,
        fair,
    }
}

fn table(title: &str, figure: Figure, compared: &[Compared]) {
    let names = OrderKind::ALL.map(|(name, _)| name);
    println!(
        "{title}:\n\n| mix | {} |\n|---|{}",
        names.join(" | "),
        "---|".repeat(names.len())
    );
    for mix in compared {
        let cells: Vec<String> = mix.runs.iter().map(|run| figure(mix, run)).collect();
        println!("| {} | {} |", mix.name, cells.join(" | "));
    }
    println!();
}

fn sloped(bench: &Bench, slope: f64) {
    let sources = [random(2), copy(64)];
    let run = bench.run(&sources, OrderKind::Rates, Some(&[1.0, slope]));
    println!(
        "| 1:{slope} | {:.2} + {:.2} | {:.3} | {:.0} |",
        run.rates[0],
        run.rates[1],
        run.rates[1] / run.rates[0],
        run.first_p99_ns
    );
}
