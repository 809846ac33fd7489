// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What both forms are asked: flows of lines through pools of trackers to memories.

use crate::host_path::op::Keeping;

/// One kind of request that a line of a flow makes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Leg {
    /// The memory it goes to, by index.
    pub memory: usize,
    /// The pool that admits it, by index.
    pub pool: usize,
    /// When its buffer is free again.
    pub keeping: Keeping,
    /// Buffers of a slot.
    pub buffers: u32,
    /// Credits that all slots of the flow share.
    pub credits: Option<u32>,
    /// Between its origin and admission, both ways, nanoseconds.
    pub path_ns: f64,
    /// Time of the memory's server for one such line, nanoseconds.
    pub work_ns: f64,
    /// Part of the lines that goes to memory, 0 to 1; the cache answers the others.
    pub memory_part: f64,
}

/// A stream as the path sees it: slots that each send lines, and what each line asks for, in order.
#[derive(Clone, Debug, PartialEq)]
pub struct Flow {
    /// Threads, or I/Os in flight.
    pub slots: u32,
    /// A slot's own time for a line, nanoseconds.
    pub own_ns: f64,
    /// Whether a slot sends as many lines as its first leg has buffers, and then waits for all of them.
    pub is_serial: bool,
    /// Lines per nanosecond at most, whatever its slots are: a limit in front of admission.
    pub most_per_ns: f64,
    /// At least one. A leg's buffer is free again once the next leg has its own.
    pub legs: Vec<Leg>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrackerPool {
    pub count: u32,
    /// Slices that share them out, each with a queue of its own.
    pub slices: u32,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PathMemory {
    /// From admission to data while all is idle, nanoseconds.
    pub residence_ns: f64,
    /// Equal servers that lines are spread over. Each leg's `work_ns` is that of all of them together.
    pub servers: u32,
}

#[derive(Clone, Debug, PartialEq)]
pub struct PathNetwork {
    pub flows: Vec<Flow>,
    pub pools: Vec<TrackerPool>,
    pub memories: Vec<PathMemory>,
    /// How long a line that the cache answers has its tracker, nanoseconds.
    pub lookup_ns: f64,
}
