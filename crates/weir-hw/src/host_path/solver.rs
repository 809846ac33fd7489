// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The steady state, by equations.
//!
//! A pool has one unknown, the wait w of all that it admits; a memory has one, the wait q of all at its
//! server. For a flow of n slots with W buffers, rate x:
//!
//! ```text
//! held    x·(path + w + residence + q) ≤ n·W        posted  x·(path + w) ≤ n·W
//! w ≥ 0, Σ x·(residence + q) ≤ T, one of them with =   q ≥ 0, Σ x·work ≤ 1, one of them with =
//! ```
//!
//! Both sums fall as their unknown rises, so each is found by bisection: q inside of w. Where posted lines
//! alone are more than a memory can do, no q helps: w rises until they are not, and their queue is what then
//! fills the pool.

use crate::host_path::flow::{Flow, Leg, PathNetwork};
use crate::host_path::op::Keeping;
use crate::host_path::outcome::{FlowOutcome, MemoryOutcome, PathOutcome, PoolOutcome};

/// Halvings of an interval: more than a double has bits.
const HALVINGS: u32 = 100;
/// Rounds over unknowns that depend on each other, at most.
const ROUNDS: u32 = 60;
/// Change of an unknown, relative, that ends the rounds.
const STILL: f64 = 1e-10;
/// Width of an interval, relative, that is narrow enough.
const NARROW: f64 = 1e-14;
/// Change of a wait at a server, relative, that is no rounding.
const JUMP: f64 = 1e-6;
/// Longer than any wait at a server, nanoseconds.
const QUEUE_MAX_NS: f64 = 1e12;
/// Longer than any wait for a tracker, nanoseconds.
const WAIT_MAX_NS: f64 = 1e13;

#[derive(Clone)]
struct Waits {
    pool_ns: Vec<f64>,
    /// Mean wait at the server of each memory, in nanoseconds; infinite where posted lines alone are more
    /// than it serves.
    queue_ns: Vec<f64>,
}

/// Waits at all pools and servers at which the network is in balance.
///
/// A pool's wait is the least at which its lines fit into it, and what fits depends on the waits of the other
/// pools; so each pool is solved by itself, in rounds, until nothing moves. With one pool one round is exact.
#[must_use]
pub fn solve(network: &PathNetwork) -> PathOutcome {
    let mut waits = Waits {
        pool_ns: vec![0.0; network.pools.len()],
        queue_ns: vec![0.0; network.memories.len()],
    };
    let rounds = if network.pools.len() > 1 { ROUNDS } else { 1 };
    for _ in 0..rounds {
        let before = waits.pool_ns.clone();
        for pool in 0..network.pools.len() {
            pool_wait(network, &mut waits, pool);
        }
        if is_still(&before, &waits.pool_ns) {
            break;
        }
    }
    outcome(network, &waits)
}

fn is_still(before: &[f64], after: &[f64]) -> bool {
    let mut pairs = before.iter().zip(after);
    pairs.all(|(a, b)| a == b || (a - b).abs() <= STILL * (a.abs() + b.abs()))
}

/// Sets a pool's wait to the least at which its lines fit into it, by halving.
///
/// At the wait that is found a server's queue may end at once: below it the queue is long, above it there is
/// none, and neither fills the pool. Then it is that queue which fills it, and [`fill`] gives it what is
/// left. The solver gave 0 for such a queue at first.
fn pool_wait(network: &PathNetwork, waits: &mut Waits, pool: usize) {
    let entries = f64::from(network.pools[pool].count);
    let is_too_full = |waits: &mut Waits, wait_ns: f64| {
        waits.pool_ns[pool] = wait_ns;
        queues(network, waits);
        occupancy(network, waits, pool) > entries
    };
    if !is_too_full(waits, 0.0) {
        return;
    }
    let (mut low, mut high) = (0.0, 1.0);
    while high < WAIT_MAX_NS && is_too_full(waits, high) {
        (low, high) = (high, high * 2.0);
    }
    for _ in 0..HALVINGS {
        let middle = 0.5 * (low + high);
        if is_too_full(waits, middle) {
            low = middle;
        } else {
            high = middle;
        }
        if high - low <= high * NARROW {
            break;
        }
    }
    // Where a wait at a server ends at once, between two waits that are next to each other, it is what fills
    // the pool there.
    is_too_full(waits, low);
    let before = waits.queue_ns.clone();
    is_too_full(waits, high);
    let ended = before.iter().zip(&waits.queue_ns);
    let ended = ended.map(|(before, after)| *before > after * (1.0 + JUMP) + JUMP);
    let ended: Vec<bool> = ended.collect();
    fill(network, waits, pool, &ended);
}

/// Gives what is left of the pool to the queues of some memories.
fn fill(network: &PathNetwork, waits: &mut Waits, pool: usize, is_filled: &[bool]) {
    let rest = f64::from(network.pools[pool].count) - occupancy(network, waits, pool);
    let legs = network.flows.iter().flat_map(|flow| {
        let rate = rate(network, waits, flow);
        flow.legs.iter().map(move |leg| (rate, leg))
    });
    let mine = legs.filter(|(_, leg)| leg.pool == pool && is_filled[leg.memory]);
    let lines: f64 = mine.map(|(rate, leg)| rate * leg.memory_part).sum();
    if rest > 0.0 && lines > 0.0 {
        for (queue_ns, _) in waits
            .queue_ns
            .iter_mut()
            .zip(is_filled)
            .filter(|(_, is)| **is)
        {
            *queue_ns += rest / lines;
        }
    }
}

/// Sets the waits at all servers for the waits of the pools.
fn queues(network: &PathNetwork, waits: &mut Waits) {
    waits.queue_ns.fill(0.0);
    for _ in 0..ROUNDS {
        let before = waits.queue_ns.clone();
        for memory in 0..network.memories.len() {
            queue(network, waits, memory);
        }
        if is_still(&before, &waits.queue_ns) {
            return;
        }
    }
}

/// Sets a server's wait to the least at which it can do its lines.
fn queue(network: &PathNetwork, waits: &mut Waits, memory: usize) {
    let is_too_busy = |waits: &mut Waits, queue_ns: f64| {
        waits.queue_ns[memory] = queue_ns;
        work(network, waits, memory) > 1.0
    };
    if !is_too_busy(waits, 0.0) {
        return;
    }
    if is_too_busy(waits, QUEUE_MAX_NS) {
        waits.queue_ns[memory] = f64::INFINITY;
        return;
    }
    let (mut low, mut high) = (0.0, 1.0);
    while is_too_busy(waits, high) {
        (low, high) = (high, high * 2.0);
    }
    for _ in 0..HALVINGS {
        let middle = 0.5 * (low + high);
        if is_too_busy(waits, middle) {
            low = middle;
        } else {
            high = middle;
        }
        if high - low <= high * NARROW {
            break;
        }
    }
    waits.queue_ns[memory] = high;
}

/// How long a leg has its tracker.
fn residence_ns(network: &PathNetwork, waits: &Waits, leg: &Leg) -> f64 {
    let memory = network.memories[leg.memory].residence_ns + waits.queue_ns[leg.memory];
    match leg.memory_part {
        0.0 => network.lookup_ns,
        part => part * memory + (1.0 - part) * network.lookup_ns,
    }
}

/// How long a leg has its buffer.
fn hold_ns(network: &PathNetwork, waits: &Waits, leg: &Leg) -> f64 {
    let admitted = leg.path_ns + waits.pool_ns[leg.pool];
    match leg.keeping {
        Keeping::Held => admitted + residence_ns(network, waits, leg),
        Keeping::Posted => admitted,
    }
}

/// Lines per nanosecond of a flow: the least that any of its limits allows. Little's law gives each of them:
/// buffers, or credits, ÷ the time for which a line has one.
fn rate(network: &PathNetwork, waits: &Waits, flow: &Flow) -> f64 {
    let slots = f64::from(flow.slots);
    let mut least = flow.most_per_ns;
    for (number, leg) in flow.legs.iter().enumerate() {
        let hold = hold_ns(network, waits, leg);
        let buffers = f64::from(leg.buffers);
        let own = match number {
            0 if flow.is_serial => slots / (flow.own_ns + hold / buffers),
            0 => (slots * buffers / hold).min(slots / flow.own_ns),
            _ => slots * buffers / hold,
        };
        let credits = leg.credits.map_or(f64::INFINITY, f64::from) / hold;
        least = least.min(own).min(credits);
    }
    least
}

/// Part of the time that a memory's server works.
fn work(network: &PathNetwork, waits: &Waits, memory: usize) -> f64 {
    let mut sum = 0.0;
    for flow in &network.flows {
        let legs = flow.legs.iter().filter(|leg| leg.memory == memory);
        let work: f64 = legs.map(|leg| leg.work_ns * leg.memory_part).sum();
        if work > 0.0 {
            sum += rate(network, waits, flow) * work;
        }
    }
    sum
}

/// Entries of a pool in use. Infinite where posted lines alone are too many for a memory behind it.
fn occupancy(network: &PathNetwork, waits: &Waits, pool: usize) -> f64 {
    let mut sum = 0.0;
    for flow in &network.flows {
        let rate = rate(network, waits, flow);
        for leg in flow.legs.iter().filter(|leg| leg.pool == pool) {
            // A flow that waits for ever sends nothing.
            if rate > 0.0 {
                sum += rate * residence_ns(network, waits, leg);
            }
        }
    }
    sum
}

fn outcome(network: &PathNetwork, waits: &Waits) -> PathOutcome {
    let flows = network.flows.iter().map(|flow| {
        let leg = &flow.legs[0];
        FlowOutcome {
            lines_per_ns: rate(network, waits, flow),
            wait_ns: waits.pool_ns[leg.pool],
            residence_ns: residence_ns(network, waits, leg),
        }
    });
    let pools = (0..network.pools.len()).map(|pool| {
        let legs = |flow: &Flow| flow.legs.iter().filter(|leg| leg.pool == pool).count();
        let rates = network
            .flows
            .iter()
            .map(|flow| legs(flow) as f64 * rate(network, waits, flow));
        PoolOutcome {
            wait_ns: waits.pool_ns[pool],
            occupancy: occupancy(network, waits, pool),
            lines_per_ns: rates.sum(),
        }
    });
    let memories = network.memories.iter().enumerate();
    let memories = memories.map(|(number, memory)| MemoryOutcome {
        residence_ns: memory.residence_ns + waits.queue_ns[number],
        utilisation: work(network, waits, number),
    });
    PathOutcome {
        flows: flows.collect(),
        pools: pools.collect(),
        memories: memories.collect(),
    }
}
