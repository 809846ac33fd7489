// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Streams of traffic that are measured together: all begin at one line, and what each moves in the same span
//! is counted.
//!
//! ```text
//! memory_stream ─┐                              ┌─ count, bytes
//! storage        ┴─► control (threads) ─► measure ┴─ latency, CPU time
//! ```

mod control;
mod memory_stream;
mod thread_time;

pub use control::{Control, StartLine};
pub(crate) use control::{Worker, obey};
pub use memory_stream::{MemoryPlan, MemoryStream};
pub(crate) use thread_time::ThreadTime;

use crate::{BenchError, cpu};
use std::time::Duration;

/// How often the one that measures looks whether it is to stop.
const LOOK: Duration = Duration::from_millis(20);
/// How often it looks whether all threads are at the line.
const BEGIN_LOOK: Duration = Duration::from_micros(200);

/// Threads that move something when they are told to.
pub trait Stream {
    fn control(&self) -> &Control;
    fn threads_per_cpu(&self) -> usize {
        1
    }
    /// What a count within a span means, of so many threads. Called once after each measurement, while the
    /// threads stand.
    fn counted(&mut self, count: u64, span_ns: u64, threads: usize) -> StreamCount;

    /// Whether its memory still is where it was put.
    ///
    /// # Errors
    /// Pages are on another node, or the kernel does not say.
    fn check(&self) -> Result<(), BenchError> {
        self.control().check();
        self.control().take_failure()
    }

    /// Waits until nothing of a measurement is under way any more.
    ///
    /// # Errors
    /// What was written cannot be written back.
    fn settle(&self) -> Result<(), BenchError> {
        Ok(())
    }
}

/// What a stream did within a span.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StreamCount {
    pub span_ns: u64,
    /// Cache lines of memory, or I/Os of storage.
    pub count: u64,
    /// Bytes that memory or storage moved for them.
    pub bytes: u64,
    /// Mean of a chased load, or median of an I/O.
    pub latency_ns: Option<f64>,
    /// 99th percentile of an I/O.
    pub latency_p99_ns: Option<f64>,
    /// CPU time of the stream's threads.
    pub cpu_ns: Option<u64>,
    /// The part of the span in which the threads ran, on average; of streams of which all threads work all
    /// the time.
    pub run_ratio: Option<f64>,
}

/// A stream that takes part in a measurement, on the first so many of its CPUs.
pub struct Part<'a> {
    pub stream: &'a mut dyn Stream,
    /// How many of its CPUs work.
    pub cpus: usize,
}

impl Part<'_> {
    fn threads(&self) -> usize {
        self.cpus * self.stream.threads_per_cpu()
    }

    /// The count, and the time of the monotonic clock in nanoseconds.
    fn mark(&self) -> (u64, u64) {
        (self.stream.control().count(), cpu::now_ns())
    }
}

/// Runs these streams together, and no others: what each did within the span, in their order. Nothing if it
/// was stopped.
///
/// # Errors
/// A stream failed.
pub fn measure(
    parts: &mut [Part<'_>],
    warm: Duration,
    span: Duration,
    is_stopped: &dyn Fn() -> bool,
) -> Result<Option<Vec<StreamCount>>, BenchError> {
    let found = measure_while(parts, warm, is_stopped, |is_over| wait(span, is_over))?;
    Ok(found.and_then(|(is_whole, counts)| is_whole.then_some(counts)))
}

/// The same for a span that lasts as long as the job. The job is told when all is over: a stream failed, or
/// it was stopped.
///
/// # Errors
/// A stream failed.
pub fn measure_while<T>(
    parts: &mut [Part<'_>],
    warm: Duration,
    is_stopped: &dyn Fn() -> bool,
    job: impl FnOnce(&dyn Fn() -> bool) -> T,
) -> Result<Option<(T, Vec<StreamCount>)>, BenchError> {
    let line = StartLine::new(parts.iter().map(Part::threads).sum());
    parts
        .iter()
        .for_each(|p| p.stream.control().go(&line, p.threads()));
    let set_measuring = |on| {
        parts
            .iter()
            .for_each(|p| p.stream.control().set_measuring(on))
    };
    let marks = {
        let has_failed = || parts.iter().any(|p| p.stream.control().has_failed());
        let is_over = || is_stopped() || has_failed();
        while !line.is_complete() && !is_over() {
            std::thread::sleep(BEGIN_LOOK);
        }
        wait(warm, &is_over).then(|| {
            set_measuring(true);
            let before: Vec<_> = parts.iter().map(Part::mark).collect();
            let result = job(&is_over);
            let after: Vec<_> = parts.iter().map(Part::mark).collect();
            set_measuring(false);
            (result, before, after)
        })
    };
    parts.iter().for_each(|p| p.stream.control().stand());
    for part in parts.iter() {
        part.stream.control().take_failure()?;
        part.stream.settle()?;
    }
    let Some((result, before, after)) = marks else {
        return Ok(None);
    };
    let spans = before.into_iter().zip(after);
    let counts = parts.iter_mut().zip(spans).map(|(part, (first, last))| {
        let (span_ns, threads) = (last.1.saturating_sub(first.1).max(1), part.threads());
        let count = last.0.wrapping_sub(first.0);
        part.stream.counted(count, span_ns, threads)
    });
    let counts = counts.collect();
    Ok(Some((result, counts)))
}

/// Waits; false if it was over before.
fn wait(time: Duration, is_over: &dyn Fn() -> bool) -> bool {
    let end_ns = cpu::now_ns().saturating_add(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
    loop {
        if is_over() {
            return false;
        }
        let left_ns = end_ns.saturating_sub(cpu::now_ns());
        if left_ns == 0 {
            return true;
        }
        std::thread::sleep(Duration::from_nanos(left_ns).min(LOOK));
    }
}
