// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weir record`, `weir replay`, `weir export`: every tick kept in a file, shown again, and handed to
//! other programs. The file is weir-store's; here is how it gets its ticks and where they go.
//!
//! * [`recorder_thread`] takes ticks from the loop without stopping it;
//! * [`replay_screen`] moves through a recording for the screen;
//! * [`simulated`] takes them from a simulated host;
//! * [`moment`] is a time in a recording, as flags have it;
//! * [`open_metrics`] writes its metrics with their times;
//! * [`record`], [`replay`], [`export`], [`explain`] are the commands, [`info`] is what `--info` prints.

pub mod cli;
pub mod export;
pub mod info;
pub mod moment;
pub mod open_metrics;
pub mod record;
pub mod replay;
pub mod replay_screen;
pub mod simulated;
