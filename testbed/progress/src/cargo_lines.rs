// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What cargo says on stderr while it builds, with its bar on (`CARGO_TERM_PROGRESS_WHEN=always`).

/// One line, or one state of the bar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Said<'a> {
    /// So many units of all are built.
    Built(u32, u32),
    Fetching,
    Fetched,
    Usual,
    /// Warnings, errors, and all else.
    Else(&'a str),
}

/// What a line is. `is_bar`: it ended with a carriage return, so that the next one would stand in its place.
pub fn said(line: &str, is_bar: bool) -> Said<'_> {
    let line = line.trim_start_matches("\x1b[K");
    let verb = verb(line);
    if is_bar {
        let built = (verb == Some("Building")).then(|| count(line)).flatten();
        return built.map_or(Said::Usual, |(done, all)| Said::Built(done, all));
    }
    match verb {
        Some("Downloading") => Said::Fetching,
        Some("Downloaded") => Said::Fetched,
        Some("Compiling" | "Finished") => Said::Usual,
        _ if line.is_empty() => Said::Usual,
        _ => Said::Else(line),
    }
}

/// The verb of a line about cargo's own work: it ends in column 12.
fn verb(line: &str) -> Option<&str> {
    let verb = line.split_whitespace().next()?;
    let is_verb = line.find(verb)? + verb.len() == 12;
    is_verb.then_some(verb)
}

/// `12` and `345` of `Building [==>   ] 12/345: weir-core, weir`.
fn count(line: &str) -> Option<(u32, u32)> {
    let (_, after) = line.split_once(']')?;
    let (done, all) = after.split([':', ',']).next()?.trim().split_once('/')?;
    Some((done.parse().ok()?, all.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cargo_does_is_told_from_what_it_found() {
        let bar = "\x1b[K    Building [===>       ] 12/345: weir-core, weir-hw(build)";
        assert_eq!(said(bar, true), Said::Built(12, 345));
        assert_eq!(
            said("    Building [====>] 345/345", true),
            Said::Built(345, 345)
        );
        let fetching = " Downloading 3 crates, remaining bytes: 1.2MB";
        assert_eq!(said(fetching, true), Said::Usual);
        assert_eq!(said(" Downloading crates ...", false), Said::Fetching);
        assert_eq!(said("  Downloaded serde v1.0.219", false), Said::Fetched);
        assert_eq!(said("   Compiling weir v0.1.0 (/weir)", false), Said::Usual);
        assert_eq!(said("", false), Said::Usual);
        for line in [
            "error[E0308]: mismatched types",
            " --> crates/weir/src/main.rs:1:1",
            "warning: spurious network error (3 tries remaining)",
            "    Blocking waiting for file lock on build directory",
            "error: failed to get `serde` as a dependency of package `weir v0.1.0`",
            "Compiling is what this line of a program is about",
        ] {
            assert_eq!(said(line, false), Said::Else(line));
        }
    }
}
