// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Batches that wait for the server. Their number is bounded; then the oldest are dropped and counted.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use weir_core::seam::snapshot::Delivery;

/// An hour at one batch each 10 s.
const BATCHES_MAX: usize = 360;
const BYTES_MAX: usize = 8 << 20;
/// A batch has at most so many bytes, unless a line alone is longer.
const BATCH_BYTES: usize = 1 << 20;

/// What waits, and what became of the rest.
#[derive(Default)]
struct State {
    batches: VecDeque<Arc<[u8]>>,
    bytes: usize,
    /// The number of the oldest batch that waits, counted from the first there ever was.
    first: u64,
    closed: bool,
    delivery: Delivery,
}

/// Shared by the thread that makes batches and the one that sends them.
#[derive(Default)]
pub struct Queue {
    state: Mutex<State>,
    changed: Condvar,
}

/// The oldest batch; it stays in the queue until it is settled.
pub struct Next {
    number: u64,
    /// The body of its request.
    pub body: Arc<[u8]>,
}

impl Queue {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds lines at the end, and drops from the front what exceeds the bounds.
    pub fn add(&self, lines: &str) {
        // Copied before the lock is taken.
        let batches = pieces(lines).into_iter();
        self.put(batches.map(|lines| lines.as_bytes().into()).collect());
    }

    /// Adds bodies of requests at the end, likewise.
    pub fn add_bodies(&self, bodies: Vec<Vec<u8>>) {
        self.put(bodies.into_iter().map(Into::into).collect());
    }

    fn put(&self, batches: Vec<Arc<[u8]>>) {
        let mut state = self.state();
        for batch in batches {
            state.bytes += batch.len();
            state.batches.push_back(batch);
        }
        let mut dropped = 0;
        while state.batches.len() > 1
            && (state.batches.len() > BATCHES_MAX || state.bytes > BYTES_MAX)
        {
            state.drop_first();
            dropped += 1;
        }
        state.delivery.dropped_batches_total += dropped;
        drop(state);
        self.changed.notify_all();
    }

    /// Nothing more will come.
    pub fn close(&self) {
        self.state().closed = true;
        self.changed.notify_all();
    }

    /// Whether nothing more will come.
    pub fn is_closed(&self) -> bool {
        self.state().closed
    }

    /// Waits for a batch, and until `from` unless the queue is closed meanwhile; nothing after the last.
    pub fn next(&self, from: Instant) -> Option<Next> {
        let mut state = self.state();
        loop {
            let early = from.saturating_duration_since(Instant::now());
            let wait = if state.closed { Duration::ZERO } else { early };
            if wait.is_zero() {
                if let Some(body) = state.batches.front() {
                    let body = Arc::clone(body);
                    let number = state.first;
                    return Some(Next { number, body });
                }
                if state.closed {
                    return None;
                }
                state = self
                    .changed
                    .wait(state)
                    .unwrap_or_else(PoisonError::into_inner);
            } else {
                let waited = self.changed.wait_timeout(state, wait);
                state = waited.unwrap_or_else(PoisonError::into_inner).0;
            }
        }
    }

    pub fn sent(&self, batch: &Next) {
        let mut state = self.state();
        // Dropped while it was on its way: then it was counted as such, and is in truth both.
        state.take(batch);
        state.delivery.sent_batches_total += 1;
    }

    /// The server will never take it.
    pub fn refused(&self, batch: &Next) {
        let mut state = self.state();
        if state.take(batch) {
            state.delivery.dropped_batches_total += 1;
        }
    }

    /// Ticks that did not even become lines.
    pub fn missed(&self, ticks: u64) {
        self.state().delivery.missed_ticks_total += ticks;
    }

    /// Why nothing arrives; nothing while all is well.
    pub fn trouble(&self, why: Option<String>) {
        self.state().delivery.trouble = why;
    }

    /// What became of all of it.
    pub fn delivery(&self) -> Delivery {
        let state = self.state();
        Delivery {
            waiting_batches: state.batches.len() as u64,
            ..state.delivery.clone()
        }
    }
}

impl State {
    fn drop_first(&mut self) {
        if let Some(batch) = self.batches.pop_front() {
            self.bytes -= batch.len();
            self.first += 1;
        }
    }

    /// Removes it, if it was not dropped meanwhile.
    fn take(&mut self, batch: &Next) -> bool {
        let is_there = self.first == batch.number;
        if is_there {
            self.drop_first();
        }
        is_there
    }
}

/// Whole lines, about [`BATCH_BYTES`] at a time.
fn pieces(mut lines: &str) -> Vec<&str> {
    let mut pieces = Vec::new();
    while !lines.is_empty() {
        let line_end = |text: &[u8]| text.iter().rposition(|byte| *byte == b'\n');
        let first_end = || lines.find('\n');
        let head = &lines.as_bytes()[..lines.len().min(BATCH_BYTES)];
        let end = if lines.len() <= BATCH_BYTES {
            lines.len()
        } else {
            line_end(head)
                .or_else(first_end)
                .map_or(lines.len(), |end| end + 1)
        };
        let (piece, rest) = lines.split_at(end);
        pieces.push(piece);
        lines = rest;
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> Instant {
        Instant::now()
    }

    #[test]
    fn the_oldest_go_when_there_is_no_room() {
        let queue = Queue::default();
        for number in 0..BATCHES_MAX + 5 {
            queue.add(&format!("line {number}\n"));
        }
        let delivery = queue.delivery();
        assert_eq!(delivery.dropped_batches_total, 5);
        assert_eq!(delivery.waiting_batches, BATCHES_MAX as u64);
        let next = queue.next(now()).unwrap();
        assert_eq!(&*next.body, b"line 5\n");
        queue.sent(&next);
        assert_eq!(&*queue.next(now()).unwrap().body, b"line 6\n");
        assert_eq!(queue.delivery().sent_batches_total, 1);
    }

    #[test]
    fn bytes_are_bounded_and_lines_stay_whole() {
        let queue = Queue::default();
        let line = format!("{}\n", "x".repeat(999));
        let many = line.repeat(BYTES_MAX / line.len() + 3000);
        queue.add(&many);
        let state = queue.state();
        assert!(state.bytes <= BYTES_MAX, "{}", state.bytes);
        for batch in &state.batches {
            assert!(batch.len() <= BATCH_BYTES && batch.len().is_multiple_of(line.len()));
        }
        drop(state);
        // A line that exceeds the bound alone is kept as long as it is the newest.
        queue.add(&format!("{}\n", "é".repeat(BYTES_MAX)));
        assert_eq!(queue.delivery().waiting_batches, 1);
        queue.add("short\n");
        assert_eq!(&*queue.next(now()).unwrap().body, b"short\n");
    }

    #[test]
    fn what_is_dropped_on_its_way_does_not_take_another_with_it() {
        let queue = Queue::default();
        queue.add("first\n");
        let next = queue.next(now()).unwrap();
        for number in 0..BATCHES_MAX {
            queue.add(&format!("line {number}\n"));
        }
        queue.refused(&next);
        assert_eq!(&*queue.next(now()).unwrap().body, b"line 0\n");
        assert_eq!(queue.delivery().dropped_batches_total, 1);
    }

    #[test]
    fn a_waiting_thread_is_woken_by_the_end() {
        let queue = Arc::new(Queue::default());
        queue.add("last\n");
        let waiter = Arc::clone(&queue);
        let far = now() + Duration::from_secs(3600);
        let thread = std::thread::spawn(move || {
            let next = waiter.next(far).unwrap();
            waiter.sent(&next);
            waiter.next(far).is_none()
        });
        queue.close();
        assert!(thread.join().unwrap());
    }
}
