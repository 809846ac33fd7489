// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Whether the report names what is wrong, of scenarios that say what that is.

use super::comparison::{ComparedFigure, ComparedRun};
use std::collections::BTreeSet;
use weir_profile::findings::RuleOutcome;
use weir_profile::report::{self, MACHINE, Options};
use weir_server_model::CauseLabel;

/// What is found, by subject and rule.
fn found(case: &ComparedRun) -> BTreeSet<(String, String)> {
    let options = Options {
        idle: Some(&case.idle),
        brief: true,
        ..Options::default()
    };
    let rules = report::report(&case.file, &options).rules.into_iter();
    let found = rules.filter(|rule| matches!(rule.outcome, RuleOutcome::Found(_)));
    found
        .map(|rule| (rule.subject, rule.rule.replace('_', "-")))
        .collect()
}

/// A cause of a machine may be found of the machine or of the workload that suffers.
fn is_named(found: &BTreeSet<(String, String)>, cause: &CauseLabel) -> bool {
    let subjects = [cause.victim.as_str(), MACHINE];
    subjects
        .iter()
        .any(|subject| found.contains(&((*subject).to_owned(), cause.kind.clone())))
}

fn figure(of: String, is_right: bool) -> ComparedFigure {
    ComparedFigure {
        of,
        estimate: Ok(f64::from(u8::from(is_right))),
        truth: 1.0,
        scale: 1.0,
    }
}

/// For each cause an error of 1 where it is not named: the mean is the part that is missed.
pub fn each(case: &ComparedRun) -> Vec<ComparedFigure> {
    let found = found(case);
    let causes = case.truth.causes.iter();
    causes
        .map(|cause| figure(cause.kind.clone(), is_named(&found, cause)))
        .collect()
}

/// For a machine with two causes an error of 1 where not both are named.
pub fn both(case: &ComparedRun) -> Vec<ComparedFigure> {
    let [first, second] = &case.truth.causes[..] else {
        return Vec::new();
    };
    let found = found(case);
    let of = format!("{} and {}", first.kind, second.kind);
    vec![figure(
        of,
        is_named(&found, first) && is_named(&found, second),
    )]
}
