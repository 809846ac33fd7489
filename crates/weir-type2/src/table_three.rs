// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Table III: states of a line after an access of the device to host memory.

use crate::explore::{Exploration, Move, World};
use crate::protocol::{CoherentLine, ProtocolRules, Watch};
use crate::words::{CacheState, DeviceOp, Lane, LineHome};
use CacheState::{Exclusive, Invalid, Modified, Shared};

named! {
    /// A cache of Table III.
    TableCache {
        /// The cache of the device.
        Hmc = "HMC",
        /// The last-level cache of the host.
        Llc = "LLC",
    }
}

named! {
    /// A column of Table III: where the access found the line.
    TablePlace {
        /// In the HMC.
        HmcHit = "HMC hit",
        /// Not in the HMC, in the LLC.
        LlcHit = "LLC hit",
        /// In memory only.
        LlcMiss = "LLC miss",
    }
}

/// A cell, for one pair of states before the access.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateCell {
    pub op: DeviceOp,
    pub cache: TableCache,
    pub place: TablePlace,
    pub before: (CacheState, CacheState),
    /// What the paper has in the cell.
    pub paper: &'static str,
    pub allowed: Vec<CacheState>,
    /// State of the cache after the access.
    pub ours: CacheState,
}

impl StateCell {
    pub fn is_met(&self) -> bool {
        self.allowed.contains(&self.ours)
    }
}

struct Unwatched;

impl Watch for Unwatched {}

/// States after an access to a line in these states, all messages taken.
fn after(op: DeviceOp, before: (CacheState, CacheState), rules: ProtocolRules) -> CoherentLine {
    let exploration = Exploration::new([LineHome::HostMemory], rules);
    let mut world = World::new([LineHome::HostMemory]);
    world.lines[0] = CoherentLine::cached(LineHome::HostMemory, before.0, before.1);
    let mut next = world.watched(Move::Device(0, op), &exploration, &mut Unwatched);
    while let Some(after) = next {
        world = after;
        let deliveries = Lane::ALL.iter().map(|lane| Move::Deliver(0, *lane));
        next = deliveries
            .filter_map(|step| world.watched(step, &exploration, &mut Unwatched))
            .next();
    }
    world.lines[0]
}

/// Pairs of states that a column stands for.
fn states_of(place: TablePlace) -> &'static [(CacheState, CacheState)] {
    match place {
        TablePlace::HmcHit => &[
            (Shared, Invalid),
            (Shared, Shared),
            (Exclusive, Invalid),
            (Modified, Invalid),
        ],
        TablePlace::LlcHit => &[(Invalid, Shared), (Invalid, Exclusive), (Invalid, Modified)],
        TablePlace::LlcMiss => &[(Invalid, Invalid)],
    }
}

/// What the paper has in a cell, and the states that this allows.
fn paper_cell(
    op: DeviceOp,
    cache: TableCache,
    place: TablePlace,
    before: (CacheState, CacheState),
) -> (&'static str, Vec<CacheState>) {
    let own = match cache {
        TableCache::Hmc => before.0,
        TableCache::Llc => before.1,
    };
    match (op, cache, place) {
        (DeviceOp::NcPush, TableCache::Hmc, _) => ("Invalid", vec![Invalid]),
        (DeviceOp::NcPush, TableCache::Llc, _) => ("Modified", vec![Modified]),
        (DeviceOp::NcRead, ..) => ("No change", vec![own]),
        (DeviceOp::NcWrite, ..) => ("Invalid", vec![Invalid]),
        (DeviceOp::CoRead, TableCache::Hmc, TablePlace::HmcHit) => (
            "M/E → M/E, S → E",
            vec![if own == Shared { Exclusive } else { own }],
        ),
        (DeviceOp::CoRead, TableCache::Hmc, TablePlace::LlcHit) => (
            "E or M, as in the LLC",
            vec![if before.1 == Modified {
                Modified
            } else {
                Exclusive
            }],
        ),
        (DeviceOp::CoRead, TableCache::Hmc, TablePlace::LlcMiss) => ("Exclusive", vec![Exclusive]),
        (DeviceOp::CoWrite, TableCache::Hmc, _) => ("Modified", vec![Modified]),
        (DeviceOp::CoRead | DeviceOp::CoWrite, TableCache::Llc, _) => ("Invalid", vec![Invalid]),
        // CXL.cache has no request that writes a modified line back and keeps it.
        (DeviceOp::CsRead, TableCache::Hmc, TablePlace::HmcHit) if own == Modified => {
            ("Shared (clean lines)", vec![Modified])
        }
        (DeviceOp::CsRead, TableCache::Hmc, _) => ("Shared", vec![Shared]),
        (DeviceOp::CsRead, TableCache::Llc, TablePlace::HmcHit) => ("No change", vec![own]),
        (DeviceOp::CsRead, TableCache::Llc, _) => ("No change or I/S", vec![own, Invalid, Shared]),
    }
}

/// All cells, for each pair of states that a column stands for.
pub fn table_three(rules: ProtocolRules) -> Vec<StateCell> {
    let mut cells = Vec::new();
    for (op, place) in DeviceOp::ALL
        .iter()
        .flat_map(|op| TablePlace::ALL.iter().map(move |place| (*op, *place)))
    {
        for before in states_of(place) {
            let line = after(op, *before, rules);
            for (cache, ours) in [
                (TableCache::Hmc, line.device.state),
                (TableCache::Llc, line.host.state),
            ] {
                let (paper, allowed) = paper_cell(op, cache, place, *before);
                cells.push(StateCell {
                    op,
                    cache,
                    place,
                    before: *before,
                    paper,
                    allowed,
                    ours,
                });
            }
        }
    }
    cells
}
