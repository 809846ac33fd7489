// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weir sim`: models of hardware, asked from the command line. They read no clock and no counter of
//! this machine.

mod device;

use crate::exit::Exit;
use clap::{Args, Subcommand};

/// `weir sim`.
#[derive(Debug, Args)]
pub struct SimArgs {
    /// What to ask.
    #[command(subcommand)]
    pub what: Sim,
}

/// What can be asked.
#[derive(Debug, Subcommand)]
pub enum Sim {
    /// The loaded-latency curve of a device profile: latency at each bandwidth
    Device(device::DeviceArgs),
}

/// Asks.
///
/// # Errors
/// A profile cannot be read, or stdout cannot be written.
pub fn sim(args: &SimArgs) -> anyhow::Result<Exit> {
    match &args.what {
        Sim::Device(args) => device::device(args),
    }
}
