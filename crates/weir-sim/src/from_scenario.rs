// SPDX-License-Identifier: Apache-2.0 OR MIT
//! From a scenario to a machine.

use crate::cpu::cpu_max::{DEFAULT_SLICE_NS, Quota};
use crate::cpu::select;
use crate::engine::accounting::Accounting;
use crate::engine::cpu_speed::SpeedChanges;
use crate::engine::event_queue::Event;
use crate::engine::machine::{At, Lock, Machine, Shape, Task, Workload};
use crate::engine::memory::cxl_rates::GroupRates;
use crate::engine::memory::dma::DmaDisk;
use crate::engine::memory::dram_mix::DramMix;
use crate::engine::memory::fluid::Fluid;
use crate::engine::memory::memory_model::{Class, LineAccess, MemoryModel};
use crate::engine::program::{Cursor, Phase, What, Work};
use crate::engine::rng::Rng;
use crate::run::SimError;
use weir_core::WorkloadId;
use weir_core::units::LINE_BYTES;
use weir_dram::DramProfile;
use weir_hw::memory_device::LoadedDevice;
use weir_scenario::simulated::{self as scenario, DeviceKind, GroupOrder, Kind, Role, Scenario};

/// Windows of the series.
pub(crate) const WINDOW_NS: u64 = 100_000_000;
/// Less traffic than this part of a block is none: the working set is in the cache.
const MISS_MIN: f64 = 1e-3;
const MIB: f64 = 1048576.0;

/// What a workload of the machine is in the scenario.
#[derive(Clone, Debug)]
pub(crate) struct Label {
    pub id: WorkloadId,
    pub name: String,
    pub role: Role,
    pub weight: f64,
    /// Its threads are real-time tasks.
    pub is_realtime: bool,
    /// The monitoring group its memory is in, and how much it has there.
    pub resident: Option<(u32, u64)>,
}

pub(crate) struct Built {
    pub machine: Machine,
    /// One for each of the machine's workloads.
    pub labels: Vec<Label>,
    /// Device and index there of each monitoring group.
    pub groups: Vec<(u32, u32)>,
    /// Task of the daemon that controls, if there is one.
    pub daemon: Option<u32>,
}

/// Builds the machine. `daemon` adds a process that works when it is given work.
pub(crate) fn build(
    scenario: &Scenario,
    seed: u64,
    daemon: Option<&str>,
) -> Result<Built, SimError> {
    let models: Vec<MemoryModel> = scenario
        .devices
        .iter()
        .map(model)
        .collect::<Result<_, _>>()?;
    let indices =
        |(d, device): (usize, &scenario::Device)| (0..device.groups).map(move |g| (d as u32, g));
    let groups: Vec<(u32, u32)> = scenario
        .devices
        .iter()
        .enumerate()
        .flat_map(indices)
        .collect();
    let mut maker = Maker {
        scenario,
        groups: &groups,
        classes: Vec::new(),
        lock_count: 0,
    };
    let mut plans = Vec::new();
    for w in &scenario.workloads {
        for _ in 0..w.count {
            let source = plans.len() as u32;
            let phases = w.phases.iter().map(|p| maker.phase(w, p, source));
            plans.push(phases.collect());
        }
    }
    let (classes, lock_count) = (maker.classes, maker.lock_count);
    let m = &scenario.machine;
    let mut fluid = Fluid::new(classes, models, m.smt_speed_ratio);
    fluid.spread_speed(m.speed_spread_ratio);
    let shape = Shape {
        threads_per_core: m.threads_per_core,
        tick_ns: 1_000_000_000 / u64::from(m.hz),
        slice_ns: m.slice_us * 1000,
        bandwidth_slice_ns: m.bandwidth_slice_us as i64 * 1000,
        window_ns: WINDOW_NS,
    };
    let cpu_count = scenario.cpu_count() as usize;
    let mut machine = Machine::new(shape, cpu_count, fluid, groups.len(), Rng::new(seed, 0));
    machine.locks = vec![Lock::default(); lock_count];
    machine.disks = vec![DmaDisk::default(); scenario.disks.len()];
    select::start_balancing(&mut machine);
    if m.speed_spread_ratio > 0.0 {
        machine.speed_changes = Some(SpeedChanges::new(m, seed));
        machine.queue.push(0, Event::Speed);
    }
    let mut labels = add_all(&mut machine, scenario, seed, &groups, &plans);
    let daemon = daemon.map(|name| add_daemon(&mut machine, seed, name, &mut labels));
    for (index, fault) in scenario.faults.iter().enumerate() {
        machine.faults.push((fault.device, fault.capacity_ratio));
        machine.queue.push(
            fault.at_ms * 1_000_000,
            Event::Fault {
                index: index as u32,
            },
        );
    }
    Ok(Built {
        machine,
        labels,
        groups,
        daemon,
    })
}

/// All workloads of the scenario, in its order.
fn add_all(
    machine: &mut Machine,
    scenario: &Scenario,
    seed: u64,
    groups: &[(u32, u32)],
    plans: &[Vec<Phase>],
) -> Vec<Label> {
    let mut labels = Vec::new();
    for w in &scenario.workloads {
        let found = groups.iter().position(|g| *g == (w.device, w.group));
        let group = found.unwrap_or(0) as u32;
        for i in 0..w.count {
            let name = match w.count {
                1 => w.name.clone(),
                _ => format!("{}-{}", w.name, i + 1),
            };
            labels.push(Label {
                id: WorkloadId::new(format!("/sim.slice/{name}.scope")),
                name,
                role: w.role,
                weight: w.weight,
                is_realtime: w.realtime,
                resident: (w.resident_mib > 0).then_some((group, w.resident_mib << 20)),
            });
            add(machine, seed, w, &plans[labels.len() - 1]);
        }
    }
    labels
}

fn model(device: &scenario::Device) -> Result<MemoryModel, SimError> {
    Ok(match device.kind {
        DeviceKind::Cxl => {
            let loaded = Box::new(LoadedDevice::new(&device.figures()?));
            match device.group_order {
                GroupOrder::Fcfs => MemoryModel::Cxl(loaded),
                GroupOrder::Rates => MemoryModel::CxlRates(Box::new(GroupRates::new(loaded))),
            }
        }
        DeviceKind::Dram => {
            let profile = DramProfile::named(&device.profile)?;
            MemoryModel::Dram(Box::new(DramMix::new(profile, &device.dram)))
        }
    })
}

struct Maker<'a> {
    scenario: &'a Scenario,
    groups: &'a [(u32, u32)],
    classes: Vec<Class>,
    lock_count: usize,
}

impl Maker<'_> {
    /// `source`: position of the workload in the machine.
    fn phase(
        &mut self,
        w: &scenario::WorkloadConfig,
        p: &scenario::PhaseConfig,
        source: u32,
    ) -> Phase {
        if let Some(lock) = p.lock {
            self.lock_count = self.lock_count.max(lock as usize + 1);
        }
        let what = match p.kind {
            Kind::Access => self.access(w, p, source),
            Kind::Dma => self.dma(w, p, source),
            Kind::Compute => What::Compute {
                chunk_ns: p.chunk_us.map_or(f64::INFINITY, |us| us * 1e3),
                lock: p.lock,
            },
            Kind::Sleep => What::Sleep {
                mean_ns: p.mean_us.unwrap_or(1000.0) * 1e3,
                random: p.random.unwrap_or(false),
            },
        };
        Phase {
            what,
            for_ns: p.for_ms.map(|ms| ms * 1_000_000),
            times: p.times.unwrap_or(u32::MAX),
        }
    }

    /// The device of a phase, its group over all devices, and what a DRAM node's controller knows as source.
    fn place(
        &self,
        w: &scenario::WorkloadConfig,
        p: &scenario::PhaseConfig,
        source: u32,
    ) -> (u32, u32, u32) {
        let device = p.device.unwrap_or(w.device);
        let group = if device == w.device { w.group } else { 0 };
        let found = self.groups.iter().position(|g| *g == (device, group));
        let figures = &self.scenario.devices[device as usize];
        let has_rates = figures.group_order == GroupOrder::Rates;
        let source = match figures.kind {
            DeviceKind::Cxl if !has_rates => 0,
            _ => source,
        };
        (device, found.unwrap_or(0) as u32, source)
    }

    /// Position of a class, which is added if it is new.
    fn class(&mut self, class: Class) -> u32 {
        let known = self.classes.iter().position(|c| *c == class);
        known.unwrap_or_else(|| {
            self.classes.push(class);
            self.classes.len() - 1
        }) as u32
    }

    fn dma(
        &mut self,
        w: &scenario::WorkloadConfig,
        p: &scenario::PhaseConfig,
        source: u32,
    ) -> What {
        let disk = p.disk.unwrap_or(0);
        let figures = &self.scenario.disks[disk as usize];
        let (device, group, source) = self.place(w, p, source);
        let class = self.class(Class {
            device,
            group,
            window_lines: f64::from(figures.lines_out),
            busy_ns: LINE_BYTES as f64 / figures.bytes_per_sec * 1e9,
            write_ratio: p.write_ratio.unwrap_or(1.0),
            is_non_temporal: true,
            source,
            access: LineAccess::Dma,
        });
        What::Dma {
            disk,
            class,
            lines: p.block_kib.unwrap_or(1024) as f64 * 1024.0 / LINE_BYTES as f64,
            think_ns: p.think_us.unwrap_or(0.0) * 1e3,
        }
    }

    fn access(
        &mut self,
        w: &scenario::WorkloadConfig,
        p: &scenario::PhaseConfig,
        source: u32,
    ) -> What {
        let bytes = p.block_kib.unwrap_or(4096) as f64 * 1024.0;
        let software_lines = bytes / LINE_BYTES as f64;
        let writes = p.write_ratio.unwrap_or(0.0);
        let is_non_temporal = p.non_temporal.unwrap_or(false);
        // A store that misses reads its line first, and the line is written back later.
        let per_line = if is_non_temporal { 1.0 } else { 1.0 + writes };
        let set = p.working_set_mib.unwrap_or(f64::INFINITY) * MIB;
        let miss = (1.0 - self.scenario.machine.llc_mib * MIB / set).clamp(0.0, 1.0);
        let every_ns = p.rate_bytes_per_sec.map(|rate| bytes / rate * 1e9);
        let busy_ns = software_lines * w.busy_ns_per_line;
        if miss < MISS_MIN {
            return What::Compute {
                chunk_ns: busy_ns,
                lock: p.lock,
            };
        }
        let lines = software_lines * per_line * miss;
        let (device, group, source) = self.place(w, p, source);
        let class = self.class(Class {
            device,
            group,
            window_lines: w.window_lines,
            busy_ns: busy_ns / lines,
            write_ratio: writes / per_line,
            is_non_temporal: is_non_temporal && writes > 0.0,
            source,
            access: match p.scattered {
                Some(true) => LineAccess::Random,
                _ => LineAccess::Sequential,
            },
        });
        What::Access {
            class,
            lines,
            every_ns,
            think_ns: p.think_us.unwrap_or(0.0) * 1e3,
            lock: p.lock,
        }
    }
}

fn task(workload: u32, weight: f64, last_cpu: u32) -> Task {
    Task {
        workload,
        at: At::Off,
        weight,
        is_realtime: false,
        vruntime: 0.0,
        deadline: 0.0,
        lag: 0.0,
        protected: 0.0,
        slept_at: 0,
        slice_ns: 0,
        exec_ns: 0,
        last_cpu,
        wants_since: 0,
        cursor: Cursor::default(),
        work: Work::Compute,
        remaining: 0.0,
        kind: 0,
        reference: 0.0,
        generation: 0,
        given: 0.0,
    }
}

/// One workload with its threads. Its random numbers depend on its position alone.
fn add(machine: &mut Machine, seed: u64, w: &scenario::WorkloadConfig, phases: &[Phase]) {
    let index = machine.workloads.len() as u32;
    let mut rng = Rng::new(seed, 1000 + u64::from(index));
    let first = machine.tasks.len() as u32;
    for task_index in first..first + w.threads {
        let cpu = rng.below(machine.cpus.len()) as u32;
        machine.tasks.push(Task {
            is_realtime: w.realtime,
            ..task(index, w.weight, cpu)
        });
        let spread = rng.unit() * w.spread_ms * 1e6;
        let at = w.start_ms * 1_000_000 + spread as u64;
        machine.queue.push(at, Event::Start { task: task_index });
    }
    if let Some(stop_ms) = w.stop_ms {
        machine
            .queue
            .push(stop_ms * 1_000_000, Event::Stop { workload: index });
    }
    // Before Linux 6.3 all timers began together; since then each has a random offset.
    let phase = rng.below(100_000_000) as u64;
    machine.workloads.push(Workload {
        tasks: first..first + w.threads,
        phases: phases.to_vec(),
        quota: Quota::new(machine.cpus.len(), phase, machine.shape.bandwidth_slice_ns),
        ops_per_ns: w.ops_per_cpu_sec / 1e9,
        rng,
        tally: Accounting::default(),
        is_alive: true,
        #[cfg(feature = "thesis")]
        is_bound: w.resident_mib > 0,
    });
}

fn add_daemon(machine: &mut Machine, seed: u64, name: &str, labels: &mut Vec<Label>) -> u32 {
    let index = machine.workloads.len() as u32;
    let first = machine.tasks.len() as u32;
    let mut daemon = task(index, 100.0, 0);
    daemon.at = At::Sleeping;
    machine.tasks.push(daemon);
    machine.workloads.push(Workload {
        tasks: first..first + 1,
        phases: vec![Phase {
            what: What::Served,
            for_ns: None,
            times: u32::MAX,
        }],
        quota: Quota::new(machine.cpus.len(), 0, machine.shape.bandwidth_slice_ns),
        ops_per_ns: 0.0,
        rng: Rng::new(seed, 999),
        tally: Accounting::default(),
        is_alive: true,
        #[cfg(feature = "thesis")]
        is_bound: false,
    });
    labels.push(Label {
        id: WorkloadId::new(format!("/system.slice/{name}.service")),
        name: name.to_owned(),
        role: Role::System,
        weight: 100.0,
        is_realtime: false,
        resident: None,
    });
    first
}

/// Two CPUs and a task that would use one of them all the time.
pub(crate) fn spinner(hz: u32, seed: u64) -> Machine {
    let shape = Shape {
        threads_per_core: 1,
        tick_ns: 1_000_000_000 / u64::from(hz),
        slice_ns: 3_000_000,
        bandwidth_slice_ns: DEFAULT_SLICE_NS,
        window_ns: WINDOW_NS,
    };
    let fluid = Fluid::new(Vec::new(), Vec::new(), 1.0);
    let mut machine = Machine::new(shape, 2, fluid, 0, Rng::new(seed, 0));
    let mut rng = Rng::new(seed, 1000);
    let phase = rng.below(100_000_000) as u64;
    machine.tasks.push(task(0, 100.0, 0));
    machine.workloads.push(Workload {
        tasks: 0..1,
        phases: vec![Phase {
            what: What::Compute {
                chunk_ns: f64::INFINITY,
                lock: None,
            },
            for_ns: None,
            times: u32::MAX,
        }],
        quota: Quota::new(2, phase, shape.bandwidth_slice_ns),
        ops_per_ns: 0.0,
        rng,
        tally: Accounting::default(),
        is_alive: true,
        #[cfg(feature = "thesis")]
        is_bound: false,
    });
    machine.queue.push(0, Event::Start { task: 0 });
    machine
}
