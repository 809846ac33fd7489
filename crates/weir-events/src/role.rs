// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Roles: what the counts of events are of, without the names of their makers. A role is spelled
//! `tor.drd.cxl.occupancy`: where it is counted, what kind of request, the supplier, and the unit. The words
//! are weir-core's (`window/role.rs`), which this crate does not know: here a role is four words.

use crate::TableError;
use crate::table::{Provenance, Scope, Table};
use serde::Deserialize;
use std::collections::BTreeSet;

/// A count by its role: the sum of `plus` less the sum of `minus`. Of several of one role the first that a
/// machine has is the best.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RoleSum {
    pub name: String,
    pub of: Scope,
    pub plus: Vec<String>,
    /// Events that are taken off.
    #[serde(default)]
    pub minus: Vec<String>,
    /// How far to trust it: the worst of its events, or worse.
    pub provenance: Provenance,
    /// Entries of the queue that an occupancy is of, for each PMU that counts it; nothing where the maker
    /// does not say.
    pub capacity: Option<u32>,
    /// Nanoseconds that one count stands for, where it is a time.
    pub ns: Option<u32>,
    /// Source of this use: a name of [`Table::source`].
    pub source: String,
    /// What it leaves out or takes in.
    pub note: Option<String>,
}

impl RoleSum {
    /// The last word: the unit.
    fn quantity(&self) -> &str {
        self.name.rsplit('.').next().unwrap_or_default()
    }
}

/// Words of lower-case letters, digits and dashes between three dots.
fn is_role(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let words: Vec<&str> = name.split('.').collect();
    let is_word = |word: &&str| !word.is_empty() && word.chars().all(plain);
    name.len() <= 80 && words.len() == 4 && words.iter().all(is_word)
}

pub(crate) fn check_role(table: &Table, role: &RoleSum) -> Result<(), TableError> {
    let wrong = |what: String| {
        Err(TableError::Wrong {
            place: format!("role {}", role.name),
            what,
        })
    };
    if !is_role(&role.name) || role.plus.is_empty() || !table.source.contains_key(&role.source) {
        return wrong("it has a name of four words, events and a source".into());
    }
    if role.capacity == Some(0) || role.capacity.is_some() && role.quantity() != "occupancy" {
        return wrong("only an occupancy has a capacity, and that is some entries".into());
    }
    if (role.quantity() == "time-ns") != role.ns.is_some_and(|ns| ns > 0) {
        return wrong("a time has nanoseconds a count, and nothing else has".into());
    }
    if role.minus.is_empty() == (role.provenance == Provenance::Difference) {
        return wrong("a difference takes something off, and nothing else does".into());
    }
    let mut seen = BTreeSet::new();
    for name in role.plus.iter().chain(&role.minus) {
        let Some(event) = table.event(name) else {
            return wrong(format!("there is no event {name}"));
        };
        if !seen.insert(name) {
            return wrong(format!("{name} stands twice"));
        }
        let trust = event.provenance == role.provenance
            || matches!(event.provenance, Provenance::Documented);
        if !trust {
            return wrong(format!("{name} is {:?}", event.provenance));
        }
        let scope = table.pmu.get(&event.pmu).map(|pmu| pmu.scope);
        if scope != Some(role.of) {
            return wrong(format!("{name} does not see that"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tables_with_roles;

    const SMALL: &str = r#"
family = "f"
title = "F"
[source]
s = "a book"
[pmu.box]
names = ["box_#"]
scope = "socket"
[[event]]
name = "WAITS"
pmu = "box"
terms = "event=0x1"
counts = "waiting-cycles"
provenance = "documented"
source = "s"
"#;

    const ROLES: &str = r#"
event = []
role = [{ name = "tor.drd.cxl.occupancy", of = "socket", plus = ["WAITS"], provenance = "documented", capacity = 8, source = "s" }]
"#;

    fn with_roles(roles: &str) -> Result<Table, TableError> {
        Table::parse(SMALL).unwrap().with_roles(roles)
    }

    #[test]
    fn each_mistake_in_a_role_is_named() {
        assert_eq!(with_roles(ROLES).unwrap().role[0].capacity, Some(8));
        for (old, new, said) in [
            ("tor.drd.cxl.occ", "tor.drd.occ", "four words"),
            ("tor.drd", "TOR.drd", "four words"),
            ("tor.drd", "tor..", "four words"),
            ("[\"WAITS\"]", "[]", "four words, events"),
            ("[\"WAITS\"]", "[\"GOES\"]", "no event GOES"),
            ("[\"WAITS\"]", "[\"WAITS\", \"WAITS\"]", "stands twice"),
            ("capacity = 8", "capacity = 0", "some entries"),
            (".occupancy", ".inserts", "only an occupancy"),
            ("capacity = 8", "ns = 10", "a time has nanoseconds"),
            ("capacity = 8", "minus = [\"WAITS\"]", "a difference takes"),
            ("of = \"socket\"", "of = \"cpu\"", "does not see that"),
            ("\"documented\", cap", "\"cows\", cap", "unknown variant"),
        ] {
            let changed = ROLES.replacen(old, new, 1);
            assert_ne!(changed, ROLES, "{old}");
            let why = with_roles(&changed).unwrap_err().to_string();
            assert!(why.contains(said), "{old} -> {new}: {why}");
        }
        let misplaced = SMALL.replace("[source]", "role = []\n[source]");
        assert!(Table::parse(&misplaced).is_err(), "a role in another file");
    }

    /// A family has the counts that each profile needs, or its notes say what is missing.
    #[test]
    fn families_have_the_roles_of_a_profile() {
        let has = |family: &str, role: &str| {
            let table = tables_with_roles()
                .iter()
                .find(|t| t.family == family)
                .unwrap();
            table.role.iter().any(|r| r.name == role)
        };
        for family in ["sapphire-rapids", "emerald-rapids", "granite-rapids"] {
            let cxl = if family == "emerald-rapids" {
                "cxl-own"
            } else {
                "cxl"
            };
            for role in [
                "core.any.any.stalls",
                "sb.any.any.stalls",
                "llc.drd.miss.stalls",
                "lfb.drd.any.occupancy",
                "lfb.drd.any.full",
                "sq.drd.any.inserts",
                "sq.reads.cxl.lines",
                "llc.drd.own.loads",
                "tor.any.any.clock",
                "ingress.any.any.inserts",
                "imc.reads.dram-own.occupancy",
                "imc.wb.dram-own.inserts",
                "port.wb.cxl.lines",
            ] {
                assert!(has(family, role), "{family}: {role}");
            }
            for role in ["tor.drd.CXL.occupancy", "tor.rfo.CXL.inserts"] {
                let role = role.replace("CXL", cxl);
                assert!(has(family, &role), "{family}: {role}");
            }
        }
        assert!(has("granite-rapids", "ingress.any.any.occupancy"));
        assert!(
            !has("sapphire-rapids", "ingress.any.any.occupancy"),
            "not counted there"
        );
        assert!(has("zen5", "l1d.drd.cxl.lines") && has("zen4", "llc.reads.cxl-own.time-ns"));
    }

    /// `RFO_PREF` and `LLCPREFRFO` have swapped opcodes between their plain and their CXL names: a role that
    /// subtracts one from the other by name would subtract other requests.
    #[test]
    fn differences_in_the_table_of_requests_pair_opcodes() {
        let opcode = |bits: u64| bits >> 20 & 0xfff;
        for table in tables_with_roles() {
            let code =
                |name: &String| opcode(table.event(name).unwrap().terms.get("umask").unwrap());
            let tor = table.role.iter().filter(|r| r.name.starts_with("tor."));
            for role in tor.filter(|r| !r.minus.is_empty()) {
                let codes: BTreeSet<u64> = role.plus.iter().chain(&role.minus).map(code).collect();
                assert_eq!(codes.len(), 1, "{} {}", table.family, role.name);
            }
        }
        let table = tables_with_roles()
            .iter()
            .find(|t| t.family == "sapphire-rapids")
            .unwrap();
        let code = |name: &str| {
            let name = format!("UNC_CHA_TOR_INSERTS.IA_MISS_{name}");
            opcode(table.event(&name).unwrap().terms.get("umask").unwrap())
        };
        assert_eq!((code("RFO_PREF"), code("RFO_PREF_CXL_ACC")), (0xc88, 0xccc));
        assert_eq!(
            (code("LLCPREFRFO"), code("LLCPREFRFO_CXL_ACC")),
            (0xccc, 0xc88)
        );
    }
}
