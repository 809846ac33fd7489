// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Requests for lines that the synthetic server carries through in a second of CPU time, of machines drawn by
//! seed. Filling the last-level cache before a run is a row of its own.
//!
//! ```console
//! $ cargo bench -p weir-server-model --bench server
//! ```
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use std::time::Duration;
use weir_description::DescriptionError;
use weir_server_model::pmu::CountingPlan;
use weir_server_model::random::{busy_scenario, healthy_scenario, random_scenario};
use weir_server_model::{Scenario, Server};

const SEEDS: u64 = 8;
/// Simulated time of each machine; a tenth of it runs before, outside of any window.
const WINDOW_NS: f64 = 400_000.0;

fn cpu_time() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    Duration::from_nanos(text.split(' ').next().unwrap().parse().unwrap())
}

struct Cost {
    requests: u64,
    running: Duration,
    filling: Duration,
}

fn cost_of(scenario: &Scenario, seed: u64) -> Cost {
    let mut server = Server::new(&scenario.machine, &scenario.workloads, seed).unwrap();
    let plan = CountingPlan::everything(&scenario.machine);
    server.count(&plan).unwrap();
    let before = cpu_time();
    server.warm();
    let warm = cpu_time();
    server.run(WINDOW_NS / 10.0);
    server.window(WINDOW_NS);
    Cost {
        requests: server.requests().1,
        running: cpu_time() - warm,
        filling: warm - before,
    }
}

type Draw = fn(u64) -> Result<Scenario, DescriptionError>;

fn main() {
    let kinds: [(&str, Draw); 3] = [
        ("random", random_scenario),
        ("healthy", healthy_scenario),
        ("busy", busy_scenario),
    ];
    for (name, draw) in kinds {
        let costs = (1..=SEEDS).map(|seed| cost_of(&draw(seed).unwrap(), seed));
        let costs: Vec<Cost> = costs.collect();
        let requests: u64 = costs.iter().map(|cost| cost.requests).sum();
        let running: Duration = costs.iter().map(|cost| cost.running).sum();
        let filling: Duration = costs.iter().map(|cost| cost.filling).sum();
        println!(
            "{name:<8} {:.2} M requests a second of CPU time ({requests} in {:.2} s; filling caches {:.2} s)",
            requests as f64 / running.as_secs_f64() / 1e6,
            running.as_secs_f64(),
            filling.as_secs_f64(),
        );
    }
}
