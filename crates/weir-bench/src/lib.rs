// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Memory traffic on the running machine, and the latency of a load meanwhile:
//!
//! ```text
//! memory (bound to one node, and seen to be there)
//!   ├─► chase   one thread, each load needs the one before: latency
//!   ├─► load    many threads, as fast as an injected delay lets them: bandwidth
//!   │    stats  mean of a few hundred timings, with its confidence interval
//!   └─► streams ◄─ kernels   threads that load, store, copy … in the widest form: lines in a span
//! storage ─► streams         threads that read or write a file or device: I/Os in a span
//! round_trip: how far CPUs are from each other, which a host may change
//! paired: effect of a background on a victim, from repeated pairs of figures
//! ```
//!
//! It knows neither devices nor knees: `weir calibrate` and `weir bench` choose the loads and draw the
//! conclusions.
#![warn(clippy::cast_possible_truncation, clippy::cast_sign_loss)]

pub mod chase;
pub mod cpu;
pub mod kernels;
pub mod load;
pub mod memory;
pub mod paired;
pub mod round_trip;
pub mod stats;
pub mod storage;
pub mod streams;

pub use chase::Ring;
pub use load::{Loaders, Mix};
pub use memory::Buffer;
pub use stats::Timing;

/// Bytes of a cache line.
pub const LINE_BYTES: usize = 64;

/// A request that the machine refused.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    #[error("{bytes} bytes on node{node}: cannot {doing}: {answer}")]
    Memory {
        bytes: usize,
        node: u32,
        doing: &'static str,
        answer: std::io::Error,
    },
    /// The kernel put pages elsewhere.
    #[error(
        "{elsewhere} of {pages} pages bound to node{node} are not there: is the node outside cpuset.mems, \
         or does something move pages (NUMA balancing, tiering)?"
    )]
    Elsewhere {
        node: u32,
        /// Pages that are on another.
        elsewhere: usize,
        pages: usize,
    },
    #[error("cannot run on cpu{cpu}: {answer}")]
    Cpu { cpu: u32, answer: std::io::Error },
    #[error("cannot start a thread: {0}")]
    Thread(std::io::Error),
    /// This kind of CPU has no such instruction, or this crate does not support it there.
    #[error("{0} is not there for this kind of CPU")]
    NoInstruction(&'static str),
    /// The CPU has the instruction in other widths.
    #[error(
        "{operation} in accesses of {width_bytes} bytes is not there for this CPU: it has {widths:?}"
    )]
    NoWidth {
        operation: &'static str,
        width_bytes: u32,
        /// Widths that there are.
        widths: Vec<u32>,
    },
    #[error("{path}: cannot {doing}: {answer}")]
    Storage {
        path: String,
        doing: &'static str,
        answer: std::io::Error,
    },
    /// A file or device that is not used, and why.
    #[error("{path} {why}")]
    Refused {
        path: String,
        /// The reason, and the next move.
        why: &'static str,
    },
    /// A signal came.
    #[error("stopped")]
    Stopped,
}
