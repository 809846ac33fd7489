// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What helps after a wrong command line. clap advises to put `--` before a flag that it does not know, which
//! no command of weir has a use for. Here the commands that have the flag are named instead.

use super::Cli;
use crate::cli::left_out::{NOT_IN_THIS_BUILD, is_left_out};
use clap::error::{ContextKind, ContextValue, Error, ErrorKind};
use clap::{Command, CommandFactory};
use std::ffi::OsString;

/// The error with the advice that helps, and without the advice that does not.
pub fn advised(mut error: Error, words: &[OsString]) -> Error {
    if let (ErrorKind::InvalidValue, Some(name)) = (error.kind(), flag_of(&error)) {
        let value = text_of(&error, ContextKind::InvalidValue).unwrap_or_default();
        if is_left_out(name, value) {
            let sentence = format!("--{name} {value}: {NOT_IN_THIS_BUILD}\n");
            return Error::raw(error.kind(), sentence);
        }
    }
    let command = Cli::command();
    let advice = match error.kind() {
        ErrorKind::UnknownArgument => {
            error.remove(ContextKind::Suggested);
            flag_of(&error).and_then(|flag| commands_with(&command, flag))
        }
        ErrorKind::MissingRequiredArgument if named(&command, words).get_name() == "sim" => {
            Some("`weir sim --list` shows the scenarios that are built in".to_owned())
        }
        _ => None,
    };
    if let Some(advice) = advice {
        let tip = ContextValue::StyledStrs(vec![advice.into()]);
        error.insert(ContextKind::Suggested, tip);
    }
    error
}

/// The command of these words, as far down as they name subcommands.
fn named<'a>(mut command: &'a Command, words: &[OsString]) -> &'a Command {
    for word in words.iter().skip(1).take_while(|word| *word != "--") {
        let below = command.find_subcommand(word);
        command = below.unwrap_or(command);
    }
    command
}

fn text_of(error: &Error, kind: ContextKind) -> Option<&str> {
    match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text),
        _ => None,
    }
}

/// The name of the flag that an error is about.
fn flag_of(error: &Error) -> Option<&str> {
    let flag = text_of(error, ContextKind::InvalidArg)?.strip_prefix("--")?;
    // The flag may come with the name of its value.
    flag.split([' ', '=']).next()
}

/// `--set-point is a flag of run, record and replay`; nothing if no command has it.
fn commands_with(command: &Command, flag: &str) -> Option<String> {
    let mut found = Vec::new();
    collect(command, flag, "", &mut found);
    let list = match &found[..] {
        [] => return None,
        [one] => one.clone(),
        [before @ .., last] => format!("{} and {last}", before.join(", ")),
    };
    Some(format!("--{flag} is a flag of {list}"))
}

fn collect(command: &Command, flag: &str, path: &str, found: &mut Vec<String>) {
    for below in command.get_subcommands() {
        let name = format!("{path} {}", below.get_name());
        let mut shown = below.get_arguments().filter(|arg| !arg.is_hide_set());
        if shown.any(|arg| arg.get_long() == Some(flag)) {
            found.push(name.trim().to_owned());
        }
        collect(below, flag, &name, found);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(words: &[&str]) -> String {
        let words: Vec<OsString> = ["weir"].iter().chain(words).map(OsString::from).collect();
        let error = Cli::command().try_get_matches_from(&words);
        advised(error.expect_err("it was accepted"), &words).to_string()
    }

    #[test]
    fn a_flag_of_other_commands_is_said_to_be_theirs() {
        for (words, wanted) in [
            (
                &["sim", "step", "--set-point", "4GiB/s"][..],
                "--set-point is a flag of run, record and replay",
            ),
            (
                &["sim", "step", "--exclude=x"],
                "--exclude is a flag of run, record and doctor",
            ),
            (
                &["replay", "a.weir", "--exclude", "x"],
                "--exclude is a flag of run, record and doctor",
            ),
            (&["top", "--probe"], "--probe is a flag of run and record"),
            (
                &["record", "a.weir", "--table", "x"],
                "--table is a flag of export",
            ),
        ] {
            let said = said(words);
            assert!(said.contains(wanted), "{words:?}: {said}");
            assert!(!said.contains("as a value"), "{words:?}: {said}");
        }
    }

    #[test]
    fn a_flag_that_is_nowhere_gets_no_advice_to_pass_it_as_a_value() {
        for words in [
            &["sim", "step", "--shout"][..],
            &["explain", "--shout"],
            &["record", "a.weir", "-z"],
        ] {
            let said = said(words);
            assert!(said.contains("unexpected argument"), "{words:?}: {said}");
            assert!(!said.contains("tip:"), "{words:?}: {said}");
        }
        // A slip of the pen is still found.
        assert!(said(&["run", "--set-pont", "4GiB/s"]).contains("'--set-point'"));
    }

    #[test]
    fn a_simulation_without_a_scenario_says_where_they_are() {
        assert!(said(&["sim"]).contains("weir sim --list"));
        assert!(!said(&["replay"]).contains("weir sim --list"));
    }
}
