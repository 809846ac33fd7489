// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Scenario files are read here; what they say is weir-scenario's.

use anyhow::{Context, Result};
use std::path::Path;
use weir_scenario::TestbedScenario;

/// A scenario is a few kilobytes.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Reads and checks a scenario file.
///
/// # Errors
/// It cannot be read. Naming file, line, key and what is allowed.
pub fn load(path: &Path) -> Result<TestbedScenario> {
    let name = path.display().to_string();
    let cannot = || format!("cannot read scenario {name}");
    let bytes = weir_files::read_at_most(path, FILE_BYTES_MAX).with_context(cannot)?;
    let text = String::from_utf8(bytes).with_context(cannot)?;
    Ok(TestbedScenario::parse(&text, &name)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_scenario_of_the_repository_is_sound() {
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios");
        let mut count = 0;
        for entry in std::fs::read_dir(dir).unwrap().flatten() {
            if entry.path().extension().is_some_and(|e| e == "toml") {
                let scenario = load(&entry.path()).unwrap();
                let text = scenario.info().unwrap().toml;
                assert_eq!(TestbedScenario::parse(&text, "written").unwrap(), scenario);
                // What is run live can be simulated.
                assert!(weir_scenario::Scenario::parse(&text, "written").is_ok());
                count += 1;
            }
        }
        assert!(count > 0);
    }
}
