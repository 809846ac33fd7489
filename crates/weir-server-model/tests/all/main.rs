// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The synthetic server: what must be conserved, what it must be calibrated to, what its counters may do.
#![allow(clippy::unwrap_used)] // In helpers of tests, which clippy takes for code.

mod anchors;
mod conservation;
mod counters;
mod descriptions;
mod paper_cases;
mod scenarios;
mod what_if;

use weir_server_model::{Machine, Server, ServerWindow, Workloads};

/// Workloads of one program on some CPUs of a machine.
pub fn one(machine: &Machine, cpus: &str, area: &str, mix: &str) -> Workloads {
    let text = format!(
        "[[workload]]\nname = \"w\"\ncpus = {cpus}\n[[workload.area]]\nname = \"a\"\n{area}\n\
         [[workload.phase]]\n[[workload.phase.mix]]\narea = \"a\"\n{mix}\n"
    );
    Workloads::parse(&text, machine, "test").expect("workloads")
}

/// A window after a warm-up, nanoseconds.
pub fn window(
    machine: &Machine,
    workloads: &Workloads,
    warm_up_ns: f64,
    span_ns: f64,
) -> ServerWindow {
    let mut server = Server::new(machine, workloads, 1).expect("a server");
    server
        .count(&weir_server_model::CountingPlan::everything(machine))
        .expect("a plan");
    server.run(warm_up_ns);
    server.window(span_ns)
}

pub fn sum(window: &ServerWindow, unit: &str, event: &str) -> u64 {
    let counts = window.counts.counts.iter();
    let of = counts.filter(|c| c.unit.name() == unit && &*c.event == event);
    let values: Vec<u64> = of.map(|c| c.value).collect();
    assert!(!values.is_empty(), "no count of {unit}/{event}");
    values.iter().sum()
}
