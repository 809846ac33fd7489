// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a workload's tasks do: phases, one after the other, from the start again after the last.

/// What a CPU is doing for a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    /// Moving lines from or to a device, as this class does it.
    Access(u32),
    Compute,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Phase {
    pub what: What,
    /// How long it lasts; nothing is for ever. Checked between two blocks.
    pub for_ns: Option<u64>,
    /// How many blocks or pieces it has at most.
    pub times: u32,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum What {
    Access {
        class: u32,
        /// Lines of one block at the device.
        lines: f64,
        /// Time between the starts of two blocks where a rate is given; a task that is late catches up.
        every_ns: Option<f64>,
        /// CPU time used for something else after each block.
        think_ns: f64,
        /// The lock that is held during a block.
        lock: Option<u32>,
    },
    /// Computing, in pieces of this much CPU time (at full speed); endless without.
    Compute { chunk_ns: f64, lock: Option<u32> },
    /// Sleeping for this long in the mean; exponential or exact.
    Sleep { mean_ns: f64, random: bool },
    /// A daemon that works when it is given work.
    Served,
    /// Blocks that a disk moves while the task sleeps.
    Dma {
        disk: u32,
        class: u32,
        /// Lines of one block.
        lines: f64,
        /// CPU time before each block.
        think_ns: f64,
    },
}

/// Where a task is in its program.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Cursor {
    pub phase: usize,
    pub stage: Stage,
    pub until: u64,
    /// Blocks or pieces left of it.
    pub left: u32,
    /// When the next block is due, for phases with a rate.
    pub due: f64,
    /// When this block was issued.
    pub issued: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Stage {
    #[default]
    Enter,
    /// A block or chunk may begin.
    Ready,
    Issue,
    Locked,
    Done,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Step {
    /// Run for this much: lines, or nanoseconds at full speed.
    Run(Work, f64),
    Sleep(u64),
    /// Wait to be given work.
    Wait,
    Lock(u32),
    /// Sleep until a disk has moved so many lines.
    Dma {
        disk: u32,
        class: u32,
        lines: f64,
    },
}
