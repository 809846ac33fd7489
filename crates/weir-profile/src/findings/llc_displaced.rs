// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Lines of the last-level cache are displaced: a neighbour's stream takes their place.

use super::facts::{Judged, finding, others, outcome, share, stalled};
use super::{Evidence, Rule, View};
use crate::counts::Counts;
use crate::culprit::{Blame, blame_in_cache};
use crate::figure::{Figure, Unit, sum};
use crate::path_map::lines_of;
use crate::quality::Refusal;
use weir_core::window::role::{AccessPath, Stage, Target};

/// How much less of the lines comes from the last-level cache.
const FALL_MIN: f64 = 0.15;
/// Part of the stalls that is behind that cache.
const SHARE_MIN: f64 = 0.3;
/// The part of the time that is enough as well: where requests wait before the cache too, what is behind it
/// is a small part of much.
const TIME_MIN: f64 = 0.1;
/// Part of the lines from memory that others move.
const OTHERS_MIN: f64 = 0.5;
/// Below this part of today's lines a second, the workload did something else in the earlier recording.
const SAME_WORK_MIN: f64 = 0.5;

pub(super) const RULE: Rule = Rule {
    name: "llc_displaced",
    looks_for: "lines of the last-level cache that a neighbour's stream displaces",
    condition: "15 points or more less of the workload's lines come from the last-level cache than in the recording given with \
                --idle, where it moved half as many lines a second or more; 30 % of the stalls or more, or 10 % of the \
                time, are behind it; others move more than half of the lines from memory",
    refuted_by: "a working set that grew: the workload asks for more different lines than before, with or without neighbours",
    next_move: "give the stream ways of its own (resctrl `schemata`, L3), or move it to another socket",
    places: &[],
    check: |view| outcome(check(view)),
};

fn check(view: View) -> Judged {
    let Some(split) = stalled(view, 0.1)? else {
        return Ok(None);
    };
    let (before, lines_before) = from_cache(view.idle.ok_or(Refusal::NotCalibrated)?)
        .map_err(|_| earlier_without("lines of the workload"))?;
    let (now, lines_now) = from_cache(view.counts)?;
    if lines_before < SAME_WORK_MIN * lines_now {
        return Err(earlier_without("lines of the workload at its usual load"));
    }
    let behind = share(split, |role| {
        matches!(role.stage, Stage::Imc | Stage::Port | Stage::Device)
    });
    let time = behind.value * split.stalled_ratio.clone()?.value;
    let is_felt = behind.value >= SHARE_MIN || time >= TIME_MIN;
    let fall = before.value - now.value;
    let mut neighbours: Vec<Blame> = [Stage::Imc, Stage::Device]
        .into_iter()
        .flat_map(|stage| others(view, blame_in_cache(view.sharers, stage)))
        .collect();
    neighbours.sort_by(|a, b| b.share.total_cmp(&a.share));
    let most = neighbours.first().map_or(0.0, |first| first.share);
    let together: f64 = neighbours.iter().map(|one| one.share).sum();
    if fall < FALL_MIN || !is_felt || most.max(together / 2.0) < OTHERS_MIN / 2.0 {
        return Ok(None);
    }
    let part = behind.value;
    let what = format!(
        "lines are displaced from the last-level cache: {:.0} % of the workload's come from it, {:.0} % before",
        now.value * 100.0,
        before.value * 100.0
    );
    let evidence = vec![
        Evidence::new("part of the lines from the last-level cache", Ok(now)),
        Evidence::new("the same in --idle", Ok(before)),
        Evidence::new("part of the stalls behind it", Ok(behind)),
    ];
    let mut found = finding(split, what, part, evidence);
    found.because_of = neighbours;
    found.because_of.dedup_by(|a, b| a.workload == b.workload);
    Ok(Some(found))
}

fn earlier_without(what: &str) -> Refusal {
    Refusal::NotCounted {
        what: format!("{what}, in the recording given with --idle,"),
    }
}

/// The part of the lines behind L2 that the last-level cache has, and all these lines a second.
fn from_cache(counts: &Counts) -> Result<(Figure, f64), Refusal> {
    let length = counts.length().ok_or(Refusal::NoTime)?;
    let of = |path| {
        let hits = lines_of(counts, path, Target::Own)?;
        let targets = [Target::Dram, Target::DramOwn, Target::Cxl, Target::CxlOwn];
        let memory: Vec<Figure> = targets
            .into_iter()
            .filter_map(|target| lines_of(counts, path, target).ok())
            .collect();
        let missed = sum(&memory).ok_or(Refusal::NotCounted {
            what: "lines from memory".into(),
        })?;
        let all = hits.and(&missed, hits.value + missed.value, Unit::Lines);
        let per_sec = all.value / length.secs_f64();
        Ok((hits.share_of(&all, "lines behind L2")?, per_sec))
    };
    of(AccessPath::Reads).or_else(|_| of(AccessPath::Drd))
}
