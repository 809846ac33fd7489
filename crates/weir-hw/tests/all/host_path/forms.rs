// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The solver against the lines one by one.

use super::draw::{self, Dice};
use weir_hw::host_path::{EventPlan, PathNetwork, PathOutcome, compile, simulate, solve};

/// How far the forms may lie apart.
const APART_MAX: f64 = 0.10;

struct Compared {
    words: String,
    network: PathNetwork,
    solved: PathOutcome,
    simulated: PathOutcome,
}

fn compared(seed: u64, lines: u64) -> Compared {
    let mut dice = Dice::new(seed);
    let machine = draw::machine(&mut dice);
    let streams = draw::streams(&mut dice);
    let network = compile(&machine, &streams).unwrap();
    Compared {
        words: draw::words(&streams),
        solved: solve(&network),
        simulated: simulate(&network, EventPlan { lines, seed }),
        network,
    }
}

impl Compared {
    /// The largest deviation of a flow's bandwidth, relative to the lines one by one.
    fn bandwidth(&self) -> f64 {
        let flows = self.solved.flows.iter().zip(&self.simulated.flows);
        let apart = flows.map(|(a, b)| (a.lines_per_ns / b.lines_per_ns - 1.0).abs());
        apart.fold(0.0, f64::max)
    }

    /// The largest deviation of a pool's wait, relative to what a request spends from admission's door to its
    /// data: a wait that is a small part of that matters little.
    fn wait(&self) -> f64 {
        let pools = self.solved.pools.iter().zip(&self.simulated.pools);
        let used = pools.filter(|(_, b)| b.lines_per_ns > 0.0);
        let apart = used.map(|(a, b)| {
            let residence = b.occupancy / b.lines_per_ns;
            (a.wait_ns - b.wait_ns).abs() / (b.wait_ns + residence)
        });
        apart.fold(0.0, f64::max)
    }

    /// The same, relative to the wait alone, of waits that are longer than the shortest idle access.
    fn long_wait(&self) -> f64 {
        let idle = self.network.memories.iter().map(|m| m.residence_ns);
        let idle = idle.fold(f64::INFINITY, f64::min);
        let pools = self.solved.pools.iter().zip(&self.simulated.pools);
        let long = pools.filter(|(_, b)| b.wait_ns > idle);
        let apart = long.map(|(a, b)| (a.wait_ns / b.wait_ns - 1.0).abs());
        apart.fold(0.0, f64::max)
    }

    fn row(&self, seed: u64) -> String {
        let waits: Vec<String> = (self.solved.pools.iter().zip(&self.simulated.pools))
            .map(|(a, b)| format!("{:.0}/{:.0}", a.wait_ns, b.wait_ns))
            .collect();
        let flows = self.solved.flows.iter().zip(&self.simulated.flows);
        let rates: Vec<String> = flows
            .map(|(a, b)| format!("{:.4}/{:.4}", a.lines_per_ns, b.lines_per_ns))
            .collect();
        format!(
            "{seed:4} {:6.1} % {:6.1} % {:6.1} % {:>18} {} {}",
            self.bandwidth() * 1e2,
            self.wait() * 1e2,
            self.long_wait() * 1e2,
            waits.join(" "),
            self.words,
            rates.join(" ")
        )
    }
}

fn agree(seeds: std::ops::Range<u64>, lines: u64) {
    let mut far = Vec::new();
    println!("seed  bandwidth wait    long wait  ns solved/simulated  mix, lines per ns");
    for seed in seeds {
        let one = compared(seed, lines);
        println!("{}", one.row(seed));
        if one.bandwidth() > APART_MAX || one.wait() > APART_MAX || one.long_wait() > APART_MAX {
            far.push(one.row(seed));
        }
    }
    assert!(far.is_empty(), "further apart:\n{}", far.join("\n"));
}

#[test]
fn solver_and_lines_agree() {
    agree(0..24, 100_000);
}

/// `cargo test --release -p weir-hw --test all 200_mixes -- --ignored --nocapture`
#[test]
#[ignore = "a minute"]
fn solver_and_lines_agree_in_200_mixes() {
    agree(0..200, 600_000);
}

#[test]
fn one_seed_gives_one_answer() {
    let (a, b, c) = (
        compared(3, 20_000),
        compared(3, 20_000),
        compared(4, 20_000),
    );
    assert_eq!(a.simulated, b.simulated);
    assert_ne!(a.simulated, c.simulated);
}
