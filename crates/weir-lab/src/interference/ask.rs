// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Asks the model for a mix under levers, and puts the parts of the time together.

use super::cli::FormName;
use anyhow::Result;
use weir_hw::host_path::{
    EventPlan, HostMachine, HostStream, Lever, LeverPhase, PathNetwork, PathOutcome, compile,
    simulate, solve,
};
use weir_report::interference::document::{StreamFigures, WaitCounters};

/// Lines that one mix is simulated for, line by line.
const EVENT_LINES: u64 = 150_000;
const LINE_BYTES: f64 = 64.0;
const NS: f64 = 1e9;

/// What computes, of which machine.
#[derive(Clone, Debug)]
pub struct PathModel {
    pub machine: HostMachine,
    pub form: FormName,
    /// Seed of the lines one by one.
    pub seed: u64,
}

/// A mix and what came out, as the mean over the time.
#[derive(Clone, Debug)]
pub struct MixAnswer {
    pub streams: Vec<StreamAnswer>,
    /// Mean residence of all lines with a tracker: occupancy ÷ inserts, nanoseconds.
    pub mean_residence_ns: f64,
    /// Lines that get a tracker.
    pub inserts_per_ns: f64,
}

#[derive(Clone, Copy, Debug, Default)]
pub struct StreamAnswer {
    /// Figures as documents have them.
    pub figures: StreamFigures,
    /// Where its requests waited.
    pub counters: WaitCounters,
}

impl StreamAnswer {
    pub fn bytes_per_sec(&self) -> f64 {
        self.figures.bytes_per_sec.unwrap_or(0.0)
    }
}

impl PathModel {
    /// A mix without levers.
    ///
    /// # Errors
    /// The streams do not fit the machine.
    pub fn plain(&self, streams: &[HostStream]) -> Result<MixAnswer> {
        self.levered(streams, streams.len(), &[])
    }

    /// A mix whose streams from `background` on are under levers.
    ///
    /// # Errors
    /// The streams do not fit the machine.
    pub fn levered(
        &self,
        streams: &[HostStream],
        background: usize,
        levers: &[Lever],
    ) -> Result<MixAnswer> {
        let phases = Lever::apply(levers, &self.machine, streams, background)?;
        let mut answers = Vec::with_capacity(phases.len());
        for phase in phases.iter().filter(|phase| !phase.streams.is_empty()) {
            let network = compile(&phase.machine, &phase.streams)?;
            let outcome = self.compute(&network);
            answers.push((phase.part, answer(phase, &network, &outcome)));
        }
        Ok(mean(&answers, streams.len()))
    }

    fn compute(&self, network: &PathNetwork) -> PathOutcome {
        match self.form {
            FormName::Solver => solve(network),
            FormName::Events => simulate(
                network,
                EventPlan {
                    lines: EVENT_LINES,
                    seed: self.seed,
                },
            ),
        }
    }
}

/// What one part of the time gives.
fn answer(phase: &LeverPhase, network: &PathNetwork, outcome: &PathOutcome) -> MixAnswer {
    let streams = phase.streams.iter().enumerate();
    let streams = streams.map(|(number, stream)| {
        let is_storage = stream.op.is_storage();
        if is_storage {
            storage(phase, stream, outcome, number)
        } else {
            memory(phase, stream, network, outcome, number)
        }
    });
    MixAnswer {
        streams: streams.collect(),
        mean_residence_ns: outcome.mean_residence_ns(),
        inserts_per_ns: outcome.inserts_per_ns(),
    }
}

fn counters(phase: &LeverPhase, outcome: &PathOutcome, wait_ns: f64) -> WaitCounters {
    let residence = |target: &str| {
        let number = phase.machine.memory_index(target)?;
        Some(outcome.memories[number].residence_ns)
    };
    WaitCounters {
        admission_wait_ns: Some(wait_ns),
        tracker_residence_ddr_ns: residence("mmem"),
        tracker_residence_cxl_ns: residence("cxl"),
        l2_miss_latency_ns: None,
        l3_miss_latency_ns: None,
    }
}

fn memory(
    phase: &LeverPhase,
    stream: &HostStream,
    network: &PathNetwork,
    outcome: &PathOutcome,
    number: usize,
) -> StreamAnswer {
    let flow = outcome.flows[number];
    let bytes = flow.lines_per_ns * NS * LINE_BYTES * stream.op.lines_moved();
    let mut counters = counters(phase, outcome, flow.wait_ns);
    let memory = network.flows[number].legs[0].memory;
    let residence = outcome.memories[memory].residence_ns;
    let latency = phase.machine.cores.path_ns + flow.wait_ns + residence;
    let waits_for_data = network.flows[number].legs[0].keeping == weir_hw::host_path::Keeping::Held;
    if waits_for_data {
        counters.l2_miss_latency_ns = Some(latency);
        counters.l3_miss_latency_ns = Some(residence);
    }
    StreamAnswer {
        figures: StreamFigures {
            bytes_per_sec: Some(bytes),
            latency_ns: Some(latency),
            ..StreamFigures::default()
        },
        counters,
    }
}

fn storage(
    phase: &LeverPhase,
    stream: &HostStream,
    outcome: &PathOutcome,
    number: usize,
) -> StreamAnswer {
    let flow = outcome.flows[number];
    let mut counters = counters(phase, outcome, flow.wait_ns);
    let (Some(ssd), Some(residence)) = (&phase.machine.ssd, counters.tracker_residence_ddr_ns)
    else {
        return StreamAnswer::default();
    };
    let bytes = flow.lines_per_ns * NS * LINE_BYTES;
    let ops = bytes / ssd.block_bytes as f64;
    let is_direct = phase.machine.is_direct(stream);
    let slower = stream.ghz.map_or(1.0, |ghz| phase.machine.cores.ghz / ghz);
    let admitted = phase.machine.cores.path_ns + flow.wait_ns + residence;
    let lines = ssd.block_bytes as f64 / LINE_BYTES;
    let copy_ns = if is_direct {
        0.0
    } else {
        lines * admitted / f64::from(ssd.copy_lines)
    };
    if !is_direct {
        counters.l2_miss_latency_ns = Some(admitted);
        counters.l3_miss_latency_ns = Some(residence);
    }
    let in_flight = stream.threads * if is_direct { ssd.depth } else { 1 };
    StreamAnswer {
        figures: StreamFigures {
            bytes_per_sec: Some(bytes),
            latency_ns: Some(f64::from(in_flight) / ops * NS),
            ops_per_sec: Some(ops),
            cpu_ns_per_op: Some(ssd.cpu_ns * slower + copy_ns),
            latency_p99_ns: None,
        },
        counters,
    }
}

/// Rates are means over the time; waits are means over a stream's requests.
fn mean(answers: &[(f64, MixAnswer)], count: usize) -> MixAnswer {
    let stream = |number: usize| {
        let parts: Vec<(f64, &StreamAnswer)> = answers
            .iter()
            .filter_map(|(part, one)| Some((*part, one.streams.get(number)?)))
            .collect();
        of_parts(&parts)
    };
    let time = |pick: &dyn Fn(&MixAnswer) -> f64| answers.iter().map(|(p, a)| p * pick(a)).sum();
    MixAnswer {
        streams: (0..count).map(stream).collect(),
        mean_residence_ns: time(&|one| one.mean_residence_ns),
        inserts_per_ns: time(&|one| one.inserts_per_ns),
    }
}

fn of_parts(parts: &[(f64, &StreamAnswer)]) -> StreamAnswer {
    let rate = |pick: &dyn Fn(&StreamAnswer) -> Option<f64>| {
        let all: Option<Vec<f64>> = parts.iter().map(|(p, one)| Some(p * pick(one)?)).collect();
        all.filter(|all| !all.is_empty())
            .map(|all| all.iter().sum::<f64>())
    };
    let bytes: f64 = parts.iter().map(|(p, one)| p * one.bytes_per_sec()).sum();
    let wait = |pick: &dyn Fn(&StreamAnswer) -> Option<f64>| {
        let all: Option<Vec<f64>> = parts
            .iter()
            .map(|(p, one)| Some(p * one.bytes_per_sec() * pick(one)?))
            .collect();
        let all = all.filter(|all| !all.is_empty() && bytes > 0.0)?;
        Some(all.iter().sum::<f64>() / bytes)
    };
    StreamAnswer {
        figures: StreamFigures {
            bytes_per_sec: rate(&|one| one.figures.bytes_per_sec),
            latency_ns: wait(&|one| one.figures.latency_ns),
            ops_per_sec: rate(&|one| one.figures.ops_per_sec),
            cpu_ns_per_op: wait(&|one| one.figures.cpu_ns_per_op),
            latency_p99_ns: None,
        },
        counters: WaitCounters {
            admission_wait_ns: wait(&|one| one.counters.admission_wait_ns),
            tracker_residence_ddr_ns: wait(&|one| one.counters.tracker_residence_ddr_ns),
            tracker_residence_cxl_ns: wait(&|one| one.counters.tracker_residence_cxl_ns),
            l2_miss_latency_ns: wait(&|one| one.counters.l2_miss_latency_ns),
            l3_miss_latency_ns: wait(&|one| one.counters.l3_miss_latency_ns),
        },
    }
}
