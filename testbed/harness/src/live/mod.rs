// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Live scenarios: workloads in a guest, without control and with it.
//!
//! ```text
//! scenario_file ─► runs ─► live_run ─► guest, fio (workloads)
//!                  (which,  (one)       estimate_error (weir's figures against the truth)
//!                  at once)
//! ```

pub mod estimate_error;
pub mod fio;
pub mod guest;
pub mod live_run;
mod run_plan;
pub mod runs;
pub mod scenario_file;
