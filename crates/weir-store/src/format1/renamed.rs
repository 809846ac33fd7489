// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Names in documents of format 1 that have another name today.
//!
//! Documents are the serde forms of types, and types change their names. This is the one place that knows the
//! old ones: a change that renames a member or a variant of a recorded type adds a line here.

use serde_json::{Map, Value};

/// A place, and the name that is there today.
///
/// A place is the name of a member behind the names of the members around it, as they were in format 1, with
/// dots between them. Elements of lists have no names. The first name is `document`, or `config` or
/// `description` of a session, or `word` for the table of that name. The place of a variant is its name
/// behind that of the member which holds it.
///
/// ```text
/// ("document.observation.own", "probe_traffic")               the member `own` of an observation
/// ("document.plan.workloads.why.why.cut", "limited")          the text "cut" in why.why
/// ("word.why.cut", "limited")                                 the same in the table of words
/// ```
const RENAMED: &[(&str, &str)] = &[
    ("document.observation.loads", "devload"),
    ("document.observation.own", "probe_traffic"),
    ("document.plan.workloads.figure", "traffic"),
    (
        "document.plan.workloads.why.why.below_water_line",
        "below_fair_share",
    ),
    (
        "document.plan.workloads.why.why.device_has_room",
        "headroom",
    ),
    ("document.plan.workloads.why.why.cut", "limited"),
    ("document.plan.workloads.why.why.blind", "no_data"),
    ("word.why.below_water_line", "below_fair_share"),
    ("word.why.device_has_room", "headroom"),
    ("word.why.cut", "limited"),
    ("word.why.blind", "no_data"),
];

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
        assert_eq!(rename("config", old.clone()), old);
        let new = json!({"observation": {"probe_traffic": 1}});
        assert_eq!(rename("document", old), new);
    }

    /// Each new name is one that the types have: a document with it is read, and has it when it is written.
    #[test]
    fn the_table_leads_to_names_that_there_are() {
        use weir_core::seam::plan::Why;
        let observation = json!({"seq": 0, "at": 0, "groups": [], "latencies": [], "workloads": [], "skipped": [],
            "own": [{"id": {"device": 0, "index": 0}, "read_bytes": {"at": 0, "value": {"Ok": 7}}}],
            "loads": [{"id": 0, "load": {"at": 0, "value": {"Ok": "light"}}}],
        });
        let new = rename("document", json!({"observation": observation}));
        let read: weir_core::Observation =
            serde_json::from_value(new["observation"].clone()).unwrap();
        assert_eq!((read.probe_traffic.len(), read.devload.len()), (1, 1));
        let written = serde_json::to_value(&read).unwrap();
        assert!(written.get("probe_traffic").is_some() && written.get("devload").is_some());
        let places = RENAMED
            .iter()
            .filter_map(|(old, new)| Some((old.strip_prefix("word.why.")?, *new)));
        let mut count = 0;
        for (old, new) in places {
            count += 1;
            assert_eq!(word("why", old.to_owned()), new);
            let why = json!({"why": old, "detail": "", "policy": "", "demand_bytes_per_sec": 1.0, "device_bytes_per_sec": 1.0});
            let plan = json!({"plan": {"workloads": [{"why": why}]}});
            let plan = rename("document", plan);
            let why = &plan["plan"]["workloads"][0]["why"];
            assert_eq!(why["why"], new);
            let read: Why = serde_json::from_value(why.clone()).unwrap();
            assert_eq!(serde_json::to_value(&read).unwrap()["why"], new);
        }
        assert_eq!(count, 4);
    }
}
