// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A small host to close the loop on: one device, CPUs enough for all, `cpu.max` as the kernel
//! enforces it. Time moves in steps of 1 ms.
//!
//! * *Device*: serves `b = min(Σ offered, C)`. When more is offered, every reader gets the same part of
//!   what it offered and burns the same CPU time for it: κ falls, as on stalled CPUs.
//! * *Reader*: offers `κ · CPU` while it runs; a light one runs for a part of each 20 ms only.
//! * *Limit*: quota per period. A check every 4 ms finds whether it is used up (a scheduler
//!   tick, at a different phase for each), so a small quota is overrun; the debt is carried over to
//!   the next period, so the mean is exact. Every write refills the whole quota and forgives debts.
//! * *Latency*: `IDLE · (1 + rise · u/(1 − u))` at the utilization u of each millisecond, at most at 98 %,
//!   and the mean over bytes is what is seen of it, if `sees_latency`.
//!
//! Shortcuts against a real kernel: no competition for CPUs, no slack timers, one thread is one CPU.

use crate::parts::{GROUP, limit_of, machine, read, workload};
use weir_core::seam::observation::{
    Excluded, GroupReading, LatencyReading, LatencySource, Missing, WorkloadReading,
};
use weir_core::seam::plan::OutcomeKind;
use weir_core::seam::topology::{Lever, TaskEvent};
use weir_core::units::GIB;
use weir_core::{
    Bytes, BytesPerSec, Config, Description, Nanos, Observation, Outcome, Plan, Platform,
    PlatformError, Reading, State, WorkloadId, step,
};

/// What the device can carry, in bytes per second.
pub const CAPACITY: f64 = GIB;

/// What one reader moves alone: 0.42 of the device per CPU-second.
pub const KAPPA: f64 = 0.42 * CAPACITY;

/// Latency of the idle device, in nanoseconds.
pub const IDLE: f64 = 400.0;

const STEP: u64 = 1_000_000;
const TICK: u64 = 4 * STEP;
const PERIOD: u64 = 20 * STEP;

/// A pseudo-random number generator that is enough for jitter (xorshift64*).
pub struct Dice(u64);

impl Dice {
    pub fn new(seed: u64) -> Self {
        Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    pub fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }
}

pub struct Reader {
    pub id: WorkloadId,
    /// CPUs it would use.
    pub wants: f64,
    /// Part of each 20 ms in which it has anything to do.
    pub duty: f64,
    pub kappa: f64,
    pub excluded: bool,
    /// Its limit does not hold it back, as with real-time tasks.
    pub evades: bool,
    pub bytes: f64,
    pub cpu_ns: u64,
    pub throttled_ns: u64,
    pub limit: Option<f64>,
    pub writes: u32,
    left_ns: i64,
    running: bool,
    phase: u64,
    wobble: f64,
}

pub struct Plant {
    pub now: u64,
    pub readers: Vec<Reader>,
    pub interval: u64,
    /// Device counter, before the mask.
    pub counted: f64,
    pub first_count: u64,
    pub mask: u64,
    pub counters_lost: bool,
    pub refuse: bool,
    pub sees_latency: bool,
    pub rise: f64,
    latency_sum: f64,
    latency_bytes: f64,
    /// Device bytes of each millisecond.
    pub history: Vec<f64>,
    /// Mean latency of each interval, in nanoseconds.
    pub latencies: Vec<f64>,
    pub dice: Dice,
    seq: u64,
    pub description: Description,
}

impl Plant {
    pub fn new(seed: u64, heavy: usize) -> Self {
        println!("seed {seed}");
        let mut description = machine(8, &[GROUP], &[Lever::CpuTime]);
        for device in &mut description.devices {
            device.capacity_bytes_per_sec = Some(BytesPerSec::new(CAPACITY));
        }
        if let Some(actuator) = &mut description.actuator {
            actuator.refill_on_write_ratio = 1.0;
        }
        let mut plant = Plant {
            now: 1_000 * STEP,
            readers: Vec::new(),
            interval: 50 * STEP,
            counted: 0.0,
            first_count: 12_345,
            mask: u64::MAX,
            counters_lost: false,
            refuse: false,
            sees_latency: false,
            rise: 0.3,
            latency_sum: 0.0,
            latency_bytes: 0.0,
            history: Vec::new(),
            latencies: Vec::new(),
            dice: Dice::new(seed),
            seq: 0,
            description,
        };
        for i in 0..heavy {
            plant.add(&format!("/heavy{i}"), 1.0);
        }
        plant
    }

    pub fn set_mask(&mut self, mask: u64) {
        self.mask = mask;
        for device in &mut self.description.devices {
            device.counter_mask_bytes = mask;
        }
    }

    /// So many events are counted of each workload's tasks; the plant itself gives no counts.
    pub fn count_events(&mut self, count: usize) {
        let event = TaskEvent {
            bytes_per_count: 64,
            counts_stores: false,
        };
        self.description.task_events = vec![event; count];
    }

    pub fn add(&mut self, id: &str, duty: f64) -> usize {
        let phase = self.dice.next() % 20 * STEP;
        self.readers.push(Reader {
            id: WorkloadId::new(id),
            wants: 1.0,
            duty,
            kappa: KAPPA,
            excluded: false,
            evades: false,
            bytes: 0.0,
            cpu_ns: 0,
            throttled_ns: 0,
            limit: None,
            writes: 0,
            left_ns: 0,
            running: true,
            phase,
            wobble: 0.0,
        });
        self.readers.sort_by(|a, b| a.id.cmp(&b.id));
        self.readers
            .iter()
            .position(|r| r.id.as_str() == id)
            .expect("just added")
    }

    pub fn reader(&self, id: &str) -> &Reader {
        self.readers
            .iter()
            .find(|r| r.id.as_str() == id)
            .expect("a reader of this name")
    }

    fn millisecond(&mut self) {
        let mut offered = Vec::with_capacity(self.readers.len());
        for reader in &mut self.readers {
            let local = self.now + reader.phase;
            if let Some(limit) = reader.limit.filter(|_| !reader.evades) {
                let quota = (limit * PERIOD as f64) as i64;
                if local.is_multiple_of(PERIOD) {
                    reader.left_ns = (reader.left_ns + quota).min(quota);
                    reader.running |= reader.left_ns > 0;
                }
                if local.is_multiple_of(TICK) && reader.left_ns <= 0 {
                    reader.running = false;
                }
            } else {
                reader.running = true;
            }
            reader.wobble = 0.95 * reader.wobble + 0.05 * (self.dice.unit() - 0.5);
            let busy = (local % PERIOD) as f64 / PERIOD as f64;
            let cpu = if busy < reader.duty {
                reader.wants
            } else {
                0.0
            };
            if !reader.running && cpu > 0.0 {
                reader.throttled_ns += STEP;
            }
            offered.push(if reader.running { cpu } else { 0.0 });
        }
        let rate = |r: &Reader, cpu: f64| r.kappa * (1.0 + r.wobble) * cpu;
        let total: f64 = self
            .readers
            .iter()
            .zip(&offered)
            .map(|(r, c)| rate(r, *c))
            .sum();
        let part = if total > CAPACITY {
            CAPACITY / total
        } else {
            1.0
        };
        let mut moved = 0.0;
        for (reader, cpu) in self.readers.iter_mut().zip(&offered) {
            let bytes = rate(reader, *cpu) * part * STEP as f64 / 1e9;
            reader.bytes += bytes;
            reader.cpu_ns += (cpu * STEP as f64) as u64;
            reader.left_ns -= (cpu * STEP as f64) as i64;
            moved += bytes;
        }
        self.counted += moved;
        let utilization = (total / CAPACITY).min(0.98);
        self.latency_sum += moved * IDLE * (1.0 + self.rise * utilization / (1.0 - utilization));
        self.latency_bytes += moved;
        self.history.push(moved);
        self.now += STEP;
    }

    fn counter(&self) -> u64 {
        let sum = u128::from(self.first_count) + self.counted as u128;
        (sum % (u128::from(self.mask) + 1)) as u64
    }

    fn see(&self, reader: &Reader) -> WorkloadReading {
        let at = Nanos(self.now);
        let excluded = || Excluded::ByUser("/kept*".into());
        WorkloadReading {
            throttled_ns: Reading::new(at, Nanos(reader.throttled_ns)),
            excluded: reader.excluded.then(excluded),
            ..workload(reader.id.clone(), at, reader.cpu_ns as f64, &[GROUP])
        }
    }

    /// Mean bandwidth over the last `ms`, relative to the device.
    pub fn mean(&self, ms: usize) -> f64 {
        let last = &self.history[self.history.len().saturating_sub(ms)..];
        last.iter().sum::<f64>() / last.len() as f64 * 1000.0 / CAPACITY
    }

    /// Root mean square of the relative error against `target` over 100 ms windows of the last `ms`.
    pub fn rmse(&self, ms: usize, target: f64) -> f64 {
        let last = &self.history[self.history.len().saturating_sub(ms)..];
        let errors: Vec<f64> = last
            .chunks_exact(100)
            .map(|w| w.iter().sum::<f64>() * 10.0 / (target * CAPACITY) - 1.0)
            .collect();
        (errors.iter().map(|e| e * e).sum::<f64>() / errors.len() as f64).sqrt()
    }
}

impl Platform for Plant {
    fn describe(&self) -> &Description {
        &self.description
    }

    fn observe(&mut self) -> Result<Observation, PlatformError> {
        for _ in 0..self.interval / STEP {
            self.millisecond();
        }
        let at = Nanos(self.now);
        let latency = LatencyReading {
            id: GROUP.device,
            mean_ns: Reading::new(at, Nanos((self.latency_sum / self.latency_bytes) as u64)),
            source: LatencySource::Model,
        };
        self.latencies.push(self.latency_sum / self.latency_bytes);
        (self.latency_sum, self.latency_bytes) = (0.0, 0.0);
        let mut group = read(GROUP, at, 0.0);
        group.read_bytes = Reading::new(at, Bytes(self.counter()));
        if self.counters_lost {
            let lost = || Reading::missing(at, Missing::Lost("unplugged".into()));
            group = GroupReading {
                read_bytes: lost(),
                write_bytes: lost(),
                ..group
            };
        }
        let seen = Observation {
            seq: self.seq,
            at,
            groups: vec![group],
            latencies: self.sees_latency.then_some(latency).into_iter().collect(),
            workloads: self.readers.iter().map(|r| self.see(r)).collect(),
            ..Observation::default()
        };
        self.seq += 1;
        Ok(seen)
    }

    fn apply(&mut self, plan: &Plan) -> Vec<Outcome> {
        let refuse = self.refuse;
        let mut outcomes = Vec::new();
        for action in &plan.actions {
            let reader = self.readers.iter_mut().find(|r| r.id == action.workload);
            let result = match (reader, refuse) {
                (None, _) => OutcomeKind::Vanished,
                (Some(_), true) => OutcomeKind::Refused("the plant was set to refuse".into()),
                (Some(reader), false) => {
                    let limit = limit_of(action.kind);
                    reader.limit = limit;
                    reader.writes += 1;
                    reader.left_ns = (limit.unwrap_or(0.0) * PERIOD as f64) as i64;
                    reader.running = true;
                    OutcomeKind::Applied
                }
            };
            outcomes.push(Outcome {
                workload: action.workload.clone(),
                result,
            });
        }
        outcomes
    }

    fn release_all(&mut self) -> Vec<Outcome> {
        let mut outcomes = Vec::new();
        for reader in self.readers.iter_mut().filter(|r| r.limit.is_some()) {
            reader.limit = None;
            outcomes.push(Outcome {
                workload: reader.id.clone(),
                result: OutcomeKind::Applied,
            });
        }
        outcomes
    }
}

pub struct Loop {
    pub plant: Plant,
    pub state: State,
    pub config: Config,
    pub plan: Plan,
}

impl Loop {
    /// Limits are allowed, whatever the rest of the settings says.
    pub fn new(plant: Plant, config: Config) -> Self {
        let config = Config {
            limit: true,
            ..config
        };
        assert_eq!(config.validate(), Ok(()));
        Loop {
            plant,
            state: State::default(),
            config,
            plan: Plan::default(),
        }
    }

    pub fn tick(&mut self) -> &Plan {
        let seen = self.plant.observe().expect("the plant does not break");
        self.plan = step(
            &mut self.state,
            &self.config,
            &self.plant.description,
            &seen,
        );
        let outcomes = self.plant.apply(&self.plan);
        self.state.note(&outcomes);
        &self.plan
    }

    pub fn run_ms(&mut self, ms: u64) {
        let until = self.plant.now + ms * STEP;
        while self.plant.now < until {
            self.tick();
        }
    }

    pub fn limited(&self) -> usize {
        let readers = self.plant.readers.iter();
        readers.filter(|reader| reader.limit.is_some()).count()
    }
}
