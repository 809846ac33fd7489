// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The page of `docs/reference` with this program's commands: the generator is that of `weir`.

#[path = "../../weir/src/commands/reference_tests/commands.rs"]
mod commands;
#[path = "../../weir/src/commands/reference_tests/page.rs"]
mod page;

use clap::CommandFactory;

#[test]
fn reference_pages_are_what_the_program_says() {
    page::all_are_fresh(&[("cli-lab.md", || {
        commands::section(crate::cli::Cli::command())
    })]);
}
