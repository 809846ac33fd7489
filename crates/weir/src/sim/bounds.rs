// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Whether `--check` has anything to judge. A check that judges nothing is no check that was passed.

use super::controllers::Choice;
use anyhow::{Result, bail};
use weir_report::ScenarioInfo;
use weir_report::results::{Results, Run};

/// Whether bounds of the scenario can be held against these choices: known before anything is run.
///
/// # Errors
/// There is nothing to judge, or nothing to compare with: naming what is missing.
pub fn can_be_checked(subject: &ScenarioInfo, choices: &[Choice], scenario: &str) -> Result<()> {
    if subject.expect.is_empty() {
        bail!(
            "--check has nothing to judge: the scenario {scenario} states no bounds; state some under [expect] \
             (docs/reference/results.md)"
        );
    }
    let names = |choices: &[&Choice]| {
        let names: Vec<&str> = choices.iter().map(|choice| choice.name).collect();
        names.join(",")
    };
    let controlled: Vec<&Choice> = choices.iter().filter(|c| c.policy != "none").collect();
    if controlled.is_empty() {
        bail!(
            "--check has nothing to judge: nothing is controlled in these runs; add one to --backend, such as cpu-max"
        );
    }
    // The runs to come, without their figures.
    let run = |choice: &Choice| Run {
        policy: choice.policy.into(),
        backend: choice.backend.into(),
        ..Run::default()
    };
    let runs = Results {
        runs: choices.iter().map(run).collect(),
        ..Results::default()
    };
    if weir_report::checks(subject, &runs).is_empty() {
        bail!(
            "--check has nothing to judge: the scenario {scenario} states no bounds for {}",
            names(&controlled)
        );
    }
    let compares = |choice: &&Choice| subject.expect.of(choice.backend).needs_free_run();
    let has_free = choices.iter().any(|choice| choice.policy == "none");
    if !has_free && controlled.iter().any(compares) {
        bail!(
            "--check has nothing to compare with: bounds are against a run without control; give --backend none,{}",
            names(&controlled)
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::{builtin_scenarios, controllers, results};
    use super::*;

    fn asked(scenario: &str, expect: Option<&str>, backends: &[&str]) -> Result<()> {
        let mut loaded = builtin_scenarios::named(scenario).unwrap()?;
        if let Some(expect) = expect {
            loaded.scenario.expect = toml::from_str(expect)?;
        }
        let backends: Vec<String> = backends.iter().map(ToString::to_string).collect();
        let choices = controllers::choose(&backends, &[], &loaded.scenario)?;
        can_be_checked(&results::subject(&loaded, 1)?, &choices, scenario)
    }

    fn refusal(scenario: &str, expect: Option<&str>, backends: &[&str]) -> String {
        let refused = asked(scenario, expect, backends);
        refused.expect_err("there is nothing to judge").to_string()
    }

    #[test]
    fn what_can_be_judged_is() {
        asked("thesis-limit", None, &["none", "cpu-max", "sched-ext-full"]).unwrap();
        asked("thesis-limit", None, &["none", "thesis-cgroups"]).unwrap();
        // Bounds that compare with nothing need no run without control.
        asked("thesis-limit", Some("bias_ratio_max = 0.1"), &["cpu-max"]).unwrap();
    }

    #[test]
    fn a_scenario_without_bounds_is_no_pass() {
        let said = refusal("thesis-limit", Some(""), &["none", "cpu-max"]);
        assert!(said.contains("thesis-limit states no bounds"), "{said}");
        let own = "[backends.sched-ext]\nbias_ratio_max = 0.1";
        let said = refusal("thesis-limit", Some(own), &["none", "cpu-max"]);
        assert!(said.ends_with("states no bounds for cpu-max"), "{said}");
        asked("thesis-limit", Some(own), &["none", "cpu-max", "sched-ext"]).unwrap();
    }

    #[test]
    fn runs_without_control_are_no_pass() {
        for backends in [&["none"][..], &["none", "thesis-monitor"]] {
            let said = refusal("thesis-limit", None, backends);
            assert!(said.contains("nothing is controlled"), "{said}");
        }
    }

    #[test]
    fn nothing_to_compare_with_is_no_pass() {
        for backend in ["thesis-cgroups", "cpu-max"] {
            let said = refusal("thesis-limit", None, &[backend]);
            let wanted = format!("--backend none,{backend}");
            assert!(said.ends_with(&wanted), "{said}");
        }
    }
}
