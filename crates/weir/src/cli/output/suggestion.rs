// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What was probably meant by a name that is not known: commands, settings and files have names of their own,
//! and clap suggests only its own.

/// How like a name must be to be thought of (Jaro-Winkler, 0 to 1): as clap has it for its own.
const LIKE: f64 = 0.8;

/// The name that was probably meant, as a question to be put behind the wrong one; nothing where none is like
/// it. One that is many times as long as all names is like none of them, and is not compared: a file may have
/// keys of any length.
pub fn perhaps(wrong: &str, names: &[&str]) -> String {
    let longest = names.iter().map(|name| name.len()).max();
    if wrong.len() > 4 * longest.unwrap_or(0) {
        return String::new();
    }
    let like = |name: &&str| strsim::jaro_winkler(wrong, name);
    let nearest = names.iter().max_by(|a, b| like(a).total_cmp(&like(b)));
    match nearest.filter(|name| like(name) > LIKE) {
        Some(name) => format!("; did you mean `{name}`?"),
        None => String::new(),
    }
}
