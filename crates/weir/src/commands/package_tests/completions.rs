// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Completions for bash, zsh and fish, each checked by its own shell.

use super::{PackageFile, said, shown_command, silent};
use clap_complete::aot::{Shell, generate};

/// A script for each shell, named as the shell looks for it.
pub fn scripts() -> Vec<PackageFile> {
    let names = [
        (Shell::Bash, "completions/weir"),
        (Shell::Zsh, "completions/_weir"),
        (Shell::Fish, "completions/weir.fish"),
    ];
    let script = |(shell, name): (Shell, &str)| {
        let mut text = Vec::new();
        generate(shell, &mut shown_command(), "weir", &mut text);
        let text = String::from_utf8(text).expect("UTF-8");
        (name.to_owned(), text)
    };
    names.map(script).into()
}

#[test]
fn scripts_offer_what_help_shows_and_nothing_else() {
    for (name, text) in scripts() {
        for wanted in ["doctor", "resize", "set-point", "max-min", "interference"] {
            assert!(text.contains(wanted), "{name}: no {wanted}");
        }
        // The last two are values, as zsh and fish write them.
        for hidden in ["--root", "-l root", r"thesis-scx\:", r"thesis-scx\t"] {
            assert!(!text.contains(hidden), "{name} has {hidden}");
        }
    }
}

#[test]
fn bash_completes_commands_and_values() {
    let ask = "source completions/weir
        COMP_WORDS=(weir ru) COMP_CWORD=1; _weir weir ru weir; echo \"${COMPREPLY[*]}\"
        COMP_WORDS=(weir run --policy max) COMP_CWORD=3; _weir weir max --policy; echo \"${COMPREPLY[*]}\"";
    let ask = ["--norc", "-c", ask];
    let Some(output) = said("bash", "bash", &ask, &scripts()) else {
        return;
    };
    assert_eq!(silent("bash", &output), "run\nmax-min\n");
}

#[test]
fn zsh_reads_its_script() {
    let Some(output) = said("zsh", "zsh", &["-f", "-n", "completions/_weir"], &scripts()) else {
        return;
    };
    silent("zsh", &output);
}

#[test]
fn fish_completes_commands_and_values() {
    let ask =
        "source completions/weir.fish; complete -C 'weir ru'; complete -C 'weir run --policy max'";
    let Some(output) = said("fish", "fish", &["--no-config", "-c", ask], &scripts()) else {
        return;
    };
    let offered = silent("fish", &output);
    let words: Vec<&str> = offered
        .lines()
        .filter_map(|line| line.split('\t').next())
        .collect();
    assert_eq!(words, ["run", "max-min"], "{offered}");
}
