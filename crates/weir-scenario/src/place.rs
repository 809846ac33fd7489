// SPDX-License-Identifier: Apache-2.0 OR MIT
//! In which line of a TOML text a key stands, for errors that are found after reading.

use std::ops::Range;
use toml::de::{DeTable, DeValue};

/// A step on the way to a key: a name, one that the file chose, or the position in an array of tables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Key(&'static str),
    Name(String),
    Index(usize),
}

impl Part {
    pub(crate) fn name(&self) -> Option<&str> {
        match self {
            Part::Key(name) => Some(name),
            Part::Name(name) => Some(name),
            Part::Index(_) => None,
        }
    }
}

/// The line (from 1) of the key, else of its table, however the text writes it: as a table, inline, or
/// dotted. Nothing where neither stands in the text.
pub(crate) fn line_of(text: &str, path: &[Part]) -> Option<usize> {
    let document = DeTable::parse(text).ok()?;
    let (last, way) = path.split_last()?;
    let mut table = document.get_ref();
    let mut at: Option<Range<usize>> = None;
    let mut way = way.iter().peekable();
    while let Some(part) = way.next() {
        let (_, mut value) = table.get_key_value(part.name()?)?;
        if let Some(Part::Index(index)) = way.peek() {
            way.next();
            value = value.get_ref().as_array()?.get(*index)?;
        }
        at = Some(value.span());
        table = match value.get_ref() {
            DeValue::Table(table) => table,
            _ => return None,
        };
    }
    let own = last.name().and_then(|name| table.get_key_value(name));
    let start = own.map(|(key, _)| key.span()).or(at)?.start;
    let before = text.as_bytes().get(..start)?;
    Some(1 + before.iter().filter(|byte| **byte == b'\n').count())
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
        assert_eq!(line_of(TEXT, &[Key("nothing")]), None);
    }

    #[test]
    fn keys_are_found_however_they_are_written() {
        let path = [
            Key("expect"),
            Key("backends"),
            Part::Name("sched-ext".into()),
        ];
        for (text, line) in [
            ("a = 1\n[expect]\n[expect.backends.sched-ext]\nb = 1\n", 3),
            ("a = 1\n[expect.backends]\nsched-ext = { b = 1 }\n", 3),
            ("\n[expect]\nbackends.sched-ext.b = 1\n", 3),
            ("expect = { backends = { \"sched-ext\" = { b = 1 } } }\n", 1),
            ("expect = { c = 1 }\n\n", 0),
        ] {
            let found = line_of(text, &path);
            assert_eq!(found, (line > 0).then_some(line), "{text}");
        }
    }
}
