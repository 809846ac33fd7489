// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Streams on a machine become flows of lines.

use crate::host_path::flow::{Flow, Leg, PathMemory, PathNetwork, TrackerPool};
use crate::host_path::machine::{HostMachine, MemoryRates};
use crate::host_path::op::{Keeping, LineRequest, StreamOp};
use crate::host_path::ssd::{SsdFigures, StoragePattern};

const LINE_BYTES: f64 = 64.0;
const NS: f64 = 1e9;
/// Streams of a mix at most.
const STREAMS_MAX: usize = 64;

/// Whether an SSD stream passes by the page cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StorageMode {
    /// The device writes to the program's memory itself: DMA alone.
    Direct,
    /// The device does not: the CPU copies each block.
    Buffered,
}

/// Threads that all do the same.
#[derive(Clone, Debug, PartialEq)]
pub struct HostStream {
    /// `mmem`, `cxl` or `ssd`.
    pub target: String,
    pub op: StreamOp,
    /// Number of threads, each on a core of its own.
    pub threads: u32,
    /// How an SSD stream moves its blocks; left out: as the machine file says.
    pub storage: Option<StorageMode>,
    /// The clock of its cores, GHz; left out: that of the file.
    pub ghz: Option<f64>,
    /// What a lever in front of admission lets it move, lines per second, of its first request.
    pub most_lines_per_sec: Option<f64>,
}

/// Why streams do not fit a machine.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum MixError {
    #[error("machine {machine} has no target `{target}`: it has {targets}")]
    Target {
        machine: String,
        target: String,
        targets: String,
    },
    #[error("{target} cannot do `{op}`: {target} does {ops}")]
    Op {
        target: String,
        op: &'static str,
        ops: String,
    },
    #[error("{threads} threads on the {cores} cores of {machine}: one thread a core, give fewer")]
    Threads {
        threads: u64,
        cores: u32,
        machine: String,
    },
    #[error("{0}")]
    Mix(String),
}

impl HostStream {
    #[must_use]
    pub fn new(target: &str, op: StreamOp, threads: u32) -> Self {
        HostStream {
            target: target.to_owned(),
            op,
            threads,
            storage: None,
            ghz: None,
            most_lines_per_sec: None,
        }
    }
}

impl HostMachine {
    #[must_use]
    pub fn targets(&self) -> Vec<&str> {
        let memories = self.memory.iter().map(|memory| memory.target.as_str());
        memories
            .chain(self.ssd.is_some().then_some("ssd"))
            .collect()
    }

    /// Whether an SSD stream passes by the page cache.
    #[must_use]
    pub fn is_direct(&self, stream: &HostStream) -> bool {
        match stream.storage {
            Some(mode) => mode == StorageMode::Direct,
            None => self.ssd.as_ref().is_some_and(|ssd| ssd.is_direct),
        }
    }
}

/// The flows of streams, in their order.
///
/// # Errors
/// A target is not there or cannot do an op, the streams need more cores than there are, or two of them use
/// the SSD.
pub fn compile(machine: &HostMachine, streams: &[HostStream]) -> Result<PathNetwork, MixError> {
    let threads: u64 = streams.iter().map(|one| u64::from(one.threads)).sum();
    if threads > u64::from(machine.cores.count) {
        return Err(MixError::Threads {
            threads,
            cores: machine.cores.count,
            machine: machine.name.clone(),
        });
    }
    let storage = streams.iter().filter(|one| one.target == "ssd").count();
    if streams.is_empty() || streams.len() > STREAMS_MAX || storage > 1 {
        let why = "1 to 64 streams are allowed, at most one of them on the SSD";
        return Err(MixError::Mix(why.into()));
    }
    let rates = rates(machine)?;
    let flows = streams.iter().map(|one| flow(machine, &rates, one));
    let flows = flows.collect::<Result<Vec<_>, _>>()?;
    let trackers = &machine.trackers;
    let pool = |count: u32| TrackerPool {
        count,
        slices: trackers.slices.min(count),
    };
    let of_slow = trackers.slow_count.map(pool);
    Ok(PathNetwork {
        flows,
        pools: std::iter::once(pool(trackers.count))
            .chain(of_slow)
            .collect(),
        memories: rates
            .iter()
            .map(|one| PathMemory {
                residence_ns: one.idle_ns - machine.cores.path_ns,
                servers: one.count,
            })
            .collect(),
        lookup_ns: trackers.lookup_ns,
    })
}

fn rates(machine: &HostMachine) -> Result<Vec<MemoryRates>, MixError> {
    let all = machine.memory.iter().map(|memory| memory.rates());
    all.collect::<Result<_, _>>().map_err(MixError::Mix)
}

fn flow(
    machine: &HostMachine,
    rates: &[MemoryRates],
    stream: &HostStream,
) -> Result<Flow, MixError> {
    can_do(machine, stream)?;
    match (stream.op.pattern(), &machine.ssd) {
        (Some(pattern), Some(ssd)) => storage_flow(machine, rates, stream, pattern, ssd),
        _ => memory_flow(machine, rates, stream),
    }
}

fn can_do(machine: &HostMachine, stream: &HostStream) -> Result<(), MixError> {
    let targets = machine.targets();
    if !targets.contains(&stream.target.as_str()) {
        return Err(MixError::Target {
            machine: machine.name.clone(),
            target: stream.target.clone(),
            targets: targets.join(", "),
        });
    }
    let is_ssd = stream.target == "ssd";
    if stream.op.is_storage() != is_ssd {
        let ops = StreamOp::ALL
            .into_iter()
            .filter(|op| op.is_storage() == is_ssd);
        return Err(MixError::Op {
            target: stream.target.clone(),
            op: stream.op.name(),
            ops: ops.map(StreamOp::name).collect::<Vec<_>>().join(", "),
        });
    }
    if stream.threads == 0 {
        return Err(MixError::Mix("a stream needs a thread".into()));
    }
    Ok(())
}

/// The memory that a request of a stream goes to.
fn memory_of(machine: &HostMachine, target: &str, why: &str) -> Result<usize, MixError> {
    machine
        .memory_index(target)
        .ok_or_else(|| MixError::Target {
            machine: machine.name.clone(),
            target: target.to_owned(),
            targets: format!("{}; {why}", machine.targets().join(", ")),
        })
}

fn pool_of(machine: &HostMachine, memory: usize) -> usize {
    let is_slow = machine.memory[memory].target == "cxl";
    usize::from(is_slow && machine.trackers.slow_count.is_some())
}

fn work_ns(rates: &MemoryRates, is_write: bool) -> f64 {
    let rate = if is_write {
        rates.write_bytes_per_sec
    } else {
        rates.read_bytes_per_sec
    };
    LINE_BYTES / rate * NS
}

fn leg(machine: &HostMachine, rates: &[MemoryRates], request: &LineRequest, memory: usize) -> Leg {
    Leg {
        memory,
        pool: pool_of(machine, memory),
        keeping: request.keeping,
        buffers: request.kind.figures(&machine.cores).lines,
        credits: None,
        path_ns: machine.cores.path_ns,
        work_ns: work_ns(&rates[memory], request.is_write),
        memory_part: 1.0,
    }
}

/// How much longer a core's own time is than at the clock of the file.
fn slower(machine: &HostMachine, stream: &HostStream) -> f64 {
    stream.ghz.map_or(1.0, |ghz| machine.cores.ghz / ghz)
}

fn most_per_ns(stream: &HostStream) -> f64 {
    let most = stream.most_lines_per_sec;
    most.map_or(f64::INFINITY, |lines| lines / NS)
}

fn memory_flow(
    machine: &HostMachine,
    rates: &[MemoryRates],
    stream: &HostStream,
) -> Result<Flow, MixError> {
    let target = memory_of(machine, &stream.target, "")?;
    let requests = stream.op.requests();
    let mut legs = Vec::with_capacity(requests.len());
    for request in &requests {
        let memory = if request.is_to_dram {
            memory_of(machine, "mmem", "this op writes to mmem")?
        } else {
            target
        };
        legs.push(leg(machine, rates, request, memory));
    }
    if stream.op == StreamOp::LdChase {
        legs[0].buffers = 1;
    }
    let first = requests[0].kind.figures(&machine.cores);
    Ok(Flow {
        slots: stream.threads,
        own_ns: first.own_ns * slower(machine, stream),
        is_serial: first.is_fenced,
        most_per_ns: most_per_ns(stream),
        legs,
    })
}

/// The DMA of each line of an SSD stream: writes of the SSD read memory.
fn dma(
    machine: &HostMachine,
    rates: &[MemoryRates],
    memory: usize,
    pattern: StoragePattern,
    lines: u32,
) -> Leg {
    let iio = &machine.iio;
    let (keeping, credits, part) = if pattern.is_write {
        (Keeping::Held, iio.read_credits, 1.0)
    } else {
        (
            Keeping::Posted,
            iio.write_credits,
            1.0 - iio.cached_write_part,
        )
    };
    let residence = rates[memory].idle_ns - machine.cores.path_ns;
    let inside = match keeping {
        Keeping::Held => residence,
        Keeping::Posted => 0.0,
    };
    Leg {
        memory,
        pool: pool_of(machine, memory),
        keeping,
        buffers: lines,
        credits: Some(credits),
        path_ns: (iio.idle_ns - inside).max(machine.cores.path_ns),
        work_ns: work_ns(&rates[memory], !pattern.is_write),
        memory_part: part,
    }
}

fn storage_flow(
    machine: &HostMachine,
    rates: &[MemoryRates],
    stream: &HostStream,
    pattern: StoragePattern,
    ssd: &SsdFigures,
) -> Result<Flow, MixError> {
    let memory = memory_of(machine, "mmem", "the SSD's buffers lie in mmem")?;
    let lines = ssd.lines();
    let cpu_ns = ssd.cpu_ns * slower(machine, stream);
    let is_direct = machine.is_direct(stream);
    let whole = u32::try_from(ssd.block_bytes / 64).unwrap_or(u32::MAX);
    let dma = dma(machine, rates, memory, pattern, whole);
    let device = ssd.most_iops(pattern, machine.iio.link_bytes_per_sec) * lines / NS;
    let own_ns = ssd.own_ns(pattern, is_direct, cpu_ns) / lines;
    let by_cpu = f64::from(stream.threads) * lines / cpu_ns;
    let (slots, legs, most) = if is_direct {
        (stream.threads * ssd.depth, vec![dma], device.min(by_cpu))
    } else {
        let copied = stream.op.requests().into_iter();
        let mut legs: Vec<Leg> = copied
            .map(|one| leg(machine, rates, &one, memory))
            .collect();
        // The next lines' loads may begin before the stores of these are done.
        legs[0].buffers = ssd.copy_lines;
        legs[1].buffers = 2 * ssd.copy_lines;
        legs.push(dma);
        (stream.threads, legs, device)
    };
    Ok(Flow {
        slots,
        own_ns,
        is_serial: true,
        most_per_ns: most.min(most_per_ns(stream)),
        legs,
    })
}
