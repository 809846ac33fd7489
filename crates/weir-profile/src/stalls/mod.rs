// SPDX-License-Identifier: Apache-2.0 OR MIT
//! *Measured* stall cycles, split by stage, path and target by a small model of a core. A stall cycle belongs
//! to the place where the request that the core waits for is in that cycle. Counts, fixed weights and
//! residences alone err by 0.2 to 0.4: a core hides the first 60 ns, and all that is in the shadow of a
//! slower load.
//!
//! ```text
//! residences ─► ways (legs with cycles) ─┐
//! loads, lines ─► classes ───────────────┼─► core_model, dependence fitted to the stall ─► parts
//! instructions, cycles, stalls ──────────┘   stores: a branch of its own
//! ```

pub mod busy_dram;
mod core_model;
mod draws;
pub(crate) mod load_counts;
mod loads;
mod stores;
#[cfg(test)]
mod tests;
pub(crate) mod ways;
pub mod what_if;

use crate::figure::sources::Sources;
use crate::figure::{Answer, Class, Figure, Unit};
use crate::quality::{self, Refusal};
use loads::{LoadStalls, WINDOW};
use serde::Serialize;
use std::collections::BTreeMap;
use weir_core::Role;
use weir_core::window::CountProvenance;
use weir_core::window::role::{AccessPath, Quantity, Stage, Target};

/// An error bar is not below this part of the stalls.
const ERROR_MIN: f64 = 0.03;

/// A place of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct StallPlace {
    stage: Stage,
    path: AccessPath,
    target: Target,
}

impl StallPlace {
    fn new(stage: Stage, path: AccessPath, target: Target) -> StallPlace {
        StallPlace {
            stage,
            path,
            target,
        }
    }
}

/// Stalled cycles at a place.
#[derive(Clone, Copy, Debug)]
struct Stalled {
    place: StallPlace,
    cycles: f64,
    /// Known less well: waited for a prefetch or a store.
    is_late: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StallPart {
    /// The stage, path and target of the request that is waited for.
    pub role: Role,
    pub cycles: f64,
    /// Stalled cycles of this part ÷ measured stalls.
    pub share: f64,
    /// The share is within this of the truth in nine of ten cases.
    pub error: f64,
}

/// The split of a subject's stalls.
#[derive(Clone, Debug, Serialize)]
pub struct StallSplit {
    /// Stalled cycles, as the core counted them: on loads, and on stores.
    pub measured: Figure,
    /// The same ÷ all cycles.
    pub stalled_ratio: Answer,
    /// The parts, largest first. They sum to `measured`.
    pub parts: Vec<StallPart>,
    /// The part of CXL memory.
    pub cxl_share: Figure,
    /// It is within this of the truth in nine of ten cases.
    pub cxl_error: f64,
    /// The part of the loads that need the load before, as fitted; nothing where loads do not stall.
    pub dependence: Option<f64>,
    /// What the model stalls ÷ what the core did, before the parts are scaled to it; 1 where it fits.
    pub model_ratio: Option<f64>,
}

impl StallSplit {
    /// The share of some parts.
    pub fn share_of(&self, is_it: impl Fn(Role) -> bool) -> f64 {
        let parts = self.parts.iter().filter(|part| is_it(part.role));
        parts.map(|part| part.share).sum()
    }
}

/// Counts that a split begins with.
struct Measured {
    on_loads: Figure,
    on_stores: Figure,
    clock: Figure,
    instructions: Figure,
}

impl Measured {
    fn new(sources: &Sources) -> Result<Measured, Refusal> {
        let stall = |stage, path, target| sources.count(stage, path, target, Quantity::Stalls);
        let on_loads = stall(Stage::L1d, AccessPath::Drd, Target::Miss)?;
        let on_stores = stall(Stage::StoreBuffer, AccessPath::Any, Target::Any)?;
        let clock = sources.core(Quantity::Clock)?;
        let instructions = sources.core(Quantity::Instructions)?;
        if instructions.value <= 0.0 {
            return Err(Refusal::NoRequests {
                what: "instructions".into(),
            });
        }
        let role = Role::new(Stage::Core, AccessPath::Any, Target::Any, Quantity::Clock);
        if clock.value <= 0.0 {
            return Err(Refusal::ClockStood { clock: role });
        }
        let ratio = (on_loads.value + on_stores.value) / clock.value;
        if ratio > 1.0 + quality::PARTS_SLACK {
            return Err(Refusal::PartAboveWhole {
                part: "the sum of stalls on loads and stores".into(),
                whole: role,
                ratio,
            });
        }
        if ratio <= 0.0 {
            return Err(Refusal::NoStalls);
        }
        Ok(Measured {
            on_loads,
            on_stores,
            clock,
            instructions,
        })
    }

    fn of_loads(&self) -> LoadStalls {
        let (loads, stores) = (self.on_loads.value, self.on_stores.value);
        // A core cannot stall all the time: an instruction takes a sixth of a cycle.
        let least = self.instructions.value / 6.0;
        LoadStalls {
            stalled: loads,
            working: (self.clock.value - loads - stores).max(least),
            instructions: self.instructions.value,
        }
    }

    fn all(&self) -> Figure {
        let sum = self.on_loads.value + self.on_stores.value;
        self.on_loads.and(&self.on_stores, sum, Unit::Cycles)
    }
}

/// Splits the stalls.
///
/// # Errors
/// Stalls, cycles, instructions, lines by supplier or residences were not counted, or contradict each other.
pub fn stalls(sources: &Sources) -> Result<StallSplit, Refusal> {
    let measured = Measured::new(sources)?;
    let times = ways::times(sources)?;
    let known = measured.of_loads();
    let mut parts = Vec::new();
    let mut narrow = None;
    let (mut dependence, mut model_ratio) = (None, None);
    if known.stalled > 0.0 {
        let classes = load_counts::load_classes(sources, &times)?;
        let buffers = loads::buffers(sources);
        let split = |window: f64| {
            let fit = loads::fit(&known, &classes, window, buffers);
            (fit.parts(&known, &classes, &times), fit)
        };
        let (wide, fit) = split(WINDOW);
        // The window is the maker's, the model of it is coarse: half of it says how much that matters.
        narrow = Some(split(WINDOW / 2.0).0);
        parts = wide;
        dependence = Some(fit.dependence);
        model_ratio = Some(fit.ratio(&known));
    }
    if measured.on_stores.value > 0.0 {
        let classes = stores::store_classes(sources, &times);
        let of_stores = stores::parts(&classes, &times, measured.on_stores.value);
        narrow = narrow.map(|parts| [parts, of_stores.clone()].concat());
        parts.extend(of_stores);
    }
    let quality = measured.all().and(&times.figure, 0.0, Unit::Cycles);
    let quality = quality.and(
        &measured
            .clock
            .and(&measured.instructions, 0.0, Unit::Cycles),
        0.0,
        Unit::Cycles,
    );
    let errors = Errors::new(&parts, narrow.as_deref());
    let all = measured.all();
    let made = rows(&parts, all.value, &errors);
    let is_cxl = |part: &&StallPart| ways::is_cxl(part.role.target);
    let cxl: f64 = made.iter().filter(is_cxl).map(|part| part.share).sum();
    let mut cxl_share = Figure {
        class: Class::Modelled,
        share_of: Some("measured stalls".into()),
        ..quality.and(&quality, cxl.min(1.0), Unit::Ratio)
    };
    cxl_share.provenance = CountProvenance::Modelled;
    Ok(StallSplit {
        stalled_ratio: all.share_of(&measured.clock, "cycles of the core"),
        measured: all,
        parts: made,
        cxl_error: errors.of(&|place| ways::is_cxl(place.target)),
        cxl_share,
        dependence,
        model_ratio,
    })
}

/// Parts of one place together, largest first. What rounding leaves goes to the largest.
fn rows(parts: &[Stalled], measured: f64, errors: &Errors) -> Vec<StallPart> {
    let places = sums(parts);
    let all: f64 = places.values().sum();
    let scale = if all > 0.0 { measured / all } else { 0.0 };
    let mut rows: Vec<StallPart> = places
        .iter()
        .filter(|(_, cycles)| **cycles > 0.0)
        .map(|(place, cycles)| StallPart {
            role: Role::new(place.stage, place.path, place.target, Quantity::Stalls),
            cycles: cycles * scale,
            share: cycles * scale / measured,
            error: errors.of(&|other| other == *place),
        })
        .collect();
    rows.sort_by(|a, b| b.cycles.total_cmp(&a.cycles).then(a.role.cmp(&b.role)));
    let others: f64 = rows.iter().skip(1).map(|row| row.cycles).sum();
    if let Some(first) = rows.first_mut() {
        first.cycles = (measured - others).max(0.0);
    }
    rows
}

fn sums(parts: &[Stalled]) -> BTreeMap<StallPlace, f64> {
    let mut places = BTreeMap::new();
    for part in parts {
        *places.entry(part.place).or_default() += part.cycles.max(0.0);
    }
    places
}

/// How far shares may be off.
struct Errors {
    shares: BTreeMap<StallPlace, f64>,
    narrow: Option<BTreeMap<StallPlace, f64>>,
    late: BTreeMap<StallPlace, f64>,
}

impl Errors {
    fn new(parts: &[Stalled], narrow: Option<&[Stalled]>) -> Errors {
        let shares = |parts: &[Stalled]| {
            let all: f64 = parts.iter().map(|part| part.cycles).sum();
            let sums = sums(parts).into_iter();
            sums.map(|(place, cycles)| (place, cycles / all.max(1e-9)))
                .collect::<BTreeMap<_, _>>()
        };
        let of_late: Vec<Stalled> = parts.iter().filter(|part| part.is_late).copied().collect();
        let all: f64 = parts.iter().map(|part| part.cycles).sum();
        let late = sums(&of_late).into_iter();
        Errors {
            shares: shares(parts),
            narrow: narrow.map(shares),
            late: late
                .map(|(place, cycles)| (place, cycles / all.max(1e-9)))
                .collect(),
        }
    }

    /// How far the share of some places may be off: what half a window changes, and what is waited for
    /// prefetches and stores, of which it is less well known for which of them.
    fn of(&self, is_it: &dyn Fn(StallPlace) -> bool) -> f64 {
        let sum = |shares: &BTreeMap<StallPlace, f64>| -> f64 {
            shares
                .iter()
                .filter(|(place, _)| is_it(**place))
                .map(|(_, share)| share)
                .sum()
        };
        let share = sum(&self.shares);
        let moved = self
            .narrow
            .as_ref()
            .map_or(0.0, |narrow| (sum(narrow) - share).abs());
        let (inside, late) = (sum(&self.late), self.late.values().sum::<f64>());
        let doubtful = if late > 0.0 {
            inside * (late - inside) / late
        } else {
            0.0
        };
        (ERROR_MIN + moved + doubtful).min(1.0)
    }
}
