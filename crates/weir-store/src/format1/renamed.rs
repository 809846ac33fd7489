// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Names in documents of format 1 that have another name today.
//!
//! Documents are the serde forms of types, and types change their names. This is the one place that knows the old
//! ones: a change that renames a member or a variant of a recorded type adds a line here.

use serde_json::{Map, Value};

/// A place, and the name that is there today.
///
/// A place is the name of a member behind the names of the members around it, as they were in format 1, with dots
/// between them. Elements of lists have no names. The first name is `document`, or `config` or `description` of a
/// session, or `word` for the table of that name. The place of a variant is its name behind that of the member which
/// holds it.
///
/// ```text
/// ("document.observation.own", "probe_traffic")               the member `own` of an observation
/// ("document.plan.workloads.why.why.cut", "limited")          the text "cut" in why.why
/// ("word.why.cut", "limited")                                 the same in the table of words
/// ```
const RENAMED: &[(&str, &str)] = &[];

/// Gives what was read of a document, or of a session's `config` or `description`, the names of today.
pub(crate) fn rename(root: &str, value: Value) -> Value {
    rename_by(RENAMED, root, value)
}

/// The word of today for one of the table `word`: its place is `word`, the kind and the old word.
pub(crate) fn word(kind: &str, word: String) -> String {
    match rename(&format!("word.{kind}"), Value::String(word)) {
        Value::String(word) => word,
        _ => String::new(),
    }
}

fn rename_by(table: &[(&str, &str)], root: &str, value: Value) -> Value {
    if table.is_empty() {
        return value;
    }
    let new = |place: &str| {
        table
            .iter()
            .find(|(old, _)| *old == place)
            .map(|(_, new)| *new)
    };
    // Depth is bounded by the reader of documents and by that of JSON.
    match value {
        Value::Object(members) => {
            let rename = |(name, value): (String, Value)| {
                let place = format!("{root}.{name}");
                let name = new(&place).map_or(name, str::to_owned);
                (name, rename_by(table, &place, value))
            };
            Value::Object(members.into_iter().map(rename).collect::<Map<_, _>>())
        }
        Value::Array(items) => {
            let rename = |item| rename_by(table, root, item);
            Value::Array(items.into_iter().map(rename).collect())
        }
        Value::String(text) => {
            let name = new(&format!("{root}.{text}"));
            Value::String(name.map_or(text, str::to_owned))
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const TABLE: &[(&str, &str)] = &[
        ("document.observation.own", "probe_traffic"),
        ("document.plan.workloads.figure", "traffic"),
        ("document.plan.workloads.why.why.cut", "limited"),
        ("document.plan.actions.Limit", "cpu_time"),
    ];

    #[test]
    fn members_get_their_names_of_today_where_they_are_meant() {
        let old = json!({
            "observation": {"own": [{"id": 1}], "at": 5},
            "plan": {"workloads": [{"figure": {"figure": 1}}, {"figure": null}], "own": 2},
        });
        let new = json!({
            "observation": {"probe_traffic": [{"id": 1}], "at": 5},
            "plan": {"workloads": [{"traffic": {"figure": 1}}, {"traffic": null}], "own": 2},
        });
        assert_eq!(rename_by(TABLE, "document", old), new);
    }

    #[test]
    fn variants_get_theirs_as_texts_and_as_members() {
        let old = json!({"plan": {
            "workloads": [{"id": "cut", "why": {"why": "cut", "by": "cut"}}],
            "actions": [{"Limit": {"cpus": 1.5}}, "Limit", "Release"],
        }});
        let new = json!({"plan": {
            "workloads": [{"id": "cut", "why": {"why": "limited", "by": "cut"}}],
            "actions": [{"cpu_time": {"cpus": 1.5}}, "cpu_time", "Release"],
        }});
        assert_eq!(rename_by(TABLE, "document", old), new);
    }

    #[test]
    fn sessions_have_places_of_their_own() {
        let old = json!({"observation": {"own": 1}});
        assert_eq!(rename_by(TABLE, "config", old.clone()), old);
        assert_eq!(
            rename("document", old.clone()),
            old,
            "the table is for what was renamed"
        );
    }
}
