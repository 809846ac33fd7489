// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Bounds are about weir: the thesis's controllers, which may stand beside it, are not held to them.

use super::choice::WEIR;
use weir_report::results::Results;
use weir_report::{Check, Subject, checks};

/// The bounds of a scenario for weir's first run among those of one seed; for another controller's where weir
/// did not run.
pub fn weir_checks(subject: &Subject, results: &Results) -> Vec<Check> {
    let mut results = results.clone();
    if results.runs.iter().any(|r| r.backend == WEIR) {
        let counts = |backend: &str| [WEIR, "none"].contains(&backend);
        results.runs.retain(|r| counts(&r.backend));
    }
    checks(subject, &results)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::{batch, builtin, choice, results};

    #[test]
    fn the_thesis_is_not_judged_when_weir_ran() {
        let mut loaded = builtin::named("thesis-limit").unwrap().unwrap();
        let control = &mut loaded.scenario.control;
        (control.settle_sec, control.measure_sec) = (5.0, 5.0);
        loaded.scenario.expect.bias_ratio_max = Some(0.1);
        let names = |n: &[&str]| n.iter().map(ToString::to_string).collect::<Vec<_>>();
        let bias = |backends: &[&str]| {
            let choices = choice::choose(&names(backends), &[], &loaded.scenario).unwrap();
            let batch = batch::run(&loaded, &choices, &[1]).unwrap();
            let subject = results::subject(&loaded, 1).unwrap();
            let checks = weir_checks(&subject, &batch.results());
            checks[0].measured.clone().unwrap()
        };
        let both = bias(&["none", "thesis-scx", "cgroup"]);
        assert_eq!(both, bias(&["none", "cgroup"]));
        assert_ne!(both, bias(&["none", "thesis-scx"]));
    }
}
