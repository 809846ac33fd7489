// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What weir's two processes may do, made narrow by themselves, so that `sudo weir run` has it as the service
//! does.
//!
//! ```text
//!               writer (the loop)                         server (metrics, page, push)
//! user          root                                      65534
//! capabilities  those that the loop needs                 none
//! Landlock      none: it would hide memory of others      no file, no TCP but the pushed-to port
//! seccomp       some calls refused                        all calls refused but some
//! ```
//!
//! Landlock is not for the writer: a process under Landlock looks into no process outside of its own domain
//! (landlock(7), ptrace restrictions), and /proc/PID/numa_maps counts as looking. Linux 6.18 makes an
//! exception for CAP_PERFMON (mm_access), and the older kernels that weir runs on do not.
//!
//! Each call is for the calling thread and the threads that it starts later.

mod rights;
mod server;
mod system_calls;
#[cfg(test)]
mod tests;
mod writer;

pub use rights::close_inherited;
pub use server::{ServerNeeds, confine_server};
pub use writer::{confine_writer, drop_writers_capabilities};
