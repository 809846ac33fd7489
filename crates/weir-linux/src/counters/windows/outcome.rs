// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What is not counted, by reason.

use super::error::RecordError;
use super::lanes::Uncounted;
use crate::counters::pmu::Machine;
use crate::kernel::privilege;
use crate::options::Roots;
use weir_core::seam::next_move::{Act, NextMove, Precondition};
use weir_core::{Missing, Role};

/// Roles that were not counted, for one reason.
#[derive(Clone, Debug, PartialEq)]
pub struct NotCounted {
    pub roles: Vec<Role>,
    pub why: Missing,
}

/// Roles by reason, that of most first.
pub(super) fn grouped(all: impl Iterator<Item = (Role, Missing)>) -> Vec<NotCounted> {
    let mut groups: Vec<NotCounted> = Vec::new();
    for (role, why) in all {
        match groups.iter_mut().find(|group| group.why == why) {
            Some(group) => group.roles.push(role),
            None => groups.push(NotCounted {
                roles: vec![role],
                why,
            }),
        }
    }
    groups.sort_by_key(|group| std::cmp::Reverse(group.roles.len()));
    groups
}

/// Why not one role can be counted. Where rights are lacking, that is the reason: more might be there.
pub(super) fn nothing_counts(
    roots: &Roots,
    machine: &Machine,
    absent: &[Uncounted],
) -> RecordError {
    let groups = grouped(
        absent
            .iter()
            .map(|absent| (absent.role, absent.why.clone())),
    );
    let mut reasons = groups.iter().map(|group| &group.why);
    let denied = reasons
        .clone()
        .find(|why| matches!(why, Missing::NotPermitted(_)));
    let (why, next_move) = match (denied, machine.obstacle(), reasons.next()) {
        (Some(why), ..) => (why.clone(), privilege::next_move(roots)),
        (None, Some(next_move), _) => (Missing::NotSupported(next_move.why.clone()), next_move),
        (None, None, first) => (first.cloned().unwrap_or(Missing::NotYetRead), see_events()),
    };
    RecordError::NothingCounts {
        why,
        next_move: Box::new(next_move),
    }
}

/// Where the kernel's answer is all that is known.
pub(super) fn see_events() -> NextMove {
    NextMove {
        act: Act::Deed("`weir events` says what this CPU and its kernel lack".into()),
        why: "the kernel refuses what is to be counted".into(),
        needs: Precondition::Seen("weir events needs no rights".into()),
    }
}
