// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A bounded queue from the loop to a thread. The loop never waits for a pipe, a disk or a server: what does
//! not fit is lost, and counted.

pub mod json_lines;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::thread;
use std::time::Duration;

/// Items that wait at most, unless said otherwise: three seconds of a stuck disk or reader at 50 ms a tick.
pub const QUEUE_ITEMS: usize = 64;

/// The sending half; clones send into the same queue, and count together.
pub struct Lossy<T> {
    queue: SyncSender<T>,
    lost: Arc<AtomicU64>,
}

impl<T> Clone for Lossy<T> {
    fn clone(&self) -> Lossy<T> {
        Lossy {
            queue: self.queue.clone(),
            lost: Arc::clone(&self.lost),
        }
    }
}

/// What the thread returns at its end.
pub struct Drained<R>(Receiver<R>);

/// Why there is no result of the thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotDrained {
    /// The thread still works on what is in the queue.
    Late,
    /// The thread ended without a result.
    Ended,
}

impl<T: Send + 'static> Lossy<T> {
    /// Starts a thread called `name` that runs `work` over the items, until all senders are gone.
    ///
    /// # Errors
    /// The kernel gives no thread.
    pub fn start<R: Send + 'static>(
        name: &str,
        work: impl FnOnce(Receiver<T>) -> R + Send + 'static,
    ) -> io::Result<(Lossy<T>, Drained<R>)> {
        let (queue, items) = sync_channel(QUEUE_ITEMS);
        let (ended, drained) = sync_channel(1);
        thread::Builder::new().name(name.into()).spawn(move || {
            // The other side may have stopped waiting.
            let _ = ended.send(work(items));
        })?;
        let lost = Arc::default();
        Ok((Lossy { queue, lost }, Drained(drained)))
    }

    /// Queues an item. Never waits.
    ///
    /// # Errors
    /// The queue is full or the thread has ended: the item comes back, and is counted as lost.
    pub fn send(&self, item: T) -> Result<(), T> {
        self.try_send(item).map_err(|refused| {
            self.lost.fetch_add(1, Ordering::Relaxed);
            match refused {
                TrySendError::Full(item) | TrySendError::Disconnected(item) => item,
            }
        })
    }

    /// Queues an item that may be tried again: it is not counted.
    ///
    /// # Errors
    /// The queue is full, or the thread has ended.
    pub fn try_send(&self, item: T) -> Result<(), TrySendError<T>> {
        self.queue.try_send(item)
    }

    pub fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }
}

impl<R> Drained<R> {
    /// Waits for the thread's result, once all senders are gone.
    ///
    /// # Errors
    /// There is none within `limit`, or there will never be one.
    pub fn within(&self, limit: Duration) -> Result<R, NotDrained> {
        self.0.recv_timeout(limit).map_err(|error| match error {
            RecvTimeoutError::Timeout => NotDrained::Late,
            RecvTimeoutError::Disconnected => NotDrained::Ended,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_that_do_not_fit_are_lost_and_counted() {
        let (gate, wait) = sync_channel::<()>(0);
        let work = move |items: Receiver<u32>| {
            let _ = wait.recv();
            items.into_iter().count()
        };
        let (lossy, drained) = Lossy::start("test", work).unwrap();
        let beside = lossy.clone();
        let sent = (0..200).filter(|n| lossy.send(*n).is_ok()).count();
        assert_eq!(sent, QUEUE_ITEMS);
        assert_eq!(beside.send(7), Err(7));
        assert_eq!(lossy.lost(), 201 - sent as u64);
        assert!(matches!(lossy.try_send(7), Err(TrySendError::Full(7))));
        assert_eq!(lossy.lost(), 201 - sent as u64, "tried only");
        gate.send(()).unwrap();
        drop((lossy, beside));
        assert_eq!(drained.within(Duration::from_secs(60)), Ok(sent));
    }

    #[test]
    fn a_thread_that_is_stuck_or_gone_is_not_waited_for() {
        let (gate, wait) = sync_channel::<()>(0);
        let stuck = move |_: Receiver<()>| {
            let _ = wait.recv();
        };
        let (lossy, drained) = Lossy::start("test", stuck).unwrap();
        assert_eq!(drained.within(Duration::ZERO), Err(NotDrained::Late));
        drop((lossy, gate));
        let breaks = |items: Receiver<()>| {
            drop(items);
            std::panic::resume_unwind(Box::new("a test"));
        };
        let (lossy, drained) = Lossy::<()>::start::<()>("test", breaks).unwrap();
        let end = drained.within(Duration::from_secs(60));
        assert_eq!(end, Err(NotDrained::Ended));
        assert_eq!(lossy.send(()), Err(()));
    }
}
