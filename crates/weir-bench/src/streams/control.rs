// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How the threads of a stream are commanded, and where they count.

use crate::BenchError;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// Threads of several streams begin together: each waits here until all are here.
#[derive(Debug)]
pub struct StartLine {
    expected: usize,
    arrived: AtomicUsize,
}

impl StartLine {
    /// A start line for so many threads.
    pub fn new(expected: usize) -> Arc<StartLine> {
        Arc::new(StartLine {
            expected,
            arrived: AtomicUsize::new(0),
        })
    }

    pub fn is_complete(&self) -> bool {
        self.arrived.load(Ordering::Acquire) >= self.expected
    }

    fn wait(&self, control: &Control) {
        self.arrived.fetch_add(1, Ordering::AcqRel);
        while !self.is_complete() && control.is_running() {
            std::thread::yield_now();
        }
    }
}

#[derive(Clone)]
enum Command {
    /// The first so many threads work; the others stand.
    Go(Arc<StartLine>, usize),
    Check,
    End,
}

struct Orders {
    command: Command,
    /// Rises with each command.
    number: u64,
    done: usize,
    alive: usize,
}

/// Each thread counts here. The count stands on a line of its own, so that threads do not take it from each
/// other.
#[repr(align(128))]
struct ThreadCount(AtomicU64);

/// The orders to the threads of one stream, and their counts.
pub struct Control {
    orders: Mutex<Orders>,
    changed: Condvar,
    running: AtomicBool,
    measuring: AtomicBool,
    counts: Vec<ThreadCount>,
    failure: Mutex<Option<BenchError>>,
}

/// What one thread of a stream does.
pub(crate) trait Worker {
    /// A small piece of the work; what is added to the thread's count.
    fn step(&mut self, is_measuring: bool) -> Result<u64, BenchError>;
    /// Finishes what is under way, before the thread stands still.
    fn finish(&mut self) -> Result<(), BenchError> {
        Ok(())
    }
    /// Whether its memory still is where it was put.
    fn check(&self) -> Result<(), BenchError>;
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A thread that panicked left nothing half done behind these locks.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Control {
    pub(crate) fn new(threads: usize) -> Arc<Control> {
        Arc::new(Control {
            orders: Mutex::new(Orders {
                command: Command::End,
                number: 0,
                done: 0,
                alive: 0,
            }),
            changed: Condvar::new(),
            running: AtomicBool::new(false),
            measuring: AtomicBool::new(false),
            counts: (0..threads)
                .map(|_| ThreadCount(AtomicU64::new(0)))
                .collect(),
            failure: Mutex::new(None),
        })
    }

    fn order(&self, command: Command) {
        let mut orders = locked(&self.orders);
        orders.command = command;
        orders.number += 1;
        orders.done = 0;
        self.changed.notify_all();
    }

    fn wait_done(&self) {
        let mut orders = locked(&self.orders);
        while orders.done < orders.alive {
            orders = self
                .changed
                .wait(orders)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// The first so many threads begin, together with others that wait at the line.
    pub(crate) fn go(&self, line: &Arc<StartLine>, threads: usize) {
        self.running.store(true, Ordering::Release);
        self.order(Command::Go(Arc::clone(line), threads));
    }

    /// All threads finish what they do. Returns when they stand.
    pub(crate) fn stand(&self) {
        self.running.store(false, Ordering::Release);
        self.wait_done();
    }

    /// All threads look where their memory is.
    pub(crate) fn check(&self) {
        self.order(Command::Check);
        self.wait_done();
    }

    pub(crate) fn end(&self) {
        self.running.store(false, Ordering::Release);
        self.order(Command::End);
    }

    pub(crate) fn is_running(&self) -> bool {
        self.running.load(Ordering::Acquire)
    }

    pub(crate) fn set_measuring(&self, on: bool) {
        self.measuring.store(on, Ordering::Release);
    }

    /// Sum of the threads' counts.
    pub(crate) fn count(&self) -> u64 {
        let counts = self.counts.iter();
        counts.map(|count| count.0.load(Ordering::Relaxed)).sum()
    }

    pub(crate) fn has_failed(&self) -> bool {
        locked(&self.failure).is_some()
    }

    /// The first thing that went wrong since the last call.
    pub(crate) fn take_failure(&self) -> Result<(), BenchError> {
        locked(&self.failure).take().map_or(Ok(()), Err)
    }

    fn fail(&self, error: BenchError) {
        locked(&self.failure).get_or_insert(error);
    }

    /// Waits for a command that is not yet known.
    fn next(&self, known: &mut u64) -> Command {
        let mut orders = locked(&self.orders);
        while orders.number == *known {
            orders = self
                .changed
                .wait(orders)
                .unwrap_or_else(PoisonError::into_inner);
        }
        *known = orders.number;
        orders.command.clone()
    }

    fn done(&self) {
        locked(&self.orders).done += 1;
        self.changed.notify_all();
    }
}

/// Counts a thread as alive as long as it is, also when it panics.
struct Alive<'a>(&'a Control);

impl Drop for Alive<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let why = std::io::Error::other("a thread of the stream panicked");
            self.0.fail(BenchError::Thread(why));
        }
        locked(&self.0.orders).alive -= 1;
        self.0.changed.notify_all();
    }
}

/// The life of a thread: it does what it is told. `ready` is called as soon as it listens.
pub(crate) fn obey(control: &Control, place: usize, worker: &mut dyn Worker, ready: impl FnOnce()) {
    let mut known = {
        let mut orders = locked(&control.orders);
        orders.alive += 1;
        orders.number
    };
    let alive = Alive(control);
    ready();
    loop {
        let result = match control.next(&mut known) {
            Command::End => break,
            Command::Check => worker.check(),
            Command::Go(_, threads) if place >= threads => Ok(()),
            Command::Go(line, _) => {
                line.wait(control);
                work(control, place, worker)
            }
        };
        if let Err(error) = result {
            control.fail(error);
        }
        control.done();
    }
    drop(alive);
}

fn work(control: &Control, place: usize, worker: &mut dyn Worker) -> Result<(), BenchError> {
    let count = control.counts.get(place);
    while control.is_running() {
        let is_measuring = control.measuring.load(Ordering::Acquire);
        let more = worker.step(is_measuring)?;
        if let Some(count) = count {
            count.0.fetch_add(more, Ordering::Relaxed);
        }
    }
    worker.finish()
}
