// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Machines on which one thing is wrong, in three strengths.

use crate::machine::{AccessKind, Machine, Pattern, Workload, Workloads};
use crate::random::build::{self, Draw, area, mix, program};
use crate::random::finished;
use crate::scenario::{CauseLabel, Scenario};
use serde::{Deserialize, Serialize};
use weir_description::DescriptionError;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cause {
    /// Neighbours use up the device.
    DeviceSaturated,
    /// Reads of neighbours fill the link's direction from the device.
    LinkReads,
    /// Writes of neighbours fill the link's direction to the device.
    LinkWrites,
    /// The link sends messages again.
    LinkErrors,
    /// The device is slower than its profile.
    DeviceSlow,
    /// CXL writes of neighbours hold the TOR, and DRAM requests wait behind them.
    TorHeld,
    /// Neighbours use up the DRAM channels.
    DramContended,
    /// A neighbour's stream puts the victim's lines out of the last-level cache.
    LlcDisplaced,
    /// Long CXL reads hold the fill buffers that the same program's DRAM reads need.
    FillBuffersHeld,
    /// Stores to CXL memory fill the store buffer.
    StoreBound,
    PrefetchLate,
    /// Prefetches bring lines that nothing uses.
    PrefetchUseless,
    /// Memory of the other socket.
    RemoteSocket,
    /// Chains of loads on an idle device.
    Chains,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Strength {
    /// It can be seen.
    Weak,
    /// It hurts.
    Medium,
    /// It dominates.
    Strong,
}

impl Strength {
    pub const ALL: &'static [Strength] = &[Strength::Weak, Strength::Medium, Strength::Strong];

    fn of<T>(self, values: [T; 3]) -> T {
        let [weak, medium, strong] = values;
        match self {
            Strength::Weak => weak,
            Strength::Medium => medium,
            Strength::Strong => strong,
        }
    }
}

/// A machine with two causes at once, drawn by the seed. What the second is named for is the workload
/// `victim-2`.
///
/// # Errors
/// Never for the machines that are built in.
pub fn two_causes_scenario(strength: Strength, seed: u64) -> Result<Scenario, DescriptionError> {
    let mut draw = Draw::new(seed ^ 0x2CA5 ^ (strength as u64) << 48);
    let all = || Cause::ALL.iter().copied();
    let pairs: Vec<(Cause, Cause)> = all()
        .flat_map(|first| all().map(move |second| (first, second)))
        .filter(|(first, second)| first.goes_with(*second))
        .collect();
    let (first, second) = pairs[draw.integer(0, pairs.len() as u32 - 1) as usize];
    let machine = build::machine(&mut draw)?;
    let mut sketch = Sketch::new(machine, &mut draw);
    sketch.apply(first, strength, &mut draw);
    let other = reader(0.0, Pattern::Random, &mut draw);
    let victim = std::mem::replace(&mut sketch.victim, other);
    let culprits = sketch.culprits();
    // Neighbours have all other CPUs.
    let cpu = if culprits.is_empty() {
        1
    } else {
        sketch.machine.cores.count
    };
    sketch.machine.cores.count = sketch.machine.cores.count.max(cpu + 1);
    sketch.apply(second, strength, &mut draw);
    sketch.victim.name = "victim-2".to_owned();
    sketch.victim.cpus = vec![cpu as u16];
    let mut workload = vec![victim, sketch.victim];
    workload.extend(sketch.neighbours);
    let name = format!("{}-and-{}", first.name(), second.name());
    let mut scenario = finished(&name, seed, sketch.machine, Workloads { workload })?;
    let label = |cause: Cause, victim: &str, culprits| CauseLabel {
        kind: cause.name().to_owned(),
        victim: victim.to_owned(),
        culprits,
        from_window: 0,
    };
    scenario.causes = vec![
        label(first, "victim", culprits),
        label(second, "victim-2", Vec::new()),
    ];
    Ok(scenario)
}

/// Machine, victim and neighbours while they are put together.
struct Sketch {
    machine: Machine,
    victim: Workload,
    neighbours: Vec<Workload>,
}

impl Cause {
    pub const ALL: &'static [Cause] = &[
        Cause::DeviceSaturated,
        Cause::LinkReads,
        Cause::LinkWrites,
        Cause::LinkErrors,
        Cause::DeviceSlow,
        Cause::TorHeld,
        Cause::DramContended,
        Cause::LlcDisplaced,
        Cause::FillBuffersHeld,
        Cause::StoreBound,
        Cause::PrefetchLate,
        Cause::PrefetchUseless,
        Cause::RemoteSocket,
        Cause::Chains,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Cause::DeviceSaturated => "device-saturated",
            Cause::LinkReads => "link-reads",
            Cause::LinkWrites => "link-writes",
            Cause::LinkErrors => "link-errors",
            Cause::DeviceSlow => "device-slow",
            Cause::TorHeld => "tor-held",
            Cause::DramContended => "dram-contended",
            Cause::LlcDisplaced => "llc-displaced",
            Cause::FillBuffersHeld => "fill-buffers-held",
            Cause::StoreBound => "store-bound",
            Cause::PrefetchLate => "prefetch-late",
            Cause::PrefetchUseless => "prefetch-useless",
            Cause::RemoteSocket => "remote-socket",
            Cause::Chains => "chains",
        }
    }

    /// A machine with this cause and strength. The victim is the workload `victim`; neighbours are
    /// `neighbour-N`.
    ///
    /// # Errors
    /// Never for the machines that are built in.
    pub fn scenario(self, strength: Strength, seed: u64) -> Result<Scenario, DescriptionError> {
        let mut draw = Draw::new(seed ^ (self as u64) << 32 ^ (strength as u64) << 48);
        let machine = build::machine(&mut draw)?;
        let mut sketch = Sketch::new(machine, &mut draw);
        sketch.apply(self, strength, &mut draw);
        let culprits = sketch.culprits();
        let mut workload = vec![sketch.victim];
        workload.extend(sketch.neighbours);
        let mut scenario = finished(self.name(), seed, sketch.machine, Workloads { workload })?;
        scenario.causes.push(CauseLabel {
            kind: self.name().to_owned(),
            victim: "victim".to_owned(),
            culprits,
            from_window: 0,
        });
        Ok(scenario)
    }

    /// Whether both can be so at once on one machine, the second without neighbours: what is defined on an
    /// idle device or a sound link is nothing on one that is slow or full.
    fn goes_with(self, second: Cause) -> bool {
        use Cause::{
            Chains, DeviceSaturated, DeviceSlow, FillBuffersHeld, LinkErrors, LinkReads,
            LinkWrites, PrefetchLate, PrefetchUseless, StoreBound, TorHeld,
        };
        let is_slowed = matches!(
            self,
            DeviceSaturated | DeviceSlow | LinkErrors | LinkReads | LinkWrites
        );
        let needs_idle = |cause| matches!(cause, Chains | FillBuffersHeld | StoreBound);
        let is_prefetch = |cause| matches!(cause, PrefetchLate | PrefetchUseless);
        let is_of_device = matches!(second, DeviceSlow | LinkErrors);
        let is_contradiction = (needs_idle(second) && is_slowed)
            || (is_of_device && (is_slowed || needs_idle(self) || self == TorHeld))
            || (is_prefetch(self) && is_prefetch(second));
        self != second && !second.is_by_neighbours() && !is_contradiction
    }

    fn is_by_neighbours(self) -> bool {
        matches!(
            self,
            Cause::DeviceSaturated
                | Cause::LinkReads
                | Cause::LinkWrites
                | Cause::TorHeld
                | Cause::DramContended
                | Cause::LlcDisplaced
        )
    }
}

/// A victim on CPU 0 that reads 32 MiB and needs every other result.
fn reader(cxl_part: f64, pattern: Pattern, draw: &mut Draw) -> Workload {
    let mut only = mix("data", pattern, AccessKind::Load);
    only.chains = 1;
    only.dependence = draw.between(0.3, 0.8);
    only.gap = draw.integer(5, 40);
    program(
        "victim",
        &[0],
        vec![area("data", 32_768.0, cxl_part)],
        vec![only],
    )
}

impl Sketch {
    fn new(machine: Machine, draw: &mut Draw) -> Sketch {
        Sketch {
            machine,
            victim: reader(0.0, Pattern::Random, draw),
            neighbours: Vec::new(),
        }
    }

    fn apply(&mut self, cause: Cause, strength: Strength, draw: &mut Draw) {
        if cause.is_by_neighbours() {
            self.add_neighbours(cause, strength, draw)
        } else {
            self.burden(cause, strength, draw)
        }
    }

    fn culprits(&self) -> Vec<String> {
        self.neighbours.iter().map(|one| one.name.clone()).collect()
    }

    /// Neighbours on all other cores that do one thing, together so many bytes a second.
    fn neighbours(&mut self, cxl_part: f64, kind: AccessKind, bytes_per_sec: f64) {
        let count = self.machine.cores.count - 1;
        for n in 1..=count {
            let mut stream = mix("data", Pattern::Stream, kind);
            stream.per_line = 8;
            let data = area("data", 65_536.0, cxl_part);
            let name = format!("neighbour-{n}");
            let mut workload = program(&name, &[n as u16], vec![data], vec![stream]);
            workload.phase[0].mb_per_sec = Some(bytes_per_sec / 1e6 / f64::from(count));
            self.neighbours.push(workload);
        }
    }

    fn add_neighbours(&mut self, cause: Cause, strength: Strength, draw: &mut Draw) {
        // So many that together they can ask for more than there is.
        self.machine.cores.count = 8;
        let device = &mut self.machine.device[0];
        match cause {
            Cause::DeviceSaturated => {
                let media = draw.between(9e9, 14e9);
                device.media_bytes_per_sec = Some(media);
                device.burst_ns = Some(draw.between(10.0, 40.0));
                self.victim.area[0].cxl_part = draw.between(0.7, 1.0);
                let load = strength.of([0.5, 0.85, 2.0]);
                self.neighbours(1.0, AccessKind::Load, load * media);
            }
            Cause::LinkReads | Cause::LinkWrites => {
                device.media_bytes_per_sec = Some(60e9);
                device.burst_ns = Some(5.0);
                device.link_bytes_per_sec = draw.between(14e9, 18e9);
                let lines = device.link_bytes_per_sec / f64::from(device.data_bytes);
                self.victim.area[0].cxl_part = draw.between(0.7, 1.0);
                let is_read = cause == Cause::LinkReads;
                let kind = if is_read {
                    AccessKind::Load
                } else {
                    AccessKind::NtStore
                };
                let load = strength.of([0.6, 0.9, 2.0]);
                self.neighbours(1.0, kind, load * lines * 64.0);
            }
            Cause::TorHeld => {
                self.machine.cha.tor_entries = 12;
                self.machine.cha.count = 4;
                // What the entries of all tables can carry to a device that takes so long.
                let idle_ns = device.idle_ns.unwrap_or(build::DEVICE_IDLE_NS);
                let most = 4.0 * 12.0 * 64e9 / idle_ns;
                let load = strength.of([0.4, 0.8, 2.0]);
                self.neighbours(1.0, AccessKind::NtStore, load * most);
            }
            Cause::DramContended => {
                let load = strength.of([0.85, 1.0, 1.5]);
                let bytes_per_sec = load * self.machine.dram.bytes_per_sec;
                self.neighbours(0.0, AccessKind::Load, bytes_per_sec);
            }
            _ => {
                // The last-level cache is small, so that a run of a fraction of a millisecond displaces it.
                self.machine.cha.llc_kib = 48;
                self.machine.cha.llc_ways = 12;
                self.machine.l2.kib = 32;
                self.machine.l1d.kib = 12;
                let llc_kib = f64::from(self.machine.cha.count * self.machine.cha.llc_kib);
                self.victim.area[0].kib = llc_kib * draw.between(0.5, 0.7);
                self.victim.phase[0].mix[0].dependence = 1.0;
                let load = strength.of([0.1, 0.3, 0.9]);
                self.neighbours(1.0, AccessKind::Load, load * build::DEVICE_BYTES_PER_SEC);
            }
        }
    }

    /// What is wrong with the machine or with the victim itself.
    fn burden(&mut self, cause: Cause, strength: Strength, draw: &mut Draw) {
        let device = &mut self.machine.device[0];
        let data = &mut self.victim.area[0];
        let only = &mut self.victim.phase[0].mix[0];
        data.cxl_part = 1.0;
        match cause {
            Cause::LinkErrors => {
                device.resend_part = strength.of([0.05, 0.15, 0.4]);
                device.resend_ns = draw.between(400.0, 800.0);
            }
            Cause::DeviceSlow => device.slower_by_ns = strength.of([60.0, 150.0, 400.0]),
            Cause::FillBuffersHeld => {
                data.cxl_part = strength.of([0.2, 0.5, 0.8]);
                only.chains = 0;
                only.gap = 4;
            }
            Cause::StoreBound => {
                only.kind = AccessKind::Store;
                only.chains = 0;
                only.gap = strength.of([200, 60, 10]);
            }
            Cause::PrefetchLate => {
                self.machine.prefetch.distance_lines = strength.of([6, 3, 1]);
                only.pattern = Pattern::Stream;
                only.chains = 0;
                only.per_line = 8;
                only.gap = draw.integer(80, 150);
            }
            Cause::PrefetchUseless => {
                only.pattern = Pattern::Random;
                only.run_lines = 4;
                only.chains = 0;
                // Closer loads fill the super queue, and the core prefetches nothing.
                only.gap = strength.of([160, 80, 40]);
            }
            Cause::RemoteSocket => {
                data.cxl_part = 0.0;
                data.remote_part = strength.of([0.3, 0.6, 1.0]);
            }
            _ => {
                data.cxl_part = strength.of([0.3, 0.6, 1.0]);
                only.pattern = Pattern::Cycle;
                only.dependence = 1.0;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn two_causes_have_a_victim_each_on_a_cpu_of_its_own() {
        let mut kinds = BTreeSet::new();
        for seed in 0..200 {
            let scenario = two_causes_scenario(Strength::Medium, seed).unwrap();
            let all = &scenario.workloads.workload;
            let cpus: BTreeSet<u16> = all.iter().flat_map(|one| one.cpus.clone()).collect();
            assert_eq!(cpus.len(), all.len(), "{}", scenario.name);
            assert!(
                cpus.iter()
                    .all(|cpu| u32::from(*cpu) < scenario.machine.cores.count)
            );
            let [first, second] = &scenario.causes[..] else {
                panic!("{:?}", scenario.causes)
            };
            assert_ne!(first.kind, second.kind);
            assert_eq!(
                (first.victim.as_str(), second.victim.as_str()),
                ("victim", "victim-2")
            );
            kinds.extend([first.kind.clone(), second.kind.clone()]);
        }
        assert_eq!(kinds.len(), Cause::ALL.len(), "{kinds:?}");
    }
}
