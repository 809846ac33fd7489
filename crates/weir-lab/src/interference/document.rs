// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The document of `weir bench interference`, from the model.

use super::ask::PathModel;
use super::cli::{FormName, InterferenceArgs};
use std::collections::BTreeMap;
use std::fmt::Write;
use weir_report::interference::document::{
    InterferenceCell, InterferenceDocument, InterferenceMachine, InterferencePlan, KIND, VERSION,
    World,
};

/// What was asked for and what came out.
pub fn document(
    args: &InterferenceArgs,
    model: &PathModel,
    levers: &BTreeMap<String, f64>,
    cells: Vec<InterferenceCell>,
    missing: BTreeMap<String, String>,
) -> InterferenceDocument {
    InterferenceDocument {
        kind: KIND.to_owned(),
        version: VERSION,
        weir_version: env!("CARGO_PKG_VERSION").to_owned(),
        world: World::Sim,
        date_utc: None,
        machine: machine(model),
        plan: InterferencePlan {
            command: command(args),
            seed: args.seed,
            seconds: None,
            repeats_max: 1,
            half_width_ratio: 0.0,
            levers: levers.clone(),
        },
        cells,
        caveats: Vec::new(),
        missing,
    }
}

fn machine(model: &PathModel) -> InterferenceMachine {
    let machine = &model.machine;
    let mut targets = BTreeMap::new();
    for memory in &machine.memory {
        let name = memory.profile.as_deref().unwrap_or("figures of the file");
        targets.insert(memory.target.clone(), format!("{} × {name}", memory.count));
    }
    if machine.ssd.is_some() {
        targets.insert("ssd".to_owned(), "figures of the file".to_owned());
    }
    let form = match model.form {
        FormName::Solver => "solver",
        FormName::Events => "events",
    };
    let facts = [
        ("title", machine.title.clone()),
        ("form", form.to_owned()),
        ("ghz", machine.cores.ghz.to_string()),
        ("trackers", machine.trackers.count.to_string()),
    ];
    InterferenceMachine {
        name: machine.name.clone(),
        cpus: machine.cores.count,
        targets,
        facts: facts.map(|(name, value)| (name.to_owned(), value)).into(),
    }
}

/// The command line that gives the same figures.
pub fn command(args: &InterferenceArgs) -> String {
    let mut line = format!(
        "weir sim interference --machine {}",
        weir_report::quoted(&args.machine)
    );
    for pair in &args.pair {
        let _ = write!(line, " --pair {}", weir_report::quoted(pair));
    }
    for lever in &args.lever {
        let _ = write!(line, " --lever {}", weir_report::quoted(lever));
    }
    if args.form == FormName::Events {
        let _ = write!(line, " --form events --seed {}", args.seed);
    }
    line
}
