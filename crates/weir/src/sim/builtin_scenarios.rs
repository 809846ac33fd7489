// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Scenarios: those of `scenarios/sim/` and the testbed's own are built in, so that the command works alone;
//! others are read from files.

use crate::cli::output::suggestion::perhaps;
use anyhow::{Context, Result, bail};
use std::path::Path;
use weir_figures::text::harmless;
use weir_sim::Scenario;

/// A scenario and the text it came from.
#[derive(Clone, Debug)]
pub struct Loaded {
    pub scenario: Scenario,
    pub text: String,
}

macro_rules! built_in {
    ($($name:literal),* $(,)?) => {
        /// Name and text of each, by name; the testbed's last.
        pub const BUILT_IN: &[(&str, &str)] = &[
            $(($name, include_str!(concat!("../../../../scenarios/sim/", $name, ".toml"))),)*
            ("live-fio-stress", include_str!("../../../../scenarios/live-fio-stress.toml")),
        ];
    };
}

built_in![
    "bursty",
    "degrading",
    "fair-cpus",
    "fair-weights",
    "hundred",
    "knee",
    "latency-goal",
    "locks",
    "neighbour",
    "neighbour-busy",
    "neighbour-realtime",
    "on-off",
    "phases",
    "small-among-big",
    "step",
    "thesis-asymmetric",
    "thesis-estimate",
    "thesis-idle",
    "thesis-latency",
    "thesis-limit",
    "thesis-writes",
    "thousand",
    "two-devices",
    "write-heavy",
];

/// Names of the scenarios that are built in.
pub fn names() -> Vec<&'static str> {
    BUILT_IN.iter().map(|(name, _)| *name).collect()
}

pub fn named(name: &str) -> Option<Result<Loaded>> {
    let (name, text) = BUILT_IN.iter().find(|(known, _)| *known == name)?;
    Some(parsed(text, name))
}

/// A scenario by the name of one that is built in, or by the path of its file.
///
/// # Errors
/// There is none, or its text is wrong: naming the line, the key and what is allowed.
pub fn load(name: &str) -> Result<Loaded> {
    if let Some(built_in) = named(name) {
        return built_in;
    }
    let path = Path::new(name);
    let is_path = name.ends_with(".toml") || name.contains('/') || path.is_file();
    if !is_path {
        bail!(
            "no scenario is called `{}`{}: use one of {}, or the path of a TOML file",
            harmless(name),
            perhaps(name, &names()),
            names().join(", ")
        );
    }
    // A scenario is a few kilobytes; a device or a log given by mistake is not read to its end.
    let text = read_at_most(path, 1 << 20)
        .with_context(|| format!("cannot read the scenario {}", harmless(name)))?;
    parsed(&text, name)
}

/// The bytes of a file, and no more than so many.
///
/// # Errors
/// It cannot be read.
pub fn bytes_at_most(path: &Path, most: u64) -> Result<Vec<u8>> {
    use std::io::Read;
    let mut bytes = Vec::new();
    let file = weir_files::open_regular(path)?;
    file.take(most).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The text of a file of at most so many bytes.
///
/// # Errors
/// It cannot be read, is larger, is empty, or is no text.
pub fn read_at_most(path: &Path, bytes: u64) -> Result<String> {
    let found = bytes_at_most(path, bytes + 1)?;
    if found.len() as u64 > bytes {
        bail!("it is larger than {bytes} bytes: give a smaller file");
    }
    let text = String::from_utf8(found)?;
    if text.is_empty() {
        bail!("it is empty: give another file");
    }
    Ok(text)
}

fn parsed(text: &str, origin: &str) -> Result<Loaded> {
    match Scenario::parse(text, origin) {
        Ok(scenario) => Ok(Loaded {
            scenario,
            text: text.to_owned(),
        }),
        Err(error) => bail!("{}", one_line(&error.to_string())),
    }
}

/// Bytes of a file's line that an error quotes, at most.
const QUOTED_MAX: usize = 100;

/// The TOML reader draws the place of an error over several lines; errors of a command are one. The file's
/// line, which has the key, stands at the end.
pub fn one_line(message: &str) -> String {
    let (mut said, mut quoted) = (Vec::new(), None);
    for line in message.lines().filter(|line| !line.trim().is_empty()) {
        let after_number = line
            .trim_start()
            .trim_start_matches(|c: char| c.is_ascii_digit());
        match after_number.trim_start().strip_prefix('|') {
            Some(source) if line.starts_with(|c: char| c.is_ascii_digit()) => {
                quoted = Some(source.trim()).filter(|source| source.len() <= QUOTED_MAX);
            }
            Some(_) => {}
            None => said.push(line),
        }
    }
    said.extend(quoted);
    said.join(": ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_of_the_folder_is_built_in() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/sim");
        let stem = |e: std::fs::DirEntry| Some(e.path().file_stem()?.to_str()?.to_owned());
        let files = std::fs::read_dir(folder).unwrap();
        let mut files: Vec<String> = files.filter_map(|e| stem(e.unwrap())).collect();
        files.sort();
        files.push("live-fio-stress".into());
        assert_eq!(files, names());
    }

    #[test]
    fn an_error_is_one_line_with_the_line_of_the_file() {
        let read = |text: &str| toml::from_str::<std::collections::BTreeMap<String, u32>>(text);
        let said = one_line(&read("a = 1\nb = -2  # two\n").unwrap_err().to_string());
        assert!(
            said.starts_with("TOML parse error at line 2, column 5: "),
            "{said}"
        );
        assert!(
            said.ends_with(": b = -2  # two") && said.lines().count() == 1,
            "{said}"
        );
        let long = format!("b = -3  # {}", "x".repeat(QUOTED_MAX));
        let said = one_line(&read(&long).unwrap_err().to_string());
        assert!(said.ends_with("expected u32"), "{said}");
        assert_eq!(one_line("plain"), "plain");
    }

    #[test]
    fn a_file_is_read_up_to_its_bound() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        std::fs::write(&file, "x".repeat(100)).unwrap();
        assert_eq!(read_at_most(&file, 100).unwrap().len(), 100);
        let said = read_at_most(&file, 99).unwrap_err().to_string();
        assert!(said.contains("larger than 99 bytes"), "{said}");
    }

    #[test]
    fn a_slip_of_the_pen_is_answered_with_what_was_meant() {
        let said = |name| load(name).unwrap_err().to_string();
        assert!(
            said("thesis-limt").contains("; did you mean `thesis-limit`?"),
            "{}",
            said("thesis-limt")
        );
        assert!(said("nieghbour").contains("`neighbour`?"));
        assert!(!said("nope").contains("did you mean"), "{}", said("nope"));
        assert!(said("nope").contains("thesis-limit"));
    }

    #[test]
    fn each_is_a_scenario_named_as_its_file() {
        for name in names() {
            let loaded = load(name).unwrap();
            assert_eq!(loaded.scenario.name, name);
            assert!(!loaded.scenario.about.is_empty(), "{name}");
        }
    }
}
