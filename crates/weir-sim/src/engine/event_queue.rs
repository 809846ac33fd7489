// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The calendar of events. Events of the same time happen in the order in which they were queued:
//! the pair (time, sequence) makes ties total, so a run depends on nothing but its seed.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Event {
    /// A CPU's tick at which something may change.
    Tick {
        cpu: u32,
        generation: u32,
    },
    /// The refill of a group's quota.
    Period {
        group: u32,
        generation: u32,
    },
    /// Unused quota that CPUs gave back is handed out.
    Slack {
        group: u32,
    },
    Wake {
        task: u32,
        generation: u32,
    },
    Start {
        task: u32,
    },
    Stop {
        workload: u32,
    },
    /// sched_ext: a task has been enqueued; the CPU may be idle.
    #[cfg(feature = "thesis")]
    Enqueue {
        task: u32,
        cpu: u32,
    },
    /// sched_ext: a CPU dispatches another task, because its own has used up its slice.
    #[cfg(feature = "thesis")]
    Dispatch {
        cpu: u32,
    },
    /// weir's scheduler checks all budgets.
    Budgets,
    /// The scheduler of shares charges all flows.
    Flows,
    /// CPUs compare their queues.
    Balance,
    /// Bandwidth and limits are noted.
    Window,
    Speed,
    Measure,
    /// A fault of the scenario, by position.
    Fault {
        index: u32,
    },
}

#[derive(Default)]
pub(crate) struct EventQueue {
    heap: BinaryHeap<Reverse<(u64, u64, Event)>>,
    sequence: u64,
}

impl EventQueue {
    pub(crate) fn push(&mut self, at: u64, event: Event) {
        self.heap.push(Reverse((at, self.sequence, event)));
        self.sequence += 1;
    }

    pub(crate) fn next_at(&self) -> u64 {
        self.heap.peek().map_or(u64::MAX, |Reverse((at, ..))| *at)
    }

    pub(crate) fn pop(&mut self) -> Option<Event> {
        self.heap.pop().map(|Reverse((.., event))| event)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ties_keep_the_order_of_asking() {
        let mut queue = EventQueue::default();
        queue.push(5, Event::Window);
        queue.push(3, Event::Balance);
        queue.push(5, Event::Balance);
        assert_eq!(queue.next_at(), 3);
        let order: Vec<_> = std::iter::from_fn(|| queue.pop()).collect();
        assert_eq!(order, [Event::Balance, Event::Window, Event::Balance]);
        assert_eq!(queue.next_at(), u64::MAX);
    }
}
