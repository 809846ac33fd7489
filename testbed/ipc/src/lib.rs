// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Shared-memory layouts between the parts of the testbed. Each is a row of 64-bit words that one part
//! writes and another reads, without a lock:
//!
//! ```text
//!  device model (in QEMU) ──ground_truth──► harness      bytes, latencies and time of the guest
//!                         ──access_trace──► weir-cosim   each access, for the simulated RTL
//!                         ──core_fills────► guest-pmu    fills of each vCPU, in the device's BAR
//! ```
//!
//! `cosim_summary` is the one document: what `weir-cosim` says to the harness at its end.

pub mod access_trace;
pub mod core_fills;
pub mod cosim_summary;
pub mod ground_truth;

pub use access_trace::{AccessTrace, BrokenRing, TraceLayout, TraceRecord};
pub use cosim_summary::CosimSummary;
pub use ground_truth::{GroundTruth, LineCounts, TruthLayout, VcpuCounts};
