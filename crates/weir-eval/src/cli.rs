// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The command line.

use crate::ablation::AblationArgs;
use crate::bench::BenchArgs;
use crate::controllers::ControllersArgs;
use crate::device::DeviceArgs;
use crate::light_users::LightUsersArgs;
use crate::profile::ProfileEvalArgs;
use crate::profile::day::ProfileDayArgs;
use crate::random::RandomArgs;
use crate::thesis::ThesisArgs;
use clap::{Parser, Subcommand};

/// The first line of `--help`: without it clap takes the package's description.
const ABOUT: &str = "weir for researchers: its evaluation, and what it costs";

/// The command.
#[derive(Debug, Parser)]
#[command(name = "weir-eval", version, about = ABOUT, max_term_width = 100, after_help = HELP)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

const HELP: &str = "\
Nothing on this machine is limited. The same scenario and seed give the same figures, bit for bit; times that
weir itself takes are this machine's.

Exit codes: 0 done, 1 an aim or a bound is missed (--check), 2 trouble.";

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// The thesis's evaluation and more experiments, as one page
    Thesis(ThesisArgs),
    /// What each part of weir brings on one scenario
    Ablation(AblationArgs),
    /// All controllers of the simulator on one scenario
    Controllers(ControllersArgs),
    /// What control does to light users
    LightUsers(LightUsersArgs),
    /// The controller on scenarios by chance, checked by the simulator's truth
    Random(RandomArgs),
    /// Figures of `weir profile` against the truth of a simulated server
    Profile(ProfileEvalArgs),
    /// A made recording of a day, for what a report of many windows costs
    ProfileDay(ProfileDayArgs),
    /// The loaded-latency curve of a device profile: latency at each bandwidth
    Device(DeviceArgs),
    /// Measure weir itself
    Bench(BenchArgs),
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_definition_is_sound() {
        Cli::command().debug_assert();
    }
}
