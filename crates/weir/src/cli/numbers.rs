// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Numbers on the command line. One that begins with a minus is a wrong number and no unknown flag: the error
//! of `--set-point -1GiB/s` says that it must be above 0.

use clap::{Arg, Command};
use serde::de::Error;
use serde::{Deserialize, Deserializer};
use std::net::SocketAddr;
use std::str::FromStr;

/// What values that are numbers are called in the help.
const NUMBERS: [&str; 12] = [
    "N",
    "P",
    "H",
    "PID",
    "MIB",
    "FACTOR",
    "TIME",
    "RATE",
    "SIZE",
    "RATE|PERCENT|knee",
    "RATE|PERCENT",
    "PERCENT",
];

/// A command, with numbers that may be negative: so that their errors are about the number.
pub fn with_signs(command: Command) -> Command {
    let of_args = command.mut_args(|arg| {
        if is_number(&arg) {
            arg.allow_hyphen_values(true)
        } else {
            arg
        }
    });
    of_args.mut_subcommands(with_signs)
}

fn is_number(arg: &Arg) -> bool {
    let names = arg.get_value_names().unwrap_or_default();
    // A place without a flag would take every flag for its value.
    arg.get_long().is_some() && names.iter().any(|name| NUMBERS.contains(&name.as_str()))
}

/// A whole number, 0 or more.
///
/// # Errors
/// It is none, or too large.
pub fn whole<T: FromStr>(text: &str) -> Result<T, String> {
    let text = text.trim_ascii();
    if text
        .strip_prefix('-')
        .is_some_and(|rest| rest.parse::<f64>().is_ok())
    {
        return Err("it must be 0 or more".into());
    }
    text.parse()
        .map_err(|_| "it is not a whole number, or too large".into())
}

/// An address to listen on, with its port.
///
/// # Errors
/// It is none; a name of a machine is none either.
pub fn address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| {
        let port = text.trim_start_matches(':').parse::<u16>().unwrap_or(9779);
        format!("give an IP address and a port, for example 127.0.0.1:{port}")
    })
}

/// The same in a file.
///
/// # Errors
/// As [`address`].
pub fn address_of_file<'de, D: Deserializer<'de>>(file: D) -> Result<Option<SocketAddr>, D::Error> {
    let text = String::deserialize(file)?;
    address(&text).map(Some).map_err(D::Error::custom)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::command;

    fn said(words: &[&str]) -> String {
        let words = std::iter::once("weir").chain(words.iter().copied());
        command()
            .try_get_matches_from(words)
            .expect_err("it was accepted")
            .to_string()
    }

    #[test]
    fn the_definition_is_sound() {
        command().debug_assert();
    }

    #[test]
    fn a_number_below_zero_is_a_wrong_number_and_no_flag() {
        for (words, wanted) in [
            (&["run", "--set-point", "-1GiB/s"][..], "must be above 0"),
            (&["run", "--set-point", "-40%"], "above 0"),
            (&["run", "--capacity", "-1GiB/s"], "must be above 0"),
            (&["run", "--interval", "-50ms"], "must be above 0"),
            (&["record", "a", "--duration", "-1s"], "must be above 0"),
            (&["sim", "knee", "--seed", "-1"], "must be 0 or more"),
            (&["sim", "knee", "--seeds", "-1"], "-1 is not in 1..=1000"),
            (&["explain", "--changes", "-3"], "must be 0 or more"),
        ] {
            let said = said(words);
            assert!(
                said.contains(wanted) && !said.contains("unexpected"),
                "{words:?}: {said}"
            );
        }
    }

    #[test]
    fn an_address_without_its_half_says_what_is_missing() {
        for (text, wanted) in [
            ("9779", "127.0.0.1:9779"),
            (":8000", "127.0.0.1:8000"),
            ("localhost:9779", "127.0.0.1:9779"),
            ("10.0.0.5", "an IP address and a port"),
        ] {
            let flag = format!("--metrics={text}");
            for words in [&["run", &flag][..], &["replay", "a.weir", &flag]] {
                let said = said(words);
                assert!(said.contains(wanted), "{words:?}: {said}");
            }
        }
        assert!(address("[::1]:9779").is_ok());
    }

    #[test]
    fn what_is_no_number_stays_a_flag() {
        for words in [
            &["run", "--exclude", "--limit"][..],
            &["run", "--record", "-x"],
            &["sim", "knee", "-1"],
        ] {
            assert!(
                command()
                    .try_get_matches_from(["weir"].iter().chain(words))
                    .is_err(),
                "{words:?}"
            );
        }
    }
}
