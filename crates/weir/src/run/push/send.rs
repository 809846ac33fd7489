// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The thread that has batches posted: one at a time, oldest first, and ever later while the server is away.
//! The post itself is another process's ([`super::post`]).

use super::queue::Queue;
use super::target::Target;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tracing::{info, warn};

/// The wait after the first failure; it doubles up to the second.
const WAIT_FIRST: Duration = Duration::from_secs(1);
const WAIT_MOST: Duration = Duration::from_secs(60);

#[derive(Debug, PartialEq, Eq)]
pub enum Failure {
    /// It can be tried again.
    Later(String),
    /// This batch will never be taken.
    Never(String),
}

/// Posts one batch, and waits for what becomes of it.
pub type Post = Box<dyn FnMut(&Arc<[u8]>) -> Result<(), Failure> + Send>;

/// How the server has behaved.
pub struct Sender {
    post: Post,
    target: Target,
    wait: Duration,
    /// Batches dropped when the trouble began.
    in_trouble: Option<u64>,
    said_dropping: bool,
}

impl Sender {
    /// Nothing is sent yet.
    pub fn new(target: Target, post: Post) -> Sender {
        Sender {
            post,
            target,
            wait: WAIT_FIRST,
            in_trouble: None,
            said_dropping: false,
        }
    }

    /// Sends until the queue is closed; then what is left, if the server takes it at once.
    pub fn run(mut self, queue: &Queue) {
        let mut from = Instant::now();
        while let Some(batch) = queue.next(from) {
            match (self.post)(&batch.body) {
                Ok(()) => {
                    queue.sent(&batch);
                    self.recovered(queue);
                    from = Instant::now();
                }
                Err(Failure::Never(why)) => {
                    queue.refused(&batch);
                    self.refused(queue, &why);
                    from = Instant::now();
                }
                Err(Failure::Later(_)) if queue.is_closed() => return,
                Err(Failure::Later(why)) => {
                    self.failed(queue, &why);
                    from = Instant::now() + self.wait;
                    self.wait = (self.wait * 2).min(WAIT_MOST);
                }
            }
        }
    }

    fn failed(&mut self, queue: &Queue, why: &str) {
        let delivery = queue.delivery();
        let dropped = delivery.dropped_batches_total;
        let target = &self.target;
        let wait = self.wait;
        queue.trouble(Some(why.to_owned()));
        match self.in_trouble {
            None => {
                self.in_trouble = Some(dropped);
                self.said_dropping = false;
                warn!(
                    "push: {target}: {why}; batches are kept, the next try is in {wait:?}, then \
                     ever later, up to {WAIT_MOST:?}"
                );
            }
            Some(before) if dropped > before && !self.said_dropping => {
                self.said_dropping = true;
                warn!(
                    "push: {target}: {why}; at most {} batches are kept: from now \
                     on the oldest are dropped",
                    delivery.waiting_batches
                );
            }
            Some(_) => {}
        }
    }

    fn refused(&mut self, queue: &Queue, why: &str) {
        self.wait = WAIT_FIRST;
        // The same every time, until something is taken.
        if self.in_trouble.is_none() {
            self.in_trouble = Some(queue.delivery().dropped_batches_total.saturating_sub(1));
            self.said_dropping = true;
            let target = &self.target;
            warn!("push: {target}: {why}; what it refuses is dropped and counted");
        }
        queue.trouble(Some(why.to_owned()));
    }

    fn recovered(&mut self, queue: &Queue) {
        self.wait = WAIT_FIRST;
        queue.trouble(None);
        if let Some(before) = self.in_trouble.take() {
            let delivery = queue.delivery();
            let lost = delivery.dropped_batches_total.saturating_sub(before);
            let target = &self.target;
            info!("push: {target} takes batches again; {lost} were dropped meanwhile");
        }
    }
}
