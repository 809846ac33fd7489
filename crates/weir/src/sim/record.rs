// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weir sim --record` and `--top`: what weir sees and does on the simulated host, kept as a recording, and
//! shown on the screen of `weir top`.

use super::batch::{self, Made};
use super::builtin_scenarios::Loaded;
use super::controllers::Choice;
use crate::cli::exit::Exit;
use crate::recordings::cli::ReplayArgs;
use crate::recordings::replay_screen::ReplayScreen;
use crate::recordings::simulated::Session;
use crate::top;
use anyhow::{Result, bail};
use std::path::Path;
use weir_sim::ControllerKind;

/// Makes the runs of weir one after the other and records each as a session of its own. `told` gets label,
/// seed and number of ticks of each.
///
/// # Errors
/// None of the choices is weir, what is at `path` is no recording, or it cannot be written.
pub fn record(
    loaded: &Loaded,
    choices: &[Choice],
    seeds: &[u64],
    path: &Path,
    told: impl Fn(&str, u64, u64),
) -> Result<Vec<Made>> {
    let is_weirs = |at: &usize| matches!(choices[*at].variant, ControllerKind::Weir(_));
    let recorded: Vec<usize> = (0..choices.len()).filter(is_weirs).collect();
    if recorded.is_empty() {
        bail!(
            "only runs of weir can be recorded: add one to --backend, such as {}",
            super::controllers::WEIR
        );
    }
    let mut all = Vec::new();
    for choice in recorded {
        for seed in seeds {
            let mut session = Session::new(path, loaded.scenario.control.interval_ms)?;
            let made = batch::one(loaded, choices, choice, *seed, Some(&mut session))?;
            told(&choices[choice].label, *seed, session.finish()?);
            all.push(made);
        }
    }
    Ok(all)
}

/// Shows a recording that was just made, as fast as it went.
///
/// # Errors
/// It cannot be read again, or there is no terminal.
pub fn show(path: &Path) -> Result<Exit> {
    let replay = ReplayArgs {
        file: path.to_owned(),
        top: true,
        ..ReplayArgs::default()
    };
    top::recorded(ReplayScreen::start(&replay)?.named("simulated"))
}
