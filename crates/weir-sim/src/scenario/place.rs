// SPDX-License-Identifier: Apache-2.0 OR MIT
//! In which line of a TOML text a key stands, for errors that are found after reading.

/// A step on the way to a key: a name, or the position in an array of tables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Part {
    Key(&'static str),
    Index(usize),
}

/// The line (from 1) of the key, else of its table; nothing where the text is written in a way this
/// does not follow (inline tables).
pub(super) fn line_of(text: &str, path: &[Part]) -> Option<usize> {
    let Some((Part::Key(key), table)) = path.split_last().map(|(l, t)| (l.clone(), t)) else {
        return None;
    };
    let mut counts: Vec<(String, usize)> = Vec::new();
    let (mut here, mut header) = (Vec::new(), None);
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        if let Some(name) = line.strip_prefix("[[").and_then(|l| l.split("]]").next()) {
            here = enter(&mut counts, name.trim());
        } else if let Some(name) = line.strip_prefix('[').and_then(|l| l.split(']').next()) {
            here = name
                .trim()
                .split('.')
                .map(|n| (n.to_owned(), None))
                .collect();
        } else {
            let is_key =
                line.split('=').next().is_some_and(|k| k.trim() == key) && line.contains('=');
            if is_key && is_at(&here, table) {
                return Some(number + 1);
            }
            continue;
        }
        if is_at(&here, table) {
            header = Some(number + 1);
        }
    }
    header
}

type Place = Vec<(String, Option<usize>)>;

/// Counts an array's table, and forgets the counts of arrays inside of it.
fn enter(counts: &mut Vec<(String, usize)>, name: &str) -> Place {
    let inside = format!("{name}.");
    counts.retain(|(n, _)| !n.starts_with(&inside));
    match counts.iter_mut().find(|(n, _)| n == name) {
        Some((_, count)) => *count += 1,
        None => counts.push((name.to_owned(), 0)),
    }
    let mut prefix = String::new();
    let part = |word: &str| {
        prefix = if prefix.is_empty() {
            word.to_owned()
        } else {
            format!("{prefix}.{word}")
        };
        let index = counts.iter().find(|(n, _)| *n == prefix).map(|(_, i)| *i);
        (word.to_owned(), index)
    };
    name.split('.').map(part).collect()
}

fn is_at(here: &Place, table: &[Part]) -> bool {
    let mut parts = table.iter().peekable();
    for (name, index) in here {
        if !matches!(parts.next(), Some(Part::Key(k)) if k == name) {
            return false;
        }
        if let Some(Part::Index(wanted)) = parts.peek() {
            if *index != Some(*wanted) {
                return false;
            }
            parts.next();
        }
    }
    parts.next().is_none()
}

#[cfg(test)]
mod tests {
    use super::*;
    use Part::{Index, Key};

    const TEXT: &str = "name = 1\n[machine]\ncores = 2\n\n[[workload]]\nname = 1\n[[workload.phase]]\nkind = 1\n\
                        [[workload]]\nname = 2\n[[workload.phase]]\nkind = 2\n[[workload.phase]]\nfor_ms = 3\n";

    #[test]
    fn keys_are_found_in_their_tables() {
        assert_eq!(line_of(TEXT, &[Key("name")]), Some(1));
        assert_eq!(line_of(TEXT, &[Key("machine"), Key("cores")]), Some(3));
        let of = |w, rest: &[Part]| {
            let mut path = vec![Key("workload"), Index(w)];
            path.extend_from_slice(rest);
            line_of(TEXT, &path)
        };
        assert_eq!(of(0, &[Key("name")]), Some(6));
        assert_eq!(of(1, &[Key("name")]), Some(10));
        assert_eq!(of(0, &[Key("phase"), Index(0), Key("kind")]), Some(8));
        assert_eq!(of(1, &[Key("phase"), Index(1), Key("for_ms")]), Some(14));
        assert_eq!(
            of(1, &[Key("phase"), Index(1), Key("kind")]),
            Some(13),
            "else its table"
        );
        assert_eq!(of(2, &[Key("name")]), None);
    }
}
