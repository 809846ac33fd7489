// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A stream of storage traffic: its threads, and what its I/Os took.

use super::caller::CallWorker;
use super::ring::RingWorker;
use super::{Engine, IoTarget, Places, StorageOperation};
use crate::streams::{Control, Stream, StreamCount, ThreadTime, Worker, obey};
use crate::{BenchError, Buffer, cpu};
use hdrhistogram::Histogram;
use std::fs::File;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

/// Longer I/Os count as this one: ten minutes.
const IO_MAX_NS: u64 = 600_000_000_000;
/// Digits of a percentile.
const DIGITS: u8 = 3;

/// What a stream of storage traffic is to do.
#[derive(Clone, Debug)]
pub struct StoragePlan {
    /// What with each block.
    pub operation: StorageOperation,
    /// Bytes of an I/O.
    pub block_bytes: u64,
    /// I/Os in flight for each thread.
    pub depth: u32,
    /// Past the page cache.
    pub direct: bool,
    /// How they reach the kernel.
    pub engine: Engine,
    /// One thread on each (with [`Engine::Caller`] `depth` threads on each).
    pub cpus: Vec<u32>,
    /// Where the buffers lie.
    pub node: u32,
    /// Seed of the random places.
    pub seed: u64,
}

impl StoragePlan {
    fn threads_per_cpu(&self) -> usize {
        match self.engine {
            Engine::Ring => 1,
            Engine::Caller => self.depth.max(1) as usize,
        }
    }
}

/// What the I/Os of a measurement took.
pub(super) struct IoTimes {
    times_ns: Mutex<Histogram<u64>>,
    cpu_ns: Arc<AtomicU64>,
}

impl IoTimes {
    pub(super) fn new() -> IoTimes {
        IoTimes {
            times_ns: Mutex::new(histogram()),
            cpu_ns: Arc::default(),
        }
    }

    /// p50, p99 and CPU time of a measurement; the next begins at nothing.
    fn take(&self) -> (Option<f64>, Option<f64>, u64) {
        let mut times = self.times_ns.lock().unwrap_or_else(PoisonError::into_inner);
        let at = |quantile| (!times.is_empty()).then(|| times.value_at_quantile(quantile) as f64);
        let found = (at(0.5), at(0.99));
        times.reset();
        (found.0, found.1, self.cpu_ns.swap(0, Ordering::Relaxed))
    }
}

#[expect(
    clippy::expect_used,
    reason = "constants within the bounds that the crate documents"
)]
fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, IO_MAX_NS, DIGITS).expect("bounds of a histogram")
}

/// What a thread records, and hands over when it stands.
pub(super) struct Recorder {
    all: Arc<IoTimes>,
    own_ns: Histogram<u64>,
    cpu_time: ThreadTime,
}

impl Recorder {
    pub(super) fn new(all: &Arc<IoTimes>) -> Recorder {
        Recorder {
            cpu_time: ThreadTime::new(&all.cpu_ns),
            all: Arc::clone(all),
            own_ns: histogram(),
        }
    }

    /// Follows the beginning and the end of the measurement.
    pub(super) fn follow(&mut self, is_measuring: bool) {
        self.cpu_time.follow(is_measuring);
    }

    /// An I/O that took so long.
    pub(super) fn record(&mut self, time_ns: u64) {
        if self.cpu_time.is_measuring() {
            self.own_ns.saturating_record(time_ns.max(1));
        }
    }

    /// The measurement is over.
    pub(super) fn hand_over(&mut self) {
        self.follow(false);
        let mut all = self
            .all
            .times_ns
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        // Of the same bounds, so that nothing is lost.
        let _ = all.add(&self.own_ns);
        self.own_ns.reset();
    }
}

/// What a worker of either engine has.
pub(super) struct IoWork {
    pub(super) file: File,
    pub(super) path: String,
    pub(super) operation: StorageOperation,
    pub(super) block_bytes: u64,
    pub(super) places: Places,
    pub(super) buffer: Buffer,
    pub(super) node: u32,
    pub(super) recorder: Recorder,
}

impl IoWork {
    pub(super) fn failed(&self, answer: std::io::Error) -> BenchError {
        BenchError::Storage {
            path: self.path.clone(),
            doing: if self.operation.is_write() {
                "write blocks of it"
            } else {
                "read blocks of it"
            },
            answer,
        }
    }

    /// An I/O that moved less than its block.
    pub(super) fn short(&self) -> BenchError {
        self.failed(std::io::Error::new(
            std::io::ErrorKind::UnexpectedEof,
            "an I/O moved less than its block",
        ))
    }
}

/// Threads that read or write when they are told to. They end with this value.
pub struct StorageStream {
    control: Arc<Control>,
    threads: Vec<JoinHandle<()>>,
    times: Arc<IoTimes>,
    plan: StoragePlan,
    target: Arc<IoTarget>,
}

impl StorageStream {
    /// Starts the threads. They stand still.
    ///
    /// # Errors
    /// The target may not be written, is smaller than the I/Os in flight, or has no direct I/O; a thread
    /// cannot be started, or has no memory.
    pub fn prepare(target: &Arc<IoTarget>, plan: StoragePlan) -> Result<StorageStream, BenchError> {
        let refused = |why| BenchError::Refused {
            path: target.path.display().to_string(),
            why,
        };
        if plan.operation.is_write() && !target.is_writable() {
            return Err(refused(
                "is only read: --write-device with its name once more allows writes",
            ));
        }
        if plan.block_bytes == 0 || plan.block_bytes > target.bytes {
            return Err(refused(
                "is smaller than one block: a smaller --block is needed",
            ));
        }
        let each = plan.threads_per_cpu();
        let threads = plan.cpus.len() * each;
        let mut stream = StorageStream {
            control: Control::new(threads),
            threads: Vec::new(),
            times: Arc::new(IoTimes::new()),
            plan,
            target: Arc::clone(target),
        };
        for place in 0..threads {
            stream.start(place, threads, stream.plan.cpus[place / each])?;
        }
        Ok(stream)
    }

    fn start(&mut self, place: usize, threads: usize, cpu: u32) -> Result<(), BenchError> {
        let control = Arc::clone(&self.control);
        let (plan, target, times) = (
            self.plan.clone(),
            Arc::clone(&self.target),
            Arc::clone(&self.times),
        );
        let make = move || worker(&plan, &target, &times, place, threads);
        let run = move |mut worker: Box<dyn Worker>, ready: &dyn Fn()| {
            obey(&control, place, &mut *worker, ready);
        };
        let name = format!("weir-io-{place}");
        self.threads.push(cpu::start_pinned(name, cpu, make, run)?);
        Ok(())
    }
}

fn worker(
    plan: &StoragePlan,
    target: &IoTarget,
    times: &Arc<IoTimes>,
    place: usize,
    threads: usize,
) -> Result<Box<dyn Worker>, BenchError> {
    let in_flight = match plan.engine {
        Engine::Ring => plan.depth.max(1),
        Engine::Caller => 1,
    };
    let wanted = plan.block_bytes.saturating_mul(u64::from(in_flight));
    let blocks = target.bytes / plan.block_bytes;
    let work = IoWork {
        file: target.reopen(plan.direct)?,
        path: target.path.display().to_string(),
        operation: plan.operation,
        block_bytes: plan.block_bytes,
        places: Places::new(
            plan.operation,
            blocks,
            place as u64,
            threads as u64,
            plan.seed,
        ),
        buffer: Buffer::on_node(usize::try_from(wanted).unwrap_or(usize::MAX), plan.node)?,
        node: plan.node,
        recorder: Recorder::new(times),
    };
    Ok(match plan.engine {
        Engine::Ring => Box::new(RingWorker::new(work, in_flight)?),
        Engine::Caller => Box::new(CallWorker::new(work)),
    })
}

impl Stream for StorageStream {
    fn control(&self) -> &Control {
        &self.control
    }

    fn threads_per_cpu(&self) -> usize {
        self.plan.threads_per_cpu()
    }

    fn counted(&mut self, count: u64, span_ns: u64, _: usize) -> StreamCount {
        let (p50, p99, cpu_ns) = self.times.take();
        StreamCount {
            span_ns,
            count,
            bytes: count * self.plan.block_bytes,
            latency_ns: p50,
            latency_p99_ns: p99,
            cpu_ns: Some(cpu_ns),
            run_ratio: None,
        }
    }

    fn settle(&self) -> Result<(), BenchError> {
        if self.plan.operation.is_write() && !self.plan.direct {
            self.target.settle()
        } else {
            Ok(())
        }
    }
}

impl Drop for StorageStream {
    fn drop(&mut self) {
        self.control.end();
        for thread in self.threads.drain(..) {
            // A thread that panicked has nothing to give back.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::streams::StartLine;

    fn plan(operation: StorageOperation, engine: Engine) -> StoragePlan {
        StoragePlan {
            operation,
            block_bytes: 4096,
            depth: 4,
            direct: false,
            engine,
            cpus: vec![cpu::allowed().unwrap()[0]],
            node: 0,
            seed: 3,
        }
    }

    #[test]
    fn each_engine_does_each_operation_and_counts_whole_blocks() {
        let target = Arc::new(IoTarget::create(&std::env::temp_dir(), 4 << 20, &|| false).unwrap());
        let mut engines = vec![Engine::Caller];
        engines.extend((Engine::found() == Engine::Ring).then_some(Engine::Ring));
        for engine in engines {
            for operation in StorageOperation::ALL {
                let Ok(mut stream) = StorageStream::prepare(&target, plan(operation, engine))
                else {
                    return eprintln!("SKIP storage: no memory can be bound to node 0 here");
                };
                for _ in 0..2 {
                    let before = stream.control().count();
                    stream.control().set_measuring(true);
                    stream
                        .control()
                        .go(&StartLine::new(stream.threads_per_cpu()), 4);
                    while stream.control().count() < before + 500 && !stream.control().has_failed()
                    {
                        std::thread::yield_now();
                    }
                    stream.control().stand();
                    stream.control().take_failure().unwrap();
                    let count = stream.control().count() - before;
                    let found = stream.counted(count, 1, 1);
                    assert_eq!(found.bytes, count * 4096, "{operation:?} {engine:?}");
                    assert!(found.latency_ns <= found.latency_p99_ns);
                    assert!(found.latency_ns.unwrap() > 0.0);
                }
                assert!(stream.check().is_ok());
                stream.settle().unwrap();
            }
        }
    }

    #[test]
    fn blocks_larger_than_the_target_are_refused() {
        let target = Arc::new(IoTarget::create(&std::env::temp_dir(), 1 << 20, &|| false).unwrap());
        for block_bytes in [0, (1 << 20) + 1, u64::MAX] {
            let plan = StoragePlan {
                block_bytes,
                ..plan(StorageOperation::Read, Engine::Caller)
            };
            let said = StorageStream::prepare(&target, plan)
                .err()
                .expect("it began");
            assert!(said.to_string().contains("--block"), "{said}");
        }
    }

    #[test]
    fn times_are_of_the_measured_span_only() {
        let times = Arc::new(IoTimes::new());
        let mut recorder = Recorder::new(&times);
        recorder.record(5);
        recorder.follow(true);
        (1..=100).for_each(|n| recorder.record(n * 1000));
        recorder.follow(false);
        recorder.record(9_000_000);
        recorder.hand_over();
        let (p50, p99, _) = times.take();
        let near = |value: Option<f64>, wanted: f64| (value.unwrap() / wanted - 1.0).abs() < 0.002;
        assert!(
            near(p50, 50_000.0) && near(p99, 99_000.0),
            "{p50:?} {p99:?}"
        );
        assert_eq!(times.take(), (None, None, 0));
    }
}
