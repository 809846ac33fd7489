// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Waiting on the mesh and in the ingress queues for an entry of the table of requests, and what holds the
//! entries: the occupancy of the table by kind of memory. A full table is the same to all that wait for it,
//! and not to the operator: entries are held for as long as what is behind the table takes.

use super::facts::{finding, is_waited_at, link_busy, share, stalled, waits_at};
use super::{Evidence, Finding, View, device_saturated, dram_contended, link_saturated};
use crate::counts::Counts;
use crate::figure::{Figure, Unit};
use crate::quality::Refusal;
use crate::stalls::StallSplit;
use crate::stalls::ways::times;
use weir_core::Role;
use weir_core::window::CountProvenance;
use weir_core::window::role::{AccessPath, Quantity, Stage, Target};

/// Part of the stalls that is on the mesh and in the ingress queues.
const SHARE_MIN: f64 = 0.3;
/// Time there ÷ that on the idle machine.
const TIMES_MIN: f64 = 2.0;
/// Part of the table from which on one kind of memory holds it.
const HELD_MIN: f64 = 0.5;

/// A subject that waits there.
pub(super) struct BeforeTable<'a> {
    split: &'a StallSplit,
    part: Figure,
    /// Time there ÷ that on the idle machine.
    pub(super) times: Figure,
    /// The part of the table that requests to CXL memory hold; nothing where that was not counted.
    cxl: Option<Figure>,
}

/// Where a tenth of the subject's time or more is stalled, 30 % of that is there, and twice as long as on the
/// idle machine, while no direction of the link is always busy, and neither device nor channels are full:
/// there entries are held because of these. Of one socket of several it is not told: the time on the mesh is
/// a core's residence less a table's, and on which socket the core is was not counted.
pub(super) fn before_table(view: View<'_>) -> Result<Option<BeforeTable<'_>>, Refusal> {
    let Some(split) = stalled(view, 0.1)?.filter(|_| view.place.is_none()) else {
        return Ok(None);
    };
    let part = share(split, |role| role.stage == Stage::Ingress);
    if part.value < SHARE_MIN {
        return Ok(None);
    }
    let (now, idle) = (
        times(&view.sources)?,
        times(&view.idle_sources.ok_or(Refusal::NotCalibrated)?)?,
    );
    let longer =
        ((now.mesh_in + now.mesh_out) / now.ghz) / ((idle.mesh_in + idle.mesh_out) / idle.ghz);
    if longer.is_nan() || longer < TIMES_MIN || is_full_behind(view) {
        return Ok(None);
    }
    let mut times = Figure::new(longer, Unit::Ratio, CountProvenance::Difference, None);
    times.notes = now.figure.notes.clone();
    Ok(Some(BeforeTable {
        split,
        part,
        times,
        cxl: cxl_in_table(view.sources.machine),
    }))
}

fn is_full_behind(view: View) -> bool {
    let paths = [AccessPath::Reads, AccessPath::Wb];
    let is_busy =
        |path| link_busy(view, path).is_ok_and(|busy| busy.value >= link_saturated::BUSY_MIN);
    let is_many =
        |waits: &crate::culprit::StageWaits| waits.waiting.value >= device_saturated::WAITING_MIN;
    let is_device_full = is_waited_at(view, Stage::Device, device_saturated::SLOWED_MIN)
        && waits_at(view, Stage::Device).is_ok_and(is_many);
    paths.into_iter().any(is_busy)
        || is_device_full
        || is_waited_at(view, Stage::Imc, dram_contended::WAIT_MIN)
}

/// Occupancy of the table by requests to CXL memory ÷ that by all requests to memory.
fn cxl_in_table(machine: &Counts) -> Option<Figure> {
    let held = |path, targets: [Target; 2]| {
        let mut known = targets.into_iter().filter_map(|target| {
            let role = Role::new(Stage::Tor, path, target, Quantity::Occupancy);
            machine.get(role).ok()
        });
        known.next()
    };
    let of_paths = |targets: [Target; 2]| {
        let parts = [AccessPath::Reads, AccessPath::Nt, AccessPath::Wb];
        let parts: Vec<Figure> = parts
            .into_iter()
            .filter_map(|path| held(path, targets))
            .collect();
        held(AccessPath::Any, targets).or_else(|| crate::figure::sum(&parts))
    };
    let cxl = of_paths([Target::Cxl, Target::CxlOwn])?;
    let dram = of_paths([Target::Dram, Target::DramOwn])?;
    let all = cxl.and(&dram, cxl.value + dram.value, Unit::Cycles);
    cxl.share_of(&all, "requests to memory in the table").ok()
}

impl BeforeTable<'_> {
    /// Whether requests to CXL memory hold the table; so it is taken to be where that was not counted.
    pub(super) fn is_held_by_cxl(&self) -> bool {
        self.cxl.as_ref().is_none_or(|part| part.value >= HELD_MIN)
    }

    pub(super) fn finding(self, what: String) -> Finding {
        let part = self.part.value;
        let mut evidence = vec![
            Evidence::new(
                "part of the stalls on the mesh and in the ingress queues",
                Ok(self.part),
            ),
            Evidence::new("time there, times that of --idle", Ok(self.times)),
        ];
        let held = "part of the table that requests to CXL memory hold";
        evidence.extend(self.cxl.map(|cxl| Evidence::new(held, Ok(cxl))));
        finding(self.split, what, part, evidence)
    }
}
