// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which measurements, in which order, for how long. Pure: the machine is told, nothing is read.
//!
//! A repetition of a pair is each stream alone and both together, at each number of background threads, in
//! random order. Both streams of a pair are victims: a measurement together serves both.

use super::names::{PairName, StreamName, StreamOperation, StreamTarget};
use weir_bench::storage::StorageOperation;
use weir_core::random::SplitMix;

/// Time of a measurement before the counts begin.
pub const WARM_SECONDS: f64 = 0.05;
/// What a measurement costs beside its span: threads begin and end.
const OVERHEAD_SECONDS: f64 = 0.03;
/// One measurement of `--quick` at most.
const QUICK_SPAN_SECONDS: f64 = 0.35;
/// What `--quick` takes at most, without what stands before the first measurement.
pub const QUICK_SECONDS: f64 = 260.0;
/// Repetitions that `--quick` makes room for: many short ones rather than few long ones, as the host of a
/// virtual machine may spoil a part of them.
const QUICK_REPEATS: f64 = 16.0;

#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum PlannedStream {
    /// One of ours. `direct` concerns storage only.
    Ours {
        name: StreamName,
        /// Past the page cache.
        direct: bool,
    },
    /// A command that is judged by the figure that it prints.
    VictimProgram(String),
    /// A command that is a background only.
    BackgroundProgram(String),
}

impl PlannedStream {
    /// Whether there is a figure by which it can be judged.
    pub fn has_figure(&self) -> bool {
        !matches!(self, PlannedStream::BackgroundProgram(_))
    }

    /// What it moves data of; nothing for a program.
    pub fn target(&self) -> Option<StreamTarget> {
        match self {
            PlannedStream::Ours { name, .. } => Some(name.target),
            _ => None,
        }
    }

    pub fn label(&self) -> String {
        match self {
            PlannedStream::Ours { name, direct } => {
                let way = match (name.target, direct) {
                    (StreamTarget::Ssd, false) => " (buffered)",
                    _ => "",
                };
                format!("{}:{}{way}", name.target.name(), name.operation.name())
            }
            PlannedStream::VictimProgram(command) | PlannedStream::BackgroundProgram(command) => {
                format!("program {command}")
            }
        }
    }
}

/// Two streams, and at which numbers of threads.
#[derive(Clone, Debug, PartialEq)]
pub struct PairPlan {
    pub sides: [PlannedStream; 2],
    /// Threads of each as a victim.
    pub full: [u32; 2],
    /// Threads of each as a background, ascending; the last is `full`.
    pub sweep: [Vec<u32>; 2],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum PairTask {
    Alone(usize),
    /// Both, with so many threads.
    Together([u32; 2]),
}

impl PairPlan {
    pub fn label(&self) -> String {
        format!("{} + {}", self.sides[0].label(), self.sides[1].label())
    }

    /// Whether both sides are the same stream, so that each cell would stand twice.
    pub fn is_symmetric(&self) -> bool {
        self.sides[0] == self.sides[1] && self.full[0] == self.full[1]
    }

    /// The sides that are judged.
    pub fn victims(&self) -> Vec<usize> {
        let all = if self.is_symmetric() { 1 } else { 2 };
        (0..all)
            .filter(|side| self.sides[*side].has_figure())
            .collect()
    }

    /// The points of a victim: threads of both sides.
    pub fn points(&self, victim: usize) -> Vec<[u32; 2]> {
        let background = 1 - victim;
        let point = |threads: &u32| {
            let mut point = self.full;
            point[background] = *threads;
            point
        };
        self.sweep[background].iter().map(point).collect()
    }

    /// The measurements of a repetition, each once.
    pub fn tasks(&self) -> Vec<PairTask> {
        let mut tasks: Vec<PairTask> = self.victims().into_iter().map(PairTask::Alone).collect();
        for victim in self.victims() {
            for point in self.points(victim) {
                let task = PairTask::Together(point);
                if !tasks.contains(&task) {
                    tasks.push(task);
                }
            }
        }
        tasks
    }

    /// The same in the random order of a repetition.
    pub fn order(&self, seed: u64, pair: usize, repetition: u32) -> Vec<PairTask> {
        let stream =
            (pair as u64 + 1).wrapping_mul(0xd6e8_feb8_6659_fd93) ^ (u64::from(repetition) << 40);
        shuffled(self.tasks(), seed, stream)
    }
}

/// The values in an order that seed and stream decide.
pub fn shuffled<T>(mut all: Vec<T>, seed: u64, stream: u64) -> Vec<T> {
    let mut random = SplitMix::new(seed ^ stream);
    for last in (1..all.len()).rev() {
        let place = random.below(last as u64 + 1);
        all.swap(last, usize::try_from(place).unwrap_or(0));
    }
    all
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CpuShare {
    /// CPUs of the two sides: the same number for both.
    pub sides: [Vec<u32>; 2],
    /// CPU of the thread that measures latency, where one is left.
    pub probe: Option<u32>,
}

impl CpuShare {
    /// Divides these CPUs, of which each core gives one. Nothing if there are fewer than two.
    ///
    /// # Errors
    /// More threads are asked for than there are CPUs.
    pub fn of(cpus: &[u32], asked: Option<u32>) -> Result<CpuShare, String> {
        let count = cpus.len();
        if count < 2 {
            return Err(format!(
                "{count} CPU is too few: two streams need one each; give weir more CPUs (taskset, cpuset.cpus)"
            ));
        }
        let usual = count.saturating_sub(usize::from(count > 2)) / 2;
        let each = asked.map_or(usual, |n| usize::try_from(n).unwrap_or(usize::MAX));
        if each > count / 2 {
            return Err(format!(
                "--threads {each} is too many: two streams share {count} CPUs (--siblings adds those of the same cores)"
            ));
        }
        // Interrupts are mostly answered by the first CPUs: what is left of them measures latency last.
        Ok(CpuShare {
            sides: [cpus[..each].to_vec(), cpus[each..2 * each].to_vec()],
            probe: cpus.get(2 * each).map(|_| cpus[count - 1]),
        })
    }

    /// Threads of each side.
    pub fn each(&self) -> u32 {
        u32::try_from(self.sides[0].len()).unwrap_or(u32::MAX)
    }
}

/// Numbers of threads of a background: 1, 2, 4 … and all; with `quick` all.
pub fn sweep(full: u32, quick: bool) -> Vec<u32> {
    let mut all = Vec::new();
    if !quick {
        let powers = std::iter::successors(Some(1_u32), |n| n.checked_mul(2));
        all.extend(powers.take_while(|n| *n < full));
    }
    all.push(full);
    all
}

/// The pairs of the matrix. With CXL memory: each of its operations beside each of the others (the paper's
/// Table III: 15 pairs, 30 cells). Without: operations of local memory beside each other, and beside storage.
pub fn matrix(
    targets: &[StreamTarget],
    operations: &[StreamOperation],
    ways: &[bool],
) -> Vec<[PlannedStream; 2]> {
    let memory = |target: StreamTarget| -> Vec<PlannedStream> {
        let of_memory = operations
            .iter()
            .filter(|o| matches!(o, StreamOperation::Memory(_)));
        of_memory
            .map(|operation| ours(target, *operation, true))
            .collect()
    };
    let has = |target| targets.contains(&target);
    let mut storage = Vec::new();
    for operation in operations.iter().filter(|_| has(StreamTarget::Ssd)) {
        if let StreamOperation::Storage(_) = operation {
            storage.extend(
                ways.iter()
                    .map(|direct| ours(StreamTarget::Ssd, *operation, *direct)),
            );
        }
    }
    let local = memory(StreamTarget::Mmem);
    let mut pairs = Vec::new();
    if has(StreamTarget::Cxl) {
        for far in memory(StreamTarget::Cxl) {
            let others = local.iter().chain(&storage);
            pairs.extend(others.map(|other| [other.clone(), far.clone()]));
        }
        return pairs;
    }
    for (place, one) in local.iter().enumerate() {
        pairs.extend(
            local[place..]
                .iter()
                .map(|other| [one.clone(), other.clone()]),
        );
    }
    for one in &storage {
        pairs.extend(local.iter().map(|other| [one.clone(), other.clone()]));
    }
    pairs
}

fn ours(target: StreamTarget, operation: StreamOperation, direct: bool) -> PlannedStream {
    let name = StreamName {
        target,
        operation,
        threads: None,
    };
    PlannedStream::Ours { name, direct }
}

/// Each operation by itself, on the slowest memory that is there and on storage: what programs stand beside.
pub fn singles(
    targets: &[StreamTarget],
    operations: &[StreamOperation],
    ways: &[bool],
) -> Vec<PlannedStream> {
    let memory = if targets.contains(&StreamTarget::Cxl) {
        StreamTarget::Cxl
    } else {
        StreamTarget::Mmem
    };
    let of = |operation: &StreamOperation| -> Vec<PlannedStream> {
        match operation {
            StreamOperation::Memory(_) => vec![ours(memory, *operation, true)],
            StreamOperation::Storage(_) if !targets.contains(&StreamTarget::Ssd) => Vec::new(),
            StreamOperation::Storage(_) => ways
                .iter()
                .map(|direct| ours(StreamTarget::Ssd, *operation, *direct))
                .collect(),
        }
    };
    operations.iter().flat_map(of).collect()
}

/// The pairs that were named, each SSD stream in each way.
pub fn named(names: &[PairName], ways: &[bool]) -> Vec<[PlannedStream; 2]> {
    let mut pairs = Vec::new();
    for PairName(one, other) in names {
        let is_storage = [one, other].iter().any(|s| s.target == StreamTarget::Ssd);
        let ways = if is_storage { ways } else { &[true] };
        for direct in ways {
            let stream = |name: &StreamName| PlannedStream::Ours {
                name: *name,
                direct: *direct,
            };
            pairs.push([stream(one), stream(other)]);
        }
    }
    pairs
}

/// Threads of a pair, in the CPUs of its sides.
///
/// # Errors
/// More are asked for than there are CPUs.
pub fn with_threads(sides: [PlannedStream; 2], each: u32, quick: bool) -> Result<PairPlan, String> {
    let threads = |stream: &PlannedStream| match stream {
        PlannedStream::Ours { name, .. } => match name.threads {
            Some(asked) if asked > each => Err(format!(
                "{name}: {asked} threads are too many; there are CPUs for {each} (--threads, --siblings)"
            )),
            asked => Ok((asked.unwrap_or(each), asked.is_some())),
        },
        _ => Ok((each, true)),
    };
    let ((one, one_is_said), (other, other_is_said)) = (threads(&sides[0])?, threads(&sides[1])?);
    Ok(PairPlan {
        full: [one, other],
        // A number that was said is meant.
        sweep: [
            sweep(one, quick || one_is_said),
            sweep(other, quick || other_is_said),
        ],
        sides,
    })
}

pub fn writes_storage(stream: &PlannedStream) -> bool {
    match stream {
        PlannedStream::Ours { name, .. } => match name.operation {
            StreamOperation::Storage(o) => {
                matches!(o, StorageOperation::RandWrite | StorageOperation::Write)
            }
            StreamOperation::Memory(_) => false,
        },
        _ => false,
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TimePlan {
    pub seconds: f64,
    pub prepare_seconds: f64,
    pub repeats: u32,
    /// All of it at most, where that is limited.
    pub total_seconds: Option<f64>,
}

impl TimePlan {
    pub fn of(
        pairs: &[PairPlan],
        quick: bool,
        seconds: Option<f64>,
        repeats: u32,
        prepare_seconds: f64,
    ) -> TimePlan {
        let tasks: usize = pairs.iter().map(|pair| pair.tasks().len()).sum();
        let seconds = seconds.unwrap_or_else(|| {
            if quick {
                let round = QUICK_SECONDS / QUICK_REPEATS - pairs.len() as f64 * prepare_seconds;
                let each = round / tasks.max(1) as f64;
                (each - WARM_SECONDS - OVERHEAD_SECONDS).clamp(0.05, QUICK_SPAN_SECONDS)
            } else {
                1.0
            }
        });
        TimePlan {
            seconds,
            prepare_seconds,
            repeats,
            total_seconds: quick.then_some(QUICK_SECONDS),
        }
    }

    /// What a repetition of a pair takes; of programs, what it takes at least.
    pub fn repetition_seconds(&self, pair: &PairPlan) -> f64 {
        self.prepare_seconds
            + pair.tasks().len() as f64 * (self.seconds + WARM_SECONDS + OVERHEAD_SECONDS)
    }

    /// What is left at most, of pairs whose repetitions take so many seconds each, with so many done.
    pub fn left_seconds(&self, done: impl Iterator<Item = (f64, usize)>, elapsed: f64) -> f64 {
        let left = done.map(|(each_seconds, done)| {
            let done = u32::try_from(done).unwrap_or(u32::MAX);
            each_seconds * f64::from(self.repeats.saturating_sub(done))
        });
        let all: f64 = left.sum();
        self.total_seconds
            .map_or(all, |total| all.min((total - elapsed).max(0.0)))
    }
}

#[cfg(test)]
mod tests;
