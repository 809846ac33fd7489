// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Dominant-resource fairness: all resources and all workloads at once.
//!
//! A workload's *share* of a resource is what it uses ÷ what there is. Its *dominant share* is the
//! largest of them, and its *level* that share ÷ its weight. *Progressive filling* raises the level of
//! all alike. A workload that has what it wants stops, and so does one that needs a resource that is
//! full; the others go on:
//!
//! ```text
//! s_ij = use_ij ÷ r_j        d_i = max_j s_ij        level_i = d_i ÷ w_i
//! ```
//!
//! With one resource this is weighted max-min ([`super::max_min`]). With several, [`fill`] promises
//! four properties (Ghodsi et al., NSDI 2011; with weights and with needs of 0: Parkes, Procaccia and
//! Shah, 2015), and the tests check them:
//!
//! * *sharing incentive*: each gets at least what its part of every resource alone would give it;
//! * *strategy-proofness*: a false statement of needs or demand gains nothing;
//! * *envy-freeness*: no other's allocation, scaled to the own weight, would be better;
//! * *Pareto efficiency*: none can have more without another one losing.
//!
//! *Exact, by events in order of level.* Between two stops, what is used of a resource rises in
//! proportion to the level. So the next resource to be full is known without a search, and so is the
//! next workload to be satisfied once all are in the order of the level at which that happens. Each
//! workload stops once: O(n·m + n log n) time for n workloads and m resources, O(n·m) memory.

mod exact_sum;

use super::{MAX_RATE, harmless_weight};
use exact_sum::ExactSum;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ResourceKind {
    /// CPU time, of all CPUs together.
    Cpu,
    Dram,
    Cxl,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Resource {
    pub kind: ResourceKind,
    /// How much of it there is: CPUs, or bytes per second. Where it is not known, infinity: then the
    /// resource keeps no flow back and counts in no share. Of 0 and of what is no number there is nothing
    /// to divide, and a flow that needs it gets nothing.
    pub capacity: f64,
}

/// What one unit of a flow's progress takes of one resource, in units of its capacity.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Need {
    /// What the flow's own tasks need: CPU time, or bytes that they load and store.
    pub own: f64,
    /// What devices that read and write memory for the flow need. It counts like the rest, also while the
    /// flow sleeps.
    pub dma: f64,
}

impl Need {
    pub const fn own(own: f64) -> Need {
        Need { own, dma: 0.0 }
    }

    /// Both together; what makes no sense is 0.
    pub fn total(self) -> f64 {
        (harmless(self.own) + harmless(self.dma)).min(MAX_RATE)
    }
}

/// One that takes part. The unit of its progress is free: a CPU-second in a second, or all that it wants.
#[derive(Clone, Copy, Debug)]
pub struct Flow<'a> {
    /// Its weight against the others; 100 is normal.
    pub weight: f64,
    /// The progress that it wants; infinity for as much as it can get.
    pub demand: f64,
    /// One thread cannot take two CPUs: the flow takes at most this many. Infinity where it is not known.
    pub threads: f64,
    /// One entry for each resource; a resource without an entry is not needed.
    pub needs: &'a [Need],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// It has what it wants.
    Satisfied,
    Threads,
    /// This resource is full, by position.
    Full(usize),
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Level {
    /// Progress in the flow's own unit.
    pub progress: f64,
    /// Dominant share ÷ weight.
    pub level: f64,
    /// The resource of which it has the largest share, by position; nothing where it needs none of known
    /// capacity.
    pub dominant: Option<usize>,
    /// That share, 0 to 1.
    pub dominant_ratio: f64,
    pub stop: Stop,
}

/// What each flow gets, in the order of `flows`. Never more than its demand; together never more of a
/// resource than there is, but for rounding. Any input gives finite figures; only the progress of a flow
/// that wants no end of nothing is infinite.
pub fn fill(resources: &[Resource], flows: &[Flow<'_>]) -> Vec<Level> {
    let mut filling = Filling::begin(resources, flows);
    filling.run();
    filling.levels
}

fn harmless(amount: f64) -> f64 {
    if amount.is_nan() {
        return 0.0;
    }
    amount.clamp(0.0, MAX_RATE)
}

/// The state of a filling: capacities are 1, and a flow's use rises by its row of `parts` with the level.
struct Filling {
    columns: usize,
    /// Share of the resource for each unit of level, flow after flow, and within a flow resource after
    /// resource.
    parts: Vec<f64>,
    /// Progress for each unit of level, one entry for each flow.
    paces: Vec<f64>,
    /// One entry for each flow: its level and all else from when it stopped, and until then what it stops
    /// with at last.
    levels: Vec<Level>,
    rising: Vec<bool>,
    /// Flows that rise and want an end, by the level at which they have it.
    order: Vec<(f64, usize)>,
    resources: Vec<Column>,
}

#[derive(Clone, Copy, Default)]
struct Column {
    /// Part of it that stopped flows have.
    taken: ExactSum,
    /// What the rising ones take of it for each unit of level.
    pace: ExactSum,
    /// Rising flows that need it.
    users: usize,
}

impl Column {
    /// The level at which it is full, if nothing stops before. A pace that is lost in rounding fills
    /// nothing: of its dominant resource each flow takes a sound part.
    fn full_at(&self) -> Option<f64> {
        let pace = self.pace.get();
        (self.users > 0 && pace > 0.0).then(|| self.taken.left_of(1.0) / pace)
    }
}

impl Filling {
    fn begin(resources: &[Resource], flows: &[Flow<'_>]) -> Filling {
        let columns = resources.len();
        let mut filling = Filling {
            columns,
            parts: vec![0.0; columns * flows.len()],
            paces: Vec::with_capacity(flows.len()),
            levels: Vec::with_capacity(flows.len()),
            rising: vec![false; flows.len()],
            order: Vec::with_capacity(flows.len()),
            resources: vec![Column::default(); columns],
        };
        for (position, flow) in flows.iter().enumerate() {
            filling.enter(resources, flow, position);
        }
        filling
            .order
            .sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        filling
    }

    /// Takes one flow in. One that needs nothing, or something of which there is nothing, never rises.
    ///
    /// For each unit of level a flow gets its weight times need ÷ dominant need of a resource, so that at
    /// each level its dominant share ÷ weight is that level.
    fn enter(&mut self, resources: &[Resource], flow: &Flow<'_>, position: usize) {
        let weight = harmless_weight(flow.weight);
        let (demand, by_threads) = wants(resources, flow);
        let row = position * self.columns..(position + 1) * self.columns;
        let row = self.parts.get_mut(row).unwrap_or_default();
        let (mut dominant, mut largest) = (None, 0.0);
        let mut nothing_of = None;
        for (place, (part, (resource, need))) in row
            .iter_mut()
            .zip(resources.iter().zip(flow.needs))
            .enumerate()
        {
            let need = need.total();
            let share = match harmless_capacity(resource.capacity) {
                _ if need == 0.0 => continue,
                Some(capacity) => need / capacity,
                None => continue,
            };
            *part = share;
            if share > largest {
                (dominant, largest) = (Some(place), share);
            }
            if share == f64::INFINITY {
                nothing_of = nothing_of.or(Some(place));
            }
        }
        let stop = match (nothing_of, by_threads) {
            (Some(place), _) if demand > 0.0 => Stop::Full(place),
            (_, true) => Stop::Threads,
            (_, false) => Stop::Satisfied,
        };
        let is_idle = dominant.is_none() || demand == 0.0 || nothing_of.is_some();
        self.levels.push(Level {
            progress: if nothing_of.is_some() { 0.0 } else { demand },
            level: 0.0,
            dominant,
            dominant_ratio: 0.0,
            stop,
        });
        self.paces.push(weight / largest);
        if is_idle {
            return;
        }
        for (part, column) in row.iter_mut().zip(&mut self.resources) {
            *part = weight * (*part / largest);
            if *part > 0.0 {
                column.users += 1;
                column.pace.add(*part);
            }
        }
        if let Some(rising) = self.rising.get_mut(position) {
            *rising = true;
        }
        let satisfied_at = demand * largest / weight;
        if satisfied_at < f64::INFINITY {
            self.order.push((satisfied_at, position));
        }
    }

    fn run(&mut self) {
        let mut order = std::mem::take(&mut self.order).into_iter().peekable();
        let mut water = 0.0f64;
        loop {
            while order.next_if(|(_, flow)| !self.is_rising(*flow)).is_some() {}
            let columns = self.resources.iter().enumerate();
            let full = columns.filter_map(|(place, c)| Some((c.full_at()?, place)));
            let full = full.min_by(|a, b| a.0.total_cmp(&b.0));
            let satisfied = order.peek().copied();
            match (satisfied, full) {
                (Some((level, flow)), full) if full.is_none_or(|(at, _)| level <= at) => {
                    order.next();
                    water = water.max(level);
                    self.stop(flow, level, None);
                }
                (_, Some((level, place))) => {
                    water = water.max(level);
                    self.close(place, water);
                }
                (_, None) => break,
            }
        }
    }

    fn is_rising(&self, flow: usize) -> bool {
        self.rising.get(flow).copied().unwrap_or(false)
    }

    /// A resource is full: all that need it stop.
    fn close(&mut self, place: usize, level: f64) {
        for flow in 0..self.levels.len() {
            let part = self.parts.get(flow * self.columns + place);
            if self.is_rising(flow) && part.is_some_and(|part| *part > 0.0) {
                self.stop(flow, level, Some(place));
            }
        }
    }

    fn stop(&mut self, flow: usize, level: f64, full: Option<usize>) {
        let row = flow * self.columns..(flow + 1) * self.columns;
        let row = self.parts.get(row).unwrap_or_default();
        let (Some(found), Some(pace)) = (self.levels.get_mut(flow), self.paces.get(flow)) else {
            return;
        };
        if let Some(rising) = self.rising.get_mut(flow) {
            *rising = false;
        }
        found.level = level;
        let dominant = found.dominant.and_then(|place| row.get(place));
        found.dominant_ratio = dominant.map_or(0.0, |part| (part * level).min(1.0));
        if let Some(place) = full {
            found.stop = Stop::Full(place);
            // Rounding may lift it above its demand by the last bit.
            found.progress = (pace * level).min(found.progress);
        }
        for (part, column) in row.iter().zip(&mut self.resources) {
            if *part > 0.0 {
                column.users -= 1;
                column.pace.add(-part);
                column.taken.add(part * level);
            }
        }
    }
}

/// The progress that it wants, and whether its threads are what bounds it.
fn wants(resources: &[Resource], flow: &Flow<'_>) -> (f64, bool) {
    let demand = if flow.demand.is_nan() {
        0.0
    } else {
        flow.demand.max(0.0)
    };
    let each = resources.iter().zip(flow.needs);
    let cpu: f64 = each
        .filter(|(resource, _)| resource.kind == ResourceKind::Cpu)
        .map(|(_, need)| need.total())
        .sum();
    if cpu > 0.0 && flow.threads >= 0.0 && flow.threads / cpu < demand {
        return (flow.threads / cpu, true);
    }
    (demand, false)
}

/// Nothing where the capacity is not known. Of one that makes no sense there is nothing.
fn harmless_capacity(capacity: f64) -> Option<f64> {
    (capacity != f64::INFINITY).then(|| harmless(capacity))
}

#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;
