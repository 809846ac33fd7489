// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What `weir profile sim` can run: the cases of `scenarios/profile/`, machines drawn by their seed, and
//! files.

use anyhow::{Context, Result, bail};
use std::path::Path;
use weir::lab::builtin_scenarios::{one_line, read_at_most};
use weir::lab::perhaps;
use weir_description::DescriptionError;
use weir_figures::text::harmless;
use weir_server_model::Scenario;
use weir_server_model::random::{
    Cause, Strength, busy_scenario, healthy_scenario, random_scenario, two_causes_scenario,
};

macro_rules! built_in {
    ($($name:literal),* $(,)?) => {
        /// Name and text of each case.
        const BUILT_IN: &[(&str, &str)] = &[
            $(($name, include_str!(concat!("../../../../scenarios/profile/", $name, ".toml"))),)*
        ];
    };
}

built_in![
    "1-paths",
    "2-stalls",
    "3-local-beside-cxl",
    "4-cxl-beside-cxl",
    "5-partition",
    "6-locality",
    "6-locality-ways",
    "7-tiering",
    "8-reverse",
];

/// Words of machines that their seed draws.
const DRAWN: &[&str] = &["random", "healthy", "busy"];

/// Bytes of a scenario's file.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Where the scenario of a seed comes from.
#[derive(Clone, Debug)]
pub enum ServerRuns {
    /// One scenario for all seeds.
    Fixed(Box<Scenario>),
    /// Drawn by the seed.
    Drawn(fn(u64) -> Result<Scenario, DescriptionError>),
    /// Drawn by the seed, with one thing wrong.
    Caused(Cause, Strength),
    /// Drawn by the seed, with two things wrong.
    TwoCauses(Strength),
}

impl ServerRuns {
    /// The runs by the name of a case, by a word of [`DRAWN`], by `CAUSE:STRENGTH`, or by the path of a file.
    ///
    /// # Errors
    /// There is none, or its text is wrong: naming the key and what is allowed.
    pub fn named(name: &str) -> Result<ServerRuns> {
        if let Some((name, text)) = BUILT_IN.iter().find(|(known, _)| *known == name) {
            return fixed(text, name);
        }
        match name {
            "random" => return Ok(ServerRuns::Drawn(random_scenario)),
            "healthy" => return Ok(ServerRuns::Drawn(healthy_scenario)),
            "busy" => return Ok(ServerRuns::Drawn(busy_scenario)),
            _ => {}
        }
        if let Some(strength) = name.strip_prefix("two:").and_then(strength) {
            return Ok(ServerRuns::TwoCauses(strength));
        }
        if let Some((cause, strength)) = caused(name) {
            return Ok(ServerRuns::Caused(cause, strength));
        }
        let path = Path::new(name);
        if !(name.ends_with(".toml") || name.contains('/') || path.is_file()) {
            let mut names = cases();
            names.extend(DRAWN);
            bail!(
                "no scenario of a server is called `{}`{}: use one of {}, a CAUSE:STRENGTH of `weir profile sim \
                 --help`, or the path of a TOML file",
                harmless(name),
                perhaps(name, &names),
                names.join(", ")
            );
        }
        let text = read_at_most(path, FILE_BYTES_MAX)
            .with_context(|| format!("cannot read the scenario {}", harmless(name)))?;
        fixed(&text, name)
    }

    /// The scenario of a seed.
    ///
    /// # Errors
    /// The seed draws a machine that cannot be.
    pub fn scenario(&self, seed: u64) -> Result<Scenario> {
        match self {
            ServerRuns::Fixed(scenario) => Ok((**scenario).clone()),
            ServerRuns::Drawn(draw) => described(draw(seed)),
            ServerRuns::Caused(cause, strength) => described(cause.scenario(*strength, seed)),
            ServerRuns::TwoCauses(strength) => described(two_causes_scenario(*strength, seed)),
        }
    }
}

pub fn cases() -> Vec<&'static str> {
    BUILT_IN.iter().map(|(name, _)| *name).collect()
}

/// An error of a description in one line.
///
/// # Errors
/// The description's.
pub fn described<T>(result: Result<T, DescriptionError>) -> Result<T> {
    result.map_err(|error| anyhow::anyhow!("{}", one_line(&error.to_string())))
}

fn fixed(text: &str, origin: &str) -> Result<ServerRuns> {
    let scenario = described(Scenario::parse(text, origin))?;
    Ok(ServerRuns::Fixed(Box::new(scenario)))
}

fn caused(name: &str) -> Option<(Cause, Strength)> {
    let (cause, word) = name.split_once(':')?;
    let cause = Cause::ALL.iter().find(|known| known.name() == cause)?;
    Some((*cause, strength(word)?))
}

fn strength(word: &str) -> Option<Strength> {
    let mut strengths = ["weak", "medium", "strong"].into_iter().zip(Strength::ALL);
    strengths
        .find(|(known, _)| *known == word)
        .map(|(_, strength)| *strength)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_file_of_the_folder_is_built_in() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/profile");
        let stem = |e: std::fs::DirEntry| Some(e.path().file_stem()?.to_str()?.to_owned());
        let files: BTreeSet<String> = std::fs::read_dir(folder)
            .unwrap()
            .filter_map(|e| stem(e.unwrap()))
            .collect();
        assert_eq!(files, cases().into_iter().map(str::to_owned).collect());
        for name in cases() {
            assert!(crate::server::cli::SERVER_HELP.contains(name), "{name}");
            let scenario = ServerRuns::named(name).unwrap().scenario(1).unwrap();
            assert_eq!(scenario.name, name);
        }
    }

    #[test]
    fn every_cause_is_in_the_help_and_draws() {
        for cause in Cause::ALL {
            let name = format!("{}:strong", cause.name());
            let scenario = ServerRuns::named(&name).unwrap().scenario(3).unwrap();
            assert_eq!(scenario.causes[0].kind, cause.name());
            assert!(
                crate::server::cli::SERVER_HELP.contains(cause.name()),
                "{name}"
            );
        }
    }

    #[test]
    fn an_unknown_name_is_answered_with_those_there_are() {
        let said = |name: &str| ServerRuns::named(name).unwrap_err().to_string();
        assert!(
            said("2-stals").contains("did you mean `2-stalls`?"),
            "{}",
            said("2-stals")
        );
        assert!(said("chains:very").contains("8-reverse, random, healthy, busy"));
    }
}
