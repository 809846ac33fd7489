// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Commands, flags, values, defaults and examples, from clap's definition.

use super::page::{cell, code, plain, table, wrapped};
use clap::{Arg, Command};

/// All commands, each followed by those below it.
pub fn section(mut root: Command) -> String {
    // Names the commands in full, so that usage lines are whole.
    root.build();
    let mut out = String::new();
    for command in shown(&root) {
        describe(&mut out, command);
    }
    overview(&root) + "\n" + &out
}

/// Commands below this one.
pub fn shown(command: &Command) -> impl Iterator<Item = &Command> {
    let all = command.get_subcommands();
    all.filter(|sub| sub.get_name() != "help" && !sub.is_hide_set())
}

fn overview(root: &Command) -> String {
    let row = |sub: &Command| {
        let anchor = full_name(sub).replace(' ', "-");
        let name = format!("[{}](#{anchor})", code(&full_name(sub)));
        vec![name, cell(&about(sub))]
    };
    table(&["command", "what it does"], shown(root).map(row))
}

fn full_name(command: &Command) -> String {
    command
        .get_bin_name()
        .unwrap_or(command.get_name())
        .to_owned()
}

fn about(command: &Command) -> String {
    let text = command.get_about().map(ToString::to_string);
    text.unwrap_or_default()
}

fn describe(out: &mut String, command: &Command) {
    let depth = full_name(command).split(' ').count();
    let (level, name) = ("#".repeat(depth), full_name(command));
    let usage = command.clone().render_usage().to_string();
    let usage = usage.trim_start_matches("Usage: ");
    let about = wrapped("", "", &format!("{}.", plain(&about(command))));
    *out += &format!("{level} {name}\n\n{about}\n```text\n{usage}\n```\n\n");
    let args: Vec<String> = command
        .get_arguments()
        .filter(|arg| is_shown(arg))
        .map(entry)
        .collect();
    if !args.is_empty() {
        *out += &format!("{}\n", args.concat());
    }
    if let Some(after) = command.get_after_help() {
        *out += &format!("```text\n{}\n```\n\n", after.to_string().trim());
    }
    for sub in shown(command) {
        describe(out, sub);
    }
}

/// Hidden arguments are left out, and clap's own, which are the same everywhere.
pub fn is_shown(arg: &Arg) -> bool {
    !arg.is_hide_set() && !["help", "version"].contains(&arg.get_id().as_str())
}

fn entry(arg: &Arg) -> String {
    let help = arg
        .get_help()
        .or(arg.get_long_help())
        .map(ToString::to_string);
    let mut text = format!("`{arg}`: {}", plain(&help.unwrap_or_default()));
    let defaults: Vec<_> = arg
        .get_default_values()
        .iter()
        .map(|v| v.to_string_lossy())
        .collect();
    if !defaults.is_empty() && arg.get_action().takes_values() {
        text += &format!(r" \[default: {}]", plain(&defaults.join(", ")));
    }
    wrapped("- ", "  ", &text) + &values(arg)
}

/// What may be given, where that is a list; `true|false` stands in the flag's own name.
pub fn values(arg: &Arg) -> String {
    let mut out = String::new();
    if !arg.get_action().takes_values() || names(arg).contains("true") {
        return out;
    }
    for value in arg
        .get_possible_values()
        .iter()
        .filter(|value| !value.is_hide_set())
    {
        let help = value
            .get_help()
            .map(|help| format!(": {}", plain(&help.to_string())));
        let text = format!("`{}`{}", value.get_name(), help.unwrap_or_default());
        out += &wrapped("  - ", "    ", &text);
    }
    out
}

/// What the value of a flag is called.
pub fn names(arg: &Arg) -> String {
    let names = arg.get_value_names().unwrap_or_default();
    names
        .iter()
        .map(|name| name.as_str())
        .collect::<Vec<_>>()
        .join(" ")
}
