// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What can stop weir on this host. Each names the thing and the next move.

use crate::inventory::cxl::unused_memory;
use crate::inventory::numa::Topology;
use crate::kernel::privilege;
use crate::options::Roots;
use rustix::io::Errno;
use std::io;
use std::path::PathBuf;

/// Why the host cannot be opened, claimed or reset.
#[derive(Debug, thiserror::Error)]
pub enum LinuxError {
    #[error("cannot {doing} {path}: {answer}{hint}", path = .path.display(), hint = hint(answer))]
    Io {
        doing: &'static str,
        path: PathBuf,
        /// What it said. Part of the message, so not a source of its own.
        answer: io::Error,
    },
    /// Neither a node of CXL memory nor counters: there is nothing to keep below its knee.
    #[error(
        "no CXL memory found: no NUMA node of it under {nodes} and no access counters under \
         {counters}{others}; {moves}see `weir doctor`",
        nodes = .nodes.display(), counters = .counters.display()
    )]
    NoCxl {
        /// Where weir searched for nodes.
        nodes: PathBuf,
        /// Where weir searched for counters.
        counters: PathBuf,
        /// Nodes without CPUs that are none of CXL, in words; empty where there are none.
        others: String,
        /// What is the matter with the memory that is there, and what helps.
        moves: String,
    },
    #[error(
        "another weir (pid {holder}) holds {lock}; stop it first (kill -TERM {holder}), it \
         restores what it set", lock = .lock.display()
    )]
    Locked {
        /// Its process id as it wrote it down, or `unknown`.
        holder: String,
        lock: PathBuf,
    },
    /// A file that decides what root writes cannot be trusted.
    #[error("{path} is not used: {why}", path = .path.display())]
    Distrusted {
        path: PathBuf,
        /// What is wrong and what to do.
        why: String,
    },
    /// The operator chose limits by weir's own scheduler, and it cannot be used here.
    #[error("the back end sched-ext cannot be used: {0}")]
    NoScheduler(String),
    /// The operator chose counts for each task, and there are none here.
    #[error("no counts for each task: {0}; see `weir events`, or leave --attribution out")]
    NoShares(weir_core::Missing),
    /// The operator chose attribution by resctrl, and it cannot be used here.
    #[error("resctrl cannot be used: {0}; see `weir doctor`, or leave --attribution out")]
    NoResctrl(weir_core::Missing),
    /// The operator chose attribution by samples, and there are none here.
    #[error("accesses cannot be sampled: {0}; see `weir doctor`, or leave --attribution out")]
    NoSamples(weir_core::Missing),
    /// Memory of a workload cannot be put on the chosen node.
    #[error("{0}")]
    NotBound(String),
    /// Virtual copies of device memory are not as they must be, or cannot be moved as requested.
    #[error("{0}")]
    Copies(String),
}

impl LinuxError {
    pub(crate) fn no_cxl(roots: &Roots, topology: &Topology) -> Self {
        let others: Vec<String> = topology
            .classified
            .iter()
            .map(|classified| format!("{} is {}", classified.node.id, classified.verdict.words()))
            .collect();
        LinuxError::NoCxl {
            others: if others.is_empty() {
                String::new()
            } else {
                format!(
                    " ({}; if that is wrong: --device node:N)",
                    others.join("; ")
                )
            },
            moves: unused_memory(roots)
                .iter()
                .map(|unused| format!("{unused}; "))
                .collect(),
            nodes: roots.sys.join("devices/system/node"),
            counters: roots.sys.join("class/weir_cxl"),
        }
    }

    /// Puts the path to an error of the operating system.
    pub(crate) fn io(
        doing: &'static str,
        path: impl Into<PathBuf>,
        answer: impl Into<io::Error>,
    ) -> Self {
        LinuxError::Io {
            doing,
            path: path.into(),
            answer: answer.into(),
        }
    }
}

/// What follows from an answer of the kernel to this process, to be put behind it: how to get the rights that
/// it lacks. Empty where nothing is known to help.
pub fn hint(answer: &io::Error) -> String {
    match answer.kind() {
        io::ErrorKind::PermissionDenied => privilege::hint(Errno::ACCESS),
        _ => String::new(),
    }
}
