// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The command line.

use crate::bench::BenchArgs;
use crate::dram::cli::DramArgs;
use crate::interference::cli::InterferenceArgs;
use crate::profile::ProfileEvalArgs;
use crate::profile::day::ProfileDayArgs;
use crate::random::RandomArgs;
use crate::server::cli::ServerArgs;
use crate::studies::ablation::AblationArgs;
use crate::studies::controllers::ControllersArgs;
use crate::studies::device::DeviceArgs;
use crate::studies::light_users::LightUsersArgs;
use crate::thesis::ThesisArgs;
use crate::type2::cli::Type2Args;
use clap::{Parser, Subcommand};

/// The first line of `--help`: without it clap takes the package's description.
const ABOUT: &str = "weir for researchers: models, evaluations, and what weir costs";

/// The command.
#[derive(Debug, Parser)]
#[command(name = "weir-lab", version, about = ABOUT, max_term_width = 100, after_help = HELP)]
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
    /// A DRAM channel at command level: bandwidth, row hits and latency of a trace
    Dram(DramArgs),
    /// What streams of memory and storage traffic do to each other: DRAM, CXL memory, SSD
    Interference(Box<InterferenceArgs>),
    /// A CXL Type-2 device: its coherence, checked, and its times beside the paper's
    Type2(Type2Args),
    /// A simulated server, a report on its counts as of any others, and the truth beside them
    Server(ServerArgs),
    /// Measure weir itself
    Bench(BenchArgs),
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;
    use clap::builder::ValueParser;

    #[test]
    fn the_definition_is_sound() {
        Cli::command().debug_assert();
    }

    /// Options with a path of the commands that weir has names for. Each must have an attack in
    /// `crates/weir/tests/all/attacks`.
    #[test]
    fn options_with_a_path_are_those_that_are_attacked() {
        let path = ValueParser::path_buf().type_id();
        let mut found = Vec::new();
        for command in Cli::command().get_subcommands() {
            let name = command.get_name();
            if !["dram", "interference", "type2", "server"].contains(&name) {
                continue;
            }
            let arguments = command.get_arguments();
            let paths = arguments.filter(|argument| argument.get_value_parser().type_id() == path);
            found.extend(paths.map(|argument| format!("{name} {}", argument.get_id())));
        }
        found.sort();
        let attacked = [
            "interference out",
            "server idle_out",
            "server out",
            "server truth",
            "type2 files",
            "type2 out",
            "type2 profile",
        ];
        assert_eq!(found, attacked);
    }
}
