// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Former names of keys and values: each is an error that says the one of today.

use crate::place::Part::Key;
use crate::wrong::{Checked, wrong};
use toml::de::DeTable;

/// The table that has such names.
const TABLE: &str = "sensors";
/// A former key of it, and the one of today.
const OLD_KEY: &str = "shares";
const KEY: &str = "attribution";
/// Former values of that key, and those of today.
const VALUES: [(&str, &str); 2] = [("counts", "task-counts"), ("samples", "sampling")];

/// Finds former names in the text of a scenario. What is no TOML is left to its reader.
pub(crate) fn check(text: &str) -> Checked {
    let Ok(document) = DeTable::parse(text) else {
        return Ok(());
    };
    let table = document.get_ref().get(TABLE);
    let Some(table) = table.and_then(|table| table.get_ref().as_table()) else {
        return Ok(());
    };
    if table.contains_key(OLD_KEY) {
        let allowed = format!("this key is called {TABLE}.{KEY} now");
        return wrong(&[Key(TABLE), Key(OLD_KEY)], "given", allowed);
    }
    let given = table.get(KEY).and_then(|value| value.get_ref().as_str());
    let former = VALUES.iter().find(|(old, _)| Some(*old) == given);
    former.map_or(Ok(()), |(old, new)| {
        let allowed = format!("this value is called {new} now");
        wrong(&[Key(TABLE), Key(KEY)], old, allowed)
    })
}
