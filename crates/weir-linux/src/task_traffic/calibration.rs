// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Does the event that is to count for tasks count what the device moves? Names and bits of events were
//! published for other CPUs, or mean something else on this one; so before they are counted for workloads
//! they are counted for a thread of our own that reads lines of a device, of which it is known how many they
//! are.
//!
//! ```text
//!   device ──── quiet? ────┬──── reads of our own ────┐
//!                          │ event, for this thread   ├─► event ÷ device, device less what it moves anyway
//!                          └ device's own counters ───┘   within 10 %: it holds
//! ```
//!
//! An event is compared with what the device counts: a prefetcher that brings the neighbours of lines is in
//! both. If at least as much reached the device as was read, the lines came from there at all. Where the
//! device counts nothing, the comparison is with the lines that were read. Source of the bound:
//! `docs/explanation/attribution.md`.

use super::core_events::ChosenEvents;
use crate::counters::pmu::{Counted, Set};
use crate::counters::totals::Traffic;
use crate::error::LinuxError;
use crate::options::{Options, Reads};
use std::time::{Duration, Instant};
use weir_core::seam::topology::Group;
use weir_core::units::LINE_BYTES;
use weir_core::{GroupId, Missing};

/// An event that counts within this part of what it should is used.
const BOUND_RATIO: f64 = 0.1;
/// Shortest sample of what the device moves without weir's reads.
const QUIET: Duration = Duration::from_millis(20);

/// Other programs move bytes in bursts. A sample just before the reads does not show a burst, and then a good
/// event seems to count too little. A bad event does not become good by a burst, unless it counts too much by
/// as much.
const TRIES: usize = 3;

/// What came of it. All in bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
struct CalibrationCounts {
    read: f64,
    event: f64,
    /// What the device counted, less what other programs moved; `None` where the device does not count.
    device: Option<f64>,
    /// What others move on it in that time.
    others: f64,
}

/// An event against what it should have counted.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum CalibrationResult {
    /// It counts so many times what it should, which is near enough.
    Holds(f64),
    /// It does not.
    Differs(f64),
    Unknown(Missing),
}

/// Whether the event holds, where it is one of traffic.
pub(super) fn of(options: &Options, groups: &[Group], chosen: &ChosenEvents) -> CalibrationResult {
    let Some(reads) = options.reads else {
        return CalibrationResult::Unknown(Missing::NotSupported(
            "there is no reader of known lines".into(),
        ));
    };
    let place = groups
        .iter()
        .find_map(|group| Some((group.id, group.node?.0)));
    let Some((group, node)) = place else {
        let why = "no group of a device is on a node that is online";
        return CalibrationResult::Unknown(Missing::NotSupported(why.into()));
    };
    // A thread of its own: reads are pinned to a CPU, and so is the thread that makes them.
    let one = || {
        let counted = std::thread::scope(|scope| {
            let thread = scope.spawn(|| measured(options, reads, group, node, chosen));
            let panicked = |_| Err(Missing::Lost("the thread that reads has panicked".into()));
            thread.join().unwrap_or_else(panicked)
        });
        counted.map_or_else(CalibrationResult::Unknown, compared)
    };
    best_of(std::iter::repeat_with(one).take(TRIES))
}

/// The first that holds; else the last that says something.
fn best_of(verdicts: impl Iterator<Item = CalibrationResult>) -> CalibrationResult {
    let mut best = CalibrationResult::Unknown(Missing::NotYetRead);
    for verdict in verdicts {
        match &verdict {
            CalibrationResult::Holds(_) => return verdict,
            CalibrationResult::Unknown(_) if matches!(best, CalibrationResult::Differs(_)) => {}
            _ => best = verdict,
        }
    }
    best
}

/// What the counts say of an event.
///
/// Nothing is said where other programs move more than half as much as was read meanwhile, or where less came
/// from the device than was read: caches or another node answered then, and the event need not have counted.
/// It is compared with the device's own count where there is one, since that counts what arrived.
fn compared(counts: CalibrationCounts) -> CalibrationResult {
    let unknown = |why: String| CalibrationResult::Unknown(Missing::Lost(why));
    if counts.read <= 0.0 {
        return unknown("nothing was read".into());
    }
    if let Some(device) = counts.device {
        if counts.others > counts.read / 2.0 {
            return unknown("others use the device too much meanwhile".into());
        }
        let arrived = device / counts.read;
        if arrived < 1.0 - BOUND_RATIO {
            return unknown(format!(
                "only {arrived:.2} of what was read came from the device"
            ));
        }
    }
    let ratio = counts.event / counts.device.unwrap_or(counts.read);
    if (ratio - 1.0).abs() <= BOUND_RATIO {
        CalibrationResult::Holds(ratio)
    } else {
        CalibrationResult::Differs(ratio)
    }
}

/// Makes the reads, with everything that counts.
///
/// A sample before the reads shows what others move; it is scaled to the time of the reads and taken off the
/// device's count. The event counts the task that reads, and so needs nothing taken off.
fn measured(
    options: &Options,
    reads: Reads,
    group: GroupId,
    node: u32,
    chosen: &ChosenEvents,
) -> Result<CalibrationCounts, Missing> {
    let mut work = reads(&options.roots, node)?;
    let mut set = Set::open_here(&chosen.pmu, chosen.kind, &chosen.configs)?;
    let traffic = Traffic::open(&options.roots, options.counters, &options.nodes);
    let mut traffic = traffic.map_err(|e: LinuxError| Missing::Lost(e.to_string()))?;
    let mut of_device = || {
        let all = traffic.read();
        let seen = all.iter().find(|seen| seen.id == group);
        seen.and_then(|seen| seen.read_bytes.ok().map(|bytes| bytes.0))
    };
    let since = |before: Option<u64>, now: Option<u64>| Some(now?.checked_sub(before?)? as f64);
    let (begun, first) = (Instant::now(), of_device());
    std::thread::sleep(QUIET);
    let (quiet, before) = (begun.elapsed(), of_device());
    let failed = |e: std::io::Error| Missing::Lost(format!("{}: {e}", chosen.name));
    let (begun, from) = (Instant::now(), set.read().map_err(failed)?);
    let lines = work();
    let (to, span) = (set.read().map_err(failed)?, begun.elapsed());
    let after = of_device();
    let others = since(first, before).unwrap_or(0.0) * span.as_secs_f64() / quiet.as_secs_f64();
    Ok(CalibrationCounts {
        read: (lines * LINE_BYTES) as f64,
        event: bytes(&from, &to, &chosen.bytes)?,
        device: since(before, after).map(|moved| moved - others),
        others,
    })
}

/// What an event counted between two readings, as bytes; scaled if it did not run all the time.
fn bytes(from: &Counted, to: &Counted, each: &[u64]) -> Result<f64, Missing> {
    let running = to.running_since(from)?;
    let of = |(place, bytes): (usize, &u64)| to.count_since(from, place) * *bytes as f64;
    Ok(running.scaled(each.iter().enumerate().map(of).sum()))
}

/// What the verdict makes of an event. An event that the operator chose is taken in any case, and its name
/// says the verdict. Otherwise it is taken if it holds, or if it is documented and nothing speaks against it.
///
/// # Errors
/// It is not to be taken: why.
pub(super) fn admitted(
    mut chosen: ChosenEvents,
    verdict: CalibrationResult,
    is_chosen: bool,
) -> Result<ChosenEvents, Missing> {
    let not_taken = |why: String| {
        let name = &chosen.name;
        Err(Missing::NotSupported(format!(
            "{name}: not chosen automatically, {why}"
        )))
    };
    let said = match verdict {
        CalibrationResult::Holds(ratio) => {
            format!("calibrated: {ratio:.2} of what the device moved")
        }
        CalibrationResult::Differs(ratio) => {
            let why = format!("it counts {ratio:.2} of what the device moves");
            if !is_chosen {
                return not_taken(why);
            }
            tracing::warn!("{}: {why}; shares by it may be wrong", chosen.name);
            format!("uncalibrated: {why}")
        }
        CalibrationResult::Unknown(why) if !is_chosen && !chosen.is_documented => {
            return not_taken(format!("it could not be calibrated: {why}"));
        }
        CalibrationResult::Unknown(why) => format!("uncalibrated: {why}"),
    };
    chosen.name = format!("{}; {said}", chosen.name);
    Ok(chosen)
}

#[cfg(test)]
#[path = "calibration_tests.rs"]
mod tests;
