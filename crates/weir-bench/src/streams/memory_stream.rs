// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A stream of memory traffic: one pinned thread on each CPU, each with memory of its own on one node.

use super::control::{Control, Worker, obey};
use super::thread_time::ThreadTime;
use super::{Stream, StreamCount};
use crate::chase::BATCH_LOADS;
use crate::kernels::{Kernel, Operation};
use crate::{BenchError, Buffer, LINE_BYTES, Ring, cpu};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;

/// Memory that direct stores out of a node go to.
const OTHER_BYTES: usize = 2 << 20;

/// What a stream of memory traffic is to do.
#[derive(Clone, Debug)]
pub struct MemoryPlan {
    pub kernel: Kernel,
    /// One thread on each.
    pub cpus: Vec<u32>,
    pub node: u32,
    /// Where [`Operation::Movdir64bFrom`] stores to.
    pub other_node: u32,
    /// Memory of each thread, rounded up to huge pages.
    pub thread_bytes: usize,
    /// Seed of the order of the chase.
    pub seed: u64,
}

/// Threads that go over their memory when they are told to. They end with this value.
pub struct MemoryStream {
    control: Arc<Control>,
    threads: Vec<JoinHandle<()>>,
    plan: MemoryPlan,
    /// CPU time of the threads in a measurement.
    run_ns: Arc<AtomicU64>,
}

impl MemoryStream {
    /// Starts the threads and gives each its memory. They stand still.
    ///
    /// # Errors
    /// The first that cannot be started, or has no memory there.
    pub fn prepare(plan: MemoryPlan) -> Result<MemoryStream, BenchError> {
        let mut stream = MemoryStream {
            control: Control::new(plan.cpus.len()),
            threads: Vec::new(),
            plan,
            run_ns: Arc::default(),
        };
        for (place, cpu) in stream.plan.cpus.clone().into_iter().enumerate() {
            let (control, plan) = (Arc::clone(&stream.control), stream.plan.clone());
            let run_time = ThreadTime::new(&stream.run_ns);
            let make = move || LineWorker::new(&plan, place, run_time);
            let run = move |mut worker: LineWorker, ready: &dyn Fn()| {
                obey(&control, place, &mut worker, ready);
            };
            let name = format!("weir-mem-{place}");
            stream
                .threads
                .push(cpu::start_pinned(name, cpu, make, run)?);
        }
        Ok(stream)
    }

    /// Bytes that the node moves for a counted line.
    fn bytes_per_line(&self) -> u64 {
        let operation = self.plan.kernel.operation;
        let traffic = operation.traffic(self.plan.other_node == self.plan.node);
        (traffic.read + traffic.written) * LINE_BYTES as u64
    }
}

impl Stream for MemoryStream {
    fn control(&self) -> &Control {
        &self.control
    }

    fn counted(&mut self, count: u64, span_ns: u64, threads: usize) -> StreamCount {
        let latency_ns = (self.plan.kernel.operation == Operation::LdChase && count > 0)
            .then(|| span_ns as f64 * threads as f64 / count as f64);
        let all_ns = span_ns as f64 * threads.max(1) as f64;
        StreamCount {
            span_ns,
            count,
            bytes: count * self.bytes_per_line(),
            latency_ns,
            latency_p99_ns: None,
            cpu_ns: None,
            run_ratio: Some(self.run_ns.swap(0, Ordering::Relaxed) as f64 / all_ns),
        }
    }
}

impl Drop for MemoryStream {
    fn drop(&mut self) {
        self.control.end();
        for thread in self.threads.drain(..) {
            // A thread that panicked has nothing to give back.
            let _ = thread.join();
        }
    }
}

#[repr(align(64))]
struct Line([u8; LINE_BYTES]);

enum Ground {
    Ring(Box<Ring>),
    /// Chunks of a buffer. The other side of a copy is its second half, a buffer of its own, or one line.
    Chunks {
        buffer: Buffer,
        other: Option<Buffer>,
        line: Box<Line>,
    },
}

struct LineWorker {
    kernel: Kernel,
    node: u32,
    ground: Ground,
    at_bytes: usize,
    run_time: ThreadTime,
}

impl LineWorker {
    fn new(
        plan: &MemoryPlan,
        place: usize,
        run_time: ThreadTime,
    ) -> Result<LineWorker, BenchError> {
        let buffer = Buffer::on_node(plan.thread_bytes, plan.node)?;
        let other = match plan.kernel.operation {
            Operation::Movdir64bFrom => Some(Buffer::on_node(OTHER_BYTES, plan.other_node)?),
            _ => None,
        };
        let ground = match plan.kernel.operation {
            Operation::LdChase => {
                Ground::Ring(Box::new(Ring::new(buffer, plan.seed ^ place as u64)))
            }
            _ => Ground::Chunks {
                buffer,
                other,
                line: Box::new(Line([0xff; LINE_BYTES])),
            },
        };
        Ok(LineWorker {
            kernel: plan.kernel,
            node: plan.node,
            ground,
            at_bytes: 0,
            run_time,
        })
    }
}

impl Worker for LineWorker {
    fn step(&mut self, is_measuring: bool) -> Result<u64, BenchError> {
        self.run_time.follow(is_measuring);
        match &mut self.ground {
            Ground::Ring(ring) => {
                ring.batch();
                Ok(u64::from(BATCH_LOADS))
            }
            Ground::Chunks {
                buffer,
                other,
                line,
            } => {
                let lines = self.kernel.chunk_lines();
                let chunk_bytes = lines * LINE_BYTES;
                // A copy goes from the second half to the first.
                let is_copy =
                    matches!(self.kernel.operation, Operation::Copy | Operation::RepMovsb);
                let span = if is_copy {
                    buffer.bytes() / 2
                } else {
                    buffer.bytes()
                };
                let at = buffer.start().wrapping_add(self.at_bytes);
                let side = match other {
                    Some(other) => other.start().wrapping_add(self.at_bytes % other.bytes()),
                    None if is_copy => at.wrapping_add(span),
                    None => line.0.as_mut_ptr(),
                };
                if let Some(code) = self.kernel.code {
                    // SAFETY: whole chunks within the buffers; kernels without another side do not touch it,
                    // and direct stores into the node read one line there.
                    unsafe { code(at, side, lines) };
                }
                self.at_bytes = (self.at_bytes + chunk_bytes) % span;
                Ok(lines as u64)
            }
        }
    }

    fn finish(&mut self) -> Result<(), BenchError> {
        self.run_time.follow(false);
        Ok(())
    }

    fn check(&self) -> Result<(), BenchError> {
        match &self.ground {
            Ground::Ring(ring) => ring.check(self.node),
            Ground::Chunks { buffer, .. } => buffer.check(self.node),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(kernel: Kernel, node: u32) -> MemoryPlan {
        MemoryPlan {
            kernel,
            cpus: vec![cpu::allowed().unwrap()[0]],
            node,
            other_node: node,
            thread_bytes: 2 << 20,
            seed: 1,
        }
    }

    #[test]
    fn a_worker_writes_as_many_lines_as_it_counts() {
        for operation in [
            Operation::St,
            Operation::Ntst,
            Operation::StClwb,
            Operation::Copy,
        ] {
            let Ok(kernel) = operation.kernel(None) else {
                continue;
            };
            let Ok(mut worker) =
                LineWorker::new(&plan(kernel, 0), 0, ThreadTime::new(&Arc::default()))
            else {
                return eprintln!("SKIP workers: no memory can be bound to node 0 here");
            };
            let Ground::Chunks { buffer, .. } = &worker.ground else {
                panic!()
            };
            let (start, bytes) = (buffer.start(), buffer.bytes());
            if operation == Operation::Copy {
                // SAFETY: the second half, which is copied.
                unsafe { start.add(bytes / 2).write_bytes(1, bytes / 2) };
            }
            let counted: u64 = (0..10).map(|_| worker.step(false).unwrap()).sum();
            // SAFETY: the buffer, which nothing writes now.
            let seen = unsafe { std::slice::from_raw_parts(start, bytes / 2) };
            let written = seen
                .chunks(LINE_BYTES)
                .filter(|line| !line.contains(&0))
                .count();
            assert_eq!(written as u64, counted, "{}", operation.name());
            worker.check().unwrap();
        }
    }

    #[test]
    fn a_worker_comes_around_within_its_memory() {
        for operation in Operation::ALL {
            let Ok(kernel) = operation.kernel(None) else {
                continue;
            };
            let Ok(mut worker) =
                LineWorker::new(&plan(kernel, 0), 0, ThreadTime::new(&Arc::default()))
            else {
                return eprintln!("SKIP workers: no memory can be bound to node 0 here");
            };
            let lines = (4 << 20) / LINE_BYTES as u64;
            let mut counted = 0;
            while counted < lines {
                counted += worker.step(false).unwrap();
            }
            assert_eq!(worker.at_bytes, 0, "{}", operation.name());
        }
    }

    #[test]
    fn threads_move_lines_when_told_and_stand_otherwise() {
        let kernel = Operation::Ld.kernel(None).unwrap();
        let Ok(mut stream) = MemoryStream::prepare(plan(kernel, 0)) else {
            return eprintln!("SKIP streams: no memory can be bound to node 0 here");
        };
        assert_eq!(stream.control().count(), 0, "it began by itself");
        for round in 1..4 {
            let line = super::super::StartLine::new(1);
            let before = stream.control().count();
            stream.control().go(&line, 1);
            while stream.control().count() < before + 4096 {
                std::thread::yield_now();
            }
            stream.control().stand();
            let after = stream.control().count();
            assert_eq!(after % 64, 0, "round {round}");
            stream.control().check();
            assert_eq!(
                stream.control().count(),
                after,
                "it went on in round {round}"
            );
        }
        stream.control().take_failure().unwrap();
        let counted = stream.counted(1000, 10, 1);
        assert_eq!((counted.bytes, counted.latency_ns), (64_000, None));
    }

    #[test]
    fn a_node_that_is_not_there_is_named() {
        let kernel = Operation::Ld.kernel(None).unwrap();
        let said = MemoryStream::prepare(plan(kernel, 1023))
            .err()
            .expect("it began");
        assert!(said.to_string().contains("node1023"), "{said}");
    }
}
