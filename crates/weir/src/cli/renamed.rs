// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Former names of flags, of keys of the settings file, and of their values. There are no aliases: a former
//! name is an error that says the new one.

use super::Cli;
use super::advice::advised;
use clap::error::{ContextKind, ContextValue, Error, ErrorKind};
use clap::{Command, CommandFactory};
use std::ffi::OsString;
use weir_scenario::renamed_backend;

/// Flags of the loop, which are keys of the settings file too: the former name and the one of today.
const KEYS: [(&str, &str); 3] = [
    ("shares", "attribution"),
    ("share-event", "attribution-event"),
    ("by", "workloads"),
];

/// Other flags, likewise. One is only taken for what it was where a command has the flag of today.
const FLAGS: [(&str, &str); 7] = [
    ("patience", "offline-timeout"),
    ("copies", "alias-map"),
    ("budget", "max-duration"),
    ("busy", "allow-other-traffic"),
    ("grain-mib", "align-mib"),
    ("what", "table"),
    ("salvage", "recover"),
];

/// Commands that are a program of their own now: the former words, and what is called instead.
const MOVED: [(&[&str], &str); 4] = [
    (&["bench", "loop"], "weir-eval bench loop"),
    (&["bench", "record"], "weir-eval bench record"),
    (&["sim", "evaluate"], "weir-eval thesis"),
    (&["sim", "device"], "weir-eval device"),
];

/// Why a controller or a back end of the thesis cannot be had.
pub const NOT_IN_THIS_BUILD: &str = "the thesis's controllers are not in this build of weir: `cargo build --release --workspace` has them";

/// Values of `--attribution`, likewise.
const SOURCES: [(&str, &str); 2] = [("counts", "task-counts"), ("samples", "sampling")];

fn find(table: &[(&str, &'static str)], old: &str) -> Option<&'static str> {
    let found = table.iter().find(|(name, _)| *name == old);
    found.map(|(_, new)| *new)
}

/// What a key of the settings file is called today, if `old` is a former name.
pub fn key(old: &str) -> Option<&'static str> {
    find(&KEYS, old)
}

/// What a value of this flag or key is called today, if `old` is a former name.
pub fn value(name: &str, old: &str) -> Option<&'static str> {
    match name {
        "attribution" => find(&SOURCES, old),
        "backend" => renamed_backend(old),
        _ => None,
    }
}

/// The sentence for a flag, with what became of its values.
fn flag_sentence(old: &str, new: &str) -> String {
    let mut text = format!("--{old} is called --{new} now");
    if new == "attribution" {
        let [(old, new), (also_old, also_new)] = SOURCES;
        text += &format!("; its values {old} and {also_old} are called {new} and {also_new}");
    }
    text
}

/// The sentence for a value.
pub fn value_sentence(name: &str, old: &str, new: &str) -> String {
    format!("--{name} {old} is called --{name} {new} now")
}

/// The command of these words, as far down as they name subcommands.
pub(super) fn named<'a>(mut command: &'a Command, words: &[OsString]) -> &'a Command {
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
pub(super) fn flag_of(error: &Error) -> Option<&str> {
    let flag = text_of(error, ContextKind::InvalidArg)?.strip_prefix("--")?;
    // The flag may come with the name of its value.
    flag.split([' ', '=']).next()
}

/// What is wrong with a value in the settings file, if it is a former name or not in this build.
pub fn value_in_file(name: &str, old: &str) -> Option<String> {
    let former = value(name, old);
    let former =
        former.map(|new| format!("unknown value \"{old}\" of {name}: it is called \"{new}\" now"));
    let left_out = || format!("value \"{old}\" of {name}: {NOT_IN_THIS_BUILD}");
    former.or_else(|| is_left_out(name, old).then(left_out))
}

/// Whether this is a back end of the thesis, and a build without them.
fn is_left_out(name: &str, value: &str) -> bool {
    !cfg!(feature = "thesis") && name == "backend" && value.starts_with("thesis-scx")
}

/// The error of a command line that begins with a command which has left this program.
pub fn moved(words: &[OsString]) -> Option<Error> {
    let is_flag = |word: &&OsString| word.to_string_lossy().starts_with('-');
    let given = words.iter().skip(1).filter(|word| !is_flag(word)).take(2);
    let given: Vec<_> = given.map(|word| word.to_string_lossy()).collect();
    let is_it = |former: &[&str]| given.iter().zip(former).filter(|(a, b)| a == b).count() == 2;
    let (former, new) = MOVED.iter().find(|(former, _)| is_it(former))?;
    let old = former.join(" ");
    let sentence = format!("weir {old} is called {new} now: a program of its own\n");
    Some(Error::raw(ErrorKind::InvalidSubcommand, sentence))
}

/// What clap found wrong in these words, or, if it is a former name, that name and the one of today.
pub fn explained(error: Error, words: &[OsString]) -> Error {
    let flag = flag_of(&error);
    let sentence = match (error.kind(), flag) {
        (ErrorKind::UnknownArgument, Some(old)) => {
            let command = Cli::command();
            let command = named(&command, words);
            let has = |new: &&str| {
                command
                    .get_arguments()
                    .any(|arg| arg.get_long() == Some(new))
            };
            let new = find(&KEYS, old).or_else(|| find(&FLAGS, old)).filter(has);
            new.map(|new| flag_sentence(old, new))
        }
        (ErrorKind::InvalidValue, Some(name)) => {
            let old = text_of(&error, ContextKind::InvalidValue).unwrap_or_default();
            let former = value(name, old).map(|new| value_sentence(name, old, new));
            former.or_else(|| {
                is_left_out(name, old).then(|| format!("--{name} {old}: {NOT_IN_THIS_BUILD}"))
            })
        }
        _ => None,
    };
    match sentence {
        Some(sentence) => Error::raw(error.kind(), sentence + "\n"),
        None => advised(error, words),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(words: &[&str]) -> String {
        let words: Vec<OsString> = ["weir"].iter().chain(words).map(OsString::from).collect();
        let error = Cli::command().try_get_matches_from(&words);
        explained(error.expect_err("it was accepted"), &words).to_string()
    }

    #[test]
    fn each_new_name_is_a_flag_that_there_is() {
        fn flags(command: &Command, found: &mut Vec<String>) {
            let long = command.get_arguments().filter_map(clap::Arg::get_long);
            found.extend(long.map(str::to_owned));
            command
                .get_subcommands()
                .for_each(|below| flags(below, found));
        }
        let mut found = Vec::new();
        flags(&Cli::command(), &mut found);
        for (old, new) in KEYS.iter().chain(&FLAGS) {
            assert!(found.iter().any(|flag| flag == new), "{new}");
            assert!(!found.iter().any(|flag| flag == old), "{old}");
        }
    }

    #[test]
    fn a_former_name_is_found_however_it_is_written() {
        let wanted = "--by is called --workloads now";
        for words in [
            &["run", "--by", "process"][..],
            &["run", "--by=process"],
            &["top", "--once", "--by", "cgroup"],
            &["doctor", "--by", "cgroup"],
        ] {
            assert!(said(words).contains(wanted), "{words:?}: {}", said(words));
        }
        let wanted = "--shares is called --attribution now; its values counts and samples are called task-counts and sampling";
        let said = said(&["record", "a.weir", "--shares", "counts"]);
        assert!(said.contains(wanted), "{said}");
    }

    #[test]
    fn a_command_that_left_names_its_program() {
        let said = |words: &[&str]| {
            let words: Vec<OsString> = ["weir"].iter().chain(words).map(OsString::from).collect();
            moved(&words).map(|error| error.to_string())
        };
        for (words, new) in [
            (
                &["bench", "loop", "--workloads", "10"][..],
                "weir-eval bench loop",
            ),
            (&["bench", "record"], "weir-eval bench record"),
            (&["sim", "evaluate", "--quick"], "weir-eval thesis"),
            (&["sim", "device", "--threads", "5"], "weir-eval device"),
        ] {
            let said = said(words).unwrap_or_default();
            assert!(
                said.contains(&format!("is called {new} now")),
                "{words:?}: {said}"
            );
        }
        for words in [
            &["sim", "evaluate.toml"][..],
            &["sim", "step", "--record", "device"],
            &["export", "bench"],
            &["bench", "interference", "--quick"],
            &["bench"],
            &["sim"],
        ] {
            assert_eq!(said(words), None, "{words:?}");
        }
    }

    #[test]
    fn a_flag_that_a_command_never_had_is_unknown_as_ever() {
        for words in [
            &["run", "--what", "devices"][..],
            &["sim", "step", "--budget", "1s"],
            &["calibrate", "--by", "process"],
            &["run", "--shared"],
        ] {
            let said = said(words);
            assert!(said.contains("unexpected argument"), "{words:?}: {said}");
            assert!(!said.contains("is called"), "{words:?}: {said}");
        }
    }

    #[test]
    fn words_that_are_not_weirs_are_left_alone() {
        let words = ["weir", "groups", "bind", "2", "--", "run", "--by", "x"];
        assert!(Cli::command().try_get_matches_from(words).is_ok());
        let said = said(&["run", "--backend", "cgroups"]);
        assert!(said.contains("invalid value"), "{said}");
        assert!(!said.contains("is called"), "{said}");
    }
}
