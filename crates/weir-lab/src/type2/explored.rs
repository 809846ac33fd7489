// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Every interleaving: the number of states, or a shortest way to what is broken.

use super::cli::{Break, Type2Args};
use anyhow::{Result, bail};
use serde::Serialize;
use std::fmt::Write;
use weir::lab::{Exit, print, print_json};
use weir_figures::{Cell, Setting, Table, terminal_table};
use weir_type2::LineHome;
use weir_type2::explore::{Exploration, chart};
use weir_type2::protocol::{Fault, ProtocolRules};

#[derive(Serialize)]
struct ShownExploration {
    lines: Vec<&'static str>,
    fault: Option<&'static str>,
    states: u32,
    transitions: u64,
    depth: u32,
    longest_drain: Option<u32>,
    is_complete: bool,
    violation: Option<String>,
    chart: Option<String>,
}

/// Explores.
///
/// # Errors
/// More than two lines.
pub fn explore(args: &Type2Args) -> Result<Exit> {
    let fault = match args.fault {
        Some(Break::List) => return list(args.json),
        Some(Break::Rule(fault)) => Some(fault),
        None => None,
    };
    let rules = ProtocolRules {
        fault,
        ..ProtocolRules::default()
    };
    let all: Vec<ShownExploration> = match args.lines[..] {
        [] => LineHome::ALL
            .iter()
            .map(|home| run([*home], rules))
            .collect(),
        [one] => vec![run([one], rules)],
        [one, other] => vec![run([one, other], rules)],
        _ => bail!(
            "--lines has {} lines: more than two take too many states",
            args.lines.len()
        ),
    };
    let is_broken = all.iter().any(|one| one.violation.is_some());
    if args.json {
        print_json(&all)?;
    } else {
        print(&all.iter().map(text).collect::<Vec<_>>().join("\n"))?;
    }
    Ok(if is_broken { Exit::Finding } else { Exit::Done })
}

#[derive(Serialize)]
struct ListedFault {
    name: &'static str,
    about: &'static str,
}

fn list(json: bool) -> Result<Exit> {
    let all = Fault::ALL.iter().map(|fault| ListedFault {
        name: fault.name(),
        about: fault.about(),
    });
    let all: Vec<ListedFault> = all.collect();
    if json {
        print_json(&all)?;
        return Ok(Exit::Done);
    }
    let row = |fault: &ListedFault| vec![Cell::words(fault.name), Cell::words(fault.about)];
    let table = Table::new("", &["", ""], all.iter().map(row));
    print(&terminal_table(&table, Setting::WIDE))?;
    Ok(Exit::Done)
}

fn run<const N: usize>(homes: [LineHome; N], rules: ProtocolRules) -> ShownExploration {
    let exploration = Exploration::new(homes, rules);
    let found = exploration.run();
    let broken = found.counterexample.as_ref();
    ShownExploration {
        lines: homes.iter().map(|home| home.name()).collect(),
        fault: rules.fault.map(Fault::name),
        states: found.states,
        transitions: found.transitions,
        depth: found.depth,
        longest_drain: found.longest_drain,
        is_complete: found.is_complete,
        violation: broken.map(|broken| broken.violation.to_string()),
        chart: broken.map(|broken| chart(&exploration, broken)),
    }
}

fn text(one: &ShownExploration) -> String {
    let mut text = format!(
        "A line in {}: {} states, {} moves between them, {} moves deep",
        one.lines.join(", one in "),
        one.states,
        one.transitions,
        one.depth
    );
    match (&one.chart, one.longest_drain) {
        (Some(chart), _) => {
            let _ = write!(text, ", then a rule is broken. A shortest way:\n\n{chart}");
        }
        (None, Some(most)) => {
            let _ = writeln!(
                text,
                ".\nNo rule is broken; what is in progress ends after at most {most} deliveries."
            );
        }
        (None, None) => text += ".\nNot complete: there are more states.\n",
    }
    text
}
