// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What can be done about something that is missing or in the way. It is never a bare string: each move says
//! what is the matter, and what has to hold so that it helps.

use serde::{Deserialize, Serialize};
use std::fmt;

/// A next move. Printed it is what to do, behind what the operator has to see to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NextMove {
    #[serde(flatten)]
    pub act: Act,
    pub why: String,
    pub needs: Precondition,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Act {
    /// A command, as it is typed.
    Command(String),
    /// What no single command does, in words.
    Deed(String),
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Precondition {
    /// It holds: what was read shows it.
    Seen(String),
    /// weir cannot see it: the operator has to see to it. A clause that stands behind *where*.
    Operator(String),
}

impl NextMove {
    /// The same with what is the matter in front of it.
    pub fn with_why(&self) -> String {
        let behind = match self.needs {
            Precondition::Operator(_) => ';',
            Precondition::Seen(_) => ':',
        };
        format!("{}{behind} {self}", self.why)
    }

    /// All of these as one, in their order; nothing of none. The operator has to see to what any of them
    /// needs.
    pub fn joined(mut moves: Vec<NextMove>) -> Option<NextMove> {
        if moves.len() < 2 {
            return moves.pop();
        }
        let each =
            |text: fn(&NextMove) -> String| -> Vec<String> { moves.iter().map(text).collect() };
        let open = moves.iter().filter_map(|one| match &one.needs {
            Precondition::Operator(text) => Some(text.clone()),
            Precondition::Seen(_) => None,
        });
        let mut open: Vec<String> = open.collect();
        open.dedup();
        let acts = each(|one| one.act.to_string()).join("; ");
        let is_command = |one: &NextMove| matches!(one.act, Act::Command(_));
        Some(NextMove {
            act: if moves.iter().all(is_command) {
                Act::Command(acts)
            } else {
                Act::Deed(acts)
            },
            why: each(|one| one.why.clone()).join("; "),
            needs: if open.is_empty() {
                Precondition::Seen(each(|one| one.needs.to_string()).join("; "))
            } else {
                Precondition::Operator(open.join(", and "))
            },
        })
    }
}

impl fmt::Display for NextMove {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.needs {
            Precondition::Operator(_) => write!(f, "where {}: {}", self.needs, self.act),
            Precondition::Seen(_) => self.act.fmt(f),
        }
    }
}

impl fmt::Display for Act {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Act::Command(text) | Act::Deed(text)) = self;
        f.write_str(text)
    }
}

impl fmt::Display for Precondition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Precondition::Seen(text) | Precondition::Operator(text)) = self;
        f.write_str(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn a_move(needs: Precondition) -> NextMove {
        NextMove {
            act: Act::Command("cxl enable-region region0".into()),
            why: "region0 has no dax device".into(),
            needs,
        }
    }

    #[test]
    fn parts_are_kept() {
        let next = a_move(Precondition::Operator("it is wanted".into()));
        let json = serde_json::to_string(&next).expect("plain data");
        assert_eq!(
            json,
            r#"{"command":"cxl enable-region region0","why":"region0 has no dax device","needs":{"operator":"it is wanted"}}"#
        );
        assert_eq!(
            serde_json::from_str::<NextMove>(&json).expect("what was written"),
            next
        );
        assert!(serde_json::from_str::<NextMove>(r#"{"command":"reboot"}"#).is_err());
    }

    #[test]
    fn what_the_operator_has_to_see_to_is_printed_and_what_was_seen_is_not() {
        let seen = a_move(Precondition::Seen("region0 is committed".into()));
        assert_eq!(seen.to_string(), "cxl enable-region region0");
        let whole = "region0 has no dax device: cxl enable-region region0";
        assert_eq!(seen.with_why(), whole);
        let open = a_move(Precondition::Operator("it is wanted".into()));
        assert_eq!(
            open.with_why(),
            "region0 has no dax device; where it is wanted: cxl enable-region region0"
        );
        assert_eq!(NextMove::joined(vec![open.clone()]), Some(open.clone()));
        let all = NextMove::joined(vec![seen.clone(), open.clone(), open]).expect("three");
        let command = ["cxl enable-region region0"; 3].join("; ");
        assert_eq!(all.act, Act::Command(command.clone()));
        assert_eq!(all.to_string(), format!("where it is wanted: {command}"));
        let deed = NextMove {
            act: Act::Deed("mend it".into()),
            ..seen.clone()
        };
        let both = NextMove::joined(vec![seen, deed]).expect("two");
        assert_eq!(
            both.act,
            Act::Deed("cxl enable-region region0; mend it".into())
        );
        let twice = ["region0 is committed"; 2].join("; ");
        assert_eq!(both.needs, Precondition::Seen(twice));
        assert_eq!(NextMove::joined(Vec::new()), None);
    }
}
