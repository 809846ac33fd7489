// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One direction of the CXL link is saturated: reads come back over one, writes go over the other.

use super::facts::{
    Judged, finding, link_busy, others, outcome, resends, share, stalled, waits_at,
};
use super::{Evidence, Rule, View};
use crate::culprit::blame_of_link;
use crate::figure::places::PlaceKind;
use weir_core::window::role::{AccessPath, Stage};

/// Part of the time that the direction is busy.
pub(super) const BUSY_MIN: f64 = 0.85;
/// Waiting time of a request in the port ÷ its residence there on the idle machine.
const WAIT_MIN: f64 = 0.2;
/// Part of the stalls that is in the port.
const SHARE_MIN: f64 = 0.08;

pub(super) const READS: Rule = Rule {
    name: "link_reads",
    looks_for: "a CXL link that is saturated by reads",
    condition: "the direction from the device is busy for 85 % of the time or more, and more than the other; requests stay \
                in the port 1.2 times as long as in the recording given with --idle; 8 % of the stalls or more are there",
    refuted_by: "flits that are sent again (the link is at fault), or a residence in the device that rose as much",
    next_move: "limit the workloads that read most (`weir run`), interleave over devices, or widen the link",
    places: &[(PlaceKind::Port, Stage::Port)],
    check: |view| outcome(check(view, false)),
};

pub(super) const WRITES: Rule = Rule {
    name: "link_writes",
    looks_for: "a CXL link that is saturated by writes",
    condition: "the direction to the device is busy for 85 % of the time or more, and more than the other; requests stay in \
                the port 1.2 times as long as in the recording given with --idle; 8 % of the stalls or more are there, or on \
                the mesh before it",
    refuted_by: "flits that are sent again (the link is at fault), or a residence in the device that rose as much",
    next_move: "limit the workloads that write most (`weir run`), or keep what they write in DRAM",
    places: &[(PlaceKind::Port, Stage::Port)],
    check: |view| outcome(check(view, true)),
};

fn check(view: View, is_written: bool) -> Judged {
    let Some(split) = stalled(view, 0.1)? else {
        return Ok(None);
    };
    let paths = [AccessPath::Reads, AccessPath::Wb];
    let [from, to] = paths.map(|path| link_busy(view, path));
    let (busy, other) = if is_written { (to?, from) } else { (from?, to) };
    let is_more = other.is_ok_and(|other| busy.value > other.value);
    let waits = waits_at(view, Stage::Port)?;
    // Writes that wait for the link hold the table of requests, and what waits for that is on the mesh.
    let part = share(split, |role| {
        role.stage == Stage::Port || (is_written && role.stage == Stage::Ingress)
    });
    let is_full = busy.value >= BUSY_MIN && is_more && waits.wait_ratio.value >= WAIT_MIN;
    if !is_full || part.value < SHARE_MIN || resends(view) {
        return Ok(None);
    }
    let way = if is_written { "writes" } else { "reads" };
    let (percent, time) = (busy.value * 100.0, part.value);
    let what = format!(
        "the CXL link is saturated by {way}: that direction is busy for {percent:.0} % of the time"
    );
    let evidence = vec![
        Evidence::new("part of the time that the direction is busy", Ok(busy)),
        Evidence::new(
            "waiting time in the port ÷ residence on the idle machine",
            Ok(waits.wait_ratio.clone()),
        ),
        Evidence::new("part of the stalls in the port", Ok(part)),
    ];
    let mut found = finding(split, what, time, evidence);
    found.because_of = others(view, blame_of_link(view.sharers, is_written));
    Ok(Some(found))
}
