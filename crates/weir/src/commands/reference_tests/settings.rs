// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Keys of the settings file: those that the reader of the file takes, with what their flags say.

use super::commands;
use super::page::{cell, code, table};
use crate::run::settings::Settings;
use crate::run::settings::args::LoopArgs;
use clap::{Arg, Command};
use std::path::Path;
use weir_core::Config;

/// A table of the keys above `[controller]`.
pub fn section() -> String {
    let root = crate::commands::command();
    let run = root.find_subcommand("run").expect("weir run");
    let keys = keys().into_iter().filter(|key| key != "controller");
    table(&["key", "value", "meaning"], keys.map(|key| row(run, &key)))
}

fn row(run: &Command, key: &str) -> Vec<String> {
    let flag = run.get_arguments().find(|arg| arg.get_long() == Some(key));
    let flag = flag.unwrap_or_else(|| panic!("{key}: no flag of weir run has this name"));
    let help = flag.get_help().map(ToString::to_string).unwrap_or_default();
    vec![code(key), value(flag), cell(&help)]
}

/// What stands behind the `=`.
fn value(flag: &Arg) -> String {
    let names = commands::names(flag);
    let listed = flag.get_possible_values();
    let one = if !flag.get_action().takes_values() || names.contains("true") {
        "`true`, `false`".to_owned()
    } else if listed.is_empty() {
        code(&names)
    } else {
        let shown = listed.iter().filter(|value| !value.is_hide_set());
        shown
            .map(|value| code(value.get_name()))
            .collect::<Vec<_>>()
            .join(", ")
    };
    match flag.get_action() {
        clap::ArgAction::Append => format!("list of {one}"),
        _ => one,
    }
}

/// The keys that the file may have, by what its reader says of one that it may not.
pub fn keys() -> Vec<String> {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("weir.toml");
    std::fs::write(&path, "zzz = 1\n").expect("a file");
    let args = LoopArgs {
        config: Some(path),
        ..LoopArgs::default()
    };
    let said = Settings::new(&args).expect_err("no such key").to_string();
    let (_, allowed) = said
        .split_once("expected one of ")
        .unwrap_or_else(|| panic!("{said}"));
    allowed
        .split('`')
        .skip(1)
        .step_by(2)
        .map(str::to_owned)
        .collect()
}

#[test]
fn each_key_stands_in_the_table() {
    let (keys, text) = (keys(), section());
    assert!(keys.len() > 20, "{keys:?}");
    for key in keys.iter().filter(|key| *key != "controller") {
        assert!(text.contains(&format!("| `{key}` | ")), "{key}");
    }
    assert!(
        text.contains("| `set-point` | `RATE\\|PERCENT\\|knee` | Bandwidth to hold"),
        "{text}"
    );
    assert!(text.contains("| `limit` | `true`, `false` | "), "{text}");
    assert!(text.contains("| `exclude` | list of `GLOB` | "), "{text}");
}

/// The keys of `[controller]` are described by hand: each stands there with its default.
#[test]
fn each_gain_stands_on_the_page_with_its_default() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/config.md");
    let page = std::fs::read_to_string(path).expect("the page");
    let config = serde_json::to_value(Config::default()).expect("JSON");
    let config = config.as_object().expect("an object");
    let has_flag = |key: &str| {
        crate::run::settings::NOT_IN_CONTROLLER
            .iter()
            .any(|(k, _)| *k == key)
    };
    let own: Vec<_> = config.iter().filter(|(key, _)| !has_flag(key)).collect();
    assert!(own.len() > 10, "{own:?}");
    for (key, default) in own {
        let number = default.as_f64().map(|number| number.to_string());
        let shown = number.unwrap_or_else(|| "–".into());
        let row = format!("| `{key}` | {shown} | ");
        assert!(page.contains(&row), "no row `{row}…`");
    }
}
